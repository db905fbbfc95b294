"""Secrets that a person wrote in clear come out nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.cli import run
from configurator.collector.inputs import CollectError

HEAD = """\
apiVersion: configurator/v1
kind: Deployment
name: careless
extends: ling-3.0-flash-spark
"""
CARELESS = {
    "serving: {api_key: swordfish-1}": "swordfish-1",
    "serving: {api_key: {env: sk-swordfish}}": "sk-swordfish",
    "serving: {api_key: {env: swordfish 2}}": "swordfish 2",
    'extra: {args: {"api-key=sk-abcdefghijklmnopqrstuv": true}}': "sk-abcdefghijklmnopqrstuv",
    "extra: {args: {api-key: swordfish-3}}": "swordfish-3",
    "extra: {args: {api-ke: swordfish-4}}": "swordfish-4",
    "extra: {args: {ssl-keyfile-password: swordfish-5}}": "swordfish-5",
    "extra: {env: {AWS_SECRET_ACCESS_KEY: swordfish-6}}": "swordfish-6",
    "extra: {env: {FOO: hf_abcdefghijklmnop}}": "hf_abcdefghijklmnop",
    'extra: {env: {HTTPS_PROXY: "http://me:swordfish7@proxy:1"}}': "swordfish7",
}


@pytest.mark.parametrize("form", ["terminal", "json"])
@pytest.mark.parametrize(("line", "secret"), CARELESS.items())
def test_refused_and_never_repeated(
    line: str, secret: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}{line}\n")
    assert run(["validate", str(path), "--format", form]) in (1, 2)
    captured = capsys.readouterr()
    assert secret not in captured.out + captured.err
    assert run(["render", str(path), "-o", str(tmp_path / "out")]) in (1, 2)
    captured = capsys.readouterr()
    assert secret not in captured.out + captured.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("model: {path: ~/models/ling}", "write the whole path: ~ is not expanded"),
        ("model: {path: -rf}", "give a path, or the name of a repository"),
        ('model: {path: "a\\nb"}', "give a path, or the name of a repository"),
        ('serving: {host: "a b"}', "serving.host is 'a b'"),
        ("serving: {host: --x}", "serving.host is '--x'"),
        ('description: "a\\0b"', "a value contains a NUL character"),
    ],
)
def test_values_no_launch_could_use(
    line: str, fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}{line}\n")
    assert run(["validate", str(path)]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert fact in out
    assert f"{path}:5:" in out


def test_secrets_of_the_engine_are_told_to_the_collector(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: dict[str, object] = {}

    def collecting(*_: object, **words: object) -> None:
        told.update(words)
        raise CollectError("enough")

    monkeypatch.setenv("LING_API_KEY", "swordfish-8")
    monkeypatch.setattr("configurator.commands.collecting.collect", collecting)
    path = tmp_path / "p.yaml"
    path.write_text(f"{HEAD}extra: {{secrets: {{SGLANG_STORE: {{file: /none}}}}}}\n")
    assert run(["check", str(path), "--url", "http://127.0.0.1:9"]) == 2
    assert told["kept"] == ("SGLANG_STORE",)


def test_a_key_by_another_name_is_taken_instead_of_the_profiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a container the variable or file that the profile names need not exist."""
    monkeypatch.delenv("LING_API_KEY", raising=False)
    command = ["check", "ling-3.0-flash-spark", "--url", "http://127.0.0.1:9"]
    assert run(command) == 2
    assert "variable LING_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("ANOTHER", "swordfish-123")
    assert run([*command, "--api-key-env", "ANOTHER"]) == 1
    captured = capsys.readouterr()
    assert "swordfish" not in captured.out + captured.err
    # The rendered checks of containers and units name this one, which no profile may name.
    monkeypatch.setenv("CONFIGURATOR_API_KEY", "swordfish-123")
    assert run([*command, "--api-key-env", "CONFIGURATOR_API_KEY"]) == 1
    assert run([*command, "--api-key-env", "NOT_SET"]) == 2
    assert "variable NOT_SET" in capsys.readouterr().err
