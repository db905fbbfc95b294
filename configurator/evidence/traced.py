"""What the steps of a trace say of launches, for probes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.evidence.model import Replica
from configurator.evidence.trace_model import Trace, TraceStep

GENERATING = ("decode", "verify")
"""Roles of the steps that give tokens."""


@dataclass(frozen=True, slots=True)
class TracedSteps:
    """Steps of one trace with one batch size, whose kernels were all launched in one way."""

    trace: Trace
    step: TraceStep
    size: int
    """Requests that ran together."""
    count: int
    replayed: bool
    """A graph ran at least half of the kernels of each; else each kernel was launched by itself."""

    def __str__(self) -> str:
        one, launches, kernels = self.step, self.step.launches, self.step.kernels
        how = "replayed a graph" if self.replayed else "ran eager"
        return (
            f"{self.count} {one.kind} steps of batch size {self.size} {how}: {launches:g} launches "
            f"({one.graph_launches:g} of graphs) and {kernels:g} kernels a step"
        )


def generating(replica: Replica) -> Iterator[tuple[Trace, TraceStep]]:
    """The decode and verify steps of every trace in which the GPU's kernels were recorded.

    A trace of a CPU has steps without kernels, which say nothing of launches, and one that lost
    the kernels of its graphs says nothing of what ran.
    """
    for trace in replica.traces:
        for step in trace.steps:
            if step.role in GENERATING and step.kernels and step.is_whole:
                yield trace, step


def traced_steps(replica: Replica) -> Iterator[TracedSteps]:
    """The decode and verify steps by batch size and by how their kernels were launched.

    Steps of which some kernels were replayed and most were not are left out: they are neither.
    """
    for trace, step in generating(replica):
        for batch in step.batches:
            for count, replayed in ((batch.replayed, True), (batch.eager, False)):
                if count:
                    yield TracedSteps(trace, step, batch.size, count, replayed)
