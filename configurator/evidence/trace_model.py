"""A profiler trace as data: what the GPU ran, by kernel and by kind of step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel name of a trace and how often and how long it ran."""

    name: str
    count: int
    mean_us: float


@dataclass(frozen=True, slots=True)
class Ran:
    """One kernel, or copy, of one step."""

    name: str
    start_us: float
    """Since the first one of the step began."""
    dur_us: float
    stream: int
    by_graph: bool = False
    """A replayed graph ran it."""
    is_copy: bool = False
    """A copy or a fill of memory, which is no kernel."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps of one kind and one batch size."""

    size: int
    steps: int
    replayed: int
    """Those of them of whose kernels a replayed graph ran at least half."""
    eager: int
    """Those of which every kernel was launched by itself."""


_ROLES = {
    "DECODE": "decode",
    "TARGET_VERIFY": "verify",
    "VERIFY": "verify",
    "verify": "verify",
    "draft": "draft",
    "draft_decode": "draft",
    "DRAFT": "draft",
    "draft_extend": "draft extend",
    "DRAFT_EXTEND": "draft extend",
    "DRAFT_EXTEND_V2": "draft extend",
    "EXTEND": "prefill",
    "MIXED": "prefill",
    "SPLIT_PREFILL": "prefill",
}
"""Kinds of steps by what they are for. SGLang 0.5.17 and 0.5.23, utils/profile_utils.py."""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Steps of one kind (DECODE, TARGET_VERIFY, draft, ...) in a trace.

    Counts are means over the steps, times are medians.
    """

    kind: str
    steps: int
    launches: float
    """Launch calls a step, a graph launch counted as one."""
    graph_launches: float
    kernels: float
    """Kernels executed a step."""
    sample: tuple[Ran, ...] = ()
    """What the GPU ran in the step that took the median of time there, in the order it began."""
    within: str = ""
    """The kind of the step that these are parts of; empty: they are none."""
    batches: tuple[Batch, ...] = ()
    """By batch size, where the steps name it."""
    by_name: tuple[Kernel, ...] = ()
    """Kernels and copies of all the steps."""
    cpu_us: float = 0.0
    """From the begin to the end of a step on the CPU."""
    gpu_us: float = 0.0
    """Kernels and copies of a step, added up."""
    span_us: float = 0.0
    """From the begin of the first kernel or copy of a step to the end of its last."""
    idle_us: float = 0.0
    """What of the span no kernel and no copy ran in, on any stream."""
    every_us: float | None = None
    """From the begin of a step to the begin of the next of its kind; None: there is only one."""

    @property
    def is_whole(self) -> bool:
        """Whether what its graphs ran was recorded: a replayed graph that ran nothing was not."""
        return not (self.graph_launches and self.sample) or any(one.by_graph for one in self.sample)

    @property
    def role(self) -> str:
        """What the steps are for: decode, verify, draft, draft extend, prefill or other.

        0.5.17 names the modes (TARGET_VERIFY, DRAFT_EXTEND_V2), 0.5.23 the models (VERIFY, and
        DRAFT for every pass of a draft); a pass of a draft lies within the phase it is of.
        """
        if self.within in _ROLES and _ROLES[self.within].startswith("draft"):
            return _ROLES[self.within]
        return _ROLES.get(self.kind, "other")


@dataclass(frozen=True, slots=True)
class Trace:
    """A profiler trace, summarized."""

    file: str
    kernels: tuple[Kernel, ...]
    steps: tuple[TraceStep, ...] = ()
    copies: tuple[Kernel, ...] = ()
    """Copies and fills of memory, which are no kernels."""
    device: str = ""
    """Name of the GPU; empty: the trace is of a CPU, or does not say."""
    events: int = 0
    """Events of any kind in the file."""

    @property
    def outside(self) -> int:
        """Kernels that no step launched, for instance those that sample between the steps."""
        within = sum(step.kernels * step.steps for step in self.steps if not step.within)
        return max(0, sum(kernel.count for kernel in self.kernels) - round(within))
