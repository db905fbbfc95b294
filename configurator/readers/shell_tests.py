"""Conditions: `[[ ... ]]`, `[ ... ]` and `test`, with a third answer for what nobody can know.

Source of the rules: Bash Reference Manual, Bash Conditional Expressions; POSIX.1-2024, test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from configurator.readers.shell_patterns import Pattern, is_extended, matches
from configurator.readers.shell_state import MAX_DEPTH, Value, is_known, text_of
from configurator.readers.shell_tokens import split_words
from configurator.readers.shell_words import Words, missing
from configurator.words import Word

_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuvwxzGLNORS")
_FILES = frozenset(("-nt", "-ot", "-ef"))
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__,
    "-gt": int.__gt__, "-ge": int.__ge__,
}  # fmt: skip
_TEXTS = frozenset(("=", "==", "!=", "=~", "<", ">"))
_MAX_MATCHED = 200


@dataclass(frozen=True, slots=True)
class _Item:
    """One word of a condition, read only when it is needed."""

    operator: str
    """Its text when it may be an operator."""
    value: Callable[[], Value]
    pattern: Callable[[], Pattern | None]
    number: Callable[[], int | None]
    written: str = ""
    """As it stands in the script."""


def double_brackets(words: Words, start: int, end: int) -> bool | None:
    """Whether `[[ ... ]]` holds, given where its inside stands; None when nobody can know."""
    items = [_written(words, *span) for span in _spans(words.shell.source.text, start, end)]
    return _Condition(words, items, "&&", "||").holds()


def single_brackets(
    words: Words, arguments: Sequence[Word], written: Sequence[str] = ()
) -> bool | None:
    """Whether `test` holds for these arguments; None when nobody can know.

    `written` is how each of them stands in the script, where that is known.
    """
    texts = written or [""] * len(arguments)
    items = [replace(_argument(w), written=text) for w, text in zip(arguments, texts, strict=True)]
    return _Condition(words, items, "-a", "-o").holds()


def _spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the words of `[[ ... ]]` stand, with parentheses apart."""
    found: list[tuple[int, int]] = []
    depth = 0
    pattern = False
    for first, last in split_words(text, start, end):
        while not pattern and text[first:last].startswith("(") and last - first > 1:
            found.append((first, first + 1))
            first, depth = first + 1, depth + 1
        depth += text[first:last] == "("
        closers = 0
        while depth and last - first > 1 and text[last - 1] == ")" and _unopened(text, first, last):
            last, depth, closers = last - 1, depth - 1, closers + 1
        found.append((first, last))
        found += [(last + n, last + n + 1) for n in range(closers)]
        pattern = text[first:last] in _TEXTS
    return found


def _unopened(text: str, first: int, last: int) -> bool:
    return text.count(")", first, last) > text.count("(", first, last)


def _written(words: Words, start: int, end: int) -> _Item:
    return _Item(
        words.shell.source.text[start:end],
        lambda: words.value(start, end),
        lambda: words.pattern(start, end),
        lambda: words.number_of(words.value(start, end), start),
        words.shell.source.text[start:end],
    )


def _argument(word: Word) -> _Item:
    text = word.text.strip()
    number = int(text) if re.fullmatch(r"[-+]?\d{1,18}", text, re.ASCII) else None
    return _Item(
        "" if word.unknown else word.text,
        lambda: (word,) if word.text else (),
        lambda: None if word.unknown else [(char, True) for char in word.text],
        lambda: None if word.unknown else number,
    )


