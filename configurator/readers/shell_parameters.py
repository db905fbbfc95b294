"""What `${...}` finds, and what its operators make of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from configurator.errors import Position
from configurator.readers.shell_patterns import (
    Pattern,
    find,
    is_extended,
    matches,
    without_prefix,
    without_suffix,
)
from configurator.readers.shell_state import Shell, Value, Variable, is_known, text_of
from configurator.readers.shell_tokens import Parameter
from configurator.words import Span, Word, joined

_MAX_PATTERN_WORK = 2_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a parameter."""

    values: list[Value] | None
    """One for a plain parameter, each of an array's; None when it is unknown."""
    is_set: bool
    many: str = ""
    """`@` or `*` when all elements are asked for."""
    keys: tuple[int, ...] = ()
    """Of an array's elements, where numbers count them."""


class Expands(Protocol):
    """What operators need to read their operands."""

    shell: Shell

    def value(self, start: int, end: int) -> Value:
        """The text between two offsets as one value."""

    def pattern(self, start: int, end: int) -> Pattern | None:
        """The text between two offsets as a pattern."""

    def number(self, start: int, end: int) -> int | None:
        """The arithmetic between two offsets."""


def place(word: Word, here: Position) -> Word:
    """The word; at `here` when it was written nowhere."""
    return word if word.spans else Word.at(word.text, here, unknown=word.unknown)


def computed(text: str) -> Value:
    """A value that is written nowhere."""
    return (Word(text, ()),)


def find_parameter(words: Expands, asked: Parameter) -> Found:
    """What a parameter stands for, before its operator."""
    if not asked.indirect:
        return _find(words, asked.name, asked.index)
    if asked.index is not None and _all_elements(words, asked.index):
        variable = words.shell.find(asked.name)
        if variable is None or variable.value is None:
            return Found(None, variable is not None)
        keys = variable.numbers() or (variable.array if variable.array is not None else {0: ()})
        return Found([computed(str(key)) for key in keys], bool(keys), "@")
    named = _find(words, asked.name, asked.index)
    if not named.values or not is_known(named.values[0]):
        return Found(None, True)
    name = text_of(named.values[0])
    return _find(words, name, None) if re.fullmatch(r"\w+", name) else Found(None, True)


def _find(words: Expands, name: str, index: tuple[int, int] | None) -> Found:
    shell = words.shell
    if name in ("@", "*"):
        values = shell.arguments
        return Found(values, bool(values), name)
    if name == "#":
        return Found(_count(shell.arguments), True)
    if name.isdigit():
        return _argument(shell.arguments, int(name[:6]))
    variable = shell.find(name)
    if variable is None:
        return Found(None, name in ("?", "$", "!", "-", "_"))
    every = _all_elements(words, index) if index else ""
    if every:
        return _all(variable, every)
    if variable.value is None:
        return Found(None, True)
    if index is None:
        if variable.array is not None:
            return _one(variable.element("0" if variable.keyed else 0))
        return Found([variable.value or ()], not variable.removed)
    return _element(words, variable, index)


def _count(arguments: Sequence[Value] | None) -> list[Value] | None:
    return None if arguments is None else [computed(str(len(arguments)))]


def _argument(arguments: Sequence[Value] | None, number: int) -> Found:
    if number == 0:
        return Found(None, True)
    if arguments is None:
        return Found(None, False)
    return _one(arguments[number - 1] if number <= len(arguments) else None)


def _one(value: Value | None) -> Found:
    return Found([value or ()], value is not None)


def _all(variable: Variable, every: str) -> Found:
    if variable.value is None:
        return Found(None, True, every)
    values = [] if variable.removed else variable.elements()
    return Found(values, bool(values), every, variable.numbers())


def _all_elements(words: Expands, index: tuple[int, int]) -> str:
    text = words.shell.source.text[slice(*index)]
    return text if text in ("@", "*") else ""


def _element(words: Expands, variable: Variable, index: tuple[int, int]) -> Found:
    if variable.keyed:
        key = words.value(*index)
        return _one(variable.element(text_of(key))) if is_known(key) else Found(None, True)
    number = words.number(*index)
    if number is None:
        return Found(None, True)
    return _one(variable.element(number))


