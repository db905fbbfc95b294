"""Arithmetic of the shell: `$((...))`, `((...))` and subscripts.

Source of the rules: Bash Reference Manual, Shell Arithmetic: integers of 64 bits, operators of C.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

_TOKEN = re.compile(
    r"\s*(?:(\d+#[0-9a-zA-Z@_]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)"
    r"|(\*\*|<<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&^|]=|[-+*/%<>=!~&^|?:,()\[\]]))",
    re.ASCII,
)
_BINARY: dict[str, int] = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7,
    ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="}
_ASSIGNED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:=(?!=)|(?:[-+*/%&|^]|<<|>>)=|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_MAX_NESTING = 40


class UnknownNumberError(Exception):
    """The expression needs a value that only the running script has, or is no arithmetic."""


class Variables(Protocol):
    """Where the expression's variables live."""

    def number_text(self, name: str, index: str | None) -> str:
        """The text of a variable; raises UnknownNumberError."""

    def set_number(self, name: str, index: str | None, value: int) -> None:
        """Set a variable to a number."""


def evaluate(text: str, variables: Variables, depth: int = 0) -> int:
    """The value of an expression; raises UnknownNumberError."""
    if depth > _MAX_NESTING:
        raise UnknownNumberError(text)
    try:
        return _Expression(text, variables, depth).value()
    except RecursionError:
        raise UnknownNumberError(text) from None


def assigned(text: str) -> set[str]:
    """The variables that an expression sets."""
    return {name for match in _ASSIGNED.finditer(text) for name in match.groups() if name}


class _Expression:
    def __init__(self, text: str, variables: Variables, depth: int) -> None:
        self.text = text
        self.variables = variables
        self.depth = depth
        self.live = True
        self.tokens = _tokens(text)
        self.at = 0

    def value(self) -> int:
        if len(self.tokens) == 1:
            return 0
        result = self._comma()
        if self._peek():
            raise UnknownNumberError(self.text)
        return result

    def _peek(self) -> str:
        return self.tokens[self.at]

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _accept(self, *tokens: str) -> str:
        return self._next() if self._peek() in tokens else ""

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise UnknownNumberError(self.text)

    def _comma(self) -> int:
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise UnknownNumberError(self.text)
        result = self._assignment()
        while self._accept(","):
            result = self._assignment()
        self.depth -= 1
        return result

    def _assignment(self) -> int:
        start = self.at
        target = self._target()
        if target and self._peek() in _ASSIGNMENTS:
            operator = self._next()[:-1]
            right = self._assignment()
            if operator:
                right = self._apply(operator, self._read(*target), right)
            self._write(*target, right)
            return right
        self.at = start
        return self._ternary()

    def _target(self) -> tuple[str, str | None] | None:
        if not re.match(r"[A-Za-z_]", self._peek()):
            return None
        name, index = self._next(), None
        if self._accept("["):
            start = self.at
            depth = 1
            while depth and self._peek():
                depth += {"[": 1, "]": -1}.get(self._next(), 0)
            index = " ".join(self.tokens[start : self.at - 1])
        return name, index

    def _ternary(self) -> int:
        condition = self._binary(1)
        if not self._accept("?"):
            return condition
        left = self._branch(bool(condition), self._comma)
        self._expect(":")
        right = self._branch(not condition, self._assignment)
        return left if condition else right

    def _branch(self, taken: bool, read: Callable[[], int]) -> int:
        """Read a part whose assignments count only when it is `taken`."""
        before, self.live = self.live, self.live and taken
        result = read()
        self.live = before
        return result

    def _binary(self, lowest: int) -> int:
        left = self._unary()
        while _BINARY.get(self._peek(), 0) >= lowest:
            operator = self._next()
            rank = _BINARY[operator]
            if operator in ("&&", "||"):
                left = self._logical(operator, left)
            else:
                right = self._binary(rank if operator == "**" else rank + 1)
                left = self._apply(operator, left, right)
        return left

    def _logical(self, operator: str, left: int) -> int:
        needed = bool(left) == (operator == "&&")
        right = self._branch(needed, lambda: self._binary(_BINARY[operator] + 1))
        return int(bool(right if needed else left))

    def _unary(self) -> int:
        operator = self._accept("++", "--", "!", "~", "-", "+")
        if not operator:
            return self._postfix()
        self.depth += 1
        if self.depth > _MAX_NESTING:
            raise UnknownNumberError(self.text)
        if operator in ("++", "--"):
            result = self._step(operator)
        else:
            value = self._unary()
            result = {"!": int(not value), "~": ~value, "-": -value, "+": value}[operator]
        self.depth -= 1
        return result

    def _step(self, operator: str) -> int:
        target = self._target()
        if not target:
            raise UnknownNumberError(self.text)
        value = _wrap(self._read(*target) + (1 if operator == "++" else -1))
        self._write(*target, value)
        return value

    def _postfix(self) -> int:
        if self._accept("("):
            value = self._comma()
            self._expect(")")
            return value
        target = self._target()
        if not target:
            return _number(self._next() or "?")
        value = self._read(*target)
        operator = self._accept("++", "--")
        if operator:
            self._write(*target, _wrap(value + (1 if operator == "++" else -1)))
        return value

    def _read(self, name: str, index: str | None) -> int:
        if not self.live:
            return 0
        text = self.variables.number_text(name, index).strip()
        if re.fullmatch(r"-?(0|[1-9]\d{0,18})", text, re.ASCII):
            return _wrap(int(text))
        return evaluate(text, self.variables, self.depth + 1)

    def _write(self, name: str, index: str | None, value: int) -> None:
        if self.live:
            self.variables.set_number(name, index, value)

    def _apply(self, operator: str, left: int, right: int) -> int:
        if not self.live:
            return 0
        return _wrap(_result(operator, left, right))


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if not token:
            raise UnknownNumberError(text)
        found.append(token[0].strip())
        at = token.end()
    return [*found, ""]


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, digits = token.split("#")
            return _wrap(int(digits, int(base)))
        if token.startswith("0") and token[1:].isdigit():
            return _wrap(int(token, 8))
        return _wrap(int(token[:40], 0))
    except ValueError:
        raise UnknownNumberError(token) from None


def _result(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise UnknownNumberError("division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator == "**":
        if right < 0:
            raise UnknownNumberError("negative exponent")
        return pow(left, right, 1 << 64)
    if operator in ("<<", ">>"):
        return left << (right & 63) if operator == "<<" else left >> (right & 63)
    return _simple(operator, left, right)


def _simple(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
    return int(
        {"==": left == right, "!=": left != right, "<": left < right, ">": left > right,
         "<=": left <= right, ">=": left >= right}[operator]
    )  # fmt: skip


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
