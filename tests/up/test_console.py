"""Progress on a terminal and elsewhere, and streams that nobody reads any more."""

from __future__ import annotations

import io
import os
import sys

import pytest

from configurator.up.console import Console, Saying
from configurator.up.phases import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_a_line_for_every_phase() -> None:
    stream = io.StringIO()
    console = Console(stream, verbose=True)
    for percent in ("10%", "20%"):
        console.progress({"a": Step("loading weights", percent)}, 3.2, "last line")
    console.progress({"a": Step("warming up")}, 9.0, "")
    lines = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == ["a: loading weights, after 3 s | last line", "a: warming up, after 9 s"]


def test_a_terminal_has_one_line_that_is_rewritten() -> None:
    stream = Terminal()
    console = Console(stream)
    console.progress({"a": Step("loading weights", "10%")}, 3.0, "last line")
    console.progress({"a": Step("loading weights", "10%")}, 3.0, "last line")
    console.progress({"a": Step("loading weights", "20%")}, 4.0, "last line")
    console.say("ready")
    text = stream.getvalue()
    assert text.count("\r\x1b[K") == 3
    assert "[   4 s] a: loading weights 20%" in text
    assert "last line" not in text
    assert text.rpartition("\r\x1b[K")[2].endswith(" ready\n")


def test_a_stream_that_nobody_reads_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as stream:
        console = Console(stream)
        for _ in range(3):
            console.say("nobody hears this")
        console.lines(["nor this"])


def test_whole_lines_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    saying = Saying(Console(stream))
    print("one\ntw", end="", file=saying)
    assert stream.getvalue().splitlines()[-1].endswith(" one")
    print("o", file=saying)
    assert stream.getvalue().splitlines()[-1].endswith(" two")
    assert capsys.readouterr().out == ""


EVIL = "\x1b]0;title\x07\x1b[2J boom \u202e\x9b31m"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_terminal_would_obey_is_left_out(terminal: bool) -> None:
    stream = Terminal() if terminal else io.StringIO()
    console = Console(stream, verbose=True)
    console.say(f"one {EVIL}\ntwo")
    console.lines([EVIL])
    console.progress({"a": Step("loading weights", "10%")}, 1.0, EVIL)
    text = stream.getvalue().replace("\r\x1b[K", "")
    assert text.count("boom") == 3
    assert "\ntwo\n" in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]


def test_without_a_standard_output_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    Console().say("nobody hears this")
