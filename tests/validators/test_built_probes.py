"""Probes of what was built and what ran: LM head, MoE runner, precision, megakernel."""

from __future__ import annotations

from typing import Any

import pytest
from replicas import judged, log, raw_log, said

from configurator.content import Library
from configurator.evidence.model import Head, ModelReport, MoeLayer, Report, Sharing
from configurator.evidence.trace_model import Kernel, Ran, Trace, TraceStep
from configurator.loader import Validators
from configurator.resolve import resolve

FP8 = Head("float8_e4m3fn", quant_method="Fp8Head", quant_method_applied=True)
FP8_SCALED = Head(
    "float8_e4m3fn", quant_method="Fp8Head", quant_method_applied=True,
    scales={"weight_scale": "0.00133"},
)  # fmt: skip
PLAIN = Head("bfloat16", quant_method="UnquantizedEmbeddingMethod", quant_method_applied=False)
ALIASED = Head(
    "float8_e4m3fn", quant_method="UnquantizedEmbeddingMethod", quant_method_applied=False
)


def report(
    head: Head | None = None, drafts: tuple[ModelReport, ...] = (), **target: Any
) -> tuple[Report, ...]:
    return (Report("tp0.json", 0, "ready", ModelReport("M", False, head=head, **target), drafts),)


def draft(head: Head | None, **sharing: Any) -> tuple[ModelReport, ...]:
    return (ModelReport("D", True, head=head, sharing=Sharing(**sharing)),)


def ran(name: str) -> tuple[Ran, ...]:
    return (Ran(name, 0.0, 1.0, 7, by_graph=True),) if name else ()


def trace(*kernels: str, last: str = "", kind: str = "TARGET_VERIFY") -> tuple[Trace, ...]:
    seen = tuple(Kernel(name, 8, 10.0) for name in kernels)
    return (Trace("t.json.gz", seen, (TraceStep(kind, 8, 5, 1, 52, ran(last)),)),)


NVJET_FP8, NVJET = "nvjet_sm90_qqtst_256x8_64x6", "nvjet_sm90_tst_256x8_64x6"
ECHO = log("Online FP8 quantization enabled for lm_head.")


@pytest.mark.parametrize(
    ("evidence", "expected", "fact"),
    [
        ({"reports": report(FP8)}, ("PROVEN", "built"), "float8_e4m3fn, method Fp8Head"),
        ({"reports": report(PLAIN)}, ("REFUTED", "built"), "bfloat16"),
        ({"reports": report(ALIASED)}, ("REFUTED", "built"), "not applied"),
        ({"traces": trace(last=NVJET_FP8)}, ("PROVEN", "executed"), "FP8"),
        ({"traces": trace(last=NVJET)}, ("REFUTED", "executed"), "not FP8"),
        ({"traces": trace(last=NVJET, kind="EXTEND")}, ("INCONCLUSIVE", None), "neither"),
        ({"traces": trace(last="some_gemm")}, ("INCONCLUSIVE", "requested"), "neither"),
        ({"reports": report(FP8), "traces": trace(last=NVJET)}, ("REFUTED", "executed"), "not FP8"),
        ({"log": ECHO}, ("INCONCLUSIVE", "requested"), "is an echo"),
        ({"log": ECHO, "reports": report(PLAIN)}, ("REFUTED", "built"), "bfloat16"),
        ({}, ("INCONCLUSIVE", None), "neither a report nor a trace"),
    ],
)
def test_fp8_lm_head(
    validators: Validators, evidence: dict[str, Any], expected: tuple[str, str | None], fact: str
) -> None:
    outcome = judged(validators, "fp8-lm-head", **evidence)
    assert said(outcome) == expected
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("target", "drafts", "answer", "fact"),
    [
        (FP8, draft(FP8, same_module=True), "PROVEN", "the target's module"),
        (PLAIN, draft(PLAIN, same_module=False, same_weight=True), "PROVEN", "target's weight"),
        (FP8_SCALED, draft(FP8_SCALED, same_module=False, same_weight=True, same_scales=True),
         "PROVEN", "weight and its scales"),
        (FP8_SCALED, draft(ALIASED, same_module=False, same_weight=True), "REFUTED",
         "only the weight is aliased: it is float8_e4m3fn, and the draft's method "
         "UnquantizedEmbeddingMethod"),
        (FP8_SCALED, draft(FP8_SCALED, same_module=False, same_weight=True, same_scales=False,
                           scale_values=("0.00133", "0.0")),
         "REFUTED", "not its scale: 0.00133 against 0.0"),
        (FP8_SCALED, draft(FP8_SCALED, same_module=False, same_weight=True), "INCONCLUSIVE",
         "does not compare the scales"),
        (FP8, draft(PLAIN, same_module=False, same_weight=True), "REFUTED", "the draft's method"),
        (PLAIN, draft(PLAIN, same_module=False, same_weight=False, same_content=False),
         "REFUTED", "a weight of other content"),
        (PLAIN, draft(PLAIN, same_module=False, same_weight=False, same_content=True),
         "REFUTED", "a copy of the target's weight"),
        (PLAIN, draft(PLAIN), "INCONCLUSIVE", "does not compare"),
        (PLAIN, (), "NOT_APPLICABLE", "no draft model is loaded"),
    ],
)  # fmt: skip
def test_lm_head_shared(
    validators: Validators, target: Head, drafts: tuple[ModelReport, ...], answer: str, fact: str
) -> None:
    outcome = judged(validators, "lm-head-shared", reports=report(target, drafts))
    assert str(outcome.answer) == answer
    assert fact in outcome.summary


