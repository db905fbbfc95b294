"""The text of one shell script: its syntax tree, and the place of every character."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from configurator.errors import Position
from configurator.readers.shell_masks import masked
from configurator.words import Span, Word

_LANGUAGE = Language(tree_sitter_bash.language())


class Source:
    """A script's text with its tree; offsets count characters.

    Nodes of the tree count bytes: `start` and `end` translate.
    """

    def __init__(self, script: Word) -> None:
        self.script = script
        self.text = script.text
        self._span_starts = [span.start for span in script.spans]
        self._newlines = [i for i, char in enumerate(self.text) if char == "\n"]
        seen, self.documents = masked(self.text)
        self.root: Node = _tree(seen)
        if self.root.has_error and seen != self.text:
            plain = _tree(self.text)
            if not plain.has_error:
                seen, self.root = self.text, plain
        self._characters = None if seen.isascii() else _character_index(seen)

    def start(self, node: Node) -> int:
        """The offset of a node's first character."""
        return self._offset(node.start_byte)

    def end(self, node: Node) -> int:
        """The offset after a node's last character."""
        return self._offset(node.end_byte)

    def written(self, node: Node) -> str:
        """A node's text, as it is written."""
        return self.text[self.start(node) : self.end(node)]

    def position(self, offset: int) -> Position:
        """What `Word.position_at` says, found without reading the text again."""
        span = self.script.spans[max(0, bisect_right(self._span_starts, offset) - 1)]
        first = bisect_left(self._newlines, span.start)
        last = bisect_left(self._newlines, offset)
        at = span.position
        if first >= last:
            return Position(at.file, at.line, at.column + offset - span.start)
        return Position(at.file, at.line + last - first, offset - self._newlines[last - 1])

    def word(self, start: int, end: int, *, unknown: bool = False) -> Word:
        """The characters from `start` to `end`, with their places."""
        first = bisect_right(self._span_starts, start)
        last = bisect_left(self._span_starts, end)
        inside = (
            Span(self._span_starts[i] - start, self.script.spans[i].position)
            for i in range(first, last)
        )
        return Word(self.text[start:end], (Span(0, self.position(start)), *inside), unknown)

    def errors(self) -> Iterator[Node]:
        """The outermost places that are no shell."""
        if not self.root.has_error:
            return
        pending = [self.root]
        while pending:
            node = pending.pop()
            if node.type == "ERROR" or node.is_missing:
                yield node
            elif node.has_error:
                pending.extend(reversed(node.children))

    def _offset(self, byte: int) -> int:
        return byte if self._characters is None else self._characters[byte]


def _tree(text: str) -> Node:
    return Parser(_LANGUAGE).parse(text.encode("utf-8", "surrogatepass")).root_node


def _character_index(text: str) -> array[int]:
    """For every byte of the encoded text, the character it belongs to."""
    index = array("l")
    for at, char in enumerate(text):
        code = ord(char)
        width = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        index.extend([at] * width)
    index.append(len(text))
    return index
