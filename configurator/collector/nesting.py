"""JSON that is nested deeper than anybody follows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOST_NESTED = 32
"""Levels of JSON; a page of an engine has less than ten."""


def as_text(value: Any) -> str:
    """JSON of a value that is nested too deep for functions that call themselves."""
    parts: list[str] = []
    # What is to be written, the next at the end: text as it is, or a value in a tuple of one.
    left: list[str | tuple[Any]] = [(value,)]
    while left:
        entry = left.pop()
        if isinstance(entry, str):
            parts.append(entry)
            continue
        item = entry[0]
        if isinstance(item, Mapping):
            pieces = [[f"{json.dumps(str(key))}: ", (held,)] for key, held in item.items()]
            ends = "{}"
        elif isinstance(item, (list, tuple)):
            pieces, ends = [[(held,)] for held in item], "[]"
        else:
            parts.append(json.dumps(item, default=str))
            continue
        inner = [part for piece in pieces for part in [", ", *piece]][1:]
        left += [ends[1], *reversed(inner), ends[0]]
    return "".join(parts)


def is_nested_deep(value: Any) -> bool:
    """Whether some of it becomes text."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        level = [item for item in level if isinstance(item, (Mapping, list, tuple))]
        level = [
            held for item in level
            for held in (item.values() if isinstance(item, Mapping) else item)
        ]  # fmt: skip
    return bool(level)
