"""Keys, tokens and passwords of launches: what is one, and that none is shown or copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launches import launch

from configurator.cli import run
from configurator.secrets import is_secret_value, secrets_of

FORMS = ("terminal", "json", "github", "sarif", "junit")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api-key", "sk-aaa"), ("HF_TOKEN", "hf_x"), ("OPENAI_API_KEY", "abc"),
        ("MY_PASSWORD", "abc"), ("AWS_SECRET_ACCESS_KEY", "abc"), ("SGLANG_BOGUS_KEY", "abc"),
        ("ssl-keyfile-password", "abc"), ("bogus-api-key", "abc"),
        ("DATABASE_URL", "postgres://u:pw@h/d"), ("dist-init-addr", "user:pw@1.1.1.1:5"),
        ("model-path", "https://u:pw@h/m"), ("X", "sk-abcdefghijklmnopqrstuvwx"),
    ],
)  # fmt: skip
def test_secrets(name: str, value: str) -> None:
    assert is_secret_value(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api-key", "${API_KEY}"), ("api-key", "$KEY"), ("api-key", ""), ("api-key", "EMPTY"),
        ("api-key", "sk-placeholder"), ("api-key", "<key>"), ("api-key", "<your key>"),
        ("SGLANG_SIMULATE_ACC_TOKEN_MODE", "real-draft-token"),
        ("SGLANG_MAX_KEY", "12"), ("tokenizer-path", "/m"), ("dist-init-addr", "10.0.0.1:5000"),
        ("host", "0.0.0.0"), ("UCX_TLS", "rc,cuda_ipc"), ("model-path", "s3://bucket/m"),
    ],
)  # fmt: skip
def test_no_secrets(name: str, value: str) -> None:
    assert not is_secret_value(name, value)


def test_secrets_of_launches_line_by_line() -> None:
    one = launch("HF_TOKEN=hf_x1 sglang serve --model-path m --api-key 'first line\nsecond'")
    assert secrets_of([one]) == ("first line", "first line\nsecond", "hf_x1", "second")


SCRIPT = """\
export HF_TOKEN=tok-1-secret MY_PASSWORD=tok-2-secret
export DATABASE_URL=postgres://u:tok-3-secret@h/d SGLANG_BOGUS_KEY=tok-4-secret
sglang serve --model-path m --tp 2 --api-key tok-5-secret --api-key=tok-6-secret \\
  --ssl-keyfile-password tok-7-secret --bogus-api-key tok-8-secret --admin-api-key 'a
tok-9-secret'
"""


@pytest.mark.parametrize("form", FORMS)
def test_lint_shows_none(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    run(["lint", str(path), "--engine", "0.5.23", "--format", form])
    said = capsys.readouterr()
    assert "-secret" not in said.out.replace("no-secret", "") + said.err
    assert said.out


def test_lint_of_manifests_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(
        "services:\n  a:\n    image: lmsysorg/sglang:v0.5.20\n"
        "    environment: {HF_TOKEN: tok-1-secret}\n"
        "    command: [sglang, serve, --model-path, m, --tp, '2', --api-key, tok-2-secret,\n"
        "      --api-key, tok-3-secret]\n"
    )
    for form in FORMS:
        run(["lint", str(path), "--format", form])
        said = capsys.readouterr()
        assert "-secret" not in said.out + said.err, form


def test_import_copies_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    out = tmp_path / "profile.yaml"
    assert run(["import", str(path), "-o", str(out), "--engine", "0.5.23"]) == 0
    said = capsys.readouterr()
    assert "-secret" not in said.out + said.err + out.read_text()
    assert said.err.count("IMP005") == 8
    assert "API_KEY" in out.read_text()


def test_a_condition_is_shown_without_the_secret_it_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        'if [ "$GPU" = "b200" ]; then sglang serve --model-path m --api-key hf_' + "a" * 20 + "; fi"
    )
    run(["lint", str(path), "--format", "json"])
    (command,) = json.loads(capsys.readouterr().out)["files"][0]["commands"]
    assert command["conditions"]
    assert "aaaaaaaa" not in json.dumps(command)
