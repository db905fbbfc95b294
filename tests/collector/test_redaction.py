"""What counts as a secret, and that none is written."""

from __future__ import annotations

import base64
import html
import json
import shlex
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from collector.stub import ADMIN, KEY, Stub, everything, read

from configurator.collector.collecting import collect
from configurator.collector.redaction import (
    SECRET_NAME,
    find_secrets,
    is_secret,
    redact_json,
    redact_text,
)
from configurator.engine.catalogue import load_catalogue
from configurator.inengine.configurator_probe.environment import SECRET


def test_no_secret_reaches_any_file(stub: Stub, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        f"server_args=ServerArgs(model_path='m', api_key='{KEY}', admin_api_key='{ADMIN}', tp=1)\n"
        f"server_args={{'api_key': '{KEY}', 'port': 1}}\n"
        f"GET /v1/models Authorization: Bearer {KEY}\nkey is {ADMIN}, they say\n"
    )
    stub.answer("/model_info", 200, json.dumps({"nested": [{"client_secret": "s3"}]}).encode())
    collect({0: stub.url}, tmp_path / "out", logs={0: log})
    written = everything(tmp_path / "out")
    for secret in (KEY, ADMIN, "hf_abcdefghijklmnopq", '"s3"'):
        assert secret not in written
    info = read(tmp_path / "out/replica-0/server_info.json")
    assert info["api_key"] == "<redacted>"
    assert info["launch_command"] == (
        "--port 1 --api-key <redacted> --admin-api-key=<redacted> --tp-size 1"
    )
    assert info["max_total_num_tokens"] == 4096


