"""Reading only regular files: what else a path may lead to, and how much is read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from configurator.regular import (
    NotRegularError,
    TooLargeError,
    check_regular,
    read_regular,
    why_unread,
)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(file, 5) == b"12345"
    assert read_regular(tmp_path / "link", 5) == b"12345"
    with pytest.raises(TooLargeError):
        read_regular(file, 4)
    file.write_bytes(b"")
    assert read_regular(file, 0) == b""


def test_a_file_that_says_less_than_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    monkeypatch.setattr("configurator.regular._check", lambda found, limit: None)
    with pytest.raises(TooLargeError):
        read_regular(file, 4)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/dev/zero", "is a device, not a file"),
        ("/dev/null", "is a device, not a file"),
        ("/proc/kmsg", "belongs to /proc and is not a file"),
        ("/proc/self/environ", "belongs to /proc and is not a file"),
        ("folder", "is a directory, not a file"),
        ("pipe", "is a pipe, not a file"),
        ("socket", "is a socket, not a file"),
    ],
)
def test_what_is_no_file(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        for named in (tmp_path / path, tmp_path / "link"):
            with pytest.raises(NotRegularError) as caught:
                read_regular(named, 10)
            assert why_unread("NAME", caught.value) == f"NAME {kind}"
            with pytest.raises(NotRegularError):
                check_regular(named)


def test_a_file_that_becomes_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr("configurator.regular.check_regular", lambda path, limit: None)
    with pytest.raises(NotRegularError, match="is a pipe"):
        read_regular(tmp_path / "pipe", 10)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        read_regular(tmp_path / "absent", 10)
    assert why_unread("absent", caught.value) == "cannot read absent: No such file or directory"


@pytest.mark.parametrize(("limit", "size"), [(2 << 20, "2 MiB"), (3 << 10, "3 KiB")])
def test_the_limit_is_said(tmp_path: Path, limit: int, size: str) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(limit + 1)
    with pytest.raises(TooLargeError) as caught:
        read_regular(tmp_path / "large", limit)
    assert why_unread("large", caught.value) == f"large is larger than {size}"