def test_sharing_is_open_without_a_report_and_absent_with_n_grams(validators: Validators) -> None:
    assert said(judged(validators, "lm-head-shared")) == ("INCONCLUSIVE", None)
    info = {"speculative_algorithm": "NGRAM"}
    assert said(judged(validators, "lm-head-shared", server_info=info))[0] == "NOT_APPLICABLE"


def test_one_bad_rank_refutes(validators: Validators) -> None:
    good = report(FP8, draft(FP8, same_module=True))
    bad = report(FP8, draft(ALIASED, same_module=False, same_weight=True))
    assert said(judged(validators, "lm-head-shared", reports=good + bad)) == ("REFUTED", "built")


def layers(*runners: str) -> tuple[Report, ...]:
    each = tuple(MoeLayer(f"layers.{n}", "Mxfp4", runner) for n, runner in enumerate(runners))
    return report(moe_layers=each)


FP8_LINEAR = {"QKVParallelLinear:Fp8LinearMethod": 2, "ParallelLMHead:Unquantized": 1}
PLAIN_LINEAR = {"QKVParallelLinear:UnquantizedLinearMethod": 2, "ParallelLMHead:Fp8Head": 1}
RAN = log("Using indexed gemm for humming moe")
PREPARED = log("Preparing DeepSeekV4 MXFP4 experts for Humming backend (layer: model.layers.3)...")


