"""Words of a line that no shell evaluates: how docker compose splits a command given as a string.

Quotes and backslashes work as in a shell. `;`, `&`, `|`, `<` and `>` outside quotes end the line:
compose drops everything from there on (compose-go splits with github.com/mattn/go-shellwords).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from configurator.errors import Position
from configurator.readers.pieces import Builder
from configurator.words import Word

_ESCAPES = {"n": "\n", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Split:
    """The words, and what is wrong with the line."""

    words: tuple[Word, ...]
    dropped: Word | None = None
    """From the first unquoted operator on."""
    stray: tuple[Position, ...] = ()
    """Backslashes before a line break or blank, which make that a word of its own."""
    unclosed: Position | None = None
    """A quote that nothing ends: compose refuses the line."""


class _Splitter:
    def __init__(self, line: Word, unknown: Mapping[int, int]) -> None:
        self.line, self.text, self.unknown = line, line.text, unknown
        self.builder = Builder(line)
        self.words: list[Word] = []
        self.stray: list[Position] = []
        self.quote, self.opened = "", 0

    def run(self) -> Split:
        index = 0
        while index < len(self.text):
            char = self.text[index]
            if index in self.unknown:
                end = self.unknown[index]
                self.builder.put(self.text[index:end], index, unknown=True)
                index = end
            elif char == "\\" and self.quote != "'":
                index = self._escape(index)
            elif not self.quote and char in ";&|<>":
                return self._cut(index)
            else:
                self._plain(char, index)
                index += 1
        self._end()
        unclosed = self.builder.places.at(self.opened) if self.quote else None
        return Split(tuple(self.words), None, tuple(self.stray), unclosed)

    def _escape(self, index: int) -> int:
        following = self.text[index + 1 : index + 2]
        if following and following in " \n\r\t" and not self.quote and self.builder.empty:
            self.stray.append(self.builder.places.at(index))
        self.builder.put(_ESCAPES.get(following, following), index)
        return index + 2

    def _plain(self, char: str, index: int) -> None:
        if self.quote and char == self.quote:
            self.quote = ""
        elif self.quote:
            self.builder.keep(index, index + 1)
        elif char in " \t\r\n":
            self._end()
        elif char in "'\"":
            self.quote, self.opened = char, index
            self.builder.begin(index)
        else:
            self.builder.keep(index, index + 1)

    def _end(self) -> None:
        if not self.builder.empty:
            self.words.append(self.builder.finish())

    def _cut(self, index: int) -> Split:
        touching = not self.builder.empty
        self._end()
        if touching and self.text[index] == ">" and self.words[-1].text.isdigit():
            self.words.pop()  # the 2 of `2>&1`
        return Split(tuple(self.words), self.line.part(index), tuple(self.stray))


def split_words(line: Word, unknown: Mapping[int, int] | None = None) -> Split:
    """Split a line into words without evaluating it.

    `unknown` gives start and end of what is known only at run time; blanks in it split nothing.
    Without it, all words of an unknown line are unknown.
    """
    split = _Splitter(line, unknown or {}).run()
    if line.unknown and unknown is None:
        words = tuple(replace(word, unknown=True) for word in split.words)
        return replace(split, words=words)
    return split
