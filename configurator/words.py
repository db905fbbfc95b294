"""Words with their places: what a launch command consists of, wherever it was written.

Readers of shell scripts, compose files and the like produce them; nothing here knows a format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from configurator.errors import Position


@dataclass(frozen=True, slots=True)
class Span:
    """From character `start` of a text on, its characters stand at `position` and after."""

    start: int
    position: Position


@dataclass(frozen=True, slots=True)
class Word:
    """One word, or a whole script, as a process gets it."""

    text: str
    """What nobody can know before the start stands as it is written: `${API_KEY}`."""
    spans: tuple[Span, ...]
    """In the order of `start`; the first starts at 0."""
    unknown: bool = False
    """A part of the text is known only where and when it runs."""

    @classmethod
    def at(cls, text: str, position: Position, *, unknown: bool = False) -> Word:
        """A word written at `position`, character for character."""
        return cls(text, (Span(0, position),), unknown)

    @property
    def position(self) -> Position:
        """Where the word begins."""
        return self.spans[0].position

    def position_at(self, offset: int) -> Position:
        """Where the character at `offset` stands."""
        span = next((s for s in reversed(self.spans) if s.start <= offset), self.spans[0])
        text = self.text[span.start : offset]
        lines = text.count("\n")
        at = span.position
        if not lines:
            return Position(at.file, at.line, at.column + len(text))
        return Position(at.file, at.line + lines, len(text) - text.rindex("\n"))

    def part(self, start: int, end: int | None = None) -> Word:
        """The characters from `start` to `end`, with their places."""
        end = len(self.text) if end is None else end
        inside = [Span(s.start - start, s.position) for s in self.spans if start < s.start < end]
        first = Span(0, self.position_at(start))
        return Word(self.text[start:end], (first, *inside), self.unknown)


def joined(words: Iterable[Word]) -> Word:
    """The words as one, without anything between them."""
    text = ""
    spans: list[Span] = []
    unknown = False
    for word in words:
        spans += [Span(len(text) + span.start, span.position) for span in word.spans]
        text += word.text
        unknown = unknown or word.unknown
    return Word(text, tuple(spans), unknown)


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable of a process."""

    name: str
    value: str | None
    """None when it is set only where and when it runs."""
    position: Position


@dataclass(frozen=True, slots=True)
class Invocation:
    """A process that a file starts: its words and its environment, before anything is known of
    what the program is."""

    words: tuple[Word, ...]
    env: dict[str, Setting] = field(default_factory=dict)
    """What the file sets; not what the process inherits."""
    conditions: tuple[str, ...] = ()
    """What had to be assumed to get here, for instance `[[ -d /models ]] holds`."""
    image: str | None = None
    """The container image it runs in."""


@dataclass(frozen=True, slots=True)
class Command:
    """One launch of the engine."""

    argv: tuple[Word, ...]
    """The engine's arguments, without the program."""
    env: dict[str, Setting]
    position: Position
    """Where the program is named."""
    entry: str = "argv"
    """How it is started: `launch_server`, `serve`, or `argv` when only arguments are given."""
    image: str | None = None
    conditions: tuple[str, ...] = ()
