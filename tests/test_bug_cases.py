"""Public bug reports as launches: what is said of each, and of the launch that avoids it.

Those of running servers are in `test_bug_cases_runtime.py`, and those that rest on a checkpoint
(B04, B05, B08, B11, B13, B14, B66, B67, B68, B71, B72) in `validators/test_checkpoint_rules.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from launches import launch

from configurator.checkpoint import Checkpoint
from configurator.launch import Launch
from configurator.loader import Validators


@dataclass(frozen=True)
class Case:
    """One report, by its number in the collection."""

    name: str
    bad: str
    expected: dict[str, str]
    """Severity by code; further errors are not expected."""
    good: str
    engine: str = "0.5.17"
    hardware: str | None = None
    good_engine: str | None = None
    good_hardware: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    """Part of a message or of a remedy."""

    def launch(self, command: str, engine: str, hardware: str | None) -> Launch:
        checkpoint = (
            Checkpoint(Path("checkpoint"), self.config, files=("config.json",))
            if self.config
            else None
        )
        return launch(command, engine=engine, hardware=hardware, checkpoint=checkpoint)


_TWO_HOSTS = "--tp-size 2 --nnodes 2 --node-rank 0 --dist-init-addr"
_NAMED = "GLOO_SOCKET_IFNAME=eth1 NCCL_SOCKET_IFNAME=eth1 SGLANG_HOST_IP=192.0.2.1"
_CAP = "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK"
_MIMO = (
    "--model-path MiMo --tp-size 8 --moe-runner-backend flashinfer_trtllm --attention-backend fa4 "
    "--max-running-requests 48 --chunked-prefill-size 16384"
)
_SPEC_V2 = (
    "python -m sglang.launch_server --model-path Qwen3.5-27B-FP8 --speculative-algorithm NEXTN "
    "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
    "--kv-cache-dtype fp8_e4m3 --tp-size 2 --max-running-requests 6 --mem-fraction-static 0.86"
)

CASES = (
    Case(
        "B12 NEXTN where the architecture has no default draft",
        "--model-path m --speculative-algorithm NEXTN --max-running-requests 8",
        {"SPEC128": "warning"},
        "--model-path m --speculative-algorithm NEXTN --speculative-draft-model-path m "
        "--max-running-requests 8",
        config={"architectures": ["Qwen3_5MoeForConditionalGeneration"], "num_experts": 256},
        says="Qwen3_5MoeForConditionalGeneration has no default",
    ),
    Case(
        "B17 fa3 with fp8_e5m2 runs Triton",
        "--model-path m --attention-backend fa3 --kv-cache-dtype fp8_e5m2",
        {"ENG303": "error"},
        "--model-path m --attention-backend fa3 --kv-cache-dtype fp8_e4m3",
        says="set --kv-cache-dtype to fp8_e4m3",
    ),
    Case(
        "B20 an exchange that this release does not have",
        "--model-path m --moe-a2a-backend deepep_v2 --ep-size 8 --tp-size 8",
        {"ENG102": "error"},
        "--model-path m --moe-a2a-backend deepep_v2 --ep-size 8 --tp-size 8",
        good_engine="0.5.23",
    ),
    Case(
        "B20 an exchange that spreads the experts by itself",
        "--model-path m --moe-a2a-backend deepep --ep-size 2 --tp-size 8",
        {"MOE105": "warning"},
        "--model-path m --moe-a2a-backend deepep --ep-size 8 --tp-size 8",
        says="--ep-size 2 becomes 8",
    ),
    Case(
        "B23 symmetric memory on Kimi-K3",
        "--model-path /models/Kimi-K3 --enable-symm-mem --speculative-algorithm DSPARK",
        {"MOE111": "warning"},
        "--model-path /models/Kimi-K3 --enable-symm-mem --speculative-algorithm DSPARK "
        "--cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled",
        says="while CUDA graphs are on",
    ),
    Case(
        "B24 Triton reads experts shuffled for aiter",
        "SGLANG_USE_AITER=1 sglang serve --model-path Qwen3-Next-80B-A3B-FP8 "
        "--moe-runner-backend triton",
        {"MOE107": "error"},
        "SGLANG_USE_AITER=0 sglang serve --model-path Qwen3-Next-80B-A3B-FP8 "
        "--moe-runner-backend triton",
    ),
    Case(
        "B25 a BF16 draft inherits a runner for quantized experts",
        "--model-path m --moe-runner-backend marlin --speculative-algorithm EAGLE "
        "--speculative-draft-model-quantization unquant",
        {"MOE109": "warning"},
        "--model-path m --moe-runner-backend marlin --speculative-algorithm EAGLE "
        "--speculative-draft-model-quantization unquant --speculative-moe-runner-backend triton",
        says="set --speculative-moe-runner-backend to triton",
    ),
    Case(
        "B26 MegaMoE's buffer is below the prefill chunk",
        "--model-path m --tp-size 8 --moe-a2a-backend megamoe --chunked-prefill-size 8192",
        {"MOE108": "error"},
        f"{_CAP}=8192 sglang serve --model-path m --tp-size 8 --moe-a2a-backend megamoe "
        "--chunked-prefill-size 8192",
        says="has room for 1024 by default",
    ),
    Case(
        "B26 the release with a larger buffer",
        "--model-path m --tp-size 8 --moe-a2a-backend megamoe --chunked-prefill-size 16384",
        {"MOE108": "error"},
        "--model-path m --tp-size 8 --moe-a2a-backend megamoe --chunked-prefill-size 8192",
        engine="0.5.19",
        says="has room for 8192 by default",
    ),
    Case(
        "B28 a runner that came later",
        "--model-path m --tp-size 4 --moe-runner-backend marlin",
        {"ENG102": "error"},
        "--model-path m --tp-size 4 --moe-runner-backend marlin",
        engine="0.5.9",
        good_engine="0.5.17",
    ),
    Case(
        "B28 a variable that nothing reads any more",
        "SGLANG_DISABLE_REQUEST_LOGGING=1 sglang serve --model-path m",
        {"ENV105": "warning"},
        "sglang serve --model-path m",
    ),
    Case(
        "B31 fa3 for the vision tower on sm_100",
        "--model-path Qwen3-VL-4B-Instruct --mm-attention-backend fa3",
        {"HW106": "error"},
        "--model-path Qwen3-VL-4B-Instruct --mm-attention-backend triton_attn",
        hardware="b200",
        says="triton_attn",
    ),
    Case(
        "B33 fa4 on B300, which is sm_103, takes pages of 128",
        f"{_MIMO} --page-size 64",
        {"ENG304": "warning"},
        f"{_MIMO} --page-size 128",
        hardware="hgx-b300",
        says="--page-size 64 becomes 128: fa4 on sm_103",
    ),
    Case(
        "B36 MXFP4 experts of FlashInfer on GB10",
        "--model-path m --moe-runner-backend flashinfer_mxfp4 --mem-fraction-static 0.6",
        {"MOE112": "warning"},
        "--model-path m --moe-runner-backend marlin --mem-fraction-static 0.6",
        hardware="dgx-spark",
        says="marlin or triton",
    ),
    Case(
        "B40 a fraction of 0.70 of memory shared with the host",
        "--model-path m --mem-fraction-static 0.70",
        {"MEM110": "warning"},
        "--model-path m --mem-fraction-static 0.70",
        hardware="dgx-spark",
        good_hardware="rtx-pro-6000",
    ),
    Case(
        "B40 a fraction that leaves the host nothing",
        "--model-path m --mem-fraction-static 0.85",
        {"MEM101": "error"},
        "--model-path m --mem-fraction-static 0.68",
        hardware="dgx-spark",
    ),
    Case(
        "B42 no fraction at all: an explicit number of tokens is clamped, and bounds nothing else",
        "--model-path m --max-total-tokens 4000000",
        {"MEM105": "warning"},
        "--model-path m --max-total-tokens 4000000 --mem-fraction-static 0.68",
        hardware="dgx-spark",
    ),
    Case(
        "B45 the message queue's address is not said",
        "GLOO_SOCKET_IFNAME=eth1 NCCL_SOCKET_IFNAME=eth1 sglang serve --model-path m "
        f"{_TWO_HOSTS} 192.0.2.1:20000",
        {"NET107": "warning"},
        f"{_NAMED} sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:20000",
        says="without SGLANG_HOST_IP",
    ),
    Case(
        "B46 Gloo's interface is not said",
        f"SGLANG_HOST_IP=192.0.2.1 sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000",
        {"NET107": "warning"},
        f"{_NAMED} sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000",
        says="without GLOO_SOCKET_IFNAME",
    ),
    Case(
        "B46 the hosts meet on loopback",
        f"{_NAMED} sglang serve --model-path m {_TWO_HOSTS} localhost:5000",
        {"NET106": "error"},
        f"{_NAMED} sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000",
        says="each host meets only itself",
    ),
    Case(
        "B48 NCCL_CUMEM_ENABLE=0 between trays",
        f"{_NAMED} NCCL_CUMEM_ENABLE=0 sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000",
        {"NET108": "error"},
        f"{_NAMED} NCCL_CUMEM_ENABLE=0 sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000",
        hardware="gb300-nvl72",
        good_hardware="h200",
        says="set it to 1",
    ),
    Case(
        "B50 the fused all-reduce of several hosts on one GB300",
        "--model-path GLM-5.1-NVFP4 --tp-size 4 --enable-flashinfer-allreduce-fusion "
        "--speculative-algorithm EAGLE",
        {"NET110": "warning", "ENG103": "warning"},
        "--model-path GLM-5.1-NVFP4 --tp-size 4 --flashinfer-allreduce-fusion-backend trtllm "
        "--speculative-algorithm EAGLE",
        engine="0.5.14",
        hardware="gb300-nvl72",
    ),
    Case(
        "B51 copies over hosts",
        f"{_NAMED} sglang serve --model-path m --tp-size 4 --dp-size 4 --nnodes 2 --node-rank 0 "
        "--dist-init-addr 192.0.2.1:5000",
        {"PAR110": "error"},
        f"{_NAMED} sglang serve --model-path m --tp-size 4 --dp-size 4 --enable-dp-attention "
        "--nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000",
        says="add --enable-dp-attention",
    ),
    Case(
        "B52 a variable of another engine",
        "VLLM_FLASHINFER_MOE_BACKEND=latency sglang serve --model-path m",
        {"ENV106": "warning"},
        "sglang serve --model-path m --moe-runner-backend triton",
        says="--moe-runner-backend",
    ),
    Case(
        "B54 a switch of graphs that nothing reads",
        "SGLANG_DISABLE_CUDA_GRAPH=1 sglang serve --model-path m",
        {"ENV101": "error"},
        "sglang serve --model-path m --cuda-graph-backend-decode disabled",
    ),
    Case(
        "B55 an FP8 head that only a fork has",
        "SGLANG_QUANTIZE_LM_HEAD_FP8=1 sglang serve --model-path m",
        {"ENV101": "error"},
        "sglang serve --model-path m",
    ),
    Case(
        "B58 the second speculation is the only one",
        f"SGLANG_ENABLE_SPEC_V2=True {_SPEC_V2} --mamba-scheduler-strategy extra_buffer",
        {"SPEC129": "warning", "ENG103": "warning"},
        f"{_SPEC_V2} --mamba-radix-cache-strategy extra_buffer",
        says="--mamba-radix-cache-strategy",
    ),
    Case(
        "B59 an underscore in an option",
        "--model-path m --tool-call-parser kimi_k2 --reasoning_parser kimi_k2",
        {"ENG101": "error"},
        "--model-path m --tool-call-parser kimi_k2 --reasoning-parser kimi_k2",
        engine="0.5.5",
        says="reasoning-parser",
    ),
    Case(
        "B61 options of another engine",
        "--model-path m --num-nodes 2 --master-addr 192.0.2.1 --master-port 5000 "
        "--gpu-memory-utilization 0.85 --max-model-len 131072 --kv-cache-dtype fp8 "
        "--fp8-gemm-runner-backend triton",
        {"ENG107": "error", "ENG102": "error", "ENG101": "error"},
        f"{_NAMED} sglang serve --model-path m {_TWO_HOSTS} 192.0.2.1:5000 "
        "--mem-fraction-static 0.85 --context-length 131072 --kv-cache-dtype fp8_e4m3 "
        "--fp8-gemm-backend triton",
        engine="0.5.12",
        says="--context-length",
    ),
    Case(
        "B62 --enable-deepep-moe is gone",
        "--model-path m --tp-size 8 --enable-deepep-moe",
        {"ENG101": "error"},
        "--model-path m --tp-size 8 --ep-size 8 --moe-a2a-backend deepep",
        says="--moe-a2a-backend",
    ),
    Case(
        "B62 --enable-ep-moe is gone",
        "--model-path m --tp-size 8 --enable-ep-moe",
        {"ENG101": "error"},
        "--model-path m --tp-size 8 --ep-size 8",
        says="--ep-size",
    ),
    Case(
        "B73 one NCCL port for eight copies",
        "--model-path m --is-embedding --dp-size 8 --nccl-port 30101 --port 30100",
        {"NET109": "warning"},
        "--model-path m --is-embedding --dp-size 8 --port 30100",
        engine="0.5.9",
        says="one port for 8 copies",
    ),
    Case(
        "B76 acceptance is simulated",
        "SGLANG_SIMULATE_ACC_LEN=3.5 sglang serve --model-path m --speculative-algorithm DFLASH "
        "--speculative-draft-model-path d",
        {"SPEC115": "error"},
        "SGLANG_SIMULATE_ACC_LEN=-1 sglang serve --model-path m --speculative-algorithm DFLASH "
        "--speculative-draft-model-path d",
    ),
)


def found(judged: Launch, validators: Validators) -> dict[str, list[tuple[str, str]]]:
    """Severity and text of every finding, by code."""
    said: dict[str, list[tuple[str, str]]] = {}
    for rule in validators.rules.values():
        if rule.subject == "launch":
            for finding in rule.check(judged):
                text = f"{finding.message}; {finding.remedy}"
                said.setdefault(rule.code, []).append((rule.severity, text))
    return said


def errors(said: dict[str, list[tuple[str, str]]]) -> set[str]:
    return {code for code, findings in said.items() if findings[0][0] == "error"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reported_launch_is_found(case: Case, validators: Validators) -> None:
    said = found(case.launch(case.bad, case.engine, case.hardware), validators)
    assert {code: said[code][0][0] for code in case.expected if code in said} == case.expected
    assert errors(said) == {code for code, severity in case.expected.items() if severity == "error"}
    texts = [text for code in case.expected for _, text in said[code]]
    assert any(case.says in text for text in texts), texts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_launch_that_avoids_it_is_not(case: Case, validators: Validators) -> None:
    engine = case.good_engine or case.engine
    said = found(case.launch(case.good, engine, case.good_hardware or case.hardware), validators)
    assert not set(said) & set(case.expected), said
    assert errors(said) == set()


def test_options_of_another_engine_are_answered_one_by_one(validators: Validators) -> None:
    case = next(case for case in CASES if case.name.startswith("B61"))
    said = found(case.launch(case.bad, case.engine, None), validators)
    texts = " ".join(text for code in case.expected for _, text in said[code])
    for wanted in (
        "--nnodes", "--dist-init-addr", "--mem-fraction-static", "--context-length", "fp8_e4m3",
        "fp8-gemm-backend",
    ):  # fmt: skip
        assert wanted in texts