def test_a_variable_that_the_profile_keeps_elsewhere_reaches_no_file(
    stub: Stub, tmp_path: Path
) -> None:
    """Its name need not tell that its value is a secret."""
    value = "correct-horse-battery"
    info = {"internal_states": [{"env_vars": {"SGLANG_STORE": value, "SGLANG_X": "1"}}]}
    stub.answer("/server_info", 200, json.dumps(info).encode())
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "report-a.json").write_text(
        json.dumps({"environment": {"HF_STORE": f"{value}-2", "SGLANG_X": "1"}})
    )
    (tmp_path / "server.log").write_text(f"connected with {value}\n")
    collect(
        {0: stub.url}, tmp_path / "out", logs={0: tmp_path / "server.log"},
        reports={0: tmp_path / "reports"}, kept=("SGLANG_STORE", "HF_STORE"),
    )  # fmt: skip
    assert value not in everything(tmp_path / "out")
    manifest = read(tmp_path / "out/manifest.json")
    assert manifest["environment"] == {"SGLANG_STORE": "<redacted>", "SGLANG_X": "1"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("--api-key abc --tp 4", "--api-key <redacted> --tp 4"),
        ("--api-key 'a b' --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-k abc", "--api-k <redacted>"),
        ("--api-key \\\n  abc", "--api-key \\\n  <redacted>"),
        ("['--api-key', 'abc', '--tp']", "['--api-key', '<redacted>', '--tp']"),
        ("ServerArgs(api_key='abc', tp=1)", "ServerArgs(api_key='<redacted>', tp=1)"),
        ('{"ssl_keyfile_password": "a\\"b"}', '{"ssl_keyfile_password": "<redacted>"}'),
        ('"{\\"api_key\\": \\"abc\\"}"', '"{\\"api_key\\": \\"<redacted>\\"}"'),
        ("HF_TOKEN=abc python", "HF_TOKEN=<redacted> python"),
        ("HF_TOKEN=123 python", "HF_TOKEN=<redacted> python"),
        ("AWS_SECRET_ACCESS_KEY: abc", "AWS_SECRET_ACCESS_KEY: <redacted>"),
        ("Authorization: Bearer a.b-c", "Authorization: <redacted>"),
        ("'authorization': 'Bearer abc'", "'authorization': '<redacted>'"),
        ("x-api-key: abc", "x-api-key: <redacted>"),
        ("GET /x?api_key=abc&n=1", "GET /x?api_key=<redacted>&n=1"),
        ("redis://me:pw@host:1/0", "redis://<redacted>@host:1/0"),
        ("https://tok@host/x", "https://<redacted>@host/x"),
        ("{'authorization': b'Bearer abc'}", "{'authorization': b'<redacted>'}"),
        ("Invalid API key: abc", "Invalid API key: <redacted>"),
        ("JWT_SECRET_KEY=abc", "JWT_SECRET_KEY=<redacted>"),
        ("api_key='a\\'b', n=1", "api_key='<redacted>', n=1"),
        ("loaded hf_ABCDEFGHIJKLMNOPQRST", "loaded <redacted>"),
        ("--api-key 'a'\"'\"'b' --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-key='a'\\''b' --tp 4", "--api-key='<redacted>' --tp 4"),
        ("--api-key 'a'\"b\"'c' --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-key 'a'bc --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-key 'a''b' --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-key a\"b\"'c' --tp 4", "--api-key <redacted> --tp 4"),
        ("'--api-key=a b' --tp 4", "'--api-key=<redacted>' --tp 4"),
        ("env 'HF_TOKEN=a b' python", "env 'HF_TOKEN=<redacted>' python"),
        ("curl -H 'Authorization: Bearer a b' x", "curl -H 'Authorization: <redacted>' x"),
        ('["--api-key=a b", "--tp"]', '["--api-key=<redacted>", "--tp"]'),
        ("Cookie: session=abc; csrf=def", "Cookie: <redacted>"),
        ("'set-cookie': 'a=b; c=d', 'x': 1", "'set-cookie': '<redacted>', 'x': 1"),
        ("JWT=abc SGLANG_FOO_AUTH=def", "JWT=<redacted> SGLANG_FOO_AUTH=<redacted>"),
        ("--api-key <redacted>rest --tp 4", "--api-key <redacted> --tp 4"),
        # What follows a string in JSON or Python is not a part of it.
        ("{'api_key': 'a', 'b': 'c'}", "{'api_key': '<redacted>', 'b': 'c'}"),
        ('{"api_key":"a","b":"c"}', '{"api_key":"<redacted>","b":"c"}'),
        ('["x --api-key \'a\'", "b"]', '["x --api-key \'<redacted>\'", "b"]'),
        ('{"c":"x --api-key \'a\'","b":"c"}', '{"c":"x --api-key \'<redacted>\'","b":"c"}'),
        ("f(api_key='a')['b']", "f(api_key='<redacted>')['b']"),
    ],
)
def test_redacted_text(text: str, wanted: str) -> None:
    assert redact_text(text) == wanted
    assert redact_text(wanted) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch, #running-req: 1, #token: 38, token usage: 0.01, accept len: 1.00",
        "Prefill batch, #new-seq: 1, #new-token: 4, #cached-token: 0",
        "server_args={'api_key': None, 'max_total_tokens': 4096, 'enable_x_token': False}",
        "--speculative-num-draft-tokens 4 --tokenizer-path p --skip-tokenizer-init",
        "'eos_token': '</s>', 'image_token': '<img>', \"hf_chat_template_name\": null",
        'sglang:prompt_tokens_total{engine_type="unified"} 8.0',
        "http://127.0.0.1:30000/server_info",
        "SGLANG_USE_AITER_FP8_PER_TOKEN=1 SGLANG_LOG_DECODE_GRAPH_KEY=1",
        "PWD=/root/x OLDPWD=/root KEY_VALUE=abc sort_key=name {'key': 'value'}",
        "cookies are good; the author (auth) says so; it's a pattern: x_pattern=abc",
        "'MAX_TOKENS=abc' and 'tokenizer: fast'",
    ],
)
def test_text_that_holds_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "hostile",
    [
        "api_key='" + "\\" * 20000, "a" * 50000, 'api_key="' * 5000, "AUTH_" * 10000,
        "api_key='" + "'\"'\"'" * 5000, "'api_key=" * 5000, "\\'" * 20000, "cookie: " * 8000,
        "--api-key " + "\\" * 20000, "--api-key " + "\\ " * 10000,
    ],
)  # fmt: skip
def test_redaction_takes_linear_time(hostile: str) -> None:
    start = time.process_time()
    redact_text(hostile)
    assert time.process_time() - start < 2


