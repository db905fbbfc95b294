"""How statements end, and the ways out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """How a statement ends."""

    value: bool | None = True
    """Whether it succeeds; None when nobody can know."""
    assumed: bool = False
    """It is taken to succeed, as commands of a script mostly do."""
    written: str = ""
    """What is asked when the answer is not known."""
    key: str = ""
    """What is asked, with its values: two answers may differ when this differs."""
    test: bool = False
    """It is a condition, not a command."""
    negated: bool = False
    """The answer is the opposite of that to `key`."""


class ExitShell(Exception):  # noqa: N818 - the way out, not an error
    """The shell ends here."""

    def __init__(self, status: Status) -> None:
        super().__init__("exit")
        self.status = status


class ReturnFunction(ExitShell):
    """The function ends here."""


class LeaveLoop(Exception):  # noqa: N818 - the way out, not an error
    """`break` or `continue`, of so many loops."""

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__("break")
        self.levels = levels
        self.again = again


def touching(spans: Sequence[tuple[int, int]], text: str = "") -> list[tuple[int, int]]:
    """Parts of one word, which the tree sometimes has apart, as one.

    In `text`, where they stand, a line may be continued in the middle of a word.
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        between = text[merged[-1][1] : start] if merged else " "
        if merged and (merged[-1][1] >= start or between == "\\\n"):
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def shortened(text: str) -> str:
    """A text on one line, at most as long as is read at a glance."""
    line = " ".join(text[:400].split())
    return line if len(line) <= 100 else line[:97] + "..."
