"""How the shell reads the text of a word: quotes, escapes and where expansions begin and end.

Statements come from the syntax tree; words are read here, because word splitting, positions and
`${...}` need every character. Source of the rules: POSIX.1-2024, Shell Command Language, 2.2 to
2.6, and the Bash Reference Manual, Shell Expansions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from configurator.readers.shell_quotes import closing, single_quote_end

TokenKind = Literal["text", "brace", "parameter", "command", "arithmetic"]

_PLAIN = re.compile(r"[^\\'\"`$<>{},]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":[-=+?]|[-=+?]|%%?|##?|//|/#|/%|/|\^\^?|,,?|@[A-Za-z]|:")
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_BYTES = re.compile(r"(?:\\(?:x[89a-fA-F][0-9a-fA-F]|[23][0-7]{2}))+")
"""What is not ASCII, written byte by byte, as our own scripts have it."""
_ESCAPED = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a word."""

    kind: TokenKind
    start: int
    end: int
    text: str
    """After quote removal; of an expansion what stands in the script."""
    quoted: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """What stands between `${` and `}`, or after `$`."""

    name: str
    index: tuple[int, int] | None = None
    """Where the subscript stands."""
    operator: str = ""
    operand: tuple[int, int] = (0, 0)
    """Where the operator's text stands."""
    length: bool = False
    indirect: bool = False


