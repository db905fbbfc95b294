"""A script's text as its syntax tree is made from: the same length, with quieter words.

The tree is asked for statements only; words are read from the text itself. So whatever stands in
quotes, in `$(...)` and its kin, after a backslash, or is valid shell that the grammar does not
know, is replaced by plain letters of the same number, and every offset stays what it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from configurator.readers.shell_quotes import (
    DocumentStart,
    closing,
    document_end,
    document_start,
    single_quote_end,
)
from configurator.readers.shell_tokens import words_from

_PLAIN = re.compile(r"[^\\'\"`$<>({};#\nc\[]+")
_DELIMITER = re.compile(r"\w*", re.ASCII)
_DESCRIPTOR = re.compile(r"(?:^|[\s;&|])(\d+)$")
_COPROCESS = re.compile(r"coproc[ \t]+(?:[A-Za-z_]\w*[ \t]+(?=[{(]))?", re.ASCII)
_BEFORE_COMMAND = re.compile(
    r"(?:^|[\n;&|({]|(?:^|\s)!|\b(?:then|do|else|elif|if|while|until))[ \t]*$"
)
_MAX_CONDITION = 4000
"""Characters of `[ ... ]`; a longer one is left to the grammar."""
_MAX_SCANNED = 2_000_000
"""Characters read twice; brackets in brackets are read once for each of them."""
_CLOSERS = {"$(": ")", "${": "}", "$[": "]", "<(": ")", ">(": ")"}


@dataclass(frozen=True, slots=True)
class Document:
    """A here-document: where its `<<` stands, and the lines that it consists of."""

    offset: int
    start: int
    end: int


def masked(text: str) -> tuple[str, list[Document]]:
    """The text for the tree; the text itself where a quote or bracket is never closed.

    Also the here-documents of its statements, which the tree does not see.
    """
    mask = _Mask(text)
    return mask.whole() or text, mask.documents


class _Mask:
    """One pass over a script."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.parts: list[str] = []
        self.pending: list[tuple[int, DocumentStart]] = []
        self.documents: list[Document] = []
        self.scanned = 0
        self.groups: list[bool] = []
        """Open `{`, each with whether `!` stands before it."""

    def whole(self) -> str:
        """The masked text; empty when something in it is never closed."""
        while self.at < len(self.text):
            if not self._next():
                return ""
        return "".join(self.parts)

    def _keep(self, end: int) -> bool:
        self.parts.append(self.text[self.at : end])
        self.at = end
        return True

    def _hide(self, end: int) -> bool:
        """Put letters there; where `=` follows, others, for it is no assignment."""
        if end <= self.at:
            return False
        follows = self.text[end : end + 2]
        letter = "%" if follows[:1] == "=" or follows == "+=" else "x"
        self.parts.append(letter * (end - self.at))
        self.at = end
        return True

    def _put(self, written: str) -> bool:
        self.parts.append(written)
        self.at += len(written)
        return True

    def _next(self) -> bool:
        text, at = self.text, self.at
        char, pair = text[at], text[at : at + 2]
        plain = _PLAIN.match(text, at)
        if plain:
            return self._keep(plain.end())
        if char == "\\":
            return self._escaped(pair)
        if char == "'":
            return self._quoted(text.find("'", at + 1) + 1, at + 1)
        if pair == "$'":
            return self._quoted(single_quote_end(text, at + 1, len(text)), at + 2)
        if char == '"':
            return self._quoted(closing(text, at + 1, len(text), '"'), at + 1)
        if char == "\n":
            self._keep(at + 1)
            return self._bodies()
        if char == "#" and self._at_word_start():
            newline = text.find("\n", at)
            return self._keep(newline if newline >= 0 else len(text))
        if char == "c" and _BEFORE_COMMAND.search(text, max(0, at - 40), at):
            coprocess = _COPROCESS.match(text, at)
            return self._put(" " * len(coprocess[0])) if coprocess else self._keep(at + 1)
        return self._operator(char, pair)

    def _escaped(self, pair: str) -> bool:
        if pair in ("\\\n", "\\(", "\\)", "\\!"):
            return self._keep(self.at + 2)
        return self._hide(min(self.at + 2, len(self.text)))

    def _operator(self, char: str, pair: str) -> bool:
        text, at = self.text, self.at
        if char == "`":
            return self._hide(closing(text, at + 1, len(text), "`"))
        if char == "[" and self._condition():
            return True
        if char in "{}":
            return self._group(char)
        if char == "$" and pair[1:] in ("", *" \t\n;&|)"):
            return self._put("x")
        if pair in ("$#", "$$", '$"'):
            return self._keep(at + 1 + (pair != '$"'))
        if pair in ("<(", ">(") and not self._at_word_start():
            return self._keep(at + 1)
        if pair in _CLOSERS:
            return self._hide(closing(text, at + 2, len(text), _CLOSERS[pair]))
        if pair == "<<":
            return self._redirection()
        if pair == "<>":
            return self._put("> ")
        if pair == ";&":
            return self._put(";;")
        if text.startswith(";;&", at):
            return self._put(";; ")
        if pair == "((" and self._at_word_start():
            return self._arithmetic()
        return self._keep(at + 1)

    def _group(self, char: str) -> bool:
        """The grammar knows `! ( ... )` only: write `! { ...; }` so."""
        before = self.text[max(0, self.at - 40) : self.at]
        if char == "}" and self.groups and re.search(r"[\n;&})]\s*$", before):
            return self._put(")" if self.groups.pop() else "}")
        if char == "{" and _BEFORE_COMMAND.search(before):
            negated = bool(re.search(r"!\s+$", before))
            self.groups.append(negated)
            return self._put("(" if negated else "{")
        return self._keep(self.at + 1)

    def _condition(self) -> bool:
        """Hide what stands in `[ ... ]` or `[[ ... ]]`."""
        text, at = self.text, self.at
        double = text.startswith("[[", at)
        start = at + 1 + double
        if text[start : start + 1] not in (" ", "\t", "\n"):
            return False
        if not _BEFORE_COMMAND.search(text, max(0, at - 40), at):
            return False
        if self.scanned > _MAX_SCANNED:
            return False
        closer = "]" * (1 + double)
        for first, last in words_from(text, start + 1, min(len(text), at + _MAX_CONDITION)):
            after = text[first + len(closer) : first + len(closer) + 1]
            if text.startswith(closer, first) and after in ("", *" \t\n;&|)"):
                self._keep(start + 1)
                self.parts.append("x" * (first - 1 - self.at))
                self.at = max(self.at, first - 1)
                return self._keep(first + len(closer))
            if not double and "\n" in text[last : last + 1]:
                return False
        self.scanned += _MAX_CONDITION
        return False

    def _at_word_start(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in " \t\n;&|()"

    def _quoted(self, end: int, start: int) -> bool:
        """Hide what is in quotes, unless it may be the delimiter of a here-document."""
        if end <= 0:
            return False
        self._keep(start)
        if _DELIMITER.fullmatch(self.text, start, end - 1):
            return self._keep(end)
        self.parts.append("x" * (end - 1 - start))
        self.at = end - 1
        return self._keep(end)

    def _redirection(self) -> bool:
        if self.text.startswith("<<<", self.at):
            return self._keep(self.at + 3)
        found = document_start(self.text, self.at)
        if not found:
            return self._keep(self.at + 2)
        self.pending.append((self.at, found))
        before = _DESCRIPTOR.search(self.parts[-1]) if self.parts else None
        if before:
            self.parts[-1] = self.parts[-1][: before.start(1)] + " " * len(before[1])
        return self._put(" " * (found.end - self.at))

    def _bodies(self) -> bool:
        """Put empty lines where here-documents stand."""
        for offset, found in self.pending:
            whole = len(self.text)
            lines = document_end(self.text, self.at, whole, found.delimiter, found.indented)
            start, (end, after) = self.at, lines or (whole, whole)
            self.documents.append(Document(offset, start, end))
            self._put(re.sub(r"[^\n]", " ", self.text[start:after]))
        self.pending.clear()
        return True

    def _arithmetic(self) -> bool:
        text, at = self.text, self.at
        if self.scanned > _MAX_SCANNED:
            return self._keep(at + 1)
        end = closing(text, at + 2, len(text), ")")
        self.scanned += max(0, end - at)
        if end < 0:
            return False
        inside = text[at + 2 : end - 1]
        if text[end : end + 1] != ")" or ";" in inside or not inside.strip():
            return self._keep(at + 1)
        self._keep(at + 2)
        self.parts.append("x" * len(inside))
        self.at = end - 1
        return self._keep(end + 1)