OWN_MOE = "HummingMoEBlock:HummingMoEMethod"


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "fact"),
    [
        ("humming", {"reports": layers("humming", "humming")}, ("PROVEN", "built"), "2 of 2"),
        ("humming", {"reports": layers("humming", "triton")}, ("REFUTED", "built"),
         "1 of 2 MoE layers of the target (layers.1) are built with triton"),
        ("triton", {"traces": trace("fused_moe_kernel")}, ("PROVEN", "executed"), "fused_moe"),
        ("deep_gemm", {"traces": trace("fused_moe_kernel")}, ("REFUTED", "executed"), "triton"),
        ("deep_gemm", {"traces": trace("void deep_gemm::sm90_bf16<(deep_gemm::GemmType)2>")},
         ("PROVEN", "executed"), "deep_gemm"),
        # Plain linear layers run it too: no runner is shown, and none contradicted.
        ("deep_gemm", {"traces": trace("void deep_gemm::sm90_bf16_gemm_impl<>")},
         ("INCONCLUSIVE", None), "nothing shows"),
        ("triton", {"traces": trace("void deep_gemm::sm90_fp8<(deep_gemm::GemmType)0>")},
         ("INCONCLUSIVE", None), "nothing shows"),
        ("deep_gemm", {"traces": trace("void deep_gemm::sm90_fp8<>", "fused_moe_kernel")},
         ("REFUTED", "executed"), "triton"),
        ("humming", {"traces": trace("humming")}, ("PROVEN", "executed"), "humming"),
        ("humming", {"log": RAN}, ("PROVEN", "executed"), "Using indexed gemm for humming moe"),
        ("humming", {"log": PREPARED}, ("PROVEN", "built"), "Preparing DeepSeekV4 MXFP4"),
        ("triton", {"server_info": {"moe_runner_backend": "auto"}}, ("INCONCLUSIVE", "resolved"),
         "stays so whatever runs"),
        ("humming", {"server_info": {"moe_runner_backend": "humming"}},
         ("INCONCLUSIVE", "resolved"), "an echo of the flag"),
        ("humming", {"server_info": {"moe_runner_backend": "triton"}}, ("REFUTED", "resolved"),
         "resolved moe_runner_backend to triton"),
        ("humming", {}, ("INCONCLUSIVE", None), "nothing shows"),
        ("humming", {"reports": report(linear_methods={**PLAIN_LINEAR, OWN_MOE: 32}),
                     "server_info": {"moe_runner_backend": "humming"}},
         ("INCONCLUSIVE", "resolved"), "an echo"),
        ("humming", {"reports": report(linear_methods={**PLAIN_LINEAR, OWN_MOE: 32})},
         ("INCONCLUSIVE", None), "nothing shows"),
        ("humming", {"reports": report(linear_methods={**PLAIN_LINEAR, "X:ExpertsFp8": 2})},
         ("INCONCLUSIVE", None), "nothing shows"),
        ("humming", {"reports": report(linear_methods=PLAIN_LINEAR),
                     "server_info": {"moe_runner_backend": "humming"}},
         ("INCONCLUSIVE", "resolved"), "an echo"),
        ("humming", {"reports": report(linear_methods=PLAIN_LINEAR),
                     "server_info": {"moe_runner_backend": "auto"}},
         ("NOT_APPLICABLE", None), "no MoE layer"),
        ("humming", {"reports": report(linear_methods=PLAIN_LINEAR)}, ("NOT_APPLICABLE", None),
         "no MoE layer"),
        ("humming", {"reports": report(PLAIN)}, ("INCONCLUSIVE", None), "nothing shows"),
        ("triton", {"reports": report(PLAIN), "traces": trace("fused_moe_kernel")},
         ("PROVEN", "executed"), "fused_moe"),
    ],
)  # fmt: skip
def test_moe_runner(
    validators: Validators, asked: str, evidence: dict[str, Any],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"moe-runner={asked}", **evidence)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_the_echo_of_a_runner_that_was_not_built_is_a_conflict(validators: Validators) -> None:
    outcome = judged(
        validators, "moe-runner=humming", reports=layers("triton"),
        server_info={"moe_runner_backend": "humming"},
    )  # fmt: skip
    assert said(outcome) == ("REFUTED", "built")
    assert outcome.conflicts == ("/server_info says humming, but what was built or ran is triton",)


