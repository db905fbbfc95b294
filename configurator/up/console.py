"""What a person sees while it starts: one rewritten line on a terminal, else a line a phase."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

import click

from configurator.up.phases import READY, Step


def standard_output() -> TextIO:
    """The standard output; where somebody closed it (`>&-`), one that nobody reads.

    The closed descriptors are opened first: a log or a lock would get their numbers otherwise, and
    whoever prints would write into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    # Python says that it is always there, and sets it to None where it is not.
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    return sys.stdout


def printable(text: str) -> str:
    """`text` without what a terminal would obey; lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


class Console:
    """Speaks to whoever watches, and goes on when nobody does any more.

    A terminal that is gone, or a pipe that nobody reads, must not keep the engine from being
    stopped: what cannot be said is left out.
    """

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self.stream = stream or standard_output()
        self.verbose = verbose
        """The last line of the log stands with the progress."""
        self._live = self._is_terminal()
        self._shown = ""
        self._steps: dict[str, str] = {}

    def _is_terminal(self) -> bool:
        try:
            return self.stream.isatty()
        except (OSError, ValueError):
            return False

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):
            # Python would complain at its end that it could not write the rest.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def say(self, text: str, colour: str | None = None) -> None:
        """One line with the time before it."""
        self._clear()
        stamp, text = time.strftime("%H:%M:%S"), printable(text)
        with self._speaking():
            click.echo(f"{stamp} {click.style(text, fg=colour) if colour else text}", self.stream)

    def lines(self, lines: list[str]) -> None:
        """Lines of a log, indented."""
        self._clear()
        with self._speaking():
            for line in lines:
                click.echo(f"    {printable(line)}", self.stream)

    def call(self, show: Callable[[], None]) -> None:
        """Let something else print."""
        self._clear()
        with self._speaking():
            show()
            self.stream.flush()

    def progress(self, steps: Mapping[str, Step], elapsed: float, last: str) -> None:
        """How far each process is; on a terminal with how far it is within its phase."""
        tail = f" | {printable(last)}" if self.verbose and last else ""
        if self._live:
            width = shutil.get_terminal_size((100, 24)).columns - 1
            parts = "; ".join(f"{name}: {step}" for name, step in steps.items())
            self._rewrite(f"[{elapsed:4.0f} s] {parts}{tail}"[:width])
            return
        for name, step in steps.items():
            # Readiness is said with the address.
            if self._steps.get(name) != step.phase and step.phase != READY:
                self._steps[name] = step.phase
                self.say(f"{name}: {step.phase}, after {elapsed:.0f} s{tail}")

    def _rewrite(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            with self._speaking():
                self.stream.write(f"\r\x1b[K{text}")
                self.stream.flush()

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            with self._speaking():
                self.stream.write("\r\x1b[K")


class Saying(io.TextIOBase):
    """A stream whose lines the console says, for what prints to the standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""

    def write(self, text: str) -> int:
        """Say every line that is whole."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._console.say(line)
        return len(text)
