"""A quantity with the formula and the source it stands on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity, as a range where no single number is known.

    `low <= value <= high` holds always; an exact figure has all three equal.
    """

    value: float
    """The best estimate."""
    unit: str
    """`B`, `B/token`, `s`, `tokens`, `GB/s`, `tok/s`, ...; empty: a ratio or a count."""
    formula: str
    """How it was computed, with the numbers put in."""
    source: str
    """Where the numbers come from: a header, an entry of the content, a recording."""
    low: float
    high: float

    @property
    def exact(self) -> bool:
        """No range: read or counted, not estimated."""
        return self.low == self.high


def exact(value: float, unit: str, formula: str, source: str) -> Figure:
    """A figure that is known as it is."""
    return Figure(value, unit, formula, source, value, value)


def between(low: float, value: float, high: float, unit: str, formula: str, source: str) -> Figure:
    """A figure known as a range.

    Raises:
        ValueError: the estimate lies outside of its range.
    """
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return Figure(value, unit, formula, source, low, high)
