"""The decode step of a plan: reads by class, passes, what speculation gains."""

from __future__ import annotations

from collections.abc import Iterator

from configurator.plan.model import Efficiency, Pass, SpeedUp, Step
from configurator.report.plan_rows import Block, Row, Sources, stands_on
from configurator.report.plan_sheet import at_acceptance, passes_of, plain_of
from configurator.report.plan_values import UNKNOWN, amount, per_second, said, span

_SMALL = 0.002
"""Share of the largest pass below which classes are shown together."""


def step_blocks(step: Step, sources: Sources, *, verbose: bool) -> Iterator[Block]:
    """What a token takes as a range, what that rests on, and what changes it.

    Args:
        step: what is told.
        sources: where sources get their numbers.
        verbose: the reads of each pass with their formulas instead of one table.
    """
    requests = "1 request" if step.batch == 1 else f"{step.batch:,} requests"
    title = f"decode step of {requests} at {step.context:,} tokens of context"
    rows = [*_answers(step, sources), *_rests_on(step.efficiency, sources)]
    if step.ratio is not None:
        rows += _speculation(step, sources)
    if step.bound:
        rows.append(Row("bound by", step.bound))
    if verbose:
        yield Block(title, tuple(rows), lines=step.remarks)
        yield Block("reads of each pass", tuple(_passes(step, sources)))
    else:
        columns, cells = _reads_table(step)
        yield Block(title, tuple(rows), columns, cells, step.remarks)
    if step.changes:
        what = "a step" if step.accepted is None else "a token"
        rows = [
            Row(change.mechanism, f"{said(change.with_it)} with, {said(change.without)} without")
            for change in step.changes
        ]
        yield Block(f"{what} with and without each mechanism, all others kept", tuple(rows))


_Cells = tuple[tuple[str, tuple[str, ...]], ...]


def _reads_table(step: Step) -> tuple[tuple[str, ...], _Cells]:
    """GB by class and pass, the largest classes first; the rest together."""
    plain = plain_of(step)
    passes = (*([plain] if plain is not None else []), *passes_of(step))
    sizes: dict[str, list[float]] = {}
    for index, one in enumerate(passes):
        for read in one.reads:
            name = f"{read.name} {read.dtype}".rstrip()
            sizes.setdefault(name, [0.0] * len(passes))[index] += read.size.value
    totals = [sum(column) for column in zip(*sizes.values(), strict=True)]
    least = _SMALL * max(totals, default=0.0)
    kept = sorted(
        (item for item in sizes.items() if max(item[1]) >= least), key=lambda item: -sum(item[1])
    )
    small = [values for values in sizes.values() if max(values) < least]
    if small:
        kept.append((f"{len(small)} more", [sum(column) for column in zip(*small, strict=True)]))
    cells = [(name, tuple(map(_gigabytes, values))) for name, values in kept]
    cells.append(("GB in all", tuple(map(_gigabytes, totals))))
    cells.append(("ms", tuple(_milliseconds(one.time.value) for one in passes)))
    for name, side in (("ms at least", "low"), ("ms at most", "high")):
        cells.append((name, tuple(_milliseconds(getattr(one.time, side)) for one in passes)))
    return tuple(map(_short_name, passes)), tuple(cells)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}"


def _gigabytes(value: float) -> str:
    """Three digits; nothing where a pass does not read the class."""
    return "" if value == 0 else f"{value / 1e9:.3f}" if value >= 5e5 else "0.000+"


def _short_name(one: Pass) -> str:
    width = "" if one.tokens == 1 else f" {one.tokens} wide"
    return f"{one.name}{width}" + (f" x{one.times}" if one.times > 1 else "")


def _answers(step: Step, sources: Sources) -> list[Row]:
    """A token of one request and what it rests on, as ranges."""
    rows = []
    if step.per_token is not None:
        rate = span(per_second(step.per_token))
        likely = f"most likely {amount(step.per_token.value, 's')}; "
        rows.append(
            Row(
                "a token takes", f"{span(step.per_token)} ({rate} a request)",
                f"{likely}{stands_on(step.per_token, sources)}",
            )
        )  # fmt: skip
    elif step.step is not None:
        why = "nothing says how many tokens a step are accepted; --accepted N gives it"
        rows.append(Row("a token takes", f"{span(step.step)} / accepted tokens a step", why))
    else:
        why = "the passes of the draft are not known"
        rows.append(Row("a token takes", UNKNOWN, why))
    if step.accepted is not None and step.ratio is not None:
        rows.append(Row("accepted a step", said(step.accepted), stands_on(step.accepted, sources)))
    if step.throughput is not None and step.batch > 1:
        rows.append(
            Row("over the batch", span(step.throughput), stands_on(step.throughput, sources))
        )
    return rows


def _rests_on(found: Efficiency, sources: Sources) -> list[Row]:
    host = f"measured on {found.host}" if found.host else "of other hosts of this kind"
    where = host if found.rests_on else "by habit: no step that counts is measured on this hardware"
    rows = [
        Row("bandwidth reached", f"{span(found.share)}, {where}", stands_on(found.share, sources)),
        Row("beside bytes", f"{span(found.layer)} a layer", stands_on(found.layer, sources)),
    ]
    if found.round.high > 0:
        rows.append(
            Row("beside passes", f"{span(found.round)} a step", stands_on(found.round, sources))
        )
    if found.rests_on:
        rows.append(Row("measured steps", ", ".join(found.rests_on)))
    return rows


def _passes(step: Step, sources: Sources) -> list[Row]:
    rows = []
    for one in passes_of(step):
        rows += [_whole(one, sources), *_reads(one, sources)]
    rows.append(Row("a step", said(step.step), stands_on(step.step, sources)))
    plain = plain_of(step)
    if plain is not None:
        rows += [_whole(plain, sources), *_reads(plain, sources)]
    return rows


def _whole(one: Pass, sources: Sources) -> Row:
    read = sum(part.size.value for part in one.reads)
    each = " each" if one.times > 1 else ""
    text = f"{amount(read, 'B')} in {said(one.time)}{each}"
    return Row(pass_name(one), text, stands_on(one.time, sources))


def _reads(one: Pass, sources: Sources) -> list[Row]:
    return [
        Row(part.name, f"{said(part.size)} {part.dtype}".rstrip(), stands_on(part.size, sources), 1)
        for part in one.reads
    ]


def _speculation(step: Step, sources: Sources) -> list[Row]:
    rows = []
    if step.verify_ratio is not None:
        rows.append(
            Row("verify / plain", said(step.verify_ratio), stands_on(step.verify_ratio, sources))
        )
    rows.append(
        Row(
            "breaks even at", f"{said(step.ratio)} accepted tokens a step",
            stands_on(step.ratio, sources),
        )
    )  # fmt: skip
    rows += [
        Row(f"with {point.accepted:.3g} accepted", f"{point.low:.2f} to {point.high:.2f} x plain")
        for point in _chosen(step)
    ]
    return rows


def _chosen(step: Step) -> list[SpeedUp]:
    """Speed-up at no draft accepted, at the acceptance taken, and at all of them accepted."""
    if not step.curve:
        return []
    ends = {point.accepted: point for point in (step.curve[0], step.curve[-1])}
    if step.accepted is not None:
        point = at_acceptance(step.curve, step.accepted.value)
        ends[point.accepted] = point
    return [ends[accepted] for accepted in sorted(ends)]


def pass_name(one: Pass) -> str:
    """`verify of 4 tokens`, `draft, 3 times`."""
    name = one.name if one.tokens == 1 else f"{one.name} of {one.tokens} tokens"
    return name if one.times == 1 else f"{name}, {one.times} times"
