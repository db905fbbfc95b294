"""What belongs to the steps of a trace: launches by time and thread, kernels by correlation."""

from __future__ import annotations

import bisect
import itertools
import statistics
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from configurator.evidence.trace_model import Batch, Kernel, Ran, TraceStep

SINGLE, GRAPH, COPY = 0, 1, 2
"""What a call launches: one kernel, a graph, a copy."""
Call = tuple[float, int, int]
"""When, the correlation (-1: none), and what it launches."""
MOST_SHARED = 16_000_000
"""Kernels and copies of all steps together; only steps that overlap without end have more."""
_LONGEST_SAMPLE = 20_000
"""Kernels of the step that is shown."""


@dataclass(slots=True)
class Work:
    """What the GPU ran, one entry a kernel or copy in every array."""

    names: list[str] = field(default_factory=list)
    """The different names, by their number."""
    copies: list[bool] = field(default_factory=list)
    """Whether what has the name is a copy, by the same number."""
    name: array[int] = field(default_factory=lambda: array("l"))
    start: array[float] = field(default_factory=lambda: array("d"))
    dur: array[float] = field(default_factory=lambda: array("d"))
    correlation: array[int] = field(default_factory=lambda: array("q"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    replayed: bytearray = field(default_factory=bytearray)
    """1 where a graph ran it; filled by `steps_of`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One step on the CPU."""

    kind: str
    size: int | None
    """Its batch size, where it names one."""
    thread: str
    start: float
    end: float


@dataclass(slots=True)
class _Step:
    """One step with what it launched and what then ran."""

    mark: Mark
    within: str
    singles: int = 0
    graphs: int = 0
    ran: array[int] = field(default_factory=lambda: array("q"))
    """Kernels and copies, in the order in which they began."""


def steps_of(
    work: Work, calls: dict[str, list[Call]], marks: Sequence[Mark]
) -> tuple[TraceStep, ...]:
    """The steps by kind, and apart where they are parts of another step.

    Raises:
        ValueError: steps overlap so often that they cannot be told apart.
    """
    by_correlation = array("q", sorted(range(len(work.name)), key=work.correlation.__getitem__))
    keys = array("q", (work.correlation[index] for index in by_correlation))
    work.replayed = bytearray(len(work.name))
    for thread in calls.values():
        thread.sort()
    shared = 0
    groups: dict[tuple[str, str], list[_Step]] = defaultdict(list)
    for mark, within in _nested(marks):
        step = _Step(mark, within)
        for _, correlation, how in _within(calls.get(mark.thread, []), mark):
            step.singles += how == SINGLE
            step.graphs += how == GRAPH
            if correlation >= 0:
                first = bisect.bisect_left(keys, correlation)
                last = bisect.bisect_right(keys, correlation)
                step.ran.extend(by_correlation[first:last])
                if how == GRAPH:
                    for index in by_correlation[first:last]:
                        work.replayed[index] = 1
                shared += last - first
                if shared > MOST_SHARED:
                    raise ValueError(f"its steps overlap: over {MOST_SHARED:,} kernels in them")
        step.ran = array("q", sorted(step.ran, key=work.start.__getitem__))
        groups[mark.kind, within].append(step)
    return tuple(_summary(work, steps) for _, steps in sorted(groups.items()))


def _nested(marks: Sequence[Mark]) -> list[tuple[Mark, str]]:
    """Every step with the kind of the one around it, in the order of time."""
    found = []
    around: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        stack = around[mark.thread]
        while stack and stack[-1].end < mark.end:
            stack.pop()
        found.append((mark, stack[-1].kind if stack else ""))
        stack.append(mark)
    return found


def _within(calls: list[Call], mark: Mark) -> list[Call]:
    first = bisect.bisect_left(calls, mark.start, key=lambda call: call[0])
    last = bisect.bisect_right(calls, mark.end, key=lambda call: call[0])
    return calls[first:last]


def _summary(work: Work, steps: list[_Step]) -> TraceStep:
    """The steps of one kind: means of what is counted, medians of times."""
    number = len(steps)
    busy = [_busy(work, step.ran) for step in steps]
    spans = [span for span, _ in busy]
    shown = steps[_nearest(spans, statistics.median(spans))]
    return TraceStep(
        kind=shown.mark.kind,
        steps=number,
        launches=sum(step.singles + step.graphs for step in steps) / number,
        graph_launches=sum(step.graphs for step in steps) / number,
        kernels=sum(_kernels(work, step.ran) for step in steps) / number,
        sample=_sample(work, shown),
        within=shown.within,
        batches=_batches(work, steps),
        by_name=kernels_of(work, (index for step in steps for index in step.ran)),
        cpu_us=statistics.median(step.mark.end - step.mark.start for step in steps),
        gpu_us=statistics.median(sum(work.dur[i] for i in step.ran) for step in steps),
        span_us=statistics.median(spans),
        idle_us=statistics.median(span - time for span, time in busy),
        every_us=_every(steps),
    )


def kernels_of(work: Work, indices: Iterable[int]) -> tuple[Kernel, ...]:
    """The kernels at `indices` by name, the one with the most time first."""
    counts = array("q", bytes(8 * len(work.names)))
    times = array("d", bytes(8 * len(work.names)))
    for index in indices:
        counts[work.name[index]] += 1
        times[work.name[index]] += work.dur[index]
    found = [
        Kernel(name, count, time / count)
        for name, count, time in zip(work.names, counts, times, strict=True)
        if count
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.count * kernel.mean_us))


def _kernels(work: Work, ran: Iterable[int]) -> int:
    return sum(not work.copies[work.name[index]] for index in ran)


def _busy(work: Work, ran: array[int]) -> tuple[float, float]:
    """From the first begin to the last end, and the time of it in which something ran, in us."""
    if not ran:
        return 0.0, 0.0
    begin = end = work.start[ran[0]]
    idle = 0.0
    for index in ran:
        start = work.start[index]
        idle += max(0.0, start - end)
        end = max(end, start + work.dur[index])
    return end - begin, end - begin - idle


def _nearest(values: list[float], wanted: float) -> int:
    return min(range(len(values)), key=lambda index: abs(values[index] - wanted))


def _sample(work: Work, step: _Step) -> tuple[Ran, ...]:
    ran = step.ran[:_LONGEST_SAMPLE]
    begin = work.start[ran[0]] if ran else 0.0
    return tuple(
        Ran(
            work.names[work.name[i]], work.start[i] - begin, work.dur[i], work.stream[i],
            work.replayed[i] == 1, work.copies[work.name[i]],
        )
        for i in ran
    )  # fmt: skip


def _batches(work: Work, steps: list[_Step]) -> tuple[Batch, ...]:
    """The steps by their batch size, and how the kernels of each were launched."""
    found: dict[int, list[_Step]] = defaultdict(list)
    for step in steps:
        if step.mark.size is not None:
            found[step.mark.size].append(step)
    return tuple(
        Batch(
            size,
            len(some),
            sum(_is_replayed(work, step) for step in some),
            sum(not step.graphs and _kernels(work, step.ran) > 0 for step in some),
        )
        for size, some in sorted(found.items())
    )


def _is_replayed(work: Work, step: _Step) -> bool:
    """Whether a replayed graph ran at least half of the kernels of a step."""
    kernels = _kernels(work, step.ran)
    by_graph = (index for index in step.ran if work.replayed[index])
    return kernels > 0 and 2 * _kernels(work, by_graph) >= kernels


def _every(steps: list[_Step]) -> float | None:
    """The median from begin to begin of one kind of step on one thread; None: there is one."""
    times: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        times[step.mark.thread].append(step.mark.start)
    gaps = [
        later - earlier
        for starts in times.values()
        for earlier, later in itertools.pairwise(starts)
    ]
    return statistics.median(gaps) if gaps else None