KV = log("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 65536")
CUTLASS_FP8 = "void cutlass::device_kernel<cutlass_3x_gemm_sm90_fp8<cutlass::float_e4m3_t>>"


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "fact"),
    [
        ("attention-backend=triton", {"server_info": {"attention_backend": "triton"}},
         ("PROVEN", "resolved"), "no more than resolved"),
        ("attention-backend=fa3", {"server_info": {"attention_backend": "triton"}},
         ("REFUTED", "resolved"), "is triton"),
        ("attention-backend=fa3", {"server_info": {"attention_backend": "triton",
                                                   "decode_attention_backend": "fa3"}},
         ("PROVEN", "resolved"), "decode_attention_backend"),
        ("attention-backend=fa3", {"reports": report(decode_attention="fa3",
                                                     attention_class="FlashAttentionBackend")},
         ("PROVEN", "built"), "built with fa3"),
        ("attention-backend=fa3", {"reports": report(decode_attention="fa3")},
         ("INCONCLUSIVE", "resolved"), "its report shows no class of the attention object"),
        ("attention-backend=fa3", {"reports": report(decode_attention="triton"),
                                   "server_info": {"attention_backend": "fa3"}},
         ("REFUTED", "resolved"), "triton (report)"),
        ("attention-backend=fa3", {}, ("INCONCLUSIVE", None), "nothing"),
        ("kv-cache-dtype=bf16", {"log": KV}, ("PROVEN", "built"), "bfloat16"),
        ("kv-cache-dtype=auto", {"log": KV}, ("PROVEN", "built"), "bfloat16"),
        ("kv-cache-dtype=fp8_e4m3", {"log": KV}, ("REFUTED", "built"), "bfloat16, not fp8_e4m3"),
        ("kv-cache-dtype=fp8_e4m3", {"reports": report(kv_pool_dtype="float8_e4m3fn")},
         ("PROVEN", "built"), "float8_e4m3fn"),
        ("kv-cache-dtype=fp8_e4m3", {"server_info": {"kv_cache_dtype": "fp8_e4m3"}},
         ("INCONCLUSIVE", "resolved"), "an echo"),
        ("kv-cache-dtype=fp8_e4m3", {"server_info": {"kv_cache_dtype": "bfloat16"}},
         ("REFUTED", "resolved"), "resolved the KV cache to bfloat16"),
        ("fp8-weights", {"traces": trace(CUTLASS_FP8, last=NVJET)}, ("PROVEN", "executed"), "FP8"),
        ("fp8-weights", {"traces": trace(NVJET_FP8, last=NVJET_FP8)}, ("INCONCLUSIVE", None),
         "nothing"),
        ("fp8-weights", {"reports": report(linear_methods=FP8_LINEAR)}, ("PROVEN", "built"),
         "Fp8LinearMethod"),
        ("fp8-weights", {"reports": report(linear_methods=PLAIN_LINEAR)}, ("REFUTED", "built"),
         "UnquantizedLinearMethod"),
        ("fp8-weights", {"server_info": {"quantization": "fp8"}}, ("INCONCLUSIVE", "resolved"),
         "an echo"),
        ("fp8-weights", {}, ("INCONCLUSIVE", None), "nothing"),
    ],
)  # fmt: skip
def test_precision_and_backends(
    validators: Validators, asked: str, evidence: dict[str, Any],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, asked, **evidence)
    assert said(outcome) == expected
    assert fact in outcome.summary


def allocated(*lines: str) -> dict[str, Any]:
    """A log of caches: `dtype`, or the beginning of the message and the dtype."""
    texts = (
        line if " " in line else f"KV Cache is allocated. dtype: torch.{line}" for line in lines
    )
    return {"log": log(*(f"{text}, #tokens: 5" for text in texts))}


