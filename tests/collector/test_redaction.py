"""What counts as a secret, and that none is written."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from collector.stub import ADMIN, KEY, Stub, everything, read

from configurator.collector.collecting import collect
from configurator.collector.redaction import find_secrets, redact_json, redact_text


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
    ],
)
def test_text_that_holds_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("hostile", ["api_key='" + "\\" * 20000, "a" * 50000, 'api_key="' * 5000])
def test_redaction_takes_linear_time(hostile: str) -> None:
    start = time.monotonic()
    redact_text(hostile)
    assert time.monotonic() - start < 2


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
