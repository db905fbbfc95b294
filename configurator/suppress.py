"""Suppressions: a comment that silences a finding, with the reason.

    mem_fraction_static: 0.75  # configurator: ignore[MEM101] measured for a week, fits

On a line of its own the comment speaks of the next line that is not a comment. Several codes
stand in one pair of brackets, separated by commas. Unusable input cannot be silenced.

In scripts and units, where a command goes on over lines that end in a backslash, the comment
speaks of the whole command: there is no place for one inside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import yaml

from configurator.errors import Position, Problem, did_you_mean
from configurator.layers import Layers
from configurator.source import Source

_MARK = "configurator:"
_COMMENT = re.compile(r"(?:^|(?<=\s))#\s*configurator:\s*ignore\b\s*(?:\[([^\]]*)\])?[ \t:]*(.*)$")

# What cannot start a comment: an escaped character, or a text in quotes. A quote inside a word, as
# in "don't", or one that is not closed on its line, is a character like any other.
_NO_COMMENT = re.compile(r"""\\.|(?<!\w)'[^']*'|(?<!\w)"(?:\\.|[^"\\])*"|(?<=\S)#|[^#]""")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the codes it names, the reason, and the lines it speaks of."""

    position: Position
    codes: tuple[str, ...]
    reason: str
    lines: frozenset[int]
    own: bool
    """It stands in the most derived file."""


class Suppressions:
    """The suppressions of a profile's files, or of a text; remembers which were of use."""

    def __init__(self, layers: Layers) -> None:
        self._start(
            suppression
            for index, source in enumerate(layers.sources)
            if _MARK in source.text
            for suppression in _read(source, own=index == 0)
        )

    @classmethod
    def of_text(cls, name: str, text: str, *, trailing: bool = True) -> Suppressions:
        """The suppressions of any text whose comments start with `#`.

        Args:
            name: the file as positions name it.
            text: shell, compose, Kubernetes, a systemd unit, a Dockerfile. A comment within a
                script that is itself a value counts.
            trailing: a comment may stand behind something; not so in units and Dockerfiles.
        """
        made = cls.__new__(cls)
        made._start(_of_text(name, text, trailing) if _MARK in text else ())
        return made

    def _start(self, found: Iterable[Suppression]) -> None:
        self.all = tuple(found)
        self._used: set[tuple[Suppression, str]] = set()

    def reason(self, code: str, position: Position | None) -> str | None:
        """Why the finding `code` at `position` is silenced; None when it is not."""
        if position is None:
            return None
        for suppression in self.all:
            if (
                suppression.reason
                and code in suppression.codes
                and suppression.position.file == position.file
                and position.line in suppression.lines
            ):
                self._used.add((suppression, code))
                return suppression.reason
        return None

    def problems(
        self, known: Collection[str]
    ) -> Iterator[tuple[Literal["error", "warning"], Problem]]:
        """What is wrong with the suppressions themselves; ask after every `reason`."""
        for suppression in self.all:
            if not suppression.codes:
                yield _problem(
                    "error", "SUP001", "this suppression names no code",
                    "write ignore[CODE] and the reason", suppression,
                )  # fmt: skip
            elif not suppression.reason:
                yield _problem(
                    "error", "SUP001",
                    f"the suppression of {', '.join(suppression.codes)} has no reason",
                    "say why after the bracket: without a reason it does not count", suppression,
                )  # fmt: skip
            for code in suppression.codes:
                if code not in known:
                    yield _problem(
                        "warning", "SUP002", f"{code!r} is no finding that can be suppressed",
                        did_you_mean(code, known), suppression,
                    )  # fmt: skip
                elif (
                    suppression.own and suppression.reason and not self._is_used(suppression, code)
                ):
                    yield _problem(
                        "warning", "SUP003", f"nothing here is {code}: it suppresses nothing",
                        f"remove {code}, or put the comment on the finding's line", suppression,
                    )  # fmt: skip

    def _is_used(self, suppression: Suppression, code: str) -> bool:
        return (suppression, code) in self._used


def _problem(
    severity: Literal["error", "warning"],
    code: str,
    fact: str,
    remedy: str,
    suppression: Suppression,
) -> tuple[Literal["error", "warning"], Problem]:
    return severity, Problem(code, fact, remedy, suppression.position)


def _read(source: Source, *, own: bool) -> Iterator[Suppression]:
    lines = source.text.splitlines()
    for number, line in enumerate(lines, start=1):
        if _MARK not in line:
            continue
        found = _COMMENT.search(line)
        if found is None or _in_scalar(source.node, number - 1, found.start()):
            continue
        spoken_of = frozenset({number, _next_line(lines, number)})
        yield _suppression(Position(source.name, number, found.start() + 1), found, spoken_of, own)


def _suppression(
    position: Position, found: re.Match[str], lines: frozenset[int], own: bool
) -> Suppression:
    codes = tuple(part.strip() for part in (found[1] or "").split(",") if part.strip())
    # The reason is repeated in reports, so a secret in it must not stay.
    from configurator.collector.redaction import redact_text

    return Suppression(position, codes, redact_text(found[2].strip()), lines, own)


def _of_text(name: str, text: str, trailing: bool) -> Iterator[Suppression]:
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if _MARK not in line:
            continue
        start = _comment_start(line)
        if not trailing and line[:start].strip():
            continue
        found = _COMMENT.search(line, start)
        if found is not None:
            spoken_of = _logical_line(lines, number) | _logical_line(
                lines, _next_line(lines, number)
            )
            position = Position(name, number, found.start() + 1)
            yield _suppression(position, found, spoken_of, own=True)


def _comment_start(line: str) -> int:
    """Where the comment of a line starts, from 0; its length when it has none."""
    at = 0
    while (skipped := _NO_COMMENT.match(line, at)) is not None:
        at = skipped.end()
    return at


def _logical_line(lines: list[str], number: int) -> frozenset[int]:
    """The lines that backslashes join with line `number`, counted from 1."""
    first = last = number
    while first > 1 and _goes_on(lines[first - 2]):
        first -= 1
    while last <= len(lines) and _goes_on(lines[last - 1]):
        last += 1
    return frozenset(range(first, last + 1))


def _goes_on(line: str) -> bool:
    """It ends in a backslash that is not escaped, and is no comment."""
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1 and not line.lstrip().startswith("#")


def _next_line(lines: list[str], number: int) -> int:
    """The line that a comment alone on line `number` speaks of; `number` for any other."""
    while number <= len(lines) and lines[number - 1].lstrip().startswith("#"):
        number += 1
    return number


def _in_scalar(node: yaml.Node | None, line: int, column: int) -> bool:
    """The place lies inside a quoted or block text, so it is no comment."""
    if node is None or not _around(node, line, column):
        return False
    if isinstance(node, yaml.ScalarNode):
        return bool(node.style)
    if isinstance(node, yaml.MappingNode):
        return any(_in_scalar(part, line, column) for pair in node.value for part in pair)
    return any(_in_scalar(child, line, column) for child in node.value)


def _around(node: yaml.Node, line: int, column: int) -> bool:
    start = (node.start_mark.line, node.start_mark.column)
    end = (node.end_mark.line, node.end_mark.column)
    # An alias stands where its anchor was, so a parent need not enclose its child; no matter here:
    # the anchor's own place is visited too.
    return start <= (line, column) < end