RESIZED = "Post-capture KV sizing: KV cache allocated. dtype: torch."
DRAFTS = "Post-capture KV sizing: draft KV cache allocated. dtype: torch."
E4M3, FP4 = "float8_e4m3fn", "float4_e2m1fn_x2"


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "fact"),
    [
        # A draft's cache is not the target's.
        ("fp8_e4m3", allocated(RESIZED + E4M3, DRAFTS + "bfloat16"), "PROVEN", E4M3),
        ("bf16", allocated(RESIZED + E4M3, DRAFTS + "bfloat16"), "REFUTED", "e4m3fn, not bf16"),
        ("bf16", allocated(DRAFTS + "bfloat16"), "INCONCLUSIVE", "nothing shows"),
        ("fp8_e4m3", allocated(E4M3, "bfloat16"), "PROVEN", E4M3),
        ("bf16", allocated(E4M3, "bfloat16"), "REFUTED", "not bf16"),
        ("bf16", allocated("Full KV Cache is allocated. dtype: torch.bfloat16",
                           f"SWA KV Cache is allocated. dtype: torch.{E4M3}"), "REFUTED", "not"),
        # One type of torch, several formats.
        ("mxfp8", allocated(E4M3), "INCONCLUSIVE", "the format is not shown"),
        ("mxfp8", allocated("bfloat16"), "REFUTED", "bfloat16, not mxfp8"),
        ("mxfp8", allocated("float8_e5m2"), "REFUTED", "float8_e5m2, not mxfp8"),
        ("fp4_e2m1", allocated(FP4), "INCONCLUSIVE", "the format is not shown"),
        ("nvfp4", allocated(FP4), "INCONCLUSIVE", "the format is not shown"),
        ("fp4_mx_block16", allocated(FP4), "INCONCLUSIVE", "the format is not shown"),
        ("nvfp4", allocated(E4M3), "REFUTED", "not nvfp4"),
        ("fp8_e4m3", allocated(FP4), "REFUTED", "not fp8_e4m3"),
        ("fp8_e4m3", allocated("uint8"), "INCONCLUSIVE", "the format is not shown"),
        ("bf16", allocated("uint8"), "REFUTED", "not bf16"),
        # AMD's own type.
        ("fp8_e4m3", allocated("float8_e4m3fnuz"), "PROVEN", "e4m3fnuz"),
        ("fp8_e5m2", allocated("float8_e4m3fnuz"), "INCONCLUSIVE", "the format is not shown"),
        ("fp8_e5m2", allocated("float8_e5m2"), "PROVEN", "e5m2"),
        ("fp8_e5m2", allocated(E4M3), "REFUTED", "not fp8_e5m2"),
        ("float8_e4m3fn", allocated(E4M3), "PROVEN", E4M3),
        ("auto", allocated(FP4), "PROVEN", FP4),
        ("int4", allocated("int4"), "PROVEN", "int4"),
        ("int4", allocated("bfloat16"), "REFUTED", "not int4"),
        # What the engine resolved tells formats of one type apart.
        ("fp8_e4m3", {**allocated(E4M3), "server_info": {"kv_cache_dtype": "mxfp8"}}, "REFUTED",
         "resolved the KV cache to mxfp8"),
        ("nvfp4", {**allocated(FP4), "server_info": {"kv_cache_dtype": "fp4_mx_block16"}},
         "REFUTED", "resolved the KV cache to fp4_mx_block16"),
        ("mxfp8", {**allocated(E4M3), "server_info": {"kv_cache_dtype": "mxfp8"}}, "INCONCLUSIVE",
         "not shown"),
        ("fp8_e4m3", {**allocated(E4M3), "server_info": {"kv_cache_dtype": "bf16"}}, "PROVEN",
         E4M3),
    ],
)  # fmt: skip
def test_formats_of_the_kv_cache_and_what_they_are_kept_as(
    validators: Validators, asked: str, evidence: dict[str, Any], expected: str, fact: str
) -> None:
    outcome = judged(validators, f"kv-cache-dtype={asked}", **evidence)
    assert str(outcome.answer) == expected
    assert fact in outcome.summary


def launches(counts: dict[str, int], *, last: str = "", steps: int = 8) -> tuple[Trace, ...]:
    seen = tuple(Kernel(name, count, 10.0) for name, count in counts.items())
    return (Trace("t.json.gz", seen, (TraceStep("DECODE", steps, 5, 1, 52, ran(last)),)),)


GROUPED = (
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<GemmType::GroupedMasked>",
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 512u, (deep_gemm::GemmType)1>",
)
DENSE = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 512u, (deep_gemm::GemmType)0>"
FLASH = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::float_e4m3_t>>"
FEW = {NVJET: 1000, "nvjet_qqtst_128x64": 1}
HALF_FP8 = launches({"nvjet_sm90_tst_8x64": 8, CUTLASS_FP8: 8})


