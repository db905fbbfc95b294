"""The decode step of a plan in a terminal: reads by class, passes, what speculation gains."""

from __future__ import annotations

import click

from configurator.plan.figures import Figure
from configurator.plan.model import Efficiency, Pass, SpeedUp, Step
from configurator.report.plan_rows import Row, Sources, print_rows
from configurator.report.plan_sheet import at_acceptance, passes_of, plain_of
from configurator.report.plan_values import UNKNOWN, amount, per_second, said, span
from configurator.report.terminal import paragraph


def print_step(step: Step, sources: Sources) -> None:
    """What a token takes as a range, what that rests on, and what changes it."""
    click.echo()
    requests = "1 request" if step.batch == 1 else f"{step.batch:,} requests"
    click.secho(f"decode step of {requests} at {step.context:,} tokens of context", bold=True)
    print_rows([*_answers(step, sources), *_rests_on(step.efficiency, sources)])
    if step.bound:
        print_rows([Row("bound by", step.bound)])
    click.echo()
    print_rows(_passes(step, sources))
    if step.ratio is not None:
        click.echo()
        print_rows(_speculation(step, sources))
    if step.changes:
        click.echo()
        what = "a step" if step.accepted is None else "a token"
        click.secho(f"  {what} with and without each mechanism, all others kept", bold=True)
        print_rows([
            Row(change.mechanism, f"{said(change.with_it)} with, {said(change.without)} without")
            for change in step.changes
        ])  # fmt: skip
    for remark in step.remarks:
        paragraph(remark, "  - ")


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
        rows.append(
            Row("accepted a step", said(step.accepted), stands_on(step.accepted, sources))
        )
    if step.throughput is not None and step.batch > 1:
        rows.append(
            Row("over the batch", span(step.throughput), stands_on(step.throughput, sources))
        )
    return rows


def _rests_on(found: Efficiency, sources: Sources) -> list[Row]:
    host = f"measured on {found.host}" if found.host else "of other hosts of this kind"
    where = host if found.rests_on else "by habit: nothing is measured on this hardware"
    rows = [
        Row("bandwidth reached", f"{span(found.share)}, {where}", stands_on(found.share, sources)),
        Row("beside bytes", f"{span(found.layer)} a layer", stands_on(found.layer, sources)),
    ]
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
        Row(
            part.name, f"{said(part.size)} {part.dtype}".rstrip(), stands_on(part.size, sources), 1
        )
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


def stands_on(figure: Figure | None, sources: Sources) -> str:
    """The formula and the number of the source."""
    if figure is None:
        return ""
    return f"{figure.formula}{sources.mark(figure.source)}".strip()
