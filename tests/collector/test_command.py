"""The command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from collector.stub import Stub, closed_url

from configurator.collector.command import main


def test_exit_code_1_when_a_server_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--url", closed_url(), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().out == (
        "replica 0: not ready, 0 files\n  /health: Connection refused\n"
    )
    assert (tmp_path / "out/manifest.json").is_file()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--url", "nonsense"], "'nonsense' is not a server's URL"),
        (
            ["--url", "http://h:1", "--api-key-env", "NOT_SET_HERE"],
            "NOT_SET_HERE cannot be used: it is not set",
        ),
        (["--url", "http://h:1", "--sampling", "[]"], "--sampling must be a JSON object"),
        (["--url", "http://h:1", "--sampling", "{"], "Expecting property name"),
        (["--url", "http://h:1", "--prompts", "/nowhere"], "No such file"),
    ],
)
def test_exit_code_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main([*more, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_prompts_from_a_file(stub: Stub, tmp_path: Path) -> None:
    for text in ("one\n\ntwo\n", '["one", "two"]'):
        (tmp_path / "prompts").write_text(text)
        stub.generated.clear()
        out = tmp_path / f"out{len(text)}"
        assert main(["--url", stub.url, "--out", str(out), "--prompts",
                     str(tmp_path / "prompts")]) == 0  # fmt: skip
        assert [body["text"] for body in stub.generated[1:]] == ["one", "two"]


def test_what_a_server_says_does_not_steer_the_terminal(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.answer("/health", 503, b"\x1b]0;pwn\x07\x1b[2J")
    assert main(["--url", stub.url, "--out", str(tmp_path / "out"), "--wait", "0.2"]) == 1
    said = capsys.readouterr()
    assert "pwn" in said.out
    assert "pwn" in said.err
    assert "\x1b" not in said.out + said.err
