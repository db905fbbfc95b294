"""How statements end, and the ways out of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from configurator.collector.redaction import REDACTED, is_secret, redact_text

_PARAMETER = r"\$\{?(?P<name>[A-Za-z_]\w*)"
_LITERAL = r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'()\]]+)"
_OPERATOR = r"\s*(?:[=!]=|=~?|<|>|-eq|-ne)\s*"
_COMPARED = re.compile(
    rf"(?P<before>{_PARAMETER}[^\s\"']*[\"']?{_OPERATOR}){_LITERAL}(?P<after>)", re.ASCII
)
_COMPARED_WITH = re.compile(
    rf"(?P<before>){_LITERAL}(?P<after>{_OPERATOR}[\"']?\w*{_PARAMETER})", re.ASCII
)


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
    """A text on one line, at most as long as is read at a glance, and without secrets."""
    line = " ".join(without_secrets(text[:400]).split())
    return line if len(line) <= 100 else line[:97] + "..."


def without_secrets(text: str) -> str:
    """Without keys and tokens, and without what a variable that holds one is compared with."""
    text = _COMPARED.sub(_hidden, _COMPARED_WITH.sub(_hidden, text))
    return redact_text(text.replace("==", "\0")).replace("\0", "==")  # `==` sets no value


def _hidden(match: re.Match[str]) -> str:
    value = match["value"].strip("\"'")
    shown = not is_secret(match["name"], value) or value.startswith("$")
    return match[0] if shown else f"{match['before']}{REDACTED}{match['after']}"