@pytest.mark.parametrize(
    ("traces", "expected", "fact"),
    [
        (launches(FEW), ("INCONCLUSIVE", "executed"), "1 of 1001 launches"),
        (launches({NVJET: 1000, GROUPED[0]: 300}), ("INCONCLUSIVE", None), "nothing shows"),
        (launches({NVJET: 1000, GROUPED[1]: 3000}), ("INCONCLUSIVE", None), "nothing shows"),
        (launches({NVJET: 100, FLASH: 3000}), ("INCONCLUSIVE", None), "nothing shows"),
        (launches({NVJET: 8, DENSE: 100}, last=NVJET), ("PROVEN", "executed"), "100 of 100"),
        (HALF_FP8, ("PROVEN", "executed"), "8 of 16 launches"),
        # The head's kernel serves other layers too: only one launch of it a step is the head's.
        (launches({NVJET: 1008, "nvjet_qqtst_128x64": 1}, last=NVJET),
         ("INCONCLUSIVE", "executed"), "1 of 1001 launches"),
        (launches({NVJET: 100, "void gemv2T_kernel<bf16>": 900, CUTLASS_FP8: 200}),
         ("INCONCLUSIVE", "executed"), "200 of 1200"),
        # One rank runs FP8, the other does not.
        (HALF_FP8 + launches(FEW), ("INCONCLUSIVE", "executed"), "1 of 1001 launches"),
    ],
)  # fmt: skip
def test_fp8_gemms_are_most_of_what_linear_layers_run(
    validators: Validators, traces: tuple[Trace, ...], expected: tuple[str, str | None], fact: str
) -> None:
    outcome = judged(validators, "fp8-weights", traces=traces)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_a_few_fp8_gemms_lift_no_report(validators: Validators) -> None:
    reports = report(linear_methods=FP8_LINEAR)
    for traces, rung in ((launches(FEW), "built"), (HALF_FP8, "executed"), ((), "built")):
        outcome = judged(validators, "fp8-weights", reports=reports, traces=traces)
        assert said(outcome) == ("PROVEN", rung)
    plain = report(linear_methods=PLAIN_LINEAR)
    outcome = judged(validators, "fp8-weights", reports=plain, traces=HALF_FP8)
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert "8 of 16 launches" in outcome.conflicts[0]


MEGA = "NVIDIA megakernel:"
RANK = "[2026-11-30 09:00:00 TP0]"
ACTIVE = f"{RANK} {MEGA} active (llama: 1 step; widths [1, 2]; bitwise numerics; built in 3 s)"
RUNS = f"{MEGA} llama runs the decode graphs of batch sizes [1, 2] (2 of 2); every other step"
SOME = f"{MEGA} llama runs the decode graphs of batch sizes [1] (1 of 2); every other step"
DRAFTS_OWN = f"{MEGA} no spec is registered; D keeps its own forward"
DRAFTS_NOTHING = f"{MEGA} llamadraft: no step and no draft sampler"
DRAFT_ACTIVE = ACTIVE.replace("(llama:", "(llamadraft:")
DIED = f"{RANK} Scheduler hit an exception: Traceback (most recent call last):"
REFUSED = "ValueError: --enable-nvidia-megakernel cannot run this setup:"
RANKS = (
    "RuntimeError: --enable-nvidia-megakernel: the ranks' widths llama built differ: rank 0: (1,)"
)
SPECS = "ValueError: --enable-nvidia-megakernel: the ranks load different specs: rank 0: None"
NONE = "ValueError: --enable-nvidia-megakernel: none of the 4 captured decode graphs (batch sizes"
# The engine's progress bar stands on the same line.
GLUED = (
    "Capturing batches (bs=1 avail_mem=21.63 GB):   0%|          | 0/4 [00:00<?, ?it/s]"
    f"[2026-11-30 10:40:10 TP0] {RUNS}"
)