def test_redacted_json_is_by_name_and_by_place() -> None:
    value = {
        "api_key": None, "admin_api_key": "", "hf_token": "x", "deep": [{"PASSWORD": 7}],
        "argv": ["--api-key", "abc", "--tp", "4"], "said": "the key is longsecret1", "n": 1.5,
    }  # fmt: skip
    assert redact_json(value, ["longsecret1"]) == {
        "api_key": None, "admin_api_key": "", "hf_token": "<redacted>",
        "deep": [{"PASSWORD": "<redacted>"}], "argv": ["--api-key", "<redacted>", "--tp", "4"],
        "said": "the key is <redacted>", "n": 1.5,
    }  # fmt: skip


def test_a_short_key_does_not_eat_the_evidence() -> None:
    assert redact_text("sglang:gen_throughput 1", ["sglang"]) == "sglang:gen_throughput 1"
    assert redact_text("--api-key sglang", ["sglang"]) == "--api-key <redacted>"


def test_found_secrets() -> None:
    found = find_secrets({"a": [{"api_key": "one"}], "eos_token": "</s>", "api_key": None})
    assert found == {"one"}
    assert find_secrets({"a": {"STORE": "two", "OTHER": "three", "b": ""}}, ["STORE", "b"]) == {
        "two"
    }


ODD = (
    "abc'DEFsecretXYZ", 'abc"DEFsecretXYZ', "abc\\'DEFsecretXYZ", "abc DEFsecretXYZ",
    "ab`$(DEFsecretXYZ", "'DEFsecretXYZ'", "a'b'DEFsecretXYZ", "a\"b'DEFsecretXYZ\\",
)  # fmt: skip


@pytest.mark.parametrize("key", ODD)
def test_a_key_is_hidden_however_a_shell_or_a_program_quotes_it(key: str) -> None:
    command = shlex.join(["python", "-m", "x", "--api-key", key, "--port", "1"])
    joined = shlex.join(["python", f"--api-key={key}", "--port", "1"])
    for text in (
        command, command.replace("--api-key ", "--api-key="), joined, json.dumps(command),
        json.dumps(joined), repr(command), json.dumps({"launch_command": command}),
        repr(["--api-key", key, "--port"]), f"api_key={key!r}, port=1",
        json.dumps({"api_key": key, "port": 1}), f"export SGLANG_API_KEY={shlex.quote(key)}",
        f"export {shlex.quote(f'SGLANG_API_KEY={key}')}",
        "curl -H " + shlex.quote(f"Authorization: Bearer {key}"),
    ):  # fmt: skip
        assert "DEFsecret" not in redact_text(text), text
    said = redact_text(command)
    assert said.startswith("python -m x --api-key ")
    assert said.endswith(" --port 1")
    assert "DEFsecret" not in json.dumps(redact_json({"launch_command": command}))


WILD = "s3cr'et\\key\"with<odd>&%$(x)/y?z+"


