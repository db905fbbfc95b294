"""The decode step of a plan in a terminal: reads by class, passes, what speculation gains."""

from __future__ import annotations

import click

from configurator.plan.figures import Figure
from configurator.plan.model import Pass, SpeedUp, Step
from configurator.report.plan_rows import Row, Sources, print_rows
from configurator.report.plan_sheet import at_acceptance
from configurator.report.plan_values import UNKNOWN, amount, per_second, said, span
from configurator.report.terminal import paragraph


def print_step(step: Step, sources: Sources) -> None:
    """What a token takes as a range, what that rests on, and what changes it."""
    click.echo()
    requests = "1 request" if step.batch == 1 else f"{step.batch:,} requests"
    click.secho(f"decode step of {requests} at {step.context:,} tokens of context", bold=True)
    print_rows(_answers(step, sources))
    click.echo()
    print_rows(_passes(step, sources))
    if step.ratio is not None:
        click.echo()
        print_rows(_speculation(step, sources))
    if step.changes:
        click.echo()
        click.secho("  a token of one request, everything else kept", bold=True)
        print_rows([
            Row(change.mechanism, f"{said(change.without)} without, {said(change.with_it)} with")
            for change in step.changes
        ])  # fmt: skip
    for remark in step.remarks:
        paragraph(remark, "  - ")


def _answers(step: Step, sources: Sources) -> list[Row]:
    rows = []
    if step.per_token is None:
        rows.append(Row("a token takes", f"{UNKNOWN}: nothing says how many a step are accepted"))
    else:
        rate = span(per_second(step.per_token))
        rows.append(
            Row(
                "a token takes",
                f"{span(step.per_token)} ({rate} a request)",
                f"most likely {amount(step.per_token.value, 's')}; "
                f"{_stands_on(step.per_token, sources)}",
            )
        )
    if step.accepted is not None:
        rows.append(Row("accepted a step", said(step.accepted), _stands_on(step.accepted, sources)))
    if step.throughput is not None and step.batch > 1:
        rows.append(
            Row("over the batch", span(step.throughput), _stands_on(step.throughput, sources))
        )
    share = step.efficiency.share
    host = step.efficiency.host or "measured on other hosts"
    rows.append(
        Row("rests on", f"{span(share)} of the bandwidth, {host}", _stands_on(share, sources))
    )
    if step.bound:
        rows.append(Row("bound by", step.bound))
    return rows


def _passes(step: Step, sources: Sources) -> list[Row]:
    rows = []
    for one in step.passes:
        read = sum(part.size.value for part in one.reads)
        rows.append(
            Row(
                pass_name(one), f"{amount(read, 'B')} in {said(one.time)}",
                _stands_on(one.time, sources),
            )
        )  # fmt: skip
        rows += [
            Row(part.name, said(part.size), _stands_on(part.size, sources), 1)
            for part in one.reads
        ]  # fmt: skip
    whole = "a step" if step.ratio is not None else "a plain step"
    rows.append(Row(whole, said(step.step), _stands_on(step.step, sources)))
    return rows


def _speculation(step: Step, sources: Sources) -> list[Row]:
    assert step.ratio is not None
    rows = [
        Row("plain decode", f"{said(step.plain)} a token", _stands_on(step.plain, sources)),
        Row(
            "breaks even at", f"{said(step.ratio)} accepted tokens a step",
            _stands_on(step.ratio, sources),
        ),
    ]  # fmt: skip
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


def _stands_on(figure: Figure, sources: Sources) -> str:
    return f"{figure.formula}{sources.mark(figure.source)}".strip()
