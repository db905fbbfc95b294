"""Where quotes, brackets and here-documents end in the text of a script.

Source of the rules: POSIX.1-2024, Shell Command Language, 2.2, 2.6 and 2.7.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DOCUMENT = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\\S|[\w.!%+,/:@^-])+)")
_PRINTED = re.compile(r"(?:\$\(|`)\s*cat\s*(?:-\s+)?(?=<<[^<])")
_BACKQUOTED = re.compile(r"(?:[^\\`]|\\.)*`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentStart:
    """`<<WORD`, which begins a here-document on the next line."""

    delimiter: str
    literal: bool
    """The delimiter is quoted: nothing in the document is expanded."""
    indented: bool
    """`<<-`: tabs before its lines do not count."""
    end: int
    """The offset after the delimiter."""


def document_start(text: str, at: int) -> DocumentStart | None:
    """The here-document that the `<<` at an offset begins; None when it begins none."""
    found = _DOCUMENT.match(text, at)
    if not found:
        return None
    word = found[2]
    delimiter = re.sub(r"\\(.)|['\"]", r"\1", word)
    return DocumentStart(delimiter, delimiter != word, bool(found[1]), found.end())


def document_end(
    text: str, start: int, end: int, delimiter: str, indented: bool
) -> tuple[int, int] | None:
    """Where the lines of a here-document end, and where its delimiter ends; None without one."""
    tabs = r"\t*" if indented else ""
    line = re.compile(rf"^{tabs}{re.escape(delimiter)}$", re.MULTILINE)
    found = line.search(text, start, end)
    return found.span() if found else None


def printed_document(text: str, at: int, close: int) -> tuple[list[tuple[int, int]], bool] | None:
    """Where the lines stand that `$(cat <<EOF ... EOF)` prints, and whether they are literal.

    None for other commands.
    """
    command = _PRINTED.match(text, at, close)
    found = document_start(text, command.end()) if command else None
    if not found or text[found.end : found.end + 1] != "\n":
        return None
    start = found.end + 1
    lines = document_end(text, start, close, found.delimiter, found.indented)
    if not lines or text[lines[1] : close].strip(" \t\n") not in (")", "`"):
        return None
    end = start + len(text[start : lines[0]].rstrip("\n"))
    if not found.indented:
        return [(start, end)], found.literal
    indented = re.compile(r"^\t*([^\n]*\n?)", re.MULTILINE)
    return [line.span(1) for line in indented.finditer(text, start, end)], found.literal


def closing(text: str, start: int, end: int, closer: str) -> int:
    """The offset after the `closer` that ends what began before `start`; -1 if there is none."""
    if closer == "`":
        return _backquote_end(text, start, end)
    stack = [closer]
    at = start
    document: DocumentStart | None = None
    ended = True  # each here-document so far: after one that does not, none is looked for
    while at < end:
        char = text[at]
        if char == "\\":
            at += 2
        elif char == "`":
            at = _backquote_end(text, at + 1, end)
            if at < 0:
                return -1
        elif char in "#<\n" and stack[-1] == ")":
            if char == "<" and ended and text[at : at + 2] == "<<" and text[at - 1] != "<":
                document = document_start(text, at)
            before, at = at, _after(text, at, end, document)
            if char == "\n":
                ended = document is None or at > before + 1
                document = None
        elif char == "'" and not _in_double_quotes(stack):
            at = single_quote_end(text, at, end)
            if at < 0:
                return -1
        elif char == stack[-1]:
            stack.pop()
            at += 1
            if not stack:
                return at
        else:
            at += _open(text, at, stack)
    return -1


def _after(text: str, at: int, end: int, document: DocumentStart | None) -> int:
    """Where a command goes on after a comment, a here-document, or else one character."""
    if text[at] == "#" and text[at - 1] in " \t\n;&|(":
        newline = text.find("\n", at, end)
        return newline if newline >= 0 else at + 1
    if text[at] == "\n" and document:
        lines = document_end(text, at + 1, end, document.delimiter, document.indented)
        return lines[1] if lines else at + 1
    return at + 1


def _open(text: str, at: int, stack: list[str]) -> int:
    """Note what begins at `at`, and say how many characters that took."""
    char = text[at]
    pair = text[at : at + 2]
    if pair in ("$(", "${"):
        stack.append(")" if pair == "$(" else "}")
        return 2
    if char == '"':
        stack.append(char)
    elif char == "(" and stack[-1] == ")":
        stack.append(")")
    elif char == "[" and stack[-1] == "]":
        stack.append("]")
    return 1


def _backquote_end(text: str, start: int, end: int) -> int:
    """The offset after the next backquote, whatever quotes stand before it; -1 without one."""
    found = _BACKQUOTED.match(text, start, end)
    return found.end() if found else -1


def _in_double_quotes(stack: list[str]) -> bool:
    return next((closer for closer in reversed(stack) if closer != "}"), "") == '"'


def single_quote_end(text: str, at: int, end: int) -> int:
    """The offset after what the quote at an offset begins; -1 if it has no end."""
    if text[at - 1 : at] != "$":
        return text.find("'", at + 1, end) + 1 or -1
    at += 1
    while at < end and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    return at + 1 if at < end else -1
