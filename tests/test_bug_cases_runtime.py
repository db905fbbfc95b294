"""Public bug reports as evidence of a running server: the verdict on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from replicas import answered, judged, log, said, spoken

from configurator.evidence.host import Gpu, Host
from configurator.evidence.model import Exchange, Head, ModelReport, MoeLayer, Reference, Report
from configurator.evidence.serverlog import parse_log, server_state
from configurator.evidence.trace_model import Kernel, Trace
from configurator.loader import Validators


def decode(length: float, rate: float, running: int, graph: bool) -> str:
    return (
        f"Decode batch, #running-req: {running}, accept len: {length:.2f}, "
        f"accept rate: {rate:.2f}, cuda graph: {graph}"
    )


def built(target: str, draft: str | None = None) -> tuple[Report, ...]:
    """A report of one MoE layer in the target, and of one in the draft."""
    models = [
        ModelReport(name, is_draft, moe_layers=(MoeLayer(f"{name}.layers.0", method, runner),))
        for name, method, runner, is_draft in (
            ("model", "ModelOptNvFp4FusedMoEMethod", target, False),
            ("mtp", "UnquantizedFusedMoEMethod", draft, True),
        )
        if runner is not None
    ]
    return (Report("tp0.json", 0, "ready", models[0], tuple(models[1:])),)


def garbage() -> Exchange:
    """A response of status 200 whose text is mostly broken characters."""
    return answered("001.json", "Hello", list(range(64)), text="\ufffd\ufffd\ufffd a \ufffd")


@dataclass(frozen=True)
class Case:
    """One report: what is asked, what is seen, the verdict with its rung, and what it says."""

    name: str
    asked: str
    evidence: dict[str, Any]
    verdict: tuple[str, str | None]
    says: str
    """Part of the summary or of a conflict."""


CHOSE = "Using '{}' NvFp4 MoE backend out of potential backends: {}"
CASES = (
    Case(
        "B06 graphs are off at the real concurrency",
        "decode-cuda-graphs=48",
        {"log": log(decode(3.1, 0.7, 1, True), decode(1.0, 0.11, 48, False))},
        ("REFUTED", "executed"),
        "batch size 48 ran eager",
    ),
    Case(
        "B06 an accept length of 1 beside a rate of 0.11 is stale and no evidence",
        "speculative-acceptance",
        {"log": log(*[decode(1.0, 0.11, 48, False)] * 3)},
        ("INCONCLUSIVE", None),
        "no evidence of speculation",
    ),
    Case(
        "B01 drafts whose weights were not loaded",
        "speculative-acceptance",
        {
            "log": log(
                *[decode(1.0, 0.0, 1, True)] * 3,
                "Parameter layers.0.self_attn.qkv_proj.weight not found in params_dict, skip "
                "loading",
            )
        },
        ("REFUTED", "executed"),
        "none of 3 decode lines has an accept len above 1.1",
    ),
    Case(
        "B06 drafts pay alone and are off at the real concurrency",
        "speculative-acceptance",
        {
            "server_info": {"speculative_algorithm": "EAGLE"},
            "exchanges": (
                spoken([0, 0, 0, 60], together=1), spoken([60], name="002.json", together=48),
            ),
        },
        ("REFUTED", "executed"),
        "on the profile's text at batch 48",
    ),
    Case(
        "B12 an algorithm without a draft",
        "draft-model",
        {"server_info": {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": None}},
        ("INCONCLUSIVE", "resolved"),
        "speculative_draft_model_path is null",
    ),
    Case(
        "B12 acceptance that must be measured",
        "speculative-acceptance",
        {"server_info": {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": None}},
        ("INCONCLUSIVE", "resolved"),
        "speculative_draft_model_path null: it may draft with nothing",
    ),
    Case(
        "B16 the echo of a runner, while Triton kernels ran",
        "moe-runner=flashinfer_mxfp4",
        {
            "server_info": {"moe_runner_backend": "flashinfer_mxfp4"},
            "traces": (Trace("t.json", (Kernel("fused_moe_kernel", 12, 80.0),)),),
        },
        ("REFUTED", "executed"),
        "12 launches of triton MoE kernels (fused_moe_kernel)",
    ),
    Case(
        "B16 the echo of a runner, while Triton was built",
        "moe-runner=flashinfer_mxfp4",
        {"server_info": {"moe_runner_backend": "flashinfer_mxfp4"}, "reports": built("triton")},
        ("REFUTED", "built"),
        "/server_info says flashinfer_mxfp4, but what was built or ran is triton",
    ),
    Case(
        "B17 another attention backend than asked for",
        "requested-equals-resolved",
        {
            "requested": {"attention_backend": "fa3"},
            "server_info": {"attention_backend": "triton", "kv_cache_dtype": "fp8_e5m2"},
        },
        ("REFUTED", "resolved"),
        "attention_backend: asked fa3, resolved triton",
    ),
    Case(
        "B19 the draft's experts run elsewhere: said, and no refutation",
        "moe-runner=flashinfer_trtllm",
        {"reports": built("flashinfer_trtllm", "triton")},
        ("PROVEN", "built"),
        "1 of 1 MoE layers of the draft are built with triton",
    ),
    Case(
        "B20 experts that were to be spread are not",
        "requested-equals-resolved",
        {
            "requested": {"moe_a2a_backend": "deepep_v2", "ep_size": 8},
            "server_info": {"moe_a2a_backend": "deepep_v2", "ep_size": 1},
        },
        ("REFUTED", "resolved"),
        "ep_size: asked 8, resolved 1",
    ),
    Case(
        "B22 the engine's own choice replaced the runner",
        "requested-equals-resolved",
        {
            "requested": {"moe_runner_backend": "flashinfer_mxfp4"},
            "server_info": {"moe_runner_backend": "triton_kernel"},
        },
        ("REFUTED", "resolved"),
        "moe_runner_backend: asked flashinfer_mxfp4, resolved triton_kernel",
    ),
    Case(
        "B22 the log says that another runner is taken",
        "moe-runner=flashinfer_mxfp4",
        {
            "server_info": {"moe_runner_backend": "flashinfer_mxfp4"},
            "log": log("Detected GPT-OSS model, enabling triton_kernels MOE kernel."),
        },
        ("REFUTED", "resolved"),
        "another runner replaced flashinfer_mxfp4",
    ),
    Case(
        "B23 every draft accepted, of one token over and over",
        "speculative-acceptance",
        {
            "server_info": {"speculative_algorithm": "DSPARK", "speculative_num_draft_tokens": 4},
            "log": log(*[decode(4.0, 1.0, 1, True)] * 3),
            "exchanges": (spoken([0, 0, 0, 16], tokens=[7] * 64), spoken([0, 0, 0, 16])),
        },
        ("INCONCLUSIVE", "executed"),
        "at its ceiling, of text that is none; 001.json: token 7 makes up 64 of 64 tokens",
    ),
    Case(
        "B23 one token over and over is corrupted output",
        "output-not-corrupted",
        {"exchanges": (spoken([0, 0, 0, 16], tokens=[7] * 64),)},
        ("REFUTED", "executed"),
        "token 7 makes up 64 of 64 tokens",
    ),
    Case(
        "B23 a log that is at the ceiling on every line",
        "speculative-acceptance",
        {
            "server_info": {"speculative_algorithm": "DSPARK", "speculative_num_draft_tokens": 4},
            "log": log(*[decode(4.0, 1.0, 1, True)] * 3),
        },
        ("INCONCLUSIVE", "executed"),
        "every decode line is at the ceiling of 4, so look at the text",
    ),
    Case(
        "B30 status 200 with broken characters",
        "output-not-corrupted",
        {"exchanges": (garbage(),)},
        ("REFUTED", "executed"),
        "57% of the characters are U+FFFD",
    ),
    Case(
        "B30 a known answer that does not come",
        "known-answer",
        {
            "exchanges": (
                answered("001.json", "1, 2, 3,", [1], text="\ufffd", kind="known-answer"),
            ),
            "reference": Reference(
                "base", (answered("1.json", "1, 2, 3,", [1], text=" 4, 5, 6", kind="known-answer"),)
            ),
        },
        ("REFUTED", "executed"),
        "the reference base has it right",
    ),
    Case(
        "B37 the winner is the word in quotes, not every candidate",
        "moe-runner=vllm_cutlass",
        {"log": log(CHOSE.format("VLLM_CUTLASS", "['VLLM_CUTLASS','MARLIN']"))},
        ("PROVEN", "built"),
        "Using 'VLLM_CUTLASS' NvFp4 MoE backend",
    ),
    Case(
        "B37 the fallback won",
        "moe-runner=vllm_cutlass",
        {"log": log(CHOSE.format("MARLIN", "['MARLIN','VLLM_CUTLASS']"))},
        ("REFUTED", "built"),
        "Using 'MARLIN' NvFp4 MoE backend",
    ),
    Case(
        "B39 two GPUs of two kinds, one rank on each",
        "gpus-alike",
        {
            "host": Host(
                (
                    Gpu("NVIDIA GeForce RTX 3080", "10240 MiB", "sm_86", "580"),
                    Gpu("NVIDIA GeForce RTX 4080 SUPER", "16376 MiB", "sm_89", "580"),
                ),
                engine_seen=True,
            ),
            "server_info": {"tp_size": 2},
        },
        ("REFUTED", "resolved"),
        "2 ranks run here, and the GPUs are not alike: 1 x sm_86",
    ),
    Case(
        "B44 a GB10 that shows half of its memory",
        "gpu-memory-whole",
        {"host": Host((Gpu("NVIDIA GB10", "62.1 GiB", "sm_121", "580"),), engine_seen=True)},
        ("INCONCLUSIVE", "resolved"),
        "NVIDIA GB10 has 62.1 GiB",
    ),
    Case(
        "B48 traffic between hosts leaves the NVLink fabric",
        "nvlink-fabric",
        {
            "host": Host((Gpu("NVIDIA GB200", "189471 MiB", "sm_100", "580"),) * 4),
            "server_info": {"nnodes": 2, "tp_size": 8},
            "environment": {"NCCL_CUMEM_ENABLE": "0"},
            "log": log(
                "NCCL INFO comm 0x1 rank 0 MNNVL 0",
                "NCCL INFO Channel 00/0 : 0[0] -> 4[0] [send] via NET/IB/0",
            ),
        },
        ("REFUTED", "built"),
        "NCCL says MNNVL 0, NET/IB/0",
    ),
    Case(
        "B48 the fabric engages",
        "nvlink-fabric",
        {
            "host": Host((Gpu("NVIDIA GB200", "189471 MiB", "sm_100", "580"),) * 4),
            "server_info": {"nnodes": 2, "tp_size": 8},
            "log": log(
                "NCCL INFO MNNVL 1 cliqueSize 8",
                "NCCL INFO Channel 00/0 : 0[0] -> 4[0] [send] via P2P/MNNVL",
            ),
        },
        ("PROVEN", "built"),
        "MNNVL 1 cliqueSize 8",
    ),
    Case(
        "B52 a variable that vLLM does not know",
        "no-undeclared-environment",
        {
            "log": log(
                "WARNING Unknown vLLM environment variable detected: VLLM_FLASHINFER_MOE_BACKEND",
                "INFO config: moe_backend='auto'",
            )
        },
        ("REFUTED", "resolved"),
        "does not read VLLM_FLASHINFER_MOE_BACKEND",
    ),
    Case(
        "B55 a variable of a fork leaves the head as it is",
        "fp8-lm-head",
        {
            "environment": {"SGLANG_QUANTIZE_LM_HEAD_FP8": "1"},
            "reports": (
                Report(
                    "tp0.json", 0, "ready",
                    ModelReport("M", False, head=Head("bfloat16", (151936, 5120))),
                ),
            ),
        },
        ("REFUTED", "built"),
        "bfloat16",
    ),
    Case(
        "B64 a KV pool below the promised context",
        "context-fits-kv-pool",
        {"server_info": {"context_length": 163840, "max_total_num_tokens": 59862}},
        ("REFUTED", "built"),
        "the KV pool holds 59,862 tokens; --context-length promises 163,840",
    ),
    Case(
        "B74 the client's counter says 0 where the tokens say 4",
        "speculative-acceptance",
        {
            "server_info": {"speculative_algorithm": "NGRAM"},
            "log": log(decode(4.0, 0.8, 1, True)),
            "exchanges": (
                spoken(
                    [64], width=12, completion_tokens=256, spec_accept_length=0,
                    spec_accept_rate=0.0,
                ),
            ),
        },
        ("PROVEN", "executed"),
        "0 drafts counted as accepted, but 256 tokens",
    ),
    Case(
        "B76 acceptance that was asked for",
        "no-simulated-acceptance",
        {"environment": {"SGLANG_SIMULATE_ACC_LEN": "3.5"}},
        ("REFUTED", "executed"),
        "SGLANG_SIMULATE_ACC_LEN is 3.5",
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_on_what_was_seen(case: Case, validators: Validators) -> None:
    outcome = judged(validators, case.asked, **case.evidence)
    assert said(outcome) == case.verdict
    assert case.says in " ".join([outcome.summary, *outcome.conflicts])


DISTRIBUTED = "[2026-08-27 10:00:01 TP0] Init torch distributed begin."
SPANS = (
    "[2026-08-27 10:00:02 TP0] CustomAllreduce is disabled because this process group spans across "
    "nodes"
)
CAPTURE = (
    "[2026-05-24 10:00:04 TP0] Capture cuda graph begin. This can take up to several minutes. "
    "avail mem=9.21 GB"
)
"""As releases before 0.5.17 write it."""
NO_OPS = (
    "Traceback (most recent call last):\n"
    '  File "/venv/sgl_kernel/load_utils.py", line 188, in _load_architecture_specific_ops\n'
    "ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!"
)
NO_IMAGE = (
    "[2026-09-20 10:00:05 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/venv/cuda_graph_runner.py", line 400, in capture\n'
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
)


@pytest.mark.parametrize(
    ("text", "state", "reason", "remedy"),
    [
        pytest.param(NO_OPS, "failed", "common_ops", "compute capability", id="B34"),
        pytest.param(NO_IMAGE, "failed", "no kernel image", "all alike", id="B39"),
        pytest.param(
            f"{DISTRIBUTED}\n{SPANS}", "starting", "'Init torch distributed ends' is missing",
            "SGLANG_HOST_IP", id="B45",
        ),
        pytest.param(
            f"{DISTRIBUTED}\n[2026-05-24 10:00:02] connect 127.0.0.1: Connection refused",
            "starting", "connect 127.0.0.1: Connection refused", "GLOO_SOCKET_IFNAME", id="B46",
        ),
        pytest.param(
            f"{CAPTURE}\nCapturing batches (bs=256 avail_mem=9.10 GB):   0%|          | 0/36",
            "starting", "in the phase capturing CUDA graphs", "capture fewer batch sizes", id="B54",
        ),
    ],
)  # fmt: skip
def test_the_last_words_of_a_log(text: str, state: str, reason: str, remedy: str) -> None:
    found = server_state(parse_log(text), answered=False, ready=False)
    assert found.state == state
    assert reason in found.reason
    assert remedy in found.remedy


def test_what_the_remedy_of_half_a_memory_names(validators: Validators) -> None:
    """B44: a file as a hint, not as a certain cause."""
    host = Host((Gpu("NVIDIA GB10", "62.1 GiB", "sm_121", "580"),), engine_seen=True)
    remedy = judged(validators, "gpu-memory-whole", host=host).remedy
    assert "/etc/modprobe.d/zz-nvidia-drm-override.conf" in remedy
    assert "not a certain cause" in remedy