@pytest.mark.parametrize(
    ("lines", "expected", "fact"),
    [
        ((ACTIVE, RUNS), ("PROVEN", "captured"), "batch sizes 1, 2 run it"),
        ((ACTIVE, SOME), ("PROVEN", "captured"), "1 of 2; every other step runs the ordinary"),
        ((ACTIVE, RUNS, DRAFTS_OWN), ("PROVEN", "captured"), "the draft keeps its own forward"),
        ((ACTIVE,), ("INCONCLUSIVE", "built"), "no line says which graphs"),
        ((f"{MEGA} llama: no step and no draft sampler",), ("REFUTED", "built"), "no step"),
        ((ACTIVE, DRAFTS_NOTHING, RUNS), ("PROVEN", "captured"), "draft's megakernel covers no"),
        ((RUNS, DRAFTS_NOTHING), ("PROVEN", "captured"), "draft's megakernel covers no step"),
        ((ACTIVE, DRAFTS_NOTHING), ("INCONCLUSIVE", "built"), "draft's megakernel covers no step"),
        ((DRAFTS_NOTHING, DRAFT_ACTIVE), ("REFUTED", "built"), "no step of this setup"),
        (
            (DIED, REFUSED, "  - LoRA is on", "  - PP 2", "end"),
            ("REFUTED", "built"),
            "LoRA is on; PP 2",
        ),
        ((ACTIVE, GLUED), ("PROVEN", "captured"), "batch sizes 1, 2 run it"),
        ((ACTIVE, ACTIVE, RUNS, SOME), ("INCONCLUSIVE", "captured"), "ranks differ"),
        ((ACTIVE, DIED, RANKS), ("REFUTED", "built"), "the ranks' widths llama built differ: rank"),
        ((DIED, SPECS), ("REFUTED", "built"), "the ranks load different specs: rank 0: None"),
        ((ACTIVE, DIED, NONE), ("REFUTED", "built"), "none of the 4 captured decode graphs"),
        (("--enable-nvidia-megakernel: llama on sm_90",), ("INCONCLUSIVE", "resolved"), "no log"),
        ((), ("INCONCLUSIVE", None), "no log line"),
    ],
)
def test_megakernel(
    validators: Validators, lines: tuple[str, ...], expected: tuple[str, str | None], fact: str
) -> None:
    lines_of = raw_log if {REFUSED, RANKS, SPECS, NONE} & set(lines) else log
    outcome = judged(validators, "nvidia-megakernel", log=lines_of(*lines))
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_a_server_without_the_flag_has_no_megakernel(validators: Validators) -> None:
    outcome = judged(
        validators, "nvidia-megakernel", server_info={"enable_nvidia_megakernel": False}
    )
    assert said(outcome) == ("REFUTED", "resolved")


@pytest.mark.parametrize(
    ("enabled", "lines", "expected"),
    [
        (False, (ACTIVE, RUNS), ("INCONCLUSIVE", "resolved")),
        (False, (ACTIVE,), ("INCONCLUSIVE", "resolved")),
        (False, (), ("REFUTED", "resolved")),
        (True, (ACTIVE, RUNS), ("PROVEN", "captured")),
        (None, (ACTIVE, RUNS), ("PROVEN", "captured")),
    ],
)
def test_a_log_with_a_megakernel_that_the_server_does_not_have_is_a_conflict(
    validators: Validators,
    enabled: bool | None,
    lines: tuple[str, ...],
    expected: tuple[str, str],
) -> None:
    outcome = judged(
        validators, "nvidia-megakernel", log=log(*lines),
        server_info={"enable_nvidia_megakernel": enabled},
    )  # fmt: skip
    assert said(outcome) == expected
    assert bool(outcome.conflicts) == (expected[0] == "INCONCLUSIVE")


def test_the_profiles_concurrency_must_be_covered(validators: Validators, library: Library) -> None:
    deployment = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    needed, ranks = deployment.profile.workload.concurrency, deployment.gpus_per_replica
    active = [ACTIVE] * ranks
    for sizes, answer in (([needed], "PROVEN"), ([needed + 1], "REFUTED")):
        runs = f"{MEGA} m runs the decode graphs of batch sizes {sizes} (1 of 1); every other"
        outcome = judged(
            validators, "nvidia-megakernel", log=log(*active, runs), deployment=deployment
        )
        assert str(outcome.answer) == answer
    # A line of the draft is none of another rank.
    for some in ([ACTIVE], [ACTIVE, *[DRAFT_ACTIVE] * ranks]):
        silent = judged(
            validators, "nvidia-megakernel", log=log(*some, runs), deployment=deployment
        )
        assert said(silent) == ("INCONCLUSIVE", "built")
        assert f"active on 1 of {ranks} ranks only" in silent.summary