class Lexer:
    """Reads the tokens of one word, or of a text in double quotes."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.at = start
        self.end = end
        self.tokens: list[Token] = []
        self.escapable = '$`"\\'

    def word(self) -> list[Token]:
        """The tokens of a word."""
        while self.at < self.end:
            self._unquoted()
        return self.tokens

    def in_quotes(self, *, quote_marks: bool = False) -> list[Token]:
        """The tokens of a text between double quotes, or of arithmetic.

        `quote_marks`: double quotes in it are quotes, as in `"${V:-"d"}"`.
        """
        while self.at < self.end:
            if quote_marks and self.text[self.at] == '"':
                self.at += 1
            else:
                self._in_double_quotes()
        return self.tokens

    def in_document(self) -> list[Token]:
        """The tokens of a here-document: double quotes in it are plain."""
        self.escapable = "$`\\"
        while self.at < self.end:
            if self.text[self.at] == '"':
                self._add(self.at + 1, quoted=True)
            else:
                self._in_double_quotes()
        return self.tokens

    def _add(self, end: int, text: str | None = None, *, quoted: bool) -> None:
        text = self.text[self.at : end] if text is None else text
        self.tokens.append(Token("text", self.at, end, text, quoted))
        self.at = end

    def _unquoted(self) -> None:
        char = self.text[self.at]
        plain = _PLAIN.match(self.text, self.at, self.end)
        if plain:
            self._add(plain.end(), quoted=False)
        elif char == "\\":
            self._escape()
        elif char == "'":
            self._single(self.at + 1)
        elif char == '"':
            self._double()
        elif self.text.startswith("$'", self.at):
            self._ansi()
        elif self.text.startswith('$"', self.at):
            self.at += 1
        elif char in "{},":
            self.tokens.append(Token("brace", self.at, self.at + 1, char, False))
            self.at += 1
        elif self.text[self.at : self.at + 2] in ("<(", ">("):
            self._substitution(self.at + 2, quoted=False)
        elif not self._expansion(quoted=False):
            self._add(self.at + 1, quoted=False)

    def _escape(self) -> None:
        if self.at + 1 >= self.end:
            self._add(self.end, quoted=True)
        elif self.text[self.at + 1] == "\n":
            self.at += 2
        else:
            self.at += 1
            self._add(self.at + 1, quoted=True)

    def _single(self, start: int) -> None:
        close = self.text.find("'", start, self.end)
        self.at = start
        self._add(close if close >= 0 else self.end, quoted=True)
        self.at += close >= 0

    def _double(self) -> None:
        close = closing(self.text, self.at + 1, self.end, '"')
        stop = close - 1 if close > 0 else self.end
        self.at += 1
        self._add(self.at, quoted=True)
        end, self.end = self.end, stop
        while self.at < self.end:
            self._in_double_quotes()
        self.end = end
        self.at = close if close > 0 else end

    def _in_double_quotes(self) -> None:
        char = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2] if self.at + 1 < self.end else ""
        if char == "\\" and following == "\n":
            self.at += 2
        elif char == "\\" and following and following in self.escapable:
            self.at += 1
            self._add(self.at + 1, quoted=True)
        elif char not in "$`" or not self._expansion(quoted=True):
            at = self.at + 1
            while at < self.end and self.text[at] not in '\\$`"':
                at += 1
            self._add(at, quoted=True)

    def _ansi(self) -> None:
        close = single_quote_end(self.text, self.at + 1, self.end)
        stop = close - 1 if close > 0 else self.end
        self.at += 2
        self._add(self.at, "", quoted=True)
        while self.at < stop:
            escape = _ESCAPE.match(self.text, self.at, stop)
            several = _BYTES.match(self.text, self.at, stop)
            if several:
                self._add(several.end(), _characters(several[0]), quoted=True)
            elif escape:
                self._add(escape.end(), _decoded(escape[1]), quoted=True)
            else:
                following = self.text.find("\\", self.at + 1, stop)
                self._add(following if following >= 0 else stop, quoted=True)
        self.at = close if close > 0 else self.end

    def _expansion(self, *, quoted: bool) -> bool:
        """Read what begins with `$` or a backquote; False when it is a plain character."""
        text, at = self.text, self.at
        if text[at] == "`":
            return self._substitution(at + 1, quoted=quoted, closer="`")
        if text[at] != "$":
            return False
        if text.startswith("$((", at):
            inner = closing(text, at + 3, self.end, ")")
            if inner > 0 and text[inner : inner + 1] == ")" and inner < self.end:
                return self._take("arithmetic", inner + 1, quoted=quoted)
        if text.startswith("$[", at):
            inner = closing(text, at + 2, self.end, "]")
            if inner > 0:
                return self._take("arithmetic", inner, quoted=quoted)
        if text.startswith("$(", at):
            return self._substitution(at + 2, quoted=quoted)
        if text.startswith("${", at):
            close = closing(text, at + 2, self.end, "}")
            if close > 0:
                return self._take("parameter", close, quoted=quoted)
            self._add(self.end, quoted=True)  # never closed: no use to look again
            return True
        name = _NAME.match(text, at + 1, self.end)
        if name:
            return self._take("parameter", name.end(), quoted=quoted)
        if at + 1 < self.end and text[at + 1] in "0123456789@*#?!$-":
            return self._take("parameter", at + 2, quoted=quoted)
        return False

    def _substitution(self, start: int, *, quoted: bool, closer: str = ")") -> bool:
        close = closing(self.text, start, self.end, closer)
        return self._take("command", close if close > 0 else self.end, quoted=quoted)

    def _take(self, kind: TokenKind, end: int, *, quoted: bool) -> bool:
        self.tokens.append(Token(kind, self.at, end, self.text[self.at : end], quoted))
        self.at = end
        return True


def _characters(escapes: str) -> str:
    """Bytes as the characters that they make; one by one where they make none."""
    codes = escapes.split("\\")[1:]
    raw = bytes(int(one[1:], 16) if one[0] == "x" else int(one, 8) for one in codes)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _decoded(escape: str) -> str:
    first = escape[0]
    if first in "xuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code < 0x110000 else "\\" + escape
    if first in "01234567":
        return chr(int(escape, 8) & 0xFF)
    if first == "c" and len(escape) > 1:
        return chr(ord(escape[1]) & 0x1F)
    return _ESCAPED.get(escape, escape if escape in "\\'\"?" else "\\" + escape)


def parameter(text: str, token: Token) -> Parameter | None:
    """What a parameter token asks for; None when it is no parameter of the shell."""
    at, end = token.start + 1, token.end
    if text[at] != "{":
        return Parameter(token.text[1:])
    at, end = at + 1, end - 1
    length = text[at] == "#" and end - at > 1 and text[at + 1] not in "-=+?:%#/"
    indirect = text[at] == "!" and end - at > 1 and text[at + 1] not in "-=+?:%#/"
    at += length or indirect
    name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?!$-]").match(text, at, end)
    if not name:
        return None
    at, index = name.end(), None
    if at < end and text[at] == "[":
        close = _subscript_end(text, at, end)
        if close < 0:
            return None
        index, at = (at + 1, close), close + 1
    if at == end:
        return Parameter(name[0], index, "", (end, end), length, indirect)
    operator = _OPERATOR.match(text, at, end)
    if not operator:
        return None
    return Parameter(name[0], index, operator[0], (operator.end(), end), length, indirect)


def _subscript_end(text: str, at: int, end: int) -> int:
    depth = 0
    for offset in range(at, end):
        depth += (text[offset] == "[") - (text[offset] == "]")
        if depth == 0:
            return offset
    return -1


def split_words(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the words between `start` and `end` stand, without comments."""
    return list(words_from(text, start, end))


def words_from(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The same, one after the other."""
    at = start
    while at < end:
        char = text[at]
        if char.isspace():
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif char == "#":
            newline = text.find("\n", at, end)
            at = newline if newline >= 0 else end
        else:
            word_end = _word_end(text, at, end)
            yield at, word_end
            at = word_end


def _word_end(text: str, at: int, end: int) -> int:
    while at < end and not text[at].isspace():
        char, pair = text[at], text[at : at + 2]
        if char == "\\":
            at += 2
            continue
        if char == "'":
            close = single_quote_end(text, at, end)
        elif char in '"`':
            close = closing(text, at + 1, end, char)
        elif pair in ("$(", "${", "<(", ">("):
            close = closing(text, at + 2, end, "}" if pair == "${" else ")")
        else:
            close = at + 1
        at = close if close > 0 else end
    return min(at, end)
