"""Published figures held against a plan's deployment, and another program's opinion beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from configurator.plan.claims import Match
from configurator.plan.diff import kv_per_token
from configurator.plan.model import Plan
from configurator.report.plan_rows import Block, Row, Sources
from configurator.report.plan_values import said

if TYPE_CHECKING:
    from configurator.plan.opinion import Opinion

_MOST = 8
"""Figures of one kind that a plan shows; `configurator claims` shows all."""
_FIRST = ("step time", "TPOT", "decode throughput", "output speed", "acceptance length", "ratio",
          "part of a step", "launches", "memory")  # fmt: skip
_OF_A_STEP = _FIRST[:5]


def claim_blocks(matches: tuple[Match, ...], argument: str, sources: Sources) -> Iterator[Block]:
    """Those that apply, those that nearly do with what differs, and how many do not.

    What was computed from other figures, and not published, is left out.
    """
    told = [match for match in matches if match.published.claim.derived is None]
    apply = [match for match in told if match.status == "applies"]
    nearly = [match for match in told if match.status == "nearly"]
    own = [match for match in told if match.status == "does not" and not match.other_model]
    others = sum(match.other_model for match in told)
    left = f"; {others} are of other models" if others else ""
    if not (apply or nearly or own):
        yield Block(f"published figures: none is of this model{left}")
        return
    yield Block(
        f"published figures of its model: {len(apply)} apply, {len(nearly)} nearly do, {len(own)} "
        f"do not (all, with those we computed, and why: configurator claims {argument}){left}"
    )
    yield from _some("applies", apply, sources, _if_also)
    yield from _some("nearly applies", nearly, sources, _differs)
    if all(match.published.claim.quantity not in _OF_A_STEP for match in apply):
        # Whoever knows the figures of a step of this model wants to know why they are not theirs.
        yield from _some("does not apply", own, sources, _differs)


def _some(
    title: str, matches: list[Match], sources: Sources, note: Callable[[Match], str]
) -> Iterator[Block]:
    """Figures with the same note together."""
    groups: dict[str, list[Row]] = {}
    for match in sorted(matches, key=_weight)[:_MOST]:
        claim = match.published
        text = f"{claim.claim.figure}{sources.mark(claim.run.source)}"
        groups.setdefault(note(match), []).append(Row(claim.shown, text, depth=1))
    for told, rows in groups.items():
        yield Block(f"{title}{f'; {told}' if told else ''}", tuple(rows), level=3)
    if len(matches) > _MOST:
        yield Block(f"and {len(matches) - _MOST} more", level=3)


def _weight(match: Match) -> int:
    """What a plan asks for first: the figures of a step, then all others as they come."""
    quantity = match.published.claim.quantity
    return _FIRST.index(quantity) if quantity in _FIRST else len(_FIRST)


def _if_also(match: Match) -> str:
    """What is not stated on one side: the figure holds only if it is the same."""
    names = ", ".join(compared.condition for compared in match.open)
    return f"if the same too: {names}" if names else ""


def _differs(match: Match) -> str:
    return match.why or _if_also(match)


def opinion_block(plan: Plan, opinion: Opinion, sources: Sources) -> Block:
    """Each figure that both have, theirs and ours; or why there is none."""
    # Only who asks for it pays for what runs programs.
    from configurator.plan.opinion import PROGRAM

    title = f"second opinion: {PROGRAM}"
    if opinion.note:
        return Block(title, lines=(opinion.note,))
    plain = plan.step.plain if plan.step is not None else None
    pairs = (
        ("plain decode", opinion.per_token, plain),
        ("weights on one GPU", opinion.weights, plan.geometry.weights),
        ("KV bytes a token", opinion.kv_per_token, kv_per_token(plan.geometry)),
    )
    rows = [
        Row(name, f"{said(theirs)}; ours {said(ours)}", sources.mark(theirs.source).strip())
        for name, theirs, ours in pairs
        if theirs is not None
    ]
    return Block(title, tuple(rows))
