"""How rendered scripts read a key, under real bash: the same as `up` and `check` do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from stand_in import environment, launch, rendered

from configurator.collector.inputs import CollectError, read_key
from configurator.content import ROOT

SNIPPET = ROOT / "configurator" / "render" / "templates" / "read_key.sh"
LONG = "holds more than 4096 characters; put the key alone there"
SEVERAL = "holds several lines; put the key alone there"
NO_KEY = "holds a space, a control character or one that is not ASCII; put the key alone there"


def read(source: str, **env: str) -> tuple[int, str, str]:
    """Exit code, the key, and why there is none."""
    text = f"set -euo pipefail\n{SNIPPET.read_text()}\n" + (
        'KEY=; code=0; configurator_read_key "$1" KEY || code=$?\n'
        'printf "%s\\0%s" "$KEY" "$configurator_why"; exit "$code"\n'
    )
    done = subprocess.run(
        ["bash", "-c", text, "bash", source], capture_output=True, check=False, timeout=60,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **env},
    )  # fmt: skip
    assert done.stderr == b""
    key, why = done.stdout.decode().split("\0")
    return done.returncode, key, why


@pytest.mark.parametrize("key", ["k", "correct-horse", 'a$HOME`id`"it\'s"\\n*', "!~"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_key_arrives_without_the_line_break_at_its_end(
    tmp_path: Path, key: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "the key"
    path.write_bytes((key + end).encode())
    monkeypatch.setenv("THE_KEY", key + end)
    assert read(f"file:{path}") == (0, key, "")
    assert read("env:THE_KEY", THE_KEY=key + end) == (0, key, "")
    assert read_key(None, str(path)) == read_key("THE_KEY", None) == key


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (b"", "is empty; it must hold the key"),
        (b"\r\n", "is empty; it must hold the key"),
        (b"one\ntwo\n", SEVERAL),
        (b"one\n\n", SEVERAL),
        (b"one\rtwo", SEVERAL),
        (b"one two", NO_KEY),
        (b"one\x1b", NO_KEY),
        ("süß".encode(), NO_KEY),
        (b"\xef\xbb\xbfone", NO_KEY),
        (b"k" * 4097, LONG),
    ],
)
def test_what_no_request_can_carry_is_no_key(
    tmp_path: Path, kept: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_bytes(kept)
    assert read(f"file:{path}") == (1, "", f"the key file {path} {why}")
    assert read("env:THE_KEY", THE_KEY=kept.decode()) == (1, "", f"variable THE_KEY {why}")
    monkeypatch.setenv("THE_KEY", kept.decode())
    for words in ((None, str(path)), ("THE_KEY", None)):
        with pytest.raises(CollectError, match="cannot be used: it "):
            read_key(*words)


@pytest.mark.parametrize("kept", [b"one\0two\n", b"\0", b"one\0"])
def test_a_nul_is_not_dropped_without_a_word(tmp_path: Path, kept: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(kept)
    why = f"the key file {path} holds a NUL; put the key alone there"
    assert read(f"file:{path}") == (1, "", why)
    with pytest.raises(CollectError, match=r"it (is empty|has a space or a control)"):
        read_key(None, str(path))


def test_the_longest_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 4096 + b"\r\n")
    assert read(f"file:{tmp_path}/key") == (0, "k" * 4096, "")
    assert read_key(None, str(tmp_path / "key")) == "k" * 4096


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    why = f"the key file {tmp_path}/key cannot be read"
    assert read(f"file:{tmp_path}/key") == (1, "", why)
    with pytest.raises(CollectError, match="cannot be used: it is a pipe, and no file"):
        read_key(None, str(tmp_path / "key"))


def test_what_is_no_file_holds_no_key(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert read(f"file:{path}") == (1, "", f"the key file {path} cannot be read")
    why = "'THE_KEY' says of no key where it is; write env:NAME or file:PATH"
    assert read("THE_KEY") == (1, "", why)
    assert read("env:NO_SUCH") == (1, "", "variable NO_SUCH is empty; it must hold the key")


def test_a_script_says_so_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"one\0two\n")
    out = rendered(tmp_path, f"serving: {{api_key: {{file: '{tmp_path}/key'}}}}\n")
    process = launch(out, environment(tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"FAILED: the key file {tmp_path}/key holds a NUL; put the key alone there" in printed
    assert "preflight" not in printed
