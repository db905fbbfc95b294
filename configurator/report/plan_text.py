"""A plan for people in a terminal: the verdict first, then memory, decode step and claims."""

from __future__ import annotations

import click

from configurator.plan.figures import Figure
from configurator.plan.model import Cache, Geometry, Memory, Part
from configurator.report.plan_rows import Row, Sources, print_rows
from configurator.report.plan_sheet import Outcome, Sheet, outcome, taken
from configurator.report.plan_text_claims import print_claims
from configurator.report.plan_text_opinion import print_opinion
from configurator.report.plan_text_step import print_step, stands_on
from configurator.report.plan_values import SIZES, UNKNOWN, said, span
from configurator.report.terminal import UNVERIFIED, heading, paragraph

_COLOURS = {"fits": "green", "does not fit": "red", "cannot be told": "yellow"}
_SPLITS = {
    "tensor": "by tensor parallel size",
    "expert": "whole experts by expert parallel size",
}


def print_plan(sheet: Sheet, *, verbose: bool = False) -> None:
    """Everything of one plan; formulas in the last column, sources numbered at the end.

    Args:
        sheet: what is told.
        verbose: also the formula of every part of the model and of every read.
    """
    sources = Sources()
    print_head(sheet)
    plan = sheet.plan
    if plan.memory is not None:
        _print_memory(plan.memory, sources)
    _print_geometry(plan.geometry, sources, verbose=verbose)
    if plan.step is not None:
        print_step(plan.step, sources, verbose=verbose)
    if sheet.opinion is not None:
        print_opinion(sheet, sheet.opinion, sources)
    if sheet.claims is not None:
        print_claims(sheet.claims, sheet.argument, sources)
    missing = dict.fromkeys((*plan.unknown, *plan.geometry.unknown))
    if missing:
        heading("not known")
        for text in missing:
            paragraph(text, "  - ")
    print_sources(sources)
    if not verbose:
        click.echo("\nformulas of every part and read: --verbose")


def print_head(sheet: Sheet) -> None:
    """What it is about, whether it fits, and what validation says of it."""
    note = f" [{UNVERIFIED}]" if sheet.status == "unverified" else ""
    click.secho(f"{sheet.plan.name} on {sheet.place}{note}", bold=True)
    verdict = outcome(sheet.plan)
    _print_outcome(verdict)
    memory = sheet.plan.memory
    for remark in memory.remarks if memory is not None else ():
        if remark != verdict.sentence:
            paragraph(remark, "  - ")
    if sheet.refused:
        paragraph(
            f"validation refuses it ({', '.join(sheet.refused)}): "
            f"configurator validate {sheet.argument}",
            "  - ",
        )


def _print_outcome(verdict: Outcome) -> None:
    word = verdict.word if verdict.word != "cannot be told" else "cannot be told whether it fits"
    paragraph(f"{word}: {verdict.sentence}", "", colour=_COLOURS[verdict.word])


def print_sources(sources: Sources) -> None:
    """The sources that figures are marked with."""
    if not sources.numbers:
        return
    heading("sources")
    for text, number in sources.numbers.items():
        paragraph(text, f"  [{number}] ", dim=True)


def _print_memory(memory: Memory, sources: Sources) -> None:
    heading(f"memory of one GPU ({SIZES})")
    rows = [_row("the engine sees", memory.total, sources)]
    rows += [
        Row(share.name, f"{said(share.size)}{_percent(share.size, memory.total)}",
            stands_on(share.size, sources), 1)
        for share in memory.shares
    ]  # fmt: skip
    needed = sum(share.size.value for share in taken(memory))
    if memory.fits is False and needed > memory.total.value:
        over = Figure(
            needed - memory.total.value, "B", "shares - what the engine sees", "",
            needed - memory.total.value, needed - memory.total.value,
        )  # fmt: skip
        rows.append(_row("too much", over, sources))
    rows.append(_fraction(memory, sources))
    rows.append(_row("token capacity", memory.tokens, sources))
    rows.append(_row("requests at once", memory.requests, sources))
    rows.append(_row("longest sequence", memory.context, sources))
    if memory.breaks_first:
        rows.append(Row("breaks first", memory.breaks_first))
    print_rows(rows)


def _fraction(memory: Memory, sources: Sources) -> Row:
    asked = memory.asked_fraction
    said_of = "the engine chooses" if asked is None else f"{asked:g} is asked for"
    if memory.fraction is None:
        none = "none works" if memory.fits is False else UNKNOWN
        return Row("--mem-fraction-static", f"{none}; {said_of}")
    return Row(
        "--mem-fraction-static", f"{span(memory.fraction)} works; {said_of}",
        stands_on(memory.fraction, sources),
    )  # fmt: skip


def _percent(part: Figure, whole: Figure) -> str:
    return f", {100 * part.value / whole.value:.0f} %" if whole.value > 0 else ""


def _row(label: str, figure: Figure | None, sources: Sources, depth: int = 0) -> Row:
    if figure is None:
        return Row(label, UNKNOWN, depth=depth)
    return Row(label, said(figure), stands_on(figure, sources), depth)


def _print_geometry(geometry: Geometry, sources: Sources, *, verbose: bool) -> None:
    if geometry.parts:
        heading("weights of the whole model, before ranks share them")
        print_rows([
            _part(part, sources, verbose=verbose)
            for part in geometry.parts if verbose or part.owner == "target"
        ])  # fmt: skip
        one = [("target", geometry.weights), ("draft", geometry.draft)]
        print_rows([
            Row(f"{name} on one GPU", said(figure), stands_on(figure, sources) if verbose else "")
            for name, figure in one if figure is not None
        ])  # fmt: skip
    if geometry.caches:
        heading("caches on one GPU")
        print_rows([_cache(cache, sources) for cache in geometry.caches])


def _part(part: Part, sources: Sources, *, verbose: bool) -> Row:
    name = part.name if part.owner == "target" else f"draft: {part.name}"
    note = f"shared {_SPLITS[part.split]}" if part.split != "replicated" else "on every rank"
    if verbose:
        note = f"{stands_on(part.size, sources)}; {note}"
    return Row(name, f"{said(part.size)} {part.dtype}", note, 1)


def _cache(cache: Cache, sources: Sources) -> Row:
    owner = "draft, " if cache.owner == "draft" else ""
    layers = f"{cache.layers} layer{'' if cache.layers == 1 else 's'}"
    per = [figure for figure in (cache.per_token, cache.per_request) if figure.high > 0]
    values = [
        f"{said(figure)}{' a request' if figure is cache.per_request else ''}" for figure in per
    ]
    if cache.window is not None:
        values.append(f"of {cache.window:,} tokens at most")
    notes = "; ".join(filter(None, (stands_on(figure, sources) for figure in per)))
    return Row(f"{owner}{cache.kind}, {layers}", ", ".join(values) or "nothing", notes, 1)
