"""Cutting words out of a text without losing the places of their characters.

Every format here splits, unquotes and replaces; all of them take pieces of a text in order, and a
`Builder` makes words of the pieces. Linear in the length of the text.
"""

from __future__ import annotations

from bisect import bisect_right

from configurator.errors import ConfiguratorError, Position
from configurator.words import Span, Word, joined


class Budget:
    """How much a file may grow when its aliases and variables are followed.

    Files of a few kilobytes can name each other's parts until they hold gigabytes.
    """

    def __init__(self, characters: int = 16 << 20) -> None:
        self.left = characters

    def spend(self, characters: int, position: Position) -> None:
        """Count what is made of the file.

        Raises:
            ConfiguratorError: LNT003, it is too much.
        """
        self.left -= characters
        if self.left < 0:
            raise ConfiguratorError.single(
                "LNT003",
                "aliases and variables make this file larger than can be read",
                "write the values out where they are used",
                position,
            )


class Places:
    """The place of any character of a word; fast when asked in rising order."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self._starts = [span.start for span in word.spans]
        self._known = (0, 0, word.spans[0].position)

    def at(self, offset: int) -> Position:
        """Where the character at `offset` stands."""
        index = max(bisect_right(self._starts, offset) - 1, 0)
        last_index, last, position = self._known
        if index != last_index or offset < last:
            last, position = self._starts[index], self.word.spans[index].position
        between = self.word.text[last:offset]
        lines = between.count("\n")
        column = len(between) - between.rindex("\n") if lines else position.column + len(between)
        place = Position(position.file, position.line + lines, column)
        self._known = (index, offset, place)
        return place

    def piece(self, start: int, end: int) -> Word:
        """The characters from `start` to `end`, never unknown by themselves."""
        first = Span(0, self.at(start))
        low = bisect_right(self._starts, start)
        high = bisect_right(self._starts, end - 1) if end > start else low
        rest = [Span(s.start - start, s.position) for s in self.word.spans[low:high]]
        return Word(self.word.text[start:end], (first, *rest))


class Builder:
    """One word after another out of pieces of a text, in order."""

    def __init__(self, word: Word, budget: Budget | None = None) -> None:
        self.places = Places(word)
        self._budget = budget
        self._parts: list[Word] = []
        self._run: tuple[int, int] | None = None
        self._begun: int | None = None
        self._unknown = False

    @property
    def empty(self) -> bool:
        """No word has begun; an empty quoted word has."""
        return self._begun is None

    def begin(self, offset: int) -> None:
        """A word begins at `offset`, even if nothing follows."""
        if self._begun is None:
            self._begun = offset

    def keep(self, start: int, end: int) -> None:
        """The characters from `start` to `end`, as they are."""
        self.begin(start)
        if self._run and self._run[1] == start:
            self._run = (self._run[0], end)
            return
        self._flush()
        self._run = (start, end)

    def put(self, text: str, offset: int, *, unknown: bool = False) -> None:
        """`text` in place of what stands at `offset`."""
        self.begin(offset)
        self._flush()
        self._unknown = self._unknown or unknown
        if self._budget:
            self._budget.spend(len(text), self.places.at(offset))
        if text:
            self._parts.append(Word.at(text, self.places.at(offset)))

    def finish(self) -> Word:
        """The word so far; the next one begins with nothing."""
        self._flush()
        begun = self._begun or 0
        whole = joined(self._parts) if self._parts else Word.at("", self.places.at(begun))
        word = Word(whole.text, whole.spans, self._unknown)
        self._parts, self._begun, self._unknown = [], None, False
        return word

    def _flush(self) -> None:
        if self._run:
            self._parts.append(self.places.piece(*self._run))
            self._run = None
