"""What reading a file gives: launches, and everything that could not be resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from configurator.errors import Problem
from configurator.words import Command, Invocation


@dataclass(frozen=True, slots=True)
class Invocations:
    """Processes that a script starts, in order; what they are is not yet known."""

    found: tuple[Invocation, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What could not be resolved, with its place: said, not guessed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The engine launches of one file."""

    file: str
    format: str
    """One of `readers.files.FORMATS`; `docker run` in a script is `shell`."""
    commands: tuple[Command, ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    """What could not be resolved, with its place: said, not guessed."""
