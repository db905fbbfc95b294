"""Probes of traces alone: from a few literals, good and bad."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from replicas import judged, said

from configurator.content import Library
from configurator.evidence.model import (
    Evidence,
    Megakernel,
    ModelReport,
    Replica,
    Report,
    ServerState,
)
from configurator.evidence.trace_model import Batch, Kernel, Ran, Trace, TraceStep
from configurator.judge import expectation_from, judge
from configurator.loader import Validators
from configurator.resolve import resolve

MOE, OTHER_MOE = "fused_moe_kernel", "_matmul_ogs_NNN_bf16xbf16xbf16_16x256x64x1"
NORM, FA3 = "flashinfer::norm::RMSNormKernel", "cutlass::device_kernel<flash::FlashAttnFwdSm90>"
TRITON = "_fwd_grouped_kernel_stage1"
DENSE = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(deep_gemm::GemmType)0>"


def trace(
    *names: str, kind: str = "DECODE", kernels: float = 50, file: str = "TP-0.trace.json",
    batches: tuple[Batch, ...] = (Batch(1, 8, 8, 0),),
) -> Trace:  # fmt: skip
    ran = tuple(Kernel(name, 16, 5.0) for name in names)
    return Trace(file, ran, (TraceStep(kind, 8, 5, 1, kernels, by_name=ran, batches=batches),))


MLA = "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512HVPerCta256PagedKvDenseP64VarSeqQ64Kv128"
SPARSE = "sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel"


def lost(*names: str) -> Trace:
    """A trace of steps that replay a graph of which no kernel was recorded."""
    seen = trace(*names)
    (step,) = seen.steps
    ran = tuple(Ran(name, float(at), 1.0, 7) for at, name in enumerate(names))
    return replace(seen, steps=(replace(step, sample=ran),))


@pytest.mark.parametrize(
    ("traces", "asked", "expected", "fact"),
    [
        ([trace(MOE, NORM)], "moe-triton", ("PROVEN", "executed"), "2 of moe-triton a step"),
        ([trace(OTHER_MOE)], "moe-triton", ("REFUTED", "executed"), "moe-triton-kernel do its job"),
        (
            [trace(MOE), trace(OTHER_MOE)],
            "moe-triton",
            ("REFUTED", "executed"),
            "moe-triton-kernel",
        ),
        ([trace(NORM)], "moe-triton", ("INCONCLUSIVE", None), "no kernel in DECODE steps"),
        # What plain linear layers run too did not do the job of experts instead.
        ([trace(DENSE)], "moe-triton", ("INCONCLUSIVE", None), "no kernel in DECODE steps"),
        ([lost(OTHER_MOE)], "moe-triton", ("INCONCLUSIVE", None), "no trace shows"),
        ([trace(MOE, kind="EXTEND")], "moe-triton", ("INCONCLUSIVE", None), "no trace shows"),
        ([trace(MOE, kernels=0)], "moe-triton", ("INCONCLUSIVE", None), "no trace shows"),
        ([], "moe-triton", ("INCONCLUSIVE", None), "no trace shows"),
        ([trace(MOE)], "moe-tritn", ("INCONCLUSIVE", None), "no family is named moe-tritn"),
        ([trace(MOE, kind="VERIFY")], "moe-triton", ("PROVEN", "executed"), "VERIFY steps"),
    ],
)
def test_a_family(
    validators: Validators, traces: list[Trace], asked: str, expected: Any, fact: str
) -> None:
    outcome = judged(validators, f"kernel-family={asked}", traces=tuple(traces))
    assert said(outcome) == expected
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("traces", "most", "expected"),
    [
        ([trace(kernels=97)], 97, ("PROVEN", "executed")),
        ([trace(kernels=97.5)], 97, ("REFUTED", "executed")),
        ([trace(kernels=97), trace(kernels=1450)], 97, ("REFUTED", "executed")),
        ([trace(kernels=0)], 97, ("INCONCLUSIVE", None)),
        ([lost(NORM)], 97, ("INCONCLUSIVE", None)),
        ([], 97, ("INCONCLUSIVE", None)),
    ],
)
def test_kernels_a_step(
    validators: Validators, traces: list[Trace], most: int, expected: Any
) -> None:
    outcome = judged(validators, f"kernels-per-step={most}", traces=tuple(traces))
    assert said(outcome) == expected


@pytest.mark.parametrize(
    ("traces", "asked", "expected", "fact"),
    [
        ([trace()], "", ("PROVEN", "executed"), "8 DECODE steps of batch size 1 replayed a graph"),
        ([trace(batches=(Batch(1, 8, 0, 8),))], "", ("REFUTED", "executed"), "ran eager"),
        ([trace(batches=(Batch(1, 8, 8, 0), Batch(4, 2, 0, 2)))], "",
         ("INCONCLUSIVE", "executed"), "steps of batch size 4 ran eager, others replayed a graph"),
        ([trace(batches=(Batch(1, 8, 8, 0), Batch(4, 2, 0, 2)))], "=4",
         ("REFUTED", "executed"), "decode steps of batch size 4 ran eager"),
        ([trace()], "=1,4", ("INCONCLUSIVE", "executed"), "not known for batch size 4"),
        # Some kernels of every step came of a graph, and most did not: that says neither.
        ([trace(batches=(Batch(1, 8, 0, 0),))], "", ("INCONCLUSIVE", None), "neither metrics"),
        # A trace of a CPU has no kernels, and its steps say nothing of launches.
        ([trace(kernels=0)], "", ("INCONCLUSIVE", None), "neither metrics"),
        ([trace(kind="EXTEND")], "", ("INCONCLUSIVE", None), "neither metrics"),
    ],
)  # fmt: skip
def test_graphs_of_steps(
    validators: Validators, traces: list[Trace], asked: str, expected: Any, fact: str
) -> None:
    outcome = judged(validators, f"decode-cuda-graphs{asked}", traces=tuple(traces))
    assert said(outcome) == expected
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("traces", "asked", "expected", "fact"),
    [
        ([trace(TRITON, NORM)], "triton", ("PROVEN", "executed"), "ran kernels of triton"),
        ([trace(FA3)], "triton", ("REFUTED", "executed"), "ran kernels of fa3"),
        ([trace(FA3), trace(TRITON)], "triton", ("REFUTED", "executed"), "ran kernels of fa3"),
        # Two backends in one step, or kernels that name none: that contradicts nothing.
        ([trace(TRITON, FA3)], "triton", ("INCONCLUSIVE", None), "nothing shows"),
        ([trace(TRITON, "my_attention")], "triton", ("INCONCLUSIVE", None), "nothing shows"),
        ([trace(TRITON, kind="EXTEND")], "triton", ("INCONCLUSIVE", None), "nothing shows"),
        # Of these no kernels are known: they run those of other backends.
        ([trace(FA3)], "dsa", ("INCONCLUSIVE", None), "nothing shows"),
        ([trace("flash_fwd_splitkv_mla_kernel")], "dsv4", ("INCONCLUSIVE", None), "nothing shows"),
        ([trace(SPARSE)], "flashmla", ("INCONCLUSIVE", None), "nothing shows"),
        ([trace(MLA)], "trtllm_mla", ("PROVEN", "executed"), "ran kernels of trtllm_mla"),
        ([trace(MLA)], "trtllm_mha", ("REFUTED", "executed"), "ran kernels of trtllm_mla"),
        ([lost(TRITON)], "triton", ("INCONCLUSIVE", None), "nothing shows"),
    ],
)
def test_kernels_of_attention(
    validators: Validators, traces: list[Trace], asked: str, expected: Any, fact: str
) -> None:
    outcome = judged(validators, f"attention-backend={asked}", traces=tuple(traces))
    assert said(outcome) == expected
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Kernels that two runners share prove neither, and contradict every third.
        ("flashinfer_trtllm", "INCONCLUSIVE"),
        ("flashinfer_mxfp4", "INCONCLUSIVE"),
        ("humming", "REFUTED"),
    ],
)
def test_kernels_that_runners_share(validators: Validators, asked: str, expected: str) -> None:
    name = "bmm_E2m1_E2m1E2m1_Fp32_t128x8x512"
    outcome = judged(validators, f"moe-runner={asked}", traces=(trace(name),))
    assert str(outcome.answer) == expected


@pytest.mark.parametrize("asked", ["flashinfer_cutedsl", "lora_triton", "hpc_ops"])
def test_a_runner_of_which_no_kernels_are_known_is_not_contradicted(
    validators: Validators, asked: str
) -> None:
    outcome = judged(validators, f"moe-runner={asked}", traces=(trace(MOE),))
    assert said(outcome) == ("INCONCLUSIVE", None)


@pytest.mark.parametrize(
    ("target", "draft", "asked", "expected"),
    [
        ("humming::kernel", MOE, "humming", ("PROVEN", "executed")),
        # What ran in the target is not known; the draft's experts are not its experts.
        ("nobody_knows_me", MOE, "humming", ("INCONCLUSIVE", None)),
        ("nobody_knows_me", MOE, "triton", ("INCONCLUSIVE", None)),
        (MOE, "humming::kernel", "humming", ("REFUTED", "executed")),
    ],
)
def test_the_experts_of_a_draft_are_not_those_of_its_target(
    validators: Validators, target: str, draft: str, asked: str, expected: Any
) -> None:
    first, second = trace(target, kind="TARGET_VERIFY"), trace(draft, kind="draft")
    within = replace(trace(draft).steps[0], within="draft")
    both = Trace(
        first.file, (*first.kernels, *second.kernels), (*first.steps, *second.steps, within)
    )
    assert said(judged(validators, f"moe-runner={asked}", traces=(both,))) == expected


def headed(stage: int) -> Trace:
    name = "nvjet_sm90_tst_8x64_"
    (step,) = trace(name).steps
    ran = (Ran(name, 0.0, 1.0, 7, by_graph=True),)
    file = f"x-TP-0-PP-{stage}.trace.json.gz"
    return Trace(file, (Kernel(name, 8, 1.0),), (replace(step, sample=ran),))


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([0], ("INCONCLUSIVE", None)),
        ([1], ("REFUTED", "executed")),
        ([0, 1], ("REFUTED", "executed")),
    ],
)
def test_only_the_last_stage_has_the_head(
    validators: Validators, stages: list[int], expected: Any
) -> None:
    outcome = judged(
        validators, "fp8-lm-head", traces=tuple(map(headed, stages)), server_info={"pp_size": 2}
    )
    assert said(outcome) == expected


def test_a_runner_in_two_spellings(validators: Validators) -> None:
    outcome = judged(validators, "moe-runner=triton_kernel", traces=(trace(OTHER_MOE),))
    assert said(outcome) == ("PROVEN", "executed")


def reported() -> tuple[Report, ...]:
    kernel = Megakernel("K", widths=(1,), forward_installed=True, graphs=(1,), covered=(1,),
                        capture_checked=True)  # fmt: skip
    model = ModelReport("M", False, megakernel=kernel)
    return tuple(Report(f"tp{rank}.json", rank, "ready", model) for rank in range(4))


@pytest.mark.parametrize(
    ("kernels", "batches", "expected", "fact"),
    [
        (89, (Batch(1, 8, 8, 0),), ("PROVEN", "executed"), "where 102 are expected for 62 layers"),
        (300, (Batch(1, 8, 8, 0),), ("INCONCLUSIVE", "captured"), "where 102 are expected"),
        # Fewer than one a layer: not all were recorded.
        (61, (Batch(1, 8, 8, 0),), ("PROVEN", "captured"), "batch sizes 1 run it"),
        (1275, (Batch(1, 8, 8, 0),), ("REFUTED", "executed"), "1275 kernels a step, where 102"),
        # A batch size that is not covered runs the ordinary forward, as it should.
        (1275, (Batch(4, 8, 8, 0),), ("PROVEN", "captured"), "batch sizes 1 run it"),
    ],
)
def test_kernels_of_a_megakernel(
    validators: Validators, library: Library, kernels: float, batches: Any, expected: Any,
    fact: str,
) -> None:  # fmt: skip
    deployment = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    outcome = judged(
        validators, "nvidia-megakernel", deployment=deployment, reports=reported(),
        traces=(trace(kind="TARGET_VERIFY", kernels=kernels, batches=batches),),
    )  # fmt: skip
    assert said(outcome) == expected
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("files", "asked", "expected"),
    [
        (["x-TP-0.trace.json.gz"], "kernel-family=moe-triton", "INCONCLUSIVE"),
        (["x-TP-0.trace.json.gz", "x-TP-1.trace.json.gz"], "kernel-family=moe-triton", "PROVEN"),
        (["x-TP-0.trace.json.gz"], "kernels-per-step=50", "INCONCLUSIVE"),
        (["x-TP-0.trace.json.gz", "x-TP-1.trace.json.gz"], "kernels-per-step=50", "PROVEN"),
        (["x-TP-0.trace.json.gz"], "decode-cuda-graphs", "INCONCLUSIVE"),
        (["x-TP-0.trace.json.gz", "x-TP-1.trace.json.gz"], "decode-cuda-graphs", "PROVEN"),
        # One rank is enough to refute.
        (["x-TP-1.trace.json.gz"], "kernels-per-step=49", "REFUTED"),
        (["x-TP-1.trace.json.gz"], "kernel-family=moe-marlin", "REFUTED"),
        # A name without a rank speaks of none.
        (["trace.json.gz"], "kernels-per-step=50", "INCONCLUSIVE"),
    ],
)
def test_a_trace_speaks_of_its_rank(
    validators: Validators, files: list[str], asked: str, expected: str
) -> None:
    traces = tuple(trace(MOE, file=file) for file in files)
    info = {"tp_size": 2, "pp_size": 1, "dp_size": 1}
    replica = Replica(0, ServerState("ready"), server_info=info, traces=traces)
    wanted = expectation_from(asked, validators.probes)
    verdict = judge([wanted], Evidence("somewhere", (replica,)), validators).verdicts[0]
    assert str(verdict.answer) == expected
    if expected == "INCONCLUSIVE":
        assert "nothing was seen of tensor parallel rank" in verdict.summary
