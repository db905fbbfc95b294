"""Text of a page: short, printable and without secrets, whatever was in the evidence."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from configurator.collector.redaction import REDACTED, is_secret, redact_json, redact_text

LONGEST = 600
"""Characters of one text; a value that is longer says how much was left out."""
_BEYOND = 8192
"""Characters behind the cut that are looked at: of a longer text not everything."""
_MOST_ITEMS = 50
_PIECE = re.compile(r"(\d+)")


def clean(text: str, longest: int = LONGEST) -> str:
    """The text without secrets, cut to `longest`, with a visible sign for what does not print."""
    # Cut after the redaction: half a key would no longer be recognized as one.
    kept = redact_text(text[: longest + _BEYOND])
    left_out = len(kept) - longest + max(0, len(text) - longest - _BEYOND)
    if left_out > 0:
        kept = f"{kept[:longest]}… ({left_out} characters more)"
    return "".join(map(_visible, kept))


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    # Separators show nothing, marks of direction turn text around, surrogates do not encode.
    is_space = unicodedata.category(character) == "Zs"
    return " " if is_space else f"⟨U+{code:04X}⟩"


def shown(value: Any, name: str = "", longest: int = LONGEST) -> str:
    """A value of the evidence as text.

    Args:
        value: anything JSON can hold, or a tuple of it.
        name: what the value is kept under; the value of a secret's name is not shown.
        longest: characters to show.
    """
    if name and is_secret(name, value):
        return REDACTED
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    if isinstance(value, str | int):
        return clean(str(value), longest)
    return clean(_as_json(redact_json(_jsonable(value))), longest)


def _jsonable(value: Any) -> Any:
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return value


def _as_json(value: Any) -> str:
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        more = len(value) - _MOST_ITEMS
        texts = [item if isinstance(item, str) else shown(item) for item in value[:_MOST_ITEMS]]
        return ", ".join(texts) + (f", and {more} more" if more > 0 else "") if texts else "none"
    return json.dumps(value, ensure_ascii=False, default=str)


def numbers(values: Iterable[int]) -> str:
    """Whole numbers as runs: `0 to 2, 5`."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort names by, with the numbers in them as numbers."""
    return tuple(
        (0, int(piece), "") if piece.isascii() and piece.isdigit() and len(piece) < 20
        else (1, 0, piece)
        for piece in _PIECE.split(text)
    )  # fmt: skip


def counted(number: int, word: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
