"""Published figures for people in a terminal: by run, with what they hold for and whether they
hang together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import click

from configurator.plan.claims import Compared, Match, Status
from configurator.plan.consistency import Checked
from configurator.report.findings import printable
from configurator.report.terminal import UNVERIFIED, paragraph
from configurator.schema.claims import Claims, Published, stated, unstated

_COLOURS: dict[Status, str] = {"applies": "green", "nearly": "yellow", "does not": "red"}
_TITLES: dict[Status, str] = {
    "applies": "apply, as far as is known",
    "nearly": "nearly apply",
    "does not": "do not apply",
}
_REPRODUCED = {
    "yes": "reproduced",
    "no": "not reproduced by others",
    "contradicted": "contradicted",
}


def print_library(
    sets: Sequence[Claims], claims: Mapping[str, Published], checked: Sequence[Checked]
) -> None:
    """Every file of claims: each run with its conditions and figures, then what does not agree."""
    for index, entry in enumerate(sets):
        click.echo("\n" if index else "", nl=False)
        paragraph(f"{entry.name}: {entry.summary}", "", bold=True)
        for name in entry.runs:
            mine = [c for c in claims.values() if c.entry == entry.name and c.claim.run == name]
            if mine:
                _print_run(mine, claims)
        _print_checked([c for c in checked if c.entry == entry.name])
        _print_conflicts([entry])
    failed = sum(not c.holds for c in checked)
    click.echo(
        f"\n{len(claims)} figures in {len(sets)} publications; of {len(checked)} relations between "
        f"them {failed} do not hold"
    )


def print_matches(
    name: str,
    status: str | None,
    matches: Sequence[Match],
    claims: Mapping[str, Published],
    checked: Sequence[Checked],
    conflicts: Sequence[Claims],
) -> None:
    """Which figures apply to a deployment, nearly do or do not, each with what differs."""
    mine = [m for m in matches if not m.other_model]
    counts = {s: sum(m.status == s for m in mine) for s in _TITLES}
    told = ", ".join(f"{n} {_TITLES[s].split(',')[0]}" for s, n in counts.items())
    note = f" [{UNVERIFIED}]" if status == "unverified" else ""
    paragraph(name + note, "", bold=True)
    click.echo(f"published figures of its model: {told}")
    for each, title in _TITLES.items():
        those = [m for m in mine if m.status == each]
        if those:
            click.echo()
            click.secho(title, fg=_COLOURS[each], bold=True)
        for _, group in groupby(those, key=_alike):
            _print_group(list(group), claims)
    if checked or any(entry.conflicts for entry in conflicts):
        click.echo()
        click.secho("do they agree", bold=True)
        _print_checked(checked)
        _print_conflicts(conflicts)
    others = len(matches) - len(mine)
    if others:
        click.echo(f"\n{others} figures of other models are left out; --format json has them")


def _alike(match: Match) -> tuple[object, ...]:
    """Figures of one run that differ in the same conditions are told together."""
    published = match.published
    rows = (*match.differs, *match.open)
    return published.entry, published.claim.run, tuple((r.condition, r.open) for r in rows)


def _print_run(mine: Sequence[Published], claims: Mapping[str, Published]) -> None:
    run, conditions = mine[0].run, mine[0].run.conditions
    click.echo()
    paragraph(run.summary, "  ", bold=True)
    _labelled("with", "; ".join(f"{name}: {text}" for name, text in stated(conditions)))
    _labelled("not stated", ", ".join(unstated(conditions)))
    _labelled("by", origin(mine[0]))
    _labelled("but", run.caveat)
    for published in mine:
        _print_figure(published, claims)


def _print_group(group: Sequence[Match], claims: Mapping[str, Published]) -> None:
    """Figures of one run: what they share first, and with each figure what is its own."""
    first = group[0]
    run = first.published.run
    click.echo()
    paragraph(run.summary, "  ", bold=True)
    shared = [r for r in _rows(first) if all(r in _rows(match) for match in group)]
    for label, texts in (
        ("differs", [r.text for r in shared if not r.open]),
        ("if", [f"{r.condition}: {r.there}" for r in shared if r.here is None and r.there]),
        ("not stated", [r.condition for r in shared if r.there is None]),
    ):
        if texts and (label != "not stated" or first.status != "does not" or not first.differs):
            _labelled(label, "; ".join(texts))
    computed = all(match.published.claim.derived is not None for match in group)
    if first.status != "does not" and not computed:
        again = _REPRODUCED[run.reproduced]
        by = f" by {run.reproduced_by}" if run.reproduced_by else ""
        _labelled("by", f"{run.measured_by}, {again}{by}; {run.source}")
        _labelled("but", run.caveat)
    for match in group:
        claim = match.published.claim
        own = [r for r in _rows(match) if r not in shared]
        line = figure_line(match.published, claims)
        if first.status == "does not":
            line = "; ".join(filter(None, (claim.figure, claim.statistic)))
        told = "".join(f"; {_own(row)}" for row in own)
        lead = f"    {printable(match.published.shown):>18}  "
        paragraph(f"{line}{told} [{match.published.id}]", lead, dim=first.status == "does not")


def _own(row: Compared) -> str:
    if not row.open:
        return row.text
    return (
        f"{row.condition} not stated" if row.there is None else f"if {row.condition}: {row.there}"
    )


def _rows(match: Match) -> tuple[Compared, ...]:
    return (*match.differs, *match.open)


def _print_figure(published: Published, claims: Mapping[str, Published]) -> None:
    shared = list(stated(published.run.conditions))
    own = [
        f"{name}: {text}"
        for name, text in stated(published.conditions)
        if (name, text) not in shared
    ]
    line = "; ".join([figure_line(published, claims), *own])
    paragraph(f"{line} [{published.id}]", f"    {printable(published.shown):>18}  ")


def figure_line(published: Published, claims: Mapping[str, Published]) -> str:
    """What a figure is, without its value: statistic, baseline, formula, caveat."""
    claim = published.claim
    words = [claim.figure, *([claim.statistic] if claim.statistic else [])]
    if claim.baseline is not None:
        words.append(f"against {claims[claim.baseline].shown}")
    if claim.derived is not None:
        words.append(f"computed: {claim.derived}")
    if claim.caveat:
        words.append(claim.caveat)
    return "; ".join(words)


def origin(published: Published) -> str:
    """Who measured a figure, how much, who repeated it, and where it is published."""
    run = published.run
    again = _REPRODUCED[run.reproduced] + (f" ({run.reproduced_by})" if run.reproduced_by else "")
    size = f"sample: {published.sample_text}"
    return f"{run.measured_by}; {size}; {again}; {run.source}; {run.date or 'no date'}"


def _print_checked(checked: Iterable[Checked]) -> None:
    for index, each in enumerate(checked):
        if not index:
            click.echo()
        if each.holds:
            paragraph(f"{each.relation.name}: {each.text}", "  agrees   ")
            continue
        paragraph(each.relation.name, "  DIFFERS  ", bold=True, fg="red")
        paragraph(each.text, "           ")
        if each.relation.note:
            paragraph(each.relation.note, "           ")


def _print_conflicts(sets: Iterable[Claims]) -> None:
    for conflict in (c for entry in sets for c in entry.conflicts):
        click.echo()
        paragraph(conflict.about, "  DIFFERS  ", bold=True, fg="red")
        for statement in conflict.statements:
            paragraph(f"{statement.says}: {statement.source}", "           - ")
        if conflict.judgement:
            paragraph(f"taken: {conflict.judgement}", "           ")


def _labelled(label: str, text: str) -> None:
    if text:
        paragraph(text, f"    {label:<11} ", dim=label not in ("differs", "if", "not stated"))
