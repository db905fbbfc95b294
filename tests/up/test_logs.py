"""The engine's output: whole lines, no secrets, progress bars as they were."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from configurator.up.logs import Log
from configurator.up.phases import Step


def logged(tmp_path: Path, *chunks: bytes, secrets: frozenset[str] = frozenset()) -> Log:
    reading, writing = os.pipe()
    log = Log(reading, tmp_path / "x.log", secrets)
    for chunk in chunks:
        os.write(writing, chunk)
    os.close(writing)
    log.close(5)
    return log


def test_lines_that_come_in_pieces_are_whole(tmp_path: Path) -> None:
    log = logged(tmp_path, b"Load wei", b"ght begin\nbar 1%\rbar 2", b"%\r", b"no end")
    assert log.path.read_bytes() == b"Load weight begin\nbar 1%\rbar 2%\rno end\n"
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert log.step.phase == "loading weights"
    assert log.last == "no end"


@pytest.mark.parametrize("cut", range(1, 24, 4))
def test_a_secret_cut_in_two_is_redacted(tmp_path: Path, cut: int) -> None:
    text = b"odd words correct-horse there\n"
    log = logged(tmp_path, text[:cut], text[cut:], secrets=frozenset({"correct-horse"}))
    assert log.path.read_text() == "odd words <redacted> there\n"


def test_keys_are_known_by_their_place(tmp_path: Path) -> None:
    log = logged(tmp_path, b"server_args=ServerArgs(api_key='abc', tp_size=1)\n")
    assert log.path.read_text() == "server_args=ServerArgs(api_key='<redacted>', tp_size=1)\n"


def test_the_tail_shows_no_arguments_and_no_bars(tmp_path: Path) -> None:
    log = logged(tmp_path, b"one\nserver_args=x\n\n 50%|## | 1/2\rtwo\nthree\n")
    assert log.tail(5) == ["one", "two", "three"]
    assert log.tail(1) == ["three"]


def test_steps_are_told_as_they_change(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    steps: list[Step] = []
    log = Log(reading, tmp_path / "x.log", frozenset(), steps.append)
    os.write(writing, b"Load weight begin\nx\nLoad weight begin\nUvicorn running\n")
    os.close(writing)
    log.close(5)
    assert [step.phase for step in steps] == ["loading weights", "warming up"]


def test_bytes_that_are_no_text_and_lines_without_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    log = Log(reading, tmp_path / "x.log", frozenset())
    for _ in range(40):
        os.write(writing, b"\xff" * 65536)
    os.close(writing)
    log.close(20)
    assert log.path.stat().st_size > 40 * 65536


def test_a_disk_that_is_full_stops_nobody_from_writing(tmp_path: Path) -> None:
    def full(step: Step) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "x.log").symlink_to("/dev/full")
    reading, writing = os.pipe()
    log = Log(reading, tmp_path / "x.log", frozenset(), full)
    done = threading.Event()

    def engine() -> None:
        os.write(writing, b"Load weight begin\n")
        os.write(writing, b"x\n" * 200_000)  # more than a pipe holds
        os.write(writing, b"Uvicorn running\n")
        os.close(writing)
        done.set()

    threading.Thread(target=engine, daemon=True).start()
    assert done.wait(10)
    log.close(10)
    assert log.step.phase == "warming up"
    assert log.error == "No space left on device"


def test_each_line_of_a_secret_is_redacted(tmp_path: Path) -> None:
    secret = "first-half-of-it\nsecond-half-of-it"
    log = logged(tmp_path, f"x {secret} y\n".encode(), secrets=frozenset({secret}))
    assert log.path.read_text() == "x <redacted>\n<redacted> y\n"


def test_a_short_secret_is_redacted_after_its_flag(tmp_path: Path) -> None:
    text = b"--api-key abc12 ['--admin-api-key', 'abc12'] --api-key=abc12 tabc12\n"
    log = logged(tmp_path, text, secrets=frozenset({"abc12"}))
    assert log.path.read_text() == (
        "--api-key <redacted> ['--admin-api-key', '<redacted>'] --api-key=<redacted> tabc12\n"
    )


def test_a_fault_of_ours_stops_nobody_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str, secrets: object) -> str:
        raise RecursionError("too deep")

    monkeypatch.setattr("configurator.up.logs.redact_text", fail)
    log = logged(tmp_path, b"a key\n", b"Load weight begin\n")
    assert log.path.read_bytes() == b""  # what cannot be redacted is not kept
    assert log.error == "RecursionError: too deep"