def emptiness(found: Found) -> bool | None:
    """Whether a parameter that is set is empty; None when that cannot be told."""
    if found.values is None:
        return None
    if len(found.values) > 1 or any(w.text and not w.unknown for v in found.values for w in v):
        return False
    return None if any(v for v in found.values if not is_known(v)) else True


def length_of(found: Found) -> Found:
    """`${#V}`."""
    if found.values is None:
        return Found(None, True)
    if found.many:
        return Found([computed(str(len(found.values)))], True)
    value = found.values[0]
    return Found([computed(str(len(text_of(value))))] if is_known(value) else None, True)


def transformed(words: Expands, asked: Parameter, found: Found) -> Found:
    """What `${V%p}`, `${V/a/b}`, `${V,,}`, `${V:1:2}` make of a value."""
    values = found.values
    if values is None:
        return found
    if asked.operator == ":" and found.many:
        return _slice(words, asked, found)
    change = _change(words, asked)
    if change is None or not all(is_known(value) for value in values):
        return Found(None, True, found.many)
    results: list[Value] = []
    for value in values:
        empty = not value and asked.operator != "@Q"
        changed = () if empty else change(joined(value))
        if changed is None:
            return Found(None, True, found.many)
        results.append((changed,) if isinstance(changed, Word) else changed)
    return Found(results, found.is_set, found.many)


_Change = Callable[[Word], Word | None]


def _change(words: Expands, asked: Parameter) -> _Change | None:
    operator = asked.operator
    if operator == ":":
        return _substring(words, asked)
    if operator in ("^^", ",,", "^", ","):
        return _case_change(words, asked)
    if operator == "@Q":
        return _quoted
    if operator in ("@U", "@L"):
        return lambda word: _cased(word, "^^" if operator == "@U" else ",,")
    if operator.startswith("/"):
        return _replacement(words, asked)
    if operator[0] not in "%#":
        return None
    pattern = words.pattern(*asked.operand)
    if pattern is None or is_extended(pattern):
        return None
    longest = len(operator) == 2
    if operator[0] == "%":
        return lambda word: _cut(
            word, pattern, 0, lambda: without_suffix(pattern, word.text, longest=longest)
        )
    return lambda word: _cut(
        word, pattern, 1, lambda: without_prefix(pattern, word.text, longest=longest)
    )


def _cut(word: Word, pattern: Pattern, end: int, cut: Callable[[], int]) -> Word | None:
    """The word up to (`end` 0) or from (1) the place that `cut` finds."""
    if len(word.text) ** 2 * max(1, len(pattern)) > _MAX_PATTERN_WORK * 10:
        return None
    at = cut()
    if not word.spans:
        return Word(word.text[at:] if end else word.text[:at], ())
    return word.part(at) if end else word.part(0, at)


def _quoted(word: Word) -> Word | None:
    """As the shell reads it back; None when it holds what `$'...'` is needed for."""
    if not word.text.isprintable():
        return None
    text = "'" + word.text.replace("'", "'\\''") + "'"
    if "'" in word.text or not word.spans:
        return Word(text, word.spans[:1])
    spans = tuple(replace(span, start=span.start + 1) for span in word.spans)
    return Word(text, (Span(0, word.position), *spans))


def _case_change(words: Expands, asked: Parameter) -> _Change | None:
    """`${V^}` and its kin; with a pattern they change only the characters that fit it."""
    pattern = words.pattern(*asked.operand)
    if pattern is None or is_extended(pattern):
        return None
    if not pattern:
        return lambda word: _cased(word, asked.operator)
    change = str.upper if asked.operator[0] == "^" else str.lower
    first = len(asked.operator) == 1

    def changed(word: Word) -> Word:
        text = "".join(
            change(char) if (at == 0 or not first) and matches(pattern, char) else char
            for at, char in enumerate(word.text)
        )
        return Word(text, word.spans if len(text) == len(word.text) else word.spans[:1])

    return changed


