"""Values of any object of the engine, and None for what it does not have."""

from __future__ import annotations

from typing import Any


def get(holder: Any, path: str, default: Any = None) -> Any:
    """The attribute at a dotted path; `default` where a step of it is missing, None or fails."""
    for name in path.split("."):
        try:
            holder = getattr(holder, name, None)
        except Exception:
            return default
        if holder is None:
            return default
    return holder


def class_of(thing: Any) -> str | None:
    """The name of its class; None for None."""
    return None if thing is None else type(thing).__name__


def text_of(thing: Any) -> str | None:
    """As text; None for None."""
    return None if thing is None else str(thing)


def integer(thing: Any) -> int | None:
    """The integer that it is, if it is one."""
    return thing if isinstance(thing, int) and not isinstance(thing, bool) else None


def integers(things: Any) -> list[int]:
    """Those of them that are integers, each once and in order."""
    return sorted({thing for thing in things or () if integer(thing) is not None})


def is_a(thing: Any, *names: str) -> bool:
    """Whether a class of one of these names is among the classes of `thing`."""
    return any(kind.__name__ in names for kind in type(thing).__mro__)
