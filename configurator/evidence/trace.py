"""A profiler trace (kineto JSON, plain or gzipped), summarized by kernel and by kind of step.

A step is an annotation such as `step[DECODE bs=1]`, `draft` or `draft_extend`. Its launches are
the calls on its thread within its time; its kernels are those that the launches are correlated
with, so that kernels of a replayed graph count for the step that launched the graph.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from configurator.evidence.files import load
from configurator.evidence.model import Kernel, Trace, TraceStep

_STEP = re.compile(r"(?:step\[(?P<kind>[A-Z0-9_]+)|(?P<phase>draft|draft_extend|draft_decode)\Z)")
_LAUNCH = re.compile(r"(?:cuda|cu)(?:Launch|Graph)\w*|hip(?:Launch|GraphLaunch)\w*")
_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu|hip)GraphLaunch")
_GEMM = re.compile(r"nvjet|gemm|matmul|\bmm_kernel|cublas|wgmma", re.I)
# GEMMs of experts and attention are never the LM head.
_NOT_HEAD = re.compile(r"fused_moe|grouped|moe|attention|flash", re.I)


def read_trace(path: Path) -> Trace:
    """Summarize one trace file.

    Raises:
        ConfiguratorError: EVD002, the file cannot be read.
    """
    data = load(path)
    raw = data.get("traceEvents") if isinstance(data, dict) else data
    listed = raw if isinstance(raw, list) else []
    events = [e for e in listed if isinstance(e, dict) and isinstance(e.get("name"), str)]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return Trace(str(path.name), _by_name(kernels), _steps(events, kernels))


def _by_name(kernels: Iterable[dict[str, Any]]) -> tuple[Kernel, ...]:
    durations: dict[str, list[float]] = defaultdict(list)
    for event in kernels:
        durations[event["name"]].append(_number(event.get("dur")))
    found = [Kernel(name, len(times), sum(times) / len(times)) for name, times in durations.items()]
    return tuple(sorted(found, key=lambda kernel: -kernel.count * kernel.mean_us))


def _steps(events: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> tuple[TraceStep, ...]:
    launched: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kernel in kernels:
        launched[_correlation(kernel)].append(kernel)
    calls: dict[str, list[tuple[float, dict[str, Any]]]] = defaultdict(list)
    for event in events:
        runtime = event.get("cat") in ("cuda_runtime", "cuda_driver")
        if runtime and _LAUNCH.match(event["name"]):
            calls[str(event.get("tid"))].append((_number(event.get("ts")), event))
    for thread in calls.values():
        thread.sort(key=lambda call: call[0])
    kinds: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for event in events:
        kind = _kind(event)
        if kind:
            start = _number(event.get("ts"))
            end = start + _number(event.get("dur"))
            kinds[kind].append(_within(calls.get(str(event.get("tid")), []), start, end))
    return tuple(_step(kind, steps, launched) for kind, steps in sorted(kinds.items()))


def _kind(event: dict[str, Any]) -> str:
    match = _STEP.match(event["name"]) if event.get("cat") == "user_annotation" else None
    return (match["kind"] or match["phase"]) if match else ""


def _within(
    calls: list[tuple[float, dict[str, Any]]], start: float, end: float
) -> list[dict[str, Any]]:
    first = bisect.bisect_left(calls, start, key=lambda call: call[0])
    last = bisect.bisect_right(calls, end, key=lambda call: call[0])
    return [event for _, event in calls[first:last]]


def _step(
    kind: str, steps: list[list[dict[str, Any]]], launched: dict[str, list[dict[str, Any]]]
) -> TraceStep:
    calls = [call for step in steps for call in step]
    kernels = [kernel for call in calls for kernel in launched.get(_correlation(call), [])]
    graphs = sum(1 for call in calls if _GRAPH_LAUNCH.match(call["name"]))
    return TraceStep(
        kind=kind,
        steps=len(steps),
        launches=len(calls) / len(steps),
        graph_launches=graphs / len(steps),
        kernels=len(kernels) / len(steps),
        last_gemm=_last_gemm(kernels),
    )


def _last_gemm(kernels: list[dict[str, Any]]) -> str:
    """The head comes last among a step's GEMMs; of all steps the last one is as good as any."""
    in_order = sorted(kernels, key=lambda kernel: _number(kernel.get("ts")))
    names = (kernel["name"] for kernel in reversed(in_order))
    return next((n for n in names if _GEMM.search(n) and not _NOT_HEAD.search(n)), "")


def _correlation(event: dict[str, Any]) -> str:
    args = event.get("args")
    return str(args.get("correlation")) if isinstance(args, dict) else ""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
