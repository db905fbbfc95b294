"""Graphs that were captured, and the megakernel that may run in them."""

from __future__ import annotations

from typing import Any

from .values import class_of, get, integers


def graph_facts(graphs: Any) -> dict[str, Any] | None:
    """Graphs that one runner captured; None for none and for an eager runner."""
    if graphs is None or "Eager" in type(graphs).__name__:
        return None
    tables = [get(graphs, path) for path in ("backend._graphs", "graphs")]
    captured = next((_sizes(table) for table in tables if isinstance(table, dict) and table), None)
    return {
        "class": type(graphs).__name__,
        "backend": class_of(getattr(graphs, "backend", None)),
        "batch_sizes": integers(getattr(graphs, "capture_bs", None)),
        "captured": captured,
    }


def _sizes(table: dict[Any, Any]) -> list[int] | None:
    """The sizes in the keys of a table of graphs: a number, or an object that has one.

    None when the table has graphs and no key tells a size: they are captured, for who knows what.
    """
    keys = [key[0] if isinstance(key, tuple) and key else key for key in table]
    sizes = integers([getattr(key, "size", getattr(key, "bs", key)) for key in keys])
    return sizes if sizes or not table else None


def megakernel_facts(model: Any, runner: Any = None) -> dict[str, Any] | None:
    """What a megakernel built for this model, and which graphs it covers; None without one."""
    built = vars(model).get("_megakernel")
    if built is None:
        return None
    forward = vars(model).get("forward")
    cells = getattr(forward, "__closure__", None) or ()
    tables = [getattr(cell.cell_contents, "captured", None) for cell in cells]
    steps = next((table for table in tables if isinstance(table, dict) and table), None)
    # The engine's own check looks once all graphs are captured: before, a part of them is known.
    hooks = [hook for hook in get(runner, "capture_tail_hooks") or () if hasattr(hook, "is_done")]
    checks = [hook.is_done for hook in hooks if get(hook, "dispatch.built") is built]
    summary = getattr(built, "summary", None)
    return {
        "class": type(built).__name__,
        "widths": integers(getattr(built, "widths", None)),
        "summary": str(summary())[:300] if callable(summary) else None,
        "forward_installed": forward is not None,
        "draft_sampler": getattr(built, "draft_sampler", None) is not None,
        "graphs": steps and integers(steps),
        "graphs_covered": steps and integers(size for size in steps if steps[size] is not None),
        "capture_checked": next(iter(checks), None),
    }
