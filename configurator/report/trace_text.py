"""Summaries of traces for people: steps by kind, then families, several files side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from configurator.evidence.trace_model import Trace, TraceStep
from configurator.families import Families, FamilyShare, shares_of
from configurator.report.findings import printable

Named = Sequence[tuple[str, Trace]]
"""Traces with the names that were given for them; the first is what others are compared with."""

_COLUMNS = (
    "steps", "launches", "of graphs", "kernels", "GPU us", "span us", "idle us", "CPU us",
    "every us",
)  # fmt: skip
_ROLES = ("decode", "verify", "draft", "draft extend", "prefill", "other")
_MOST_FAMILIES = 16


def lines(traces: Named, families: Families) -> Iterator[str]:
    """The whole text, line by line."""
    for name, trace in traces:
        yield from _trace(name, trace)
        yield ""
    yield from _families(traces, families)
    if len(traces) > 1:
        yield from _compared(traces)


def steps_in_order(trace: Trace) -> list[TraceStep]:
    """Steps in the order of a round, the parts of one after it."""
    whole = sorted(
        (step for step in trace.steps if not step.within),
        key=lambda step: (_ROLES.index(step.role), step.kind),
    )
    found: list[TraceStep] = []
    for step in whole:
        found += [step, *(part for part in trace.steps if part.within == step.kind)]
    return found + [step for step in trace.steps if step not in found]


def named(step: TraceStep) -> str:
    """Kind and batch sizes of steps, for instance `DECODE bs 1, 4`."""
    sizes = ", ".join(str(batch.size) for batch in step.batches)
    kind = f"{step.kind} in {step.within}" if step.within else step.kind
    return printable(f"{kind} bs {sizes}" if sizes else kind)


def _trace(name: str, trace: Trace) -> Iterator[str]:
    kernels = sum(kernel.count for kernel in trace.kernels)
    device = trace.device or "no GPU named"
    beside = f", {trace.outside:,} of them outside of steps" if trace.steps and kernels else ""
    yield printable(f"{name}: {device}, {trace.events:,} events, {kernels:,} kernels{beside}")
    if not trace.steps:
        yield "  no steps: nothing in it marks where a step begins and ends"
        return
    if not kernels:
        yield "  no kernels of a GPU: it shows which steps ran, and their time on the CPU"
    rows = [[named(step), *_cells(step)] for step in steps_in_order(trace)]
    yield from _table(["step", *_COLUMNS], rows)
    yield from _round(trace)


def _cells(step: TraceStep) -> list[str]:
    counts = (step.launches, step.graph_launches, step.kernels)
    times = (step.gpu_us, step.span_us, step.idle_us, step.cpu_us, step.every_us)
    shown = ("-" if time is None else f"{time:,.1f}" for time in times)
    return [str(step.steps), *map(counted, counts), *shown]


def counted(value: float) -> str:
    """A mean of counts with at most two digits behind the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _round(trace: Trace) -> Iterator[str]:
    """Target verify against draft, in the time that the GPU works."""
    times = {
        role: sum(s.gpu_us for s in trace.steps if s.role == role and not s.within)
        for role in ("verify", "draft", "draft extend")
    }
    drafts = times["draft"] + times["draft extend"]
    if times["verify"] and drafts:
        yield (
            f"  a round on the GPU: verify {times['verify']:,.1f} us, draft {times['draft']:,.1f} "
            f"us and its extension {times['draft extend']:,.1f} us: the draft takes "
            f"{drafts / (drafts + times['verify']):.0%}"
        )


def _families(traces: Named, families: Families) -> Iterator[str]:
    """For every role that some file has: families by the time of a step, file beside file."""
    for role in _ROLES:
        shares = [_of_role(trace, role, families) for _, trace in traces]
        if not any(shares):
            continue
        yield f"{role}: time on the GPU a step, by family"
        names = _by_most(shares)
        head = ["family"]
        for index in range(len(traces)):
            mark = f" ({index + 1})" if len(traces) > 1 else ""
            head += [f"kernels{mark}", f"us{mark}", f"share{mark}"]
        rows = [[printable(name), *_beside(shares, name)] for name in names[:_MOST_FAMILIES]]
        yield from _table(head, rows)
        if len(names) > _MOST_FAMILIES:
            yield f"  and {len(names) - _MOST_FAMILIES} more (--format json)"
        yield ""


def _of_role(trace: Trace, role: str, families: Families) -> dict[str, FamilyShare]:
    """The families of the steps that have a role and are no parts of others."""
    steps = [step for step in trace.steps if step.role == role and not step.within]
    if not steps or not any(step.by_name for step in steps):
        return {}
    number = max(step.steps for step in steps)
    kernels = (kernel for step in steps for kernel in step.by_name)
    return {share.family: share for share in shares_of(kernels, families, number)}


def _by_most(shares: Iterable[dict[str, FamilyShare]]) -> list[str]:
    most: dict[str, float] = {}
    for each in shares:
        for name, share in each.items():
            most[name] = max(most.get(name, 0.0), share.gpu_us)
    return sorted(most, key=lambda name: (-most[name], name))


def _beside(shares: Iterable[dict[str, FamilyShare]], name: str) -> Iterator[str]:
    for each in shares:
        share = each.get(name)
        if share is None:
            yield from ("-", "-", "-")
        else:
            yield from (counted(share.kernels), f"{share.gpu_us:,.1f}", f"{share.share:.1%}")


def _compared(traces: Named) -> Iterator[str]:
    """Every other file against the first one, by role."""
    yield "beside (1):"
    first = traces[0][1]
    rows = []
    for index, (_, trace) in enumerate(traces[1:], 2):
        for role in _ROLES:
            before, after = (_whole(one, role) for one in (first, trace))
            if before is None or after is None:
                continue
            pairs = (
                (before.launches, after.launches), (before.kernels, after.kernels),
                (before.gpu_us, after.gpu_us), (before.idle_us, after.idle_us),
                (before.every_us, after.every_us),
            )  # fmt: skip
            rows.append([f"{role} ({index})", *(_ratio(*pair) for pair in pairs)])
    yield from _table(["step", "launches", "kernels", "GPU us", "idle us", "every us"], rows)


def _whole(trace: Trace, role: str) -> TraceStep | None:
    """The most frequent steps of a role that are no parts of others."""
    steps = [step for step in trace.steps if step.role == role and not step.within]
    return max(steps, key=lambda step: step.steps, default=None)


def _ratio(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "-"
    shown = f"{counted(round(before, 1))} -> {counted(round(after, 1))}"
    return f"{shown} ({after / before:.2f}x)" if before else shown


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Columns as wide as what is in them; the first to the left."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"  {row[0].ljust(widths[0])}  {'  '.join(cells)}".rstrip()
