"""What words come to: parameters, arithmetic, quotes and word splitting, with every place kept.

What nobody can know before the start stays as it is written, and is marked unknown. Source of
the rules: POSIX.1-2024, Shell Command Language, 2.5 and 2.6; Bash Reference Manual, Shell
Parameter Expansion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from configurator.errors import Position
from configurator.readers import shell_arithmetic
from configurator.readers.shell_arithmetic import UnknownNumberError
from configurator.readers.shell_braces import expanded
from configurator.readers.shell_parameters import (
    Found,
    emptiness,
    find_parameter,
    length_of,
    place,
    transformed,
)
from configurator.readers.shell_patterns import Pattern
from configurator.readers.shell_quotes import printed_document
from configurator.readers.shell_state import Run, Shell, Value, is_known, text_of
from configurator.readers.shell_tokens import (
    Lexer,
    Parameter,
    Token,
    parameter,
)
from configurator.words import Span, Word

_ENGINE = re.compile(r"sglang\.launch_server|sglang\s+serve|launch_server")

_COMMENT = re.compile(r"(?:`|\$\()\s*(?:#[^\n]*\s*)?(?:`|\n\s*\))|\$\(\s*\)")
"""A substitution of nothing, or of a comment."""

_MAY_BE_GIVEN = re.compile(r"\"?\$(?:\{([A-Za-z_]\w*)(?::?-)?\}|([A-Za-z_]\w*))\"?", re.ASCII)

PieceKind = Literal["quoted", "literal", "expanded", "break", "nothing"]
"""Quoted and literal text stays together, expanded text is split; `nothing` is an empty `"$@"`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one or several words."""

    word: Word
    kind: PieceKind


def names_engine(text: str) -> bool:
    """The text starts the engine."""
    return bool(_ENGINE.search(text))


def missing(shell: Shell, written: str) -> str:
    """The variable whose absence makes `${NAME:-}` or `$NAME` empty; none if the script sets it."""
    asked = _MAY_BE_GIVEN.fullmatch(written)
    if not asked:
        return ""
    name = asked[1] or asked[2]
    variable = shell.find(name)
    return name if variable is None else variable.default_of


def join(words: Sequence[Word]) -> Word:
    """The parts as one word, with no more spans than its places need; at least one part."""
    kept = [word for word in words if word.text] or list(words[:1])
    if len(kept) == 1:
        return kept[0]
    text = ""
    spans: list[Span] = []
    for word in kept:
        continues = bool(spans) and _follows(text, spans[-1], word)
        spans += [
            Span(len(text) + span.start, span.position) for span in word.spans[int(continues) :]
        ]
        text += word.text
    return Word(text, tuple(spans), any(word.unknown for word in kept))


def _follows(text: str, span: Span, word: Word) -> bool:
    """The word stands right after the text whose last span this is."""
    at, there = span.position, word.position
    tail = len(text) - span.start
    same_line = (at.file, at.line, at.column + tail) == (there.file, there.line, there.column)
    return same_line and "\n" not in text[span.start :]


class Words:
    """Expands the words of one shell."""

    def __init__(self, shell: Shell, run: Run) -> None:
        self.shell = shell
        self.run = run
        self.depth = 0

    def fields(self, start: int, end: int) -> list[Word]:
        """The words that the text between two offsets of the script comes to."""
        tokens = Lexer(self.shell.source.text, start, end).word()
        found: list[Word] = []
        for variant in expanded(tokens, self.shell.budget.elements):
            found += self._split(self._pieces(variant))
        self.shell.budget.elements(len(found))
        return found

    def value(self, start: int, end: int) -> Value:
        """The text between two offsets as the value of an assignment: one, never split."""
        tokens = Lexer(self.shell.source.text, start, end).word()
        return self._value(self._pieces(tokens))

    def quoted_value(self, start: int, end: int) -> Value:
        """The text between two offsets as if in double quotes."""
        tokens = Lexer(self.shell.source.text, start, end).in_quotes()
        return self._value(self._pieces(tokens))

    def pattern(self, start: int, end: int) -> Pattern | None:
        """The text between two offsets as a pattern; None when a part is unknown."""
        tokens = Lexer(self.shell.source.text, start, end).word()
        pieces = [piece for piece in self._pieces(tokens) if piece.kind != "break"]
        if any(piece.word.unknown for piece in pieces):
            return None
        return [(char, piece.kind == "quoted") for piece in pieces for char in piece.word.text]

    def number(self, start: int, end: int) -> int | None:
        """The arithmetic between two offsets; None when it needs what is unknown."""
        return self.number_of(self.quoted_value(start, end), start)

    def number_of(self, value: Value, start: int) -> int | None:
        """The arithmetic of a text that stands at `start`; None when it needs what is unknown."""
        text = text_of(value)
        try:
            if not is_known(value):
                raise UnknownNumberError(text)
            self.shell.budget.step(1 + len(text) // 1000)
            return shell_arithmetic.evaluate(text, _Numbers(self, start))
        except UnknownNumberError:
            for name in shell_arithmetic.assigned(text):
                self.shell.assign(name, None, self.shell.source.position(start))
            return None

    def together(self, first: Value, second: Value, here: Position | None) -> Value:
        """Two values, one after the other."""
        here = here or self.shell.source.position(0)
        return _merged([place(word, here) for word in (*first, *second)])

    def _value(self, pieces: Iterable[Piece]) -> Value:
        words: list[Word] = []
        for piece in pieces:
            if piece.kind == "break":
                words.append(Word.at(" ", piece.word.position))
            elif piece.word.text:
                words.append(piece.word)
        self.shell.budget.text(sum(len(word.text) for word in words))
        self.shell.budget.step(sum(len(word.spans) for word in words) // 64)
        return _merged(words)

    def _pieces(self, tokens: Iterable[Token]) -> list[Piece]:
        pieces: list[Piece] = []
        for token in tokens:
            pieces += self._token(token)
        return pieces

    def _token(self, token: Token) -> list[Piece]:
        source = self.shell.source
        if token.kind in ("text", "brace"):
            if token.text == source.text[token.start : token.end]:
                word = source.word(token.start, token.end)
            else:
                word = Word.at(token.text, source.position(token.start))
            return [Piece(word, "quoted" if token.quoted else "literal")]
        if token.kind == "parameter":
            self.depth += 1
            self.shell.budget.depth(self.depth)
            pieces = self._parameter(token)
            self.depth -= 1
            return pieces
        if _COMMENT.fullmatch(token.text):
            return []
        document = printed_document(source.text, token.start, token.end)
        if document:
            return self._document(token, *document)
        if token.kind == "arithmetic":
            edge = 2 if token.text.startswith("$[") else 3
            number = self.number(token.start + edge, token.end - edge + 1)
            if number is not None:
                word = Word.at(str(number), source.position(token.start))
                return [Piece(word, "quoted" if token.quoted else "expanded")]
        elif names_engine(token.text):
            self.run.problem(
                "LNT004",
                "a launch inside a command substitution is not followed",
                "launch the engine as a statement of its own",
                source.position(token.start),
            )
        return [self._unknown(token)]

    def _document(self, token: Token, lines: list[tuple[int, int]], literal: bool) -> list[Piece]:
        """What `$(cat <<EOF` prints, without the newlines at its end."""
        source = self.shell.source
        words: list[Word] = []
        for start, end in lines:
            if literal:
                words.append(source.word(start, end))
            else:
                words += self._value(self._pieces(Lexer(source.text, start, end).in_document()))
        kind: PieceKind = "quoted" if token.quoted else "expanded"
        return [Piece(word, kind) for word in _merged(words)]

    def _unknown(self, token: Token) -> Piece:
        source = self.shell.source
        word = source.word(token.start, token.end, unknown=True)
        if token.kind == "parameter" and word.text != token.text:
            word = Word.at(token.text, source.position(token.start), unknown=True)
        return Piece(word, "quoted" if token.quoted else "expanded")

    def _parameter(self, token: Token) -> list[Piece]:
        asked = parameter(self.shell.source.text, token)
        if asked is None:
            return [self._unknown(token)]
        found = find_parameter(self, asked)
        operator = asked.operator
        if asked.length:
            found = length_of(found)
        elif operator and operator[-1] in "-=+?":
            alternative = self._alternative(token, asked, found)
            if alternative is not None:
                return alternative
        elif operator:
            found = transformed(self, asked, found)
        return self._placed(token, found)

    def _alternative(self, token: Token, asked: Parameter, found: Found) -> list[Piece] | None:
        """What `${V:-d}` and its kin come to; None for the value itself."""
        missing: bool | None = not found.is_set
        if found.is_set and asked.operator.startswith(":"):
            missing = emptiness(found)
        if missing is None:
            return [self._unknown(token)]
        kind = asked.operator[-1]
        if kind == "+":
            if missing and found.many == "@" and token.quoted:
                return [Piece(self._empty(token.start), "nothing")]
            return [] if missing else self._operand(token, asked)
        if not missing:
            return None
        if kind == "?":
            return [self._unknown(token)]
        pieces = self._operand(token, asked)
        if kind == "=" and asked.index is None:
            position = self.shell.source.position(asked.operand[0])
            self.shell.assign(asked.name, self._value(pieces), position)
        return pieces

    def _operand(self, token: Token, asked: Parameter) -> list[Piece]:
        lexer = Lexer(self.shell.source.text, *asked.operand)
        if token.quoted:
            pieces = self._pieces(lexer.in_quotes(quote_marks=True))
            return pieces or [Piece(self._empty(asked.operand[0]), "quoted")]
        pieces = self._pieces(lexer.word())
        return [Piece(p.word, "expanded" if p.kind == "literal" else p.kind) for p in pieces]

    def _empty(self, offset: int) -> Word:
        return Word.at("", self.shell.source.position(offset))

    def _placed(self, token: Token, found: Found) -> list[Piece]:
        """The pieces of values, where those that have no place of their own stand at the token."""
        here = self.shell.source.position(token.start)
        if found.values is None:
            return [self._unknown(token)]
        kind: PieceKind = "quoted" if token.quoted else "expanded"
        self.shell.budget.step(len(found.values) // 10)
        self.shell.budget.text(sum(len(w.text) for value in found.values for w in value))
        if found.many == "*" and token.quoted:
            separator = self.separators()[:1]
            joined = _between(found.values, Word.at(separator, here))
            return [Piece(place(word, here), kind) for word in joined]
        pieces: list[Piece] = []
        for number, value in enumerate(found.values):
            if number:
                pieces.append(Piece(Word.at("", here), "break"))
            words = value or (Word.at("", here),)
            pieces += [Piece(place(word, here), kind) for word in words]
        return pieces or [Piece(Word.at("", here), "nothing")]

    def separators(self) -> str:
        """Where unquoted text is split: the characters of `$IFS`."""
        variable = self.shell.find("IFS")
        if variable is None or variable.removed or not is_known(variable.value or ()):
            return " \t\n"
        return text_of(variable.value or ())

    def _split(self, pieces: list[Piece]) -> list[Word]:
        fields: list[Word] = []
        current: list[Word] = []
        separators = self.separators()
        nothing = False
        for piece in pieces:
            if piece.kind == "nothing":
                nothing = True
            elif piece.kind == "break":
                fields += [join(current)] if current else []
                current = []
            elif piece.kind == "expanded" and not piece.word.unknown:
                current = self._split_into(piece.word, separators, current, fields)
            else:
                current.append(piece.word)
        if current and not (nothing and not any(word.text for word in current)):
            fields.append(join(current))
        self.shell.budget.text(sum(len(word.text) for word in fields))
        return fields

    def _split_into(
        self, word: Word, separators: str, current: list[Word], fields: list[Word]
    ) -> list[Word]:
        """Split expanded text: complete words go to `fields`; returns the parts of the last."""
        text = word.text
        if not separators or not text:
            return [*current, word] if text else current
        cost = len(text) // 4096 + len(word.spans) // 256
        at = 0
        for gap in _gaps(separators).finditer(text):
            self.shell.budget.step(cost)
            if gap.start() > at:
                current.append(word.part(at, gap.start()))
            if current or gap[0].strip(" \t\n"):
                fields.append(join(current or [word.part(at, at)]))
            current = []
            at = gap.end()
        if at < len(text):
            current.append(word.part(at) if at else word)
        return current


class _Numbers:
    """The variables of a shell, as arithmetic asks for them."""

    def __init__(self, words: Words, start: int) -> None:
        self.words = words
        self.position = words.shell.source.position(start)

    def number_text(self, name: str, index: str | None) -> str:
        self.words.shell.budget.step()
        variable = self.words.shell.find(name)
        if variable is None or variable.value is None:
            raise UnknownNumberError(name)
        value: Value | None = variable.value
        if index is None and variable.array is not None:
            value = variable.element("0" if variable.keyed else 0) or ()
        elif index is not None:
            key = index if variable.keyed else shell_arithmetic.evaluate(index, self)
            value = variable.element(key)
        if not is_known(value or ()):
            raise UnknownNumberError(name)
        return text_of(value or ())

    def set_number(self, name: str, index: str | None, value: int) -> None:
        written = (Word.at(str(value), self.position),)
        if index is None:
            self.words.shell.assign(name, written, self.position)
        else:
            key = shell_arithmetic.evaluate(index, self)
            self.words.shell.assign_element(name, key, written, self.position)


def _gaps(separators: str) -> re.Pattern[str]:
    blank = "".join(re.escape(char) for char in separators if char in " \t\n")
    other = "".join(re.escape(char) for char in separators if char not in " \t\n")
    spaces = f"[{blank}]" if blank else "(?!)"
    return re.compile(f"{spaces}*[{other}]{spaces}*|{spaces}+" if other else f"{spaces}+")


def _between(values: Sequence[Value], separator: Word) -> list[Word]:
    words: list[Word] = []
    for number, value in enumerate(values):
        words += [separator] if number and separator.text else []
        words += value
    return words or [Word.at("", separator.position)]


def _merged(words: Sequence[Word]) -> Value:
    """Known parts side by side become one, so that a growing text has few of them."""
    merged: list[Word] = []
    group: list[Word] = []
    for word in words:
        if word.unknown:
            merged += [join(group)] if group else []
            merged.append(word)
            group = []
        else:
            group.append(word)
    return (*merged, join(group)) if group else tuple(merged)
