"""Published figures held against a plan's deployment, in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import click

from configurator.plan.claims import Match
from configurator.report.plan_rows import Row, Sources, print_rows, width

_MOST = 8
"""Figures of one kind that a plan shows; `configurator claims` shows all."""


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
    rows = []
    for match in matches[:_MOST]:
        claim = match.published
        mark = sources.mark(claim.run.source)
        rows.append(Row(claim.shown, f"{claim.claim.figure}{mark}", note(match), 1))
    print_rows(rows)
    if len(matches) > _MOST:
        click.echo(f"    and {len(matches) - _MOST} more")


def _if_also(match: Match) -> str:
    """What is not stated on one side: the figure holds only if it is the same."""
    names = ", ".join(compared.condition for compared in match.open)
    caveats = "; ".join(match.published.caveats)
    return "; ".join(filter(None, (f"not known to be the same: {names}" if names else "", caveats)))


def _differs(match: Match) -> str:
    return match.why or _if_also(match)
