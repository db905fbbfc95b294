"""Values of a report as the type that is expected, or nothing."""

from __future__ import annotations

import math
from typing import Any

_LARGEST = 2**63
"""Beyond it a number is no count of anything."""


def as_dict(value: Any) -> dict[str, Any]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_int(value: Any) -> int | None:
    """The whole number; a truth value is none, and neither is one beyond 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        return None
    return value


def as_float(value: Any) -> float | None:
    """The finite number; None for anything else, a truth value among it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    whole = as_int(value)
    return None if whole is None else float(whole)


def as_ints(value: Any) -> tuple[int, ...] | None:
    """The whole numbers of a list; None when it is no list."""
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if as_int(item) is not None)


def as_bool(value: Any) -> bool | None:
    """The truth value, or None."""
    return value if isinstance(value, bool) else None


def as_text(value: Any) -> str | None:
    """A single value as text."""
    return None if value is None or isinstance(value, dict | list) else str(value)


def as_dtype(value: Any) -> str | None:
    """The name of a dtype without `torch.`."""
    return value.removeprefix("torch.") if isinstance(value, str) else None


def texts(value: Any, none: str | None = None) -> dict[str, str]:
    """The single values of a mapping as text; one that is null is left out, or is `none`."""
    found = {}
    for name, item in as_dict(value).items():
        text = none if item is None else as_text(item)
        if text is not None:
            found[str(name)] = text
    return found