@pytest.mark.parametrize("key", [WILD, "averyplainkey123456", "schl\u00fcssel-geheim"])
def test_a_known_key_is_hidden_in_every_form(key: str) -> None:
    raw = key.encode()
    forms = {
        "plain": key, "repr": repr(key), "list": repr([key, 1]), "json": json.dumps(key),
        "json in json": json.dumps(json.dumps({"a": key})), "repr of json": repr(json.dumps(key)),
        "shell": shlex.quote(key), "shell in json": json.dumps(shlex.join(["x", key])),
        "url": quote(key), "url, whole": quote(key, ""), "form": quote_plus(key),
        "html": html.escape(key), "html, text": html.escape(key, quote=False),
        "basic": base64.b64encode(raw).decode(), "for urls": base64.urlsafe_b64encode(raw).decode(),
        **{
            f"basic of {user}": base64.b64encode(f"{user}:".encode() + raw + b"!").decode()
            for user in ("", "m", "me", "user")
        },
    }  # fmt: skip
    for name, form in forms.items():
        said = redact_text(f"it said {form}, then more", [key])
        assert "<redacted>" in said, name
        assert said.startswith("it said "), name
        assert said.endswith(", then more"), name
        left = said.removeprefix("it said ").removesuffix(", then more")
        # The ends of base64 share their characters with what stands beside the key.
        assert len(left.replace("<redacted>", "")) <= 16, (name, left)


def test_a_short_key_is_searched_in_no_form() -> None:
    assert redact_text("dGVzdDE= test1 test1", ["test1"]) == "dGVzdDE= test1 test1"


SECRET_NAMES = (
    "SGLANG_FOO_AUTH", "SGLANG_COOKIE", "SGLANG_SESSION_KEY", "HF_TOKEN", "X_PAT", "JWT",
    "AWS_SESSION_TOKEN", "MY_CREDS", "SGLANG_PWD", "DB_PWD", "OPENAI_KEY", "SSH_KEY",
    "SGLANG_KEY", "ENCRYPTION_KEY", "NGC_KEY", "X_PASSPHRASE", "CLIENT_SECRET", "OPENAI_API_KEY_2",
    "MY_TOKEN1", "AWS_SECRET_ACCESS_KEY", "SECRET_OF_MINE", "AUTH_HEADER", "COOKIE_JAR",
    "PASSWORD_OF_DB", "api_key", "x-api-key", "hf_token", "mytoken", "accessToken", "set-cookie",
    "Cookie", "basic_auth", "jwt", "client_secret", "db.password", "proxy-authorization",
)  # fmt: skip
PLAIN_NAMES = (
    "MAX_TOKENS", "SGLANG_MAX_NEW_TOKENS", "KEY_VALUE", "SGLANG_KEY_VALUE_CACHE", "KEYS", "MONKEY",
    "PWD", "OLDPWD", "PATH", "COMPAT", "SGLANG_PATTERN", "AUTHOR", "CACHE_KEY", "TOKENIZER",
    "SGLANG_PER_TOKEN_GROUP", "TIME_TO_FIRST_TOKEN", "key", "sort_key", "pwd", "auth", "author",
    "max_tokens", "eos_token", "image_token", "tokenizer_path", "keep_alive", "cookiecutter",
    "speculative-token-map", "monkey_patch", "ssl-keyfile",
)  # fmt: skip


def names_of_the_engine() -> set[str]:
    found: set[str] = set()
    for release in ("0.5.17", "0.5.23"):
        catalogue = load_catalogue(release)
        assert catalogue is not None
        found |= {*catalogue.flags, *catalogue.env}
    return found


@pytest.mark.parametrize(("names", "wanted"), [(SECRET_NAMES, True), (PLAIN_NAMES, False)])
def test_the_collector_and_the_probe_agree_on_names(names: tuple[str, ...], wanted: bool) -> None:
    assert {name for name in names if is_secret(name, "abcdefgh") != wanted} == set()
    assert {name for name in names if bool(SECRET.fullmatch(name)) != wanted} == set()
    assert SECRET.pattern == SECRET_NAME


def test_nothing_that_the_engine_is_told_is_hidden_but_its_secrets() -> None:
    names = names_of_the_engine()
    assert len(names) > 1000
    for spelling in (str, lambda name: name.replace("-", "_")):
        hidden = {name for name in names if is_secret(spelling(name), "abcdefgh")}
        assert hidden == {"api-key", "admin-api-key", "EXA_API_KEY", "ssl-keyfile-password"}
        assert hidden == {name for name in names if SECRET.fullmatch(spelling(name))}
