"""Figures of a plan as people read them: with a unit, and with their range where they have one.

Sizes are in GB of 10^9 bytes, as vendors and model cards give them. What the engine's log calls
GB is 2^30 bytes, which is said where both meet.
"""

from __future__ import annotations

import math

from configurator.plan.figures import Figure

UNKNOWN = "not known"
SIZES = "GB are 10^9 bytes; what the engine's log calls GB is 1.074 of them"

_SCALES = {
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
}
_COUNTED = ("tokens", "B/token", "B", "requests", "launches", "")
"""Units of which there is half of none: whole numbers are written whole."""


def said(figure: Figure | None) -> str:
    """`62.9 GB`, or `18.6 ms (15.8 to 21.6)` of a range; `not known` of nothing."""
    if figure is None or not _finite(figure):
        return UNKNOWN
    scale, unit = _scale(figure)
    if not any(_three(figure)):
        return f"0 {unit}".rstrip()
    digits = [_number(value / scale, unit) for value in _three(figure)]
    low, value, high = digits
    text = f"{value} {unit}".rstrip()
    return text if low == high else f"{text} ({low} to {high})"


def span(figure: Figure | None) -> str:
    """The range alone, `15.8 to 21.6 ms`; of an exact figure the figure."""
    if figure is None or not _finite(figure):
        return UNKNOWN
    scale, unit = _scale(figure)
    low, high = (_number(value / scale, unit) for value in (figure.low, figure.high))
    return f"{low} {unit}".rstrip() if low == high else f"{low} to {high} {unit}".rstrip()


def amount(value: float, unit: str) -> str:
    """One number with its unit."""
    return said(Figure(value, unit, "", "", value, value))


def per_second(seconds: Figure) -> Figure:
    """Tokens a second of one request from the seconds that a token takes."""
    low, value, high = (1 / s if s > 0 else math.inf for s in reversed(_three(seconds)))
    return Figure(value, "tok/s", f"1 / {said(seconds)}", seconds.source, low, high)


def _three(figure: Figure) -> tuple[float, float, float]:
    return figure.low, figure.value, figure.high


def _finite(figure: Figure) -> bool:
    return all(math.isfinite(value) for value in _three(figure))


def _scale(figure: Figure) -> tuple[float, str]:
    """What the figure is divided by, and the unit it then has: one for the whole range."""
    steps = _SCALES.get(figure.unit)
    if steps is None:
        return 1.0, figure.unit
    if not any(_three(figure)):
        return steps[0][0], ("" if figure.unit == "s" else figure.unit)
    # By the estimate, not the ends: a range that begins at nothing stays readable.
    largest = abs(figure.value) or abs(figure.high)
    return next(((scale, unit) for scale, unit in steps if largest >= scale), steps[-1])


def _number(value: float, unit: str) -> str:
    whole = unit in _COUNTED and value == round(value)
    if whole or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}" if unit == "tok/s" else f"{value:.1f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