class _Condition:
    """One pass over the words of a condition."""

    def __init__(self, words: Words, items: list[_Item], both: str, either: str) -> None:
        self.words = words
        self.items = items
        self.both = both
        self.either = either
        self.at = 0
        self.depth = 0

    def holds(self) -> bool | None:
        if not self.items:
            return False
        result = self._either()
        return result if self.at >= len(self.items) else None

    def _operator(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.items[at].operator if at < len(self.items) else ""

    def _next(self) -> _Item:
        self.words.shell.budget.step()
        self.at += 1
        return self.items[self.at - 1]

    def _either(self) -> bool | None:
        results = [self._both()]
        while self._operator() == self.either:
            self.at += 1
            results.append(self._both())
        return True if True in results else None if None in results else False

    def _both(self) -> bool | None:
        results = [self._negation()]
        while self._operator() == self.both:
            self.at += 1
            results.append(self._negation())
        return False if False in results else None if None in results else True

    def _negation(self) -> bool | None:
        negated = False
        while self._operator() == "!" and self.at + 1 < len(self.items) and not self._binary():
            self.at += 1
            negated = not negated
        result = self._primary()
        return result if result is None or not negated else not result

    def _binary(self) -> bool:
        operator = self._operator(1)
        known = operator in _TEXTS or operator in _NUMBERS or operator in _FILES
        return known and self.at + 2 < len(self.items)

    def _primary(self) -> bool | None:
        if self.at >= len(self.items) or self.depth > MAX_DEPTH:
            self.at = len(self.items) + 1
            return None
        if self._binary():
            left, operator, right = self._next(), self._next().operator, self._next()
            return self._compare(left, operator, right)
        if self._operator() == "(" and self.at + 1 < len(self.items):
            self.at += 1
            self.depth += 1
            result = self._either()
            self.depth -= 1
            self.at = self.at + 1 if self._operator() == ")" else len(self.items) + 1
            return result
        if self._operator() in _UNARY and self.at + 1 < len(self.items):
            return self._unary(self._next().operator, self._next())
        return _not_empty(self._next().value())

    def _unary(self, operator: str, item: _Item) -> bool | None:
        if operator in ("-n", "-z"):
            result = _not_empty(item.value())
            if result is False:
                self.words.run.missing = missing(self.words.shell, item.written)
            return result if result is None or operator == "-n" else not result
        if operator != "-v":
            return None
        name = text_of(item.value()).partition("[")[0]
        variable = self.words.shell.find(name)
        return variable is not None and not variable.removed

    def _compare(self, left: _Item, operator: str, right: _Item) -> bool | None:
        if operator in _NUMBERS:
            first, second = left.number(), right.number()
            if first is None or second is None:
                return None
            return _NUMBERS[operator](first, second)
        value = left.value()
        pattern = right.pattern()
        if operator in _FILES or not is_known(value) or pattern is None:
            return None
        text = text_of(value)
        if operator == "=~":
            self.words.shell.assign("BASH_REMATCH", None, None)
            return _found(pattern, text)
        if operator in ("<", ">"):
            other = "".join(char for char, _ in pattern)
            return text < other if operator == "<" else text > other
        if is_extended(pattern):
            return None
        return matches(pattern, text) == (operator != "!=")


def _not_empty(value: Value) -> bool | None:
    if any(word.text and not word.unknown for word in value):
        return True
    return None if value else False


def _found(pattern: Pattern, text: str) -> bool | None:
    """Whether a regular expression is found; only those that cannot take long are tried."""
    written = "".join("a" if quoted else char for char, quoted in pattern)
    slow = re.search(r"\)[*+{]", written) or len(re.findall(r"[*+{]", written)) > 3
    if slow or "(?" in written or len(text) > _MAX_MATCHED or len(written) > _MAX_MATCHED:
        return None
    expression = "".join(re.escape(char) if quoted else char for char, quoted in pattern)
    for name, members in (("digit", "0-9"), ("alpha", "a-zA-Z"), ("alnum", "a-zA-Z0-9"),
                          ("space", r"\s"), ("upper", "A-Z"), ("lower", "a-z")):  # fmt: skip
        expression = expression.replace(f"[:{name}:]", members)
    try:
        return re.search(expression, text) is not None
    except re.error:
        return None
