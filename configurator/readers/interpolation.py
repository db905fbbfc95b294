"""Variables in a docker compose file: `$NAME`, `${NAME:-default}` and their kin.

Compose replaces them in every value before anything else is done with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from configurator.readers.pieces import Budget, Builder
from configurator.words import Word

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":?[-?+]")
_BRACE = re.compile(r"\$\$|\$\{|\}")
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A value with its variables replaced."""

    word: Word
    unknown: Mapping[int, int]
    """Start and end of what stays as it is written, because no value is known."""
    invalid: int | None = None
    """Where a `$` begins nothing that compose takes."""


class _Interpolation:
    def __init__(self, word: Word, values: Mapping[str, str], budget: Budget | None) -> None:
        self.text, self.values = word.text, values
        self.builder = Builder(word, budget)
        self.closing = _closing(word.text)
        self.length = 0
        self.unknown: dict[int, int] = {}
        self.invalid: int | None = None

    def run(self, index: int, end: int, depth: int = 0) -> None:
        """Write out the text from `index` to `end`."""
        while index < end:
            dollar = self.text.find("$", index, end)
            stop = end if dollar < 0 else dollar
            if stop > index:
                self.builder.keep(index, stop)
                self.length += stop - index
            if dollar < 0:
                return
            index = self._variable(dollar, end, depth)

    def _variable(self, at: int, end: int, depth: int) -> int:
        following = self.text[at + 1 : at + 2]
        if following == "$":
            self._put("$", at)
            return at + 2
        match = _NAME.match(self.text, at + 1, end)
        if match:
            self._replace(match[0], at, match.end())
            return match.end()
        close = self.closing.get(at, -1)
        match = _NAME.match(self.text, at + 2, end)
        if close < 0 or not match or depth > _MAX_DEPTH:
            self.invalid = at if self.invalid is None else self.invalid
            self._put("$", at)
            return at + 1
        operator = _OPERATOR.match(self.text, match.end(), close)
        if operator is None and match.end() != close:
            self.invalid = at if self.invalid is None else self.invalid
        self._braced(match[0], operator, (at, close), depth)
        return close + 1

    def _braced(
        self, name: str, operator: re.Match[str] | None, place: tuple[int, int], depth: int
    ) -> None:
        at, close = place
        value = self.values.get(name)
        kind = operator[0] if operator else ""
        there = value is not None and (value != "" or not kind.startswith(":"))
        if kind.endswith("+"):
            if there and operator:
                self.run(operator.end(), close, depth + 1)
        elif kind.endswith("-") and operator and not there:
            self.run(operator.end(), close, depth + 1)
        elif kind.endswith("?") and not there:
            self._keep_unknown(at, close + 1)
        else:
            self._replace(name, at, close + 1)

    def _replace(self, name: str, at: int, end: int) -> None:
        if name in self.values:
            self._put(self.values[name], at)
        else:
            self._keep_unknown(at, end)

    def _keep_unknown(self, at: int, end: int) -> None:
        self.unknown[self.length] = self.length + end - at
        self.builder.put(self.text[at:end], at, unknown=True)
        self.length += end - at

    def _put(self, text: str, at: int) -> None:
        self.builder.put(text, at)
        self.length += len(text)


def _closing(text: str) -> dict[int, int]:
    """For every `${` the brace that closes it."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACE.finditer(text):
        if match[0] == "${":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            found[opened.pop()] = match.start()
    return found


def interpolate(
    word: Word, values: Mapping[str, str], budget: Budget | None = None
) -> Interpolated:
    """Replace the variables of a compose value; what has no value stays as it is written."""
    if "$" not in word.text:
        return Interpolated(word, {})
    work = _Interpolation(word, values, budget)
    work.run(0, len(word.text))
    done = work.builder.finish()
    return Interpolated(
        replace(done, unknown=done.unknown or word.unknown), work.unknown, work.invalid
    )
