"""Summaries of traces as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from configurator.evidence.trace_model import Trace, TraceStep
from configurator.families import Families, shares_of


def as_json(traces: Sequence[tuple[str, Trace]], families: Families) -> str:
    """All traces, each with the name that was given for it; times in microseconds."""
    listed = [_trace(name, trace, families) for name, trace in traces]
    return json.dumps({"traces": listed}, indent=2)


def _trace(name: str, trace: Trace, families: Families) -> dict[str, Any]:
    whole = shares_of((*trace.kernels, *trace.copies), families)
    return {
        "file": name,
        "device": trace.device,
        "events": trace.events,
        "kernels": sum(kernel.count for kernel in trace.kernels),
        "kernels_outside_of_steps": trace.outside,
        "copies": sum(kernel.count for kernel in trace.copies),
        "families": [dataclasses.asdict(share) for share in whole],
        "steps": [_step(step, families) for step in trace.steps],
    }


def _step(step: TraceStep, families: Families) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "role": step.role,
        "within": step.within or None,
        "steps": step.steps,
        "batches": [dataclasses.asdict(batch) for batch in step.batches],
        "launches": round(step.launches, 3),
        "graph_launches": round(step.graph_launches, 3),
        "kernels": round(step.kernels, 3),
        "cpu_us": round(step.cpu_us, 3),
        "gpu_us": round(step.gpu_us, 3),
        "span_us": round(step.span_us, 3),
        "idle_us": round(step.idle_us, 3),
        "every_us": None if step.every_us is None else round(step.every_us, 3),
        "last_gemm": families.last_gemm(step) or None,
        "families": [
            dataclasses.asdict(share) for share in shares_of(step.by_name, families, step.steps)
        ],
    }
