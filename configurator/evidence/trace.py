"""A profiler trace (kineto JSON, plain or gzipped), summarized by kernel and by kind of step.

A step is an annotation such as `step[DECODE bs=1]`, `draft` or `draft_extend`. Its launches are
the calls on its thread within its time; its kernels are those that the launches are correlated
with, so that kernels of a replayed graph count for the step that launched the graph.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configurator.errors import ConfiguratorError
from configurator.evidence.trace_events import trace_events
from configurator.evidence.trace_model import Kernel, Trace
from configurator.evidence.trace_steps import (
    COPY,
    GRAPH,
    SINGLE,
    Call,
    Mark,
    Work,
    kernels_of,
    steps_of,
)

MOST_KEPT = 4_000_000
"""Kernels, copies, launches and steps that are kept of one trace, about 50 bytes each."""
_MOST_NAMES, _LONGEST = 20_000, 4096

_STEP = re.compile(
    r"(?:step\[(?P<kind>[A-Z0-9_]{1,40})|(?P<phase>draft|draft_extend|draft_decode|verify)\Z)"
)
_SIZE = re.compile(r"\bbs=(\d{1,9})\b")
_LAUNCH = re.compile(r"(?:cuda|cu|hip)(?!\w*HostFunc)\w*?(?P<graph>Graph)?Launch")
_COPY = re.compile(r"(?:cuda|cu|hip)Mem(?:cpy|set)")
_WORK = {"kernel": False, "gpu_memcpy": True, "gpu_memset": True}
"""Categories of what the GPU ran: whether it is a copy."""
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver")


def read_trace(path: Path) -> Trace:
    """Summarize one trace file.

    Raises:
        ConfiguratorError: EVD002, the file cannot be read, is no trace, or holds more than is read.
    """
    about: dict[str, Any] = {}
    kept = _Kept(path)
    for event in trace_events(path, about):
        kept.events += 1
        take = _TAKEN.get(str(event.get("cat")))
        if take is not None and isinstance(event.get("name"), str):
            take(kept, event)
    if len(kept.processes) > 1:
        raise ConfiguratorError.single(
            "EVD002", f"{path} holds launches of {len(kept.processes)} processes, whose kernels "
            "cannot be told apart", "give the trace of each rank, not the merged one",
        )  # fmt: skip
    work = kept.work
    try:
        steps = steps_of(work, kept.calls, kept.marks)
    except ValueError as error:
        raise ConfiguratorError.single(
            "EVD002", f"{path} cannot be used: {error}", "record it again, with at most 20 steps"
        ) from error
    return Trace(
        path.name,
        _by_name(work, copies=False),
        steps,
        _by_name(work, copies=True),
        _device(about),
        kept.events,
    )


@dataclass(slots=True)
class _Kept:
    """What is kept of the events."""

    path: Path
    events: int = 0
    work: Work = field(default_factory=Work)
    calls: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    """Launches by thread."""
    called: set[int] = field(default_factory=set)
    marks: list[Mark] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    processes: set[str] = field(default_factory=set)
    """Processes that launched something."""
    entries: int = 0

    def count(self) -> None:
        """One more is kept."""
        self.entries += 1
        if self.entries > MOST_KEPT:
            raise ConfiguratorError.single(
                "EVD002", f"{self.path} holds over {MOST_KEPT:,} kernels, copies and launches",
                "record fewer steps, at most 20",
            )  # fmt: skip

    def add_work(self, event: dict[str, Any]) -> None:
        """A kernel or a copy."""
        self.count()
        name, work = event["name"][:_LONGEST], self.work
        number = self.ids.get(name)
        if number is None:
            number = self.ids[name] = len(self.ids)
            if number >= _MOST_NAMES:
                raise ConfiguratorError.single(
                    "EVD002", f"{self.path} names over {_MOST_NAMES:,} different kernels",
                    "record fewer steps, at most 20",
                )  # fmt: skip
            work.names.append(_written(name))
            work.copies.append(_WORK[event["cat"]])
        work.name.append(number)
        work.start.append(_number(event.get("ts")))
        work.dur.append(max(0.0, _number(event.get("dur"))))
        work.correlation.append(_correlation(event))
        work.stream.append(_stream(event))

    def add_call(self, event: dict[str, Any]) -> None:
        """A call that launches a kernel, a graph or a copy, once each."""
        name = event["name"]
        launch = _LAUNCH.match(name)
        if launch is None and not _COPY.match(name):
            return
        correlation = _correlation(event)
        if correlation >= 0:
            if correlation in self.called:
                return
            self.called.add(correlation)
        self.count()
        how = COPY if launch is None else GRAPH if launch["graph"] else SINGLE
        self.processes.add(str(event.get("pid"))[:40])
        self.calls[_thread(event)].append((_number(event.get("ts")), correlation, how))

    def add_mark(self, event: dict[str, Any]) -> None:
        """An annotation, where it is of a step."""
        found = _STEP.match(event["name"])
        if found is None:
            return
        self.count()
        size = _SIZE.search(event["name"])
        start = _number(event.get("ts"))
        self.marks.append(
            Mark(
                found["kind"] or found["phase"], int(size[1]) if size else None, _thread(event),
                start, start + max(0.0, _number(event.get("dur"))),
            )
        )  # fmt: skip


_TAKEN: dict[str, Callable[[_Kept, dict[str, Any]], None]] = {
    **dict.fromkeys(_WORK, _Kept.add_work),
    **dict.fromkeys(_CALLS, _Kept.add_call),
    "user_annotation": _Kept.add_mark,
}
"""What is done with the events of a category; the others are passed over."""


def _by_name(work: Work, *, copies: bool) -> tuple[Kernel, ...]:
    indices = (i for i in range(len(work.name)) if work.copies[work.name[i]] is copies)
    return kernels_of(work, indices)


def _device(about: dict[str, Any]) -> str:
    listed = about.get("deviceProperties")
    first = listed[0] if isinstance(listed, list) and listed else None
    name = first.get("name") if isinstance(first, dict) else None
    return _written(name[:200]) if isinstance(name, str) else ""


def _written(name: str) -> str:
    """A name that can be written out: half of a surrogate pair becomes U+FFFD."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _thread(event: dict[str, Any]) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"[:100]


def _stream(event: dict[str, Any]) -> int:
    args = event.get("args")
    stream = args.get("stream") if isinstance(args, dict) else None
    stream = stream if stream is not None else event.get("tid")
    return stream if isinstance(stream, int) and abs(stream) < _HUGE else 0


def _correlation(event: dict[str, Any]) -> int:
    """What joins a kernel with its launch; -1: nothing does."""
    args = event.get("args")
    found = args.get("correlation") if isinstance(args, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        return -1
    return found if 0 <= found < _HUGE else -1


_HUGE = 1 << 62
_LATEST = 1e18
"""Microseconds beyond any clock's, whose sums could be no number."""


def _number(value: Any) -> float:
    """A time in microseconds; 0.0 for what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if abs(number) < _LATEST else 0.0
