"""A plan's report as blocks, for a terminal and for a page alike."""

from __future__ import annotations

from collections.abc import Iterator

from configurator.plan.figures import Figure, exact
from configurator.plan.model import Cache, Memory, Part, Plan, Share
from configurator.report.plan_blocks_claims import claim_blocks, opinion_block
from configurator.report.plan_blocks_step import step_blocks
from configurator.report.plan_rows import Block, Row, Sources, figure_row, stands_on
from configurator.report.plan_sheet import Sheet, taken
from configurator.report.plan_values import SIZES, UNKNOWN, said, span


def blocks_of(sheet: Sheet, sources: Sources, *, verbose: bool) -> Iterator[Block]:
    """Everything of one plan below its verdict.

    Args:
        sheet: what is told.
        sources: where sources get their numbers.
        verbose: also the formula of every part of the model and of every read.
    """
    plan = sheet.plan
    if plan.memory is not None:
        yield _memory(plan.memory, sources, verbose=verbose)
    if plan.geometry.parts:
        yield _weights(plan, sources, verbose=verbose)
    if plan.geometry.caches:
        rows = tuple(_cache(cache, sources) for cache in plan.geometry.caches)
        yield Block("caches on one GPU", rows)
    if plan.step is not None:
        yield from step_blocks(plan.step, sources, verbose=verbose)
    if sheet.opinion is not None:
        yield opinion_block(plan, sheet.opinion, sources)
    if sheet.claims is not None:
        yield from claim_blocks(sheet.claims, sheet.argument, sources)
    missing = tuple(dict.fromkeys((*plan.unknown, *plan.geometry.unknown)))
    if missing:
        yield Block("not known", lines=missing)


def _memory(memory: Memory, sources: Sources, *, verbose: bool) -> Block:
    rows = [figure_row("the engine sees", memory.total, sources)]
    rows += [
        Row(share.name, f"{said(share.size)}{_percent(share.size, memory.total)}",
            _share_note(share, sources, verbose=verbose), 1)
        for share in memory.shares
    ]  # fmt: skip
    needed = sum(share.size.value for share in taken(memory))
    if memory.fits is False and needed > memory.total.value:
        over = exact(needed - memory.total.value, "B", "shares - what the engine sees", "")
        rows.append(figure_row("too much", over, sources))
    rows.append(_fraction(memory, sources))
    rows.append(figure_row("token capacity", memory.tokens, sources))
    rows.append(figure_row("requests at once", memory.requests, sources))
    rows.append(figure_row("longest sequence", memory.context, sources))
    if memory.breaks_first:
        rows.append(Row("breaks first", memory.breaks_first))
    return Block(f"memory of one GPU ({SIZES})", tuple(rows))


def _share_note(share: Share, sources: Sources, *, verbose: bool) -> str:
    """What a share stands on; the sum of weights is the next table."""
    if verbose or share.kind not in ("weights", "draft"):
        return stands_on(share.size, sources)
    return f"the sum of its parts{sources.mark(share.size.source)}"


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
    if whole.value <= 0 or part.value <= 0:
        return ""
    percent = 100 * part.value / whole.value
    return f", {percent:.0f} %" if percent >= 0.5 else ", <1 %"


def _weights(plan: Plan, sources: Sources, *, verbose: bool) -> Block:
    geometry = plan.geometry
    parts = [part for part in geometry.parts if verbose or part.owner == "target"]
    divided = any(part.pieces > 1 for part in parts)
    rows = [_part(part, sources, verbose=verbose, divided=divided) for part in parts]
    if verbose or plan.memory is None:
        rows += [
            Row(f"{name} on one GPU", said(figure), stands_on(figure, sources) if verbose else "")
            for name, figure in (("target", geometry.weights), ("draft", geometry.draft))
            if figure is not None
        ]
    return Block("weights of the whole model, before ranks share them", tuple(rows))


def _part(part: Part, sources: Sources, *, verbose: bool, divided: bool) -> Row:
    """A class of tensors; how ranks share it only where any is divided."""
    name = part.name if part.owner == "target" else f"draft: {part.name}"
    note = f"divided in {part.pieces}" if part.pieces > 1 else "whole on every rank"
    notes = [stands_on(part.size, sources)] if verbose else []
    return Row(
        name, f"{said(part.size)} {part.dtype}", "; ".join([*notes, *([note] if divided else [])]),
        1,
    )  # fmt: skip


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
