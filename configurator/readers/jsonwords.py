"""JSON whose strings are words: values of a text, one after another, with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from configurator.errors import ConfiguratorError, Position
from configurator.readers.pieces import Places
from configurator.words import Span, Word

_MAX_DEPTH = 50
_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_PIECE = re.compile(r"(?:\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.)|[^\\]+", re.DOTALL)
_OTHER = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class Items(list[Any]):
    """A list that knows where it stands."""

    position: Position


class Fields(dict[str, Any]):
    """An object that knows where it and its keys stand."""

    position: Position
    keys_at: dict[str, Position]


@dataclass(frozen=True, slots=True)
class Other:
    """A number, `true`, `false` or `null`."""

    text: str
    value: Any
    position: Position


class _BrokenError(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message, self.at = message, at


class JsonWords:
    """Reads JSON from a word: `Word`, `Items`, `Fields` and `Other`, each with its place."""

    def __init__(self, source: Word) -> None:
        self.text, self.places = source.text, Places(source)

    def values(self) -> Iterator[tuple[Any, Position]]:
        """Every value with its place: one document, or one after another.

        Raises:
            ConfiguratorError: LNT003, not JSON.
        """
        index = self._blank(0)
        while index < len(self.text):
            start = index
            try:
                value, index = self._value(index, 0)
            except _BrokenError as error:
                raise ConfiguratorError.single(
                    "LNT003",
                    f"JSON: {error.message}",
                    'write {"argv": ["--model-path", "..."], "env": {}}',
                    self.places.at(min(error.at, len(self.text))),
                ) from None
            yield value, self.places.at(start)
            index = self._blank(index)

    def _blank(self, index: int) -> int:
        match = _BLANKS.match(self.text, index)
        return match.end() if match else index

    def _value(self, index: int, depth: int) -> tuple[Any, int]:
        if depth > _MAX_DEPTH:
            raise _BrokenError("nested too deeply", index)
        char = self.text[index : index + 1]
        if char == '"':
            return self._string(index)
        if char == "[":
            return self._list(index, depth)
        if char == "{":
            return self._object(index, depth)
        match = _OTHER.match(self.text, index)
        if match is None:
            raise _BrokenError("a value is missing here", index)
        try:
            value = json.loads(match[0])
            return Other(match[0], value, self.places.at(index)), match.end()
        except ValueError:
            raise _BrokenError(f"{match[0][:20]} is no number", index) from None

    def _string(self, index: int) -> tuple[Word, int]:
        match = _STRING.match(self.text, index)
        if match is None:
            raise _BrokenError("a string that is not closed or holds a line break", index)
        text, spans = "", []
        for piece in _PIECE.finditer(self.text, match.start(1), match.end(1)):
            spans.append(Span(len(text), self.places.at(piece.start())))
            text += json.loads(f'"{piece[0]}"') if piece[0].startswith("\\") else piece[0]
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise _BrokenError("half of a surrogate pair in a string", index)
        spans = spans or [Span(0, self.places.at(match.start(1)))]
        return Word(text, tuple(spans)), match.end()

    def _list(self, index: int, depth: int) -> tuple[Items, int]:
        items = Items()
        items.position = self.places.at(index)
        index = self._blank(index + 1)
        while self.text[index : index + 1] != "]":
            if items:
                index = self._expect(",", index)
            value, index = self._value(index, depth + 1)
            items.append(value)
            index = self._blank(index)
        return items, index + 1

    def _object(self, index: int, depth: int) -> tuple[Fields, int]:
        items = Fields()
        items.position, items.keys_at = self.places.at(index), {}
        first = True
        index = self._blank(index + 1)
        while self.text[index : index + 1] != "}":
            if not first:
                index = self._expect(",", index)
            first = False
            if self.text[index : index + 1] != '"':
                raise _BrokenError("a key in double quotes is missing here", index)
            start = index
            key, index = self._string(index)
            if key.text in items:
                raise _BrokenError(f"{key.text[:40]!r} is given a second time", start)
            items.keys_at[key.text] = key.position
            index = self._expect(":", self._blank(index))
            items[key.text], index = self._value(index, depth + 1)
            index = self._blank(index)
        return items, index + 1

    def _expect(self, sign: str, index: int) -> int:
        if self.text[index : index + 1] != sign:
            raise _BrokenError(f"`{sign}` is missing here", index)
        return self._blank(index + 1)
