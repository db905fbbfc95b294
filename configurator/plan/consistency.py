"""Published figures held against each other: what one run says must hang together.

Which figures belong together is data (`relations` in the files of claims); here is the arithmetic.
Figures are put into base units first, so that tok/s times ms are tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from configurator.content import Library
from configurator.errors import ConfiguratorError, did_you_mean
from configurator.schema.claims import Operand, Published, Relation

_BASE = {
    "%": 0.01, "h": 3600.0, "min": 60.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "KB": 1e3, "MB": 1e6,
    "GB": 1e9, "TB": 1e12,
}  # fmt: skip
"""Factor of a unit to its base unit: s, B, or a plain number; of others it is 1."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A relation with its numbers."""

    relation: Relation
    entry: str
    """The file it is in, by name."""
    left: float
    """The left side in base units; of a gain the factor."""
    right: float
    """The right side in base units."""
    off: float
    """How far the left side is off, as a part of the right; of `at most` how far above it."""
    holds: bool
    """Not further off than the relation's tolerance."""
    text: str
    """`1,109 tok/s x 5.9 ms = 6.543 tokens against 6.6 tokens: 0.9 % off, 3 % allowed`."""


def consistency(library: Library) -> tuple[Checked, ...]:
    """Every relation of every file of claims, computed, in the order of the files.

    Raises:
        ConfiguratorError: REF001, a relation of a claim that no file has; SCH007, one that cannot
            be computed, for it divides by zero or leaves the range of numbers.
    """
    claims = library.claims()
    found: list[Checked] = []
    for name in library.names("claims"):
        for index, relation in enumerate(library.claims_of(name).relations):
            at = library.place("claims", name, ("relations", index))
            for operand in (*relation.of, *relation.against):
                if isinstance(operand, str) and operand not in claims:
                    fact = f"no claim is named {operand!r}"
                    raise ConfiguratorError.single(
                        "REF001", fact, did_you_mean(operand, claims), at
                    )
            try:
                found.append(_checked(name, relation, claims))
            except (ZeroDivisionError, OverflowError):
                raise ConfiguratorError.single(
                    "SCH007", f"{relation.name!r} cannot be computed",
                    "take figures above 0, and none beyond all measure", at,
                ) from None  # fmt: skip
    return tuple(found)


def of_claims(names: Iterable[str], checked: Sequence[Checked]) -> tuple[Checked, ...]:
    """The relations that any of these claims is part of."""
    wanted = set(names)
    return tuple(c for c in checked if wanted & {*c.relation.of, *c.relation.against})


def _checked(entry: str, relation: Relation, claims: Mapping[str, Published]) -> Checked:
    kind = relation.kind
    left = _computed(kind, [_base(operand, claims) for operand in relation.of])
    others = [_base(operand, claims) for operand in relation.against]
    if len(others) > 1:
        right = _computed(kind, others)
    else:
        right = 1 + others[0] if kind == "gain" else others[0]
    if not math.isfinite(left) or not math.isfinite(right):
        raise OverflowError
    off = (left - right) / abs(right) if kind == "at most" else abs(left - right) / abs(right)
    # Figures are decimal fractions: 3 % of 6.6 may come out a hair above 0.198.
    holds = off <= relation.tolerance * (1 + 1e-9)
    return Checked(
        relation, entry, left, right, max(off, 0.0), holds,
        _told(relation, left, right, max(off, 0.0), claims),
    )  # fmt: skip


def _base(operand: Operand, claims: Mapping[str, Published]) -> float:
    if not isinstance(operand, str):
        return float(operand)
    claim = claims[operand].claim
    return claim.value * _BASE.get(claim.unit, 1.0)


def _computed(kind: str, values: Sequence[float]) -> float:
    """The arithmetic of one side; of a gain the factor by which the first is larger."""
    if kind == "product":
        return math.prod(values)
    if kind == "sum":
        return math.fsum(values)
    if kind in ("quotient", "gain"):
        return values[0] / math.prod(values[1:])
    if kind == "latency":
        first, tokens, throughput = values
        return first + tokens / throughput
    if kind == "rest":
        gain, accepted, ratio = values
        return (1 + gain) / (accepted / ratio)
    (value,) = values
    return value


def _told(
    relation: Relation, left: float, right: float, off: float, claims: Mapping[str, Published]
) -> str:
    kind, tolerance = relation.kind, f"{100 * relation.tolerance:g} % allowed"
    formula, against = (_written(kind, side, claims) for side in (relation.of, relation.against))
    if kind == "at most":
        return f"{formula} against at most {against}"
    unit = ""
    first = relation.against[0]
    if len(relation.against) == 1 and isinstance(first, str) and kind != "gain":
        unit = claims[first].claim.unit
    if len(relation.of) > 1:
        formula += f" = {_shown(left / _BASE.get(unit, 1.0))} {unit}".rstrip()
    if len(relation.against) > 1 or kind == "gain":
        against += f" = {_shown(right)}"
    return f"{formula} against {against}: {100 * off:.1f} % off, {tolerance}"


def _written(kind: str, operands: Sequence[Operand], claims: Mapping[str, Published]) -> str:
    """One side with the figures put in."""
    texts = [claims[o].shown if isinstance(o, str) else f"{o:,}" for o in operands]
    if len(texts) == 1:
        return texts[0]
    if kind == "rest":
        gain = texts[0].replace("+", "+ ").replace("-", "- ")
        return f"(1 {gain}) / ({texts[1]} / {texts[2]})"
    if kind == "latency":
        return f"{texts[0]} + {texts[1]} / {texts[2]}"
    sign = {"product": " x ", "sum": " + "}.get(kind, " / ")
    return sign.join(texts).replace("+ -", "- ")


def _shown(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"
