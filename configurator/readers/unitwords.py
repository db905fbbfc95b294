"""Words of a systemd setting: quotes and C escapes are undone, specifiers are not known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from configurator.errors import Position
from configurator.readers.pieces import Builder
from configurator.words import Word

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|([abfnrtvs\\\"'; ]))"
)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}
_SPECIFIER = re.compile(r"%(.)", re.DOTALL)
_BLANKS = " \t\r\n"
_ENDS = ("", *_BLANKS)


@dataclass(frozen=True, slots=True)
class Unquoted:
    """The words of a line."""

    words: tuple[Word, ...]
    wrong: tuple[str, Position] | None = None
    """Why systemd ignores the line, and where."""
    dividers: frozenset[int] = frozenset()
    """Which of the words are a bare `;`."""


class _Line:
    def __init__(self, line: Word) -> None:
        self.text = line.text
        self.builder = Builder(line)
        self.words: list[Word] = []
        self.quote, self.opened = "", 0
        self.wrong: tuple[str, Position] | None = None
        self.dividers: set[int] = set()

    def run(self) -> Unquoted:
        index = 0
        while index < len(self.text):
            index = self._step(self.text[index], index)
        self._end()
        if self.quote:
            self._complain("a quote that nothing closes", self.opened)
        return Unquoted(tuple(self.words), self.wrong, frozenset(self.dividers))

    def _step(self, char: str, index: int) -> int:
        if char == "\\":
            return self._escape(index)
        if char == self.quote:
            self.quote = ""
        elif self.quote:
            self.builder.keep(index, index + 1)
        elif char in _BLANKS:
            self._end()
        elif char in "'\"":
            self.quote, self.opened = char, index
            self.builder.begin(index)
        else:
            if char == ";" and self.builder.empty and self.text[index + 1 : index + 2] in _ENDS:
                self.dividers.add(len(self.words))
            self.builder.keep(index, index + 1)
        return index + 1

    def _escape(self, index: int) -> int:
        match = _ESCAPE.match(self.text, index)
        code = match and (match[1] or match[2] or match[3])
        if match is None or (code and int(code, 16) > 0x10FFFF):
            shown = self.text[index : index + 2]
            self._complain(f"the escape {shown} is unknown to systemd", index)
            self.builder.keep(index, index + 1)
            return index + 1
        if code:
            text = chr(int(code, 16))
        elif match[4]:
            text = chr(int(match[4], 8))
        else:
            text = _NAMED.get(match[5], match[5])
        self.builder.put(text, index)
        return match.end()

    def _end(self) -> None:
        if not self.builder.empty:
            self.words.append(self.builder.finish())

    def _complain(self, message: str, index: int) -> None:
        self.wrong = self.wrong or (message, self.builder.places.at(index))


def unquoted(line: Word) -> Unquoted:
    """Split a setting into words as systemd does."""
    return _Line(line).run()


def specifiers(word: Word) -> Word:
    """`%%` is a percent sign; a word with `%i` and the like is unknown and stays as written."""
    if "%" not in word.text:
        return word
    builder, at, unknown = Builder(word), 0, False
    for match in _SPECIFIER.finditer(word.text):
        if match.start() > at:
            builder.keep(at, match.start())
        letter = match[1]
        if letter == "%":
            builder.put("%", match.start())
        else:
            builder.keep(match.start(), match.end())
            unknown = unknown or letter.isalpha()
        at = match.end()
    if at < len(word.text):
        builder.keep(at, len(word.text))
    return replace(builder.finish(), unknown=unknown)
