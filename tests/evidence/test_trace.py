"""Traces: launches and kernels a step, the LM head's kernel; small literal ones, then real ones."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from configurator.errors import ConfiguratorError
from configurator.evidence.trace import read_trace
from configurator.evidence.trace_model import Batch, Ran, Trace, TraceStep

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def event(cat: str, name: str, ts: float, dur: float = 1, **more: Any) -> dict[str, Any]:
    correlation = more.pop("correlation", None)
    args = {"correlation": correlation} if correlation is not None else {}
    return {"cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args, **more}


def summarize(tmp_path: Path, *events: dict[str, Any]) -> Trace:
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": list(events)}).encode()))
    return read_trace(path)


def test_kernels_of_a_graph_count_for_the_step_that_launched_it(tmp_path: Path) -> None:
    trace = summarize(
        tmp_path,
        event("user_annotation", "step[DECODE bs=1]", 0, 10),
        event("cuda_runtime", "cudaLaunchKernel", 1, correlation=1),
        event("cuda_runtime", "cudaGraphLaunch", 2, correlation=2),
        event("cuda_runtime", "cudaMemcpyAsync", 3, correlation=3),
        # Another thread, and after the step: neither is the step's.
        event("cuda_driver", "cuLaunchKernelEx", 4, correlation=4, tid=2),
        event("cuda_runtime", "cudaLaunchHostFunc", 5),
        event("cuda_runtime", "cudaGraphInstantiate", 6),
        event("cuda_driver", "cuLaunchKernelEx", 11, correlation=5),
        # The GPU runs them later than the annotation's time, and not in the file's order.
        event("kernel", "nvjet_sm90_tst_64x8", 33, 4, correlation=2),
        event("kernel", "triton_add", 30, 2, correlation=1),
        event("kernel", "nvjet_sm90_tst_64x8", 31, 2, correlation=2),
        event("kernel", "sampling", 38, 2, correlation=2),
        event("kernel", "later_gemm", 50, 1, correlation=5),
    )
    assert trace.file == "a.trace.json.gz"
    (step,) = trace.steps
    assert (step.kind, step.steps, step.role, step.within) == ("DECODE", 1, "decode", "")
    assert (step.launches, step.graph_launches, step.kernels) == (2, 1, 4)
    assert step.batches == (Batch(1, 1, replayed=1, eager=0),)
    assert step.sample == (
        Ran("triton_add", 0, 2, 1),
        Ran("nvjet_sm90_tst_64x8", 1, 2, 1, by_graph=True),
        Ran("nvjet_sm90_tst_64x8", 3, 4, 1, by_graph=True),
        Ran("sampling", 8, 2, 1, by_graph=True),
    )
    # 30 to 40 on the GPU, of which nothing ran from 37 to 38.
    assert (step.cpu_us, step.gpu_us, step.span_us, step.idle_us) == (10, 10, 10, 1)
    (first, *_) = trace.kernels
    assert (first.name, first.count, first.mean_us) == ("nvjet_sm90_tst_64x8", 2, 3.0)


def test_a_mean_over_steps_of_one_kind(tmp_path: Path) -> None:
    trace = summarize(
        tmp_path,
        event("user_annotation", "draft", 0, 10),
        event("user_annotation", "draft", 20, 10),
        event("user_annotation", "draft_extend", 40, 10),
        event("user_annotation", "draftsman", 60, 10),
        event("gpu_user_annotation", "step[DECODE bs=1]", 60, 10),
        *(event("cuda_runtime", "cudaLaunchKernelExC", ts) for ts in (1, 2, 21)),
    )
    assert [(s.kind, s.steps, s.launches, s.kernels) for s in trace.steps] == [
        ("draft", 2, 1.5, 0), ("draft_extend", 1, 0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [[], {}, {"traceEvents": None}, {"traceEvents": 5}, None, "x"])
def test_a_trace_without_events(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data))
    found = read_trace(path)
    assert (found.file, found.kernels, found.steps, found.events) == ("a.json", (), (), 0)


def test_events_of_an_odd_shape_are_survived(tmp_path: Path) -> None:
    odd: list[Any] = [None, 5, {}, {"name": None}, {"name": "step[DECODE", "cat": []}]
    odd.append(event("kernel", "k", 1, correlation=[1], tid=[2]))
    odd.append({"cat": "kernel", "name": "k", "dur": "long", "args": 7})
    odd.append({"cat": "user_annotation", "name": "step[DECODE bs=1]", "ts": None, "tid": {}})
    odd.append({"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": {}, "args": None})
    trace = summarize(tmp_path, *odd)
    assert [(k.name, k.count) for k in trace.kernels] == [("k", 2)]
    assert [step.kind for step in trace.steps] == ["DECODE"]


def test_a_broken_trace_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.trace.json.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(ConfiguratorError, match=r"EVD002 .*a\.trace\.json\.gz"):
        read_trace(path)


@pytest.mark.parametrize(
    ("case", "kind", "launches", "graphs", "kernels"),
    [
        # As the recordings' own account of the truth counts them.
        ("h200/dense_default", "DECODE", 5, 1, 52),
        ("h200/dense_nograph", "DECODE", 57, 0, 57),
        ("h200/moe_triton", "DECODE", 5, 1, 40),
        ("h200/moe_auto", "DECODE", 5, 1, 40),
        ("h200/moe_fp8_auto", "DECODE", 5, 1, 56),
        ("h200/moe_deep_gemm_bf16", "DECODE", 5, 1, 60),
        ("h200/nextn_good", "TARGET_VERIFY", 3, 1, 48),
        ("h200/nextn_good", "DRAFT_EXTEND_V2", 38, 0, 38),
        ("h200/nextn_v157k", "TARGET_VERIFY", 3, 1, 48),
        ("h200/bailing_nextn_patched", "TARGET_VERIFY", 1, 1, 54),
        ("h200/bailing_nextn_patched", "DRAFT_EXTEND_V2", 33, 0, 33),
        ("h200/standalone_good", "DRAFT_EXTEND_V2", 23, 2, 32),
        ("h200/standalone_good", "TARGET_VERIFY", 1, 1, 56),
        # What --level 3 recorded.
        ("h200-trace/dense", "DECODE", 7, 1, 54),
        ("h200-trace/nograph", "DECODE", 54, 0, 54),
        ("h200-trace/moe_triton", "DECODE", 7, 1, 42),
        ("h200-trace/moe_triton_kernel", "DECODE", 7, 1, 60),
        ("h200-trace/head_bf16", "TARGET_VERIFY", 3, 1, 46),
        ("h200-trace/head_fp8", "TARGET_VERIFY", 3, 1, 53),
    ],
)
def test_steps_of_real_servers(
    case: str, kind: str, launches: float, graphs: float, kernels: float
) -> None:
    step = next(step for step in recorded(case).steps if step.kind == kind)
    assert (step.launches, step.graph_launches, step.kernels) == (launches, graphs, kernels)
    assert len(step.sample) >= kernels
    assert sum(one.count for one in step.by_name) >= kernels * step.steps


def recorded(case: str) -> Trace:
    (path,) = (RECORDINGS / case).rglob("*.trace.json.gz")
    return read_trace(path)


def test_a_round_of_a_real_server() -> None:
    trace = recorded("h200-trace/head_fp8")
    assert trace.device == "NVIDIA H200"
    found = {(step.kind, step.within): (step.role, step.steps) for step in trace.steps}
    assert found == {
        ("TARGET_VERIFY", ""): ("verify", 15),
        ("draft", ""): ("draft", 15),
        ("draft_extend", ""): ("draft extend", 16),
        ("EXTEND", ""): ("prefill", 1),
        # The draft's own prefill is a part of the first extension.
        ("EXTEND", "draft_extend"): ("draft extend", 1),
    }
    verify = next(step for step in trace.steps if step.kind == "TARGET_VERIFY")
    assert verify.batches == (Batch(1, 15, replayed=15, eager=0),)
    assert verify.idle_us == pytest.approx(235.1, abs=0.1)
    assert verify.gpu_us == pytest.approx(276.2, abs=0.1)
    assert verify.span_us == pytest.approx(511.2, abs=0.1)
    assert verify.cpu_us == pytest.approx(395.5, abs=0.1)
    assert verify.every_us == pytest.approx(7615.3, abs=0.1)


def test_steps_without_a_graph_of_a_real_server() -> None:
    (step,) = (step for step in recorded("h200-trace/nograph").steps if step.kind == "DECODE")
    assert step.batches == (Batch(1, 15, replayed=0, eager=15),)
    assert not any(ran.by_graph for ran in step.sample)


@pytest.mark.parametrize(
    ("kind", "within", "role"),
    [
        ("VERIFY", "", "verify"),
        ("VERIFY", "verify", "verify"),
        ("DRAFT", "draft", "draft"),
        ("DRAFT", "draft_extend", "draft extend"),
        ("MIXED", "", "prefill"),
        ("IDLE", "", "other"),
    ],
)
def test_roles_by_the_names_of_0_5_23(kind: str, within: str, role: str) -> None:
    assert TraceStep(kind, 1, 1, 1, 1, within=within).role == role


def test_idle_time_is_what_no_stream_fills(tmp_path: Path) -> None:
    step = event("user_annotation", "step[DECODE bs=2]", 0, 10)
    calls = [event("cuda_runtime", "cudaLaunchKernel", n, correlation=n) for n in (1, 2, 3)]
    copy = event("cuda_runtime", "cudaMemcpyAsync", 4, correlation=4)
    trace = summarize(
        tmp_path, step, *calls, copy,
        event("kernel", "a", 100, 10, correlation=1),
        event("kernel", "b", 105, 20, correlation=2),  # beside a, until 125
        event("kernel", "c", 130, 5, correlation=3),
        event("gpu_memcpy", "Memcpy DtoH", 140, 2, correlation=4),
    )  # fmt: skip
    (found,) = trace.steps
    assert (found.span_us, found.idle_us, found.gpu_us) == (42, 10, 37)
    # A copy is work of the GPU, and neither a kernel nor a launch.
    assert (found.kernels, found.launches) == (3, 3)
    assert [(one.name, one.count) for one in trace.copies] == [("Memcpy DtoH", 1)]
    assert found.batches == (Batch(2, 1, replayed=0, eager=1),)
    assert [ran.is_copy for ran in found.sample] == [False, False, False, True]


def test_times_beyond_any_clock_make_no_infinity(tmp_path: Path) -> None:
    trace = summarize(
        tmp_path,
        event("user_annotation", "step[DECODE bs=1]", -1e308, 1e308, pid=1, tid=1),
        event("cuda_runtime", "cudaLaunchKernel", 0, pid=1, tid=1, args={"correlation": 1}),
        event("kernel", "k", 1e308, 1e308, args={"correlation": 1}),
        event("gpu_memcpy", "copy", 1, 1e308, args={"correlation": 2}),
        event("gpu_memcpy", "copy", 1, 1e308, args={"correlation": 3}),
    )
    (step,) = trace.steps
    numbers = [step.cpu_us, step.gpu_us, step.span_us, step.idle_us, trace.copies[0].mean_us]
    assert all(math.isfinite(number) for number in numbers)