def _cased(word: Word, operator: str) -> Word:
    change = str.upper if operator[0] == "^" else str.lower
    text = word.text
    changed = change(text) if len(operator) == 2 else change(text[:1]) + text[1:]
    return Word(changed, word.spans if len(changed) == len(text) else word.spans[:1])


def _replacement(words: Expands, asked: Parameter) -> _Change | None:
    text = words.shell.source.text
    start, end = asked.operand
    slash = _slash(text, start, end)
    pattern = words.pattern(start, slash)
    value = words.value(min(slash + 1, end), end)
    anchored = asked.operator in ("/#", "/%")
    if pattern is None or is_extended(pattern) or not is_known(value):
        return None
    if not pattern and not anchored:
        return lambda word: word
    replacement = text_of(value)
    return lambda word: _replaced(word, pattern, replacement, asked.operator)


def _slash(text: str, start: int, end: int) -> int:
    """Where the replacement's slash stands; the end when there is none."""
    at = start
    quote = ""
    while at < end:
        char = text[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "/":
            return at
        at += 1
    return end


def _replaced(word: Word, pattern: Pattern, replacement: str, operator: str) -> Word | None:
    text = word.text
    if len(text) ** 2 * len(pattern) > _MAX_PATTERN_WORK:
        return None
    result, at = "", 0
    if operator == "/#":
        cut = without_prefix(pattern, text, longest=True)
        result, at = (replacement, cut) if cut or not pattern else ("", 0)
    elif operator == "/%":
        cut = without_suffix(pattern, text, longest=True)
        fits = cut < len(text) or not pattern
        return Word(text[:cut] + replacement if fits else text, word.spans[:1])
    else:
        while place_found := find(pattern, text, at):
            result += text[at : place_found[0]] + replacement
            at = place_found[1]
            if operator == "/":
                break
    return Word(result + text[at:], word.spans if not result else word.spans[:1])


def _substring(words: Expands, asked: Parameter) -> _Change | None:
    bounds = _bounds(words, asked)
    if bounds is None:
        return None
    start, length = bounds

    def cut(word: Word) -> Word:
        first, last = _range(len(word.text), start, length)
        text = word.text[first:last]
        return word.part(first, first + len(text)) if word.spans else Word(text, ())

    return cut


def _slice(words: Expands, asked: Parameter, found: Found) -> Found:
    bounds = _bounds(words, asked)
    if bounds is None or found.values is None:
        return Found(None, True, found.many)
    start, length = bounds
    if asked.name in ("@", "*"):
        if start == 0 or start == -1 - len(found.values):  # `$0` is among them
            return Found(None, True, found.many)
        start -= start > 0
    if found.keys:
        return _elements_from(found, start, length)
    first, last = _range(len(found.values), start, length)
    values = found.values[first:last]
    return Found(values, bool(values), found.many)


def _elements_from(found: Found, start: int, length: int | None) -> Found:
    """So many elements whose numbers are `start` or more: numbers may be missing."""
    first = start if start >= 0 else found.keys[-1] + 1 + start
    if first < 0 or (length is not None and length < 0):
        return Found([], False, found.many)
    pairs = zip(found.keys, found.values or (), strict=False)
    values = [value for key, value in pairs if key >= first][:length]
    return Found(values, bool(values), found.many)


def _range(size: int, start: int, length: int | None) -> tuple[int, int]:
    first = start if start >= 0 else size + start
    if first < 0 or first > size:
        return 0, 0
    if length is None:
        return first, size
    return first, max(first, first + length if length >= 0 else size + length)


def _bounds(words: Expands, asked: Parameter) -> tuple[int, int | None] | None:
    """Start and length of `${V:start:length}`; None when they are unknown."""
    start, end = asked.operand
    colon = words.shell.source.text.find(":", start, end)
    first = words.number(start, colon if colon >= 0 else end)
    length = words.number(colon + 1, end) if colon >= 0 else None
    if first is None or (colon >= 0 and length is None):
        return None
    return first, length
