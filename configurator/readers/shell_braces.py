"""Brace expansion: `{a,b}` and `{1..3}` make several words of one, before anything else.

Source of the rules: Bash Reference Manual, Brace Expansion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from configurator.readers.shell_tokens import Token

_NUMBERS = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", re.ASCII)
_NAME = re.compile(r"\w+", re.ASCII)
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?", re.ASCII)


def expanded(tokens: list[Token], check: Callable[[int], None]) -> list[list[Token]]:
    """The words that one word stands for; `check` refuses a number of them."""
    variants = _variants(tokens, check)
    return variants if len(variants) == 1 else [_renamed(variant) for variant in variants]


def _renamed(tokens: list[Token]) -> list[Token]:
    """With names of variables as they are now: `$i{01,02}` means `$i01` and `$i02`."""
    result: list[Token] = []
    for token in tokens:
        before = result[-1] if result else None
        name = _NAME.match(token.text)
        # Names that meet letters in the script are read as one there: only braces part them.
        if (
            before
            and name
            and token.kind in ("text", "brace")
            and not token.quoted
            and (_VARIABLE.fullmatch(before.text) and before.kind == "parameter")
        ):
            result[-1] = replace(before, text=before.text + name[0])
            token = replace(token, text=token.text[name.end() :], start=token.start + name.end())
        if token.text or token.quoted:
            result.append(token)
    return result


def _variants(tokens: list[Token], check: Callable[[int], None]) -> list[list[Token]]:
    closers = _matching(tokens)
    for at, close in closers.items():
        inner = tokens[at + 1 : close]
        alternatives = _alternatives(inner) or _sequence(inner, check)
        if not alternatives:
            continue
        middles = [middle for part in alternatives for middle in _variants(part, check)]
        endings = _variants(tokens[close + 1 :], check)
        check(len(middles) * len(endings))
        return [[*tokens[:at], *middle, *ending] for middle in middles for ending in endings]
    return [tokens]


def _matching(tokens: list[Token]) -> dict[int, int]:
    """Opening braces with their closing ones, in order."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.kind != "brace":
            continue
        if token.text == "{":
            opened.append(at)
        elif token.text == "}" and opened:
            pairs[opened.pop()] = at
    return dict(sorted(pairs.items()))


def _alternatives(inner: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in inner:
        brace = token.text if token.kind == "brace" else ""
        depth += (brace == "{") - (brace == "}")
        if brace == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if len(parts) > 1 else []


def _sequence(inner: list[Token], check: Callable[[int], None]) -> list[list[Token]]:
    if len(inner) != 1 or inner[0].kind != "text" or inner[0].quoted:
        return []
    token = inner[0]
    numbers = _NUMBERS.fullmatch(token.text)
    letters = _LETTERS.fullmatch(token.text)
    if numbers:
        texts = _numbers(numbers[1], numbers[2], numbers[3], check)
    elif letters:
        first, last = ord(letters[1]), ord(letters[2])
        step = (abs(int(letters[3] or 1)) or 1) * (1 if last >= first else -1)
        texts = [chr(code) for code in range(first, last + (1 if step > 0 else -1), step)]
    else:
        return []
    return [[replace(token, text=text)] for text in texts]


def _numbers(
    first: str, last: str, step_text: str | None, check: Callable[[int], None]
) -> list[str]:
    start, stop = int(first), int(last)
    step = abs(int(step_text or 1)) or 1
    check(abs(stop - start) // step + 1)
    padded = any(re.fullmatch(r"-?0\d+", text) for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    direction = 1 if stop >= start else -1
    return [f"{number:0{width}d}" for number in range(start, stop + direction, step * direction)]
