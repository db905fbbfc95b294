"""Unusable input: one exception, carrying every problem with its position.

`ConfiguratorError` is the only exception that commands turn into exit code 2. It holds a
list, because a person who mistyped three keys wants to hear of all three.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why an input cannot be used: the fact, and what to do about it."""

    code: str
    message: str
    remedy: str = ""
    position: Position | None = None

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.code} {self.message}{remedy}"


class ConfiguratorError(Exception):
    """Input that cannot be used (exit code 2)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def single(
        cls, code: str, message: str, remedy: str = "", position: Position | None = None
    ) -> ConfiguratorError:
        """An error with exactly one problem."""
        return cls([Problem(code, message, remedy, position)])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A remedy naming the nearest known names, or all of them when none is near."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(word) for word in near) + "?"
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"known: {shown}" if names else "none is known here"
