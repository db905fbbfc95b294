"""Published figures held against a plan's deployment, in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import click

from configurator.plan.claims import Match
from configurator.report.plan_rows import Row, Sources, print_rows, width
from configurator.report.terminal import paragraph

_MOST = 8
"""Figures of one kind that a plan shows; `configurator claims` shows all."""
_FIRST = ("step time", "TPOT", "decode throughput", "output speed", "acceptance length", "ratio",
          "part of a step", "launches", "memory")  # fmt: skip


def print_claims(matches: tuple[Match, ...], argument: str, sources: Sources) -> None:
    """Those that apply, those that nearly do with what differs, and how many do not."""
    own = [match for match in matches if not match.other_model]
    apply = [match for match in own if match.status == "applies"]
    nearly = [match for match in own if match.status == "nearly"]
    click.echo()
    rest = len(matches) - len(apply) - len(nearly)
    head = (
        f"published figures: {len(apply)} apply, {len(nearly)} nearly do, {rest} do not "
        f"(all of them, and why: configurator claims {argument})"
    )
    click.secho(textwrap.fill(head, width()), bold=True)
    _print_some("applies", apply, sources, _if_also)
    _print_some("nearly applies", nearly, sources, _differs)


def _print_some(
    title: str, matches: list[Match], sources: Sources, note: Callable[[Match], str]
) -> None:
    if not matches:
        return
    click.echo(f"  {title}")
    groups: dict[str, list[Row]] = {}
    for match in sorted(matches, key=_weight)[:_MOST]:
        claim = match.published
        text = f"{claim.claim.figure}{sources.mark(claim.run.source)}"
        groups.setdefault(note(match), []).append(Row(claim.shown, text, depth=1))
    for told, rows in groups.items():
        print_rows(rows)
        if told:
            paragraph(told, "      ", dim=True)
    if len(matches) > _MOST:
        click.echo(f"    and {len(matches) - _MOST} more")


def _weight(match: Match) -> int:
    """What a plan asks for first: the figures of a step, then all others as they come."""
    quantity = match.published.claim.quantity
    return _FIRST.index(quantity) if quantity in _FIRST else len(_FIRST)


def _if_also(match: Match) -> str:
    """What is not stated on one side: the figure holds only if it is the same."""
    names = ", ".join(compared.condition for compared in match.open)
    return f"holds only if the same: {names}" if names else ""


def _differs(match: Match) -> str:
    return match.why or _if_also(match)