def test_a_draft_on_another_runner_is_named_and_refutes_nothing(validators: Validators) -> None:
    layer = MoeLayer("model.layers.1", "Mxfp4HummingMoEMethod", "humming")
    plain = MoeLayer("mtp.layers.0", "UnquantizedFusedMoEMethod", "triton")
    target = ModelReport("M", False, moe_layers=(layer,))
    report = Report("tp0.json", 0, "ready", target, (ModelReport("D", True, moe_layers=(plain,)),))
    outcome = judged(validators, "moe-runner=humming", reports=(report,))
    assert said(outcome) == ("PROVEN", "built")
    assert outcome.conflicts == ("1 of 1 MoE layers of the draft are built with triton",)
    wrong = Report("tp0.json", 0, "ready", ModelReport("M", False, moe_layers=(layer, plain)))
    outcome = judged(validators, "moe-runner=humming", reports=(wrong,))
    assert said(outcome) == ("REFUTED", "built")
    assert "mtp.layers.0" in outcome.summary


def on_rank(rank: int, model: ModelReport, drafts: tuple[ModelReport, ...] = ()) -> Report:
    ranks = {"tp_rank": rank, "tp_size": 2}
    return Report(f"tp{rank}.json", rank, "ready", model, drafts, ranks=ranks)


def test_ranks_that_differ_are_named(validators: Validators) -> None:
    target = ModelReport("M", False, head=PLAIN)
    shared, copied = draft(PLAIN, same_weight=True), draft(PLAIN, same_weight=False)
    reports = (on_rank(0, target, shared), on_rank(1, target, copied))
    outcome = judged(validators, "lm-head-shared", reports=reports)
    assert said(outcome) == ("REFUTED", "built")
    assert outcome.summary.endswith("not the target's on rank 1")
    alike = (on_rank(0, target, copied), on_rank(1, target, copied))
    assert "on rank" not in judged(validators, "lm-head-shared", reports=alike).summary
    fp8 = ModelReport("M", False, head=FP8)
    outcome = judged(validators, "fp8-lm-head", reports=(on_rank(0, fp8), on_rank(1, target)))
    assert said(outcome) == ("REFUTED", "built")
    assert outcome.summary.endswith("not applied on rank 1")
    layers = [ModelReport("M", False, moe_layers=(MoeLayer("mlp.0", "Q", runner),))
              for runner in ("humming", "triton")]  # fmt: skip
    reports = (on_rank(0, layers[0]), on_rank(1, layers[1]))
    outcome = judged(validators, "moe-runner=humming", reports=reports)
    assert said(outcome) == ("REFUTED", "built")
    assert outcome.summary.endswith("are built with triton on rank 1")


def test_a_float32_head_that_ignores_fp8_is_named(validators: Validators) -> None:
    head = Head("float8_e4m3fn", quant_method_applied=False, quant_method="U", use_fp32=True)
    outcome = judged(validators, "fp8-lm-head", reports=report(head))
    assert said(outcome) == ("REFUTED", "built")
    assert "not applied, and it is multiplied in float32" in outcome.summary


def test_a_report_that_failed_says_why(validators: Validators) -> None:
    failed = (Report("r.json", None, "ready", None, errors={"all": "RuntimeError: no"}),)
    for asked in ("fp8-lm-head", "lm-head-shared"):
        outcome = judged(validators, asked, reports=failed)
        assert outcome.answer == "INCONCLUSIVE"
        assert outcome.summary.endswith("the report failed, RuntimeError: no")


def test_the_one_rank_that_failed_is_named_with_why(validators: Validators) -> None:
    good = report(Head("float8_e4m3fn", quant_method_applied=True))[0]
    ranks = {"tp_rank": 1, "tp_size": 2}
    failed = Report(
        "r.json", 1, "ready", None, errors={"all": "OSError: no"}, ranks=ranks,
        schema="configurator/report/1",
    )  # fmt: skip
    outcome = judged(validators, "fp8-lm-head", reports=(good, failed))
    assert said(outcome) == ("INCONCLUSIVE", "built")
    assert "the part lm_head is missing on rank 1: OSError: no" in outcome.summary
