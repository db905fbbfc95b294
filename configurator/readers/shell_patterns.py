"""Patterns of the shell: `*`, `?` and `[...]` against texts.

A pattern is a list of characters, each with whether it is meant literally: quoting decides that.
Source of the rules: POSIX.1-2024, Shell Command Language, 2.14.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Pattern = list[tuple[str, bool]]
"""Characters, each with whether it was quoted."""

_EXTENDED = re.compile(r"[?*+@!]\(")
_CLASSES: dict[str, Callable[[str], bool]] = {
    "alpha": str.isalpha, "digit": str.isdigit, "alnum": str.isalnum, "space": str.isspace,
    "upper": str.isupper, "lower": str.islower, "punct": lambda c: c.isprintable()
    and not c.isalnum() and not c.isspace(),
}  # fmt: skip
_Matcher = Callable[[str], bool] | None
"""What one character must be; None for `*`."""


def is_extended(pattern: Pattern) -> bool:
    """It uses `@(a|b)` and the like, which are not read here."""
    return bool(_EXTENDED.search("".join("\0" if quoted else char for char, quoted in pattern)))


def matches(pattern: Pattern, text: str) -> bool:
    """Whether the whole text fits the pattern."""
    return _matches(_compiled(pattern), text)


def _matches(matchers: Sequence[_Matcher], text: str) -> bool:
    # One star is retried at a time: the steps stay below the product of both lengths.
    at = step = 0
    star = mark = -1
    while at < len(text):
        matcher = matchers[step] if step < len(matchers) else _never
        if matcher is None:
            star, mark, step = step, at, step + 1
        elif matcher(text[at]):
            at, step = at + 1, step + 1
        elif star >= 0:
            mark += 1
            at, step = mark, star + 1
        else:
            return False
    return all(matcher is None for matcher in matchers[step:])


def without_prefix(pattern: Pattern, text: str, *, longest: bool) -> int:
    """How many characters `${text#pattern}` removes; `##` with `longest`."""
    matchers = _compiled(pattern)
    lengths = range(len(text) + 1)
    ordered = reversed(lengths) if longest else lengths
    return next((n for n in ordered if _matches(matchers, text[:n])), 0)


def without_suffix(pattern: Pattern, text: str, *, longest: bool) -> int:
    """How many characters `${text%pattern}` leaves; `%%` with `longest`."""
    matchers = _compiled(pattern)
    starts = range(len(text) + 1)
    ordered = starts if longest else reversed(starts)
    return next((n for n in ordered if _matches(matchers, text[n:])), len(text))


def find(pattern: Pattern, text: str, start: int) -> tuple[int, int] | None:
    """The first and longest match at `start` or after it, of at least one character."""
    matchers = _compiled(pattern)
    for begin in range(start, len(text)):
        for end in range(len(text), begin, -1):
            if _matches(matchers, text[begin:end]):
                return begin, end
    return None


def _compiled(pattern: Pattern) -> list[_Matcher]:
    matchers: list[_Matcher] = []
    at = 0
    while at < len(pattern):
        char, quoted = pattern[at]
        at += 1
        if quoted or char not in "*?[\\":
            matchers.append(char.__eq__)
        elif char == "*":
            if not matchers or matchers[-1] is not None:
                matchers.append(None)
        elif char == "?":
            matchers.append(_always)
        elif char == "\\" and at < len(pattern):
            matchers.append(pattern[at][0].__eq__)
            at += 1
        else:
            close = _bracket_end(pattern, at) if char == "[" else -1
            matchers.append(_bracket(pattern[at:close]) if close > 0 else char.__eq__)
            at = close + 1 if close > 0 else at
    return matchers


def _bracket_end(pattern: Pattern, at: int) -> int:
    if at < len(pattern) and pattern[at][0] in "!^":
        at += 1
    start = at
    while at < len(pattern):
        if pattern[at : at + 2] == [("[", False), (":", False)]:
            close = _class_end(pattern, at + 2)
            if close > 0:
                at = close
                continue
        if pattern[at] == ("]", False) and at > start:
            return at
        at += 1
    return -1


def _class_end(pattern: Pattern, at: int) -> int:
    """The offset after `:]`; -1 when there is none near."""
    for offset in range(at, min(at + 10, len(pattern) - 1)):
        if pattern[offset][0] == ":" and pattern[offset + 1][0] == "]":
            return offset + 2
    return -1


def _bracket(members: Pattern) -> Callable[[str], bool]:
    negated = bool(members) and members[0] in (("!", False), ("^", False))
    chars = members[1:] if negated else members
    tests: list[Callable[[str], bool]] = []
    at = 0
    while at < len(chars):
        char = chars[at][0]
        if char == "[" and at + 1 < len(chars) and chars[at + 1][0] == ":":
            close = _class_end(chars, at + 2)
            name = "".join(c for c, _ in chars[at + 2 : close - 2])
            if close > 0 and name in _CLASSES:
                tests.append(_CLASSES[name])
                at = close
                continue
        if at + 2 < len(chars) and chars[at + 1] == ("-", False):
            tests.append(_between(char, chars[at + 2][0]))
            at += 3
        else:
            tests.append(char.__eq__)
            at += 1
    return lambda c: any(test(c) for test in tests) != negated


def _between(first: str, last: str) -> Callable[[str], bool]:
    return lambda char: first <= char <= last


def _always(_: str) -> bool:
    return True


def _never(_: str) -> bool:
    return False
