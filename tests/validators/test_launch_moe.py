"""Mixture of experts in a launch: runners, exchanges, buffers, and the draft's experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from launches import launch

from configurator.checkpoint import Checkpoint, Tensor
from configurator.loader import Validators

CAP = "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK"
MOE = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 128}
DENSE = {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 8, "intermediate_size": 16}


def checkpoint(config: dict[str, Any], **dtypes: str) -> Checkpoint:
    """A checkpoint of a config, with one tensor for each name (`__` stands for a dot)."""
    named = {name.replace("__", "."): dtype for name, dtype in dtypes.items()}
    tensors = {name: Tensor(name, dtype, (8, 8)) for name, dtype in named.items()}
    return Checkpoint(Path("m"), config, tensors, files=("config.json",))


def said(
    validators: Validators, code: str, command: str, engine: str = "0.5.23",
    hardware: str | None = None, target: Checkpoint | None = None, draft: Checkpoint | None = None,
) -> list[str]:  # fmt: skip
    judged = launch(command, engine=engine, hardware=hardware, checkpoint=target, draft=draft)
    return [f"{found.message}; {found.remedy}" for found in validators.rules[code].check(judged)]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ("--tp-size 8 --ep-size 4 --moe-a2a-backend deepep", "--ep-size 4 becomes 8"),
        ("--ep-size 4 --moe-a2a-backend mooncake", "--ep-size 4 becomes 1"),
        ("--tp-size 8 --ep-size 8 --moe-a2a-backend deepep", None),
        ("--tp-size 8 --moe-a2a-backend deepep", None),
        ("--tp-size 8 --ep-size 4 --moe-a2a-backend none", None),
        ("--tp-size $TP --ep-size 4 --moe-a2a-backend deepep", None),
    ],
)
@pytest.mark.parametrize("engine", ["0.5.9", "0.5.23"])
def test_exchanges_spread_the_experts(
    options: str, fact: str | None, engine: str, validators: Validators
) -> None:
    found = said(validators, "MOE105", f"--model-path m {options}", engine)
    assert len(found) == (fact is not None)
    assert fact is None or fact in found[0]


@pytest.mark.parametrize(
    ("option", "hardware", "found"),
    [
        ("--moe-runner-backend flashinfer_trtllm", "h200", True),
        ("--moe-runner-backend flashinfer_trtllm_routed", "h200", True),
        ("--speculative-moe-runner-backend flashinfer_trtllm", "h200", True),
        ("--moe-runner-backend flashinfer_trtllm", "b200", False),
        ("--moe-runner-backend flashinfer_cutlass", "h200", False),
        ("--moe-runner-backend flashinfer_trtllm", None, False),
    ],
)
def test_runners_by_gpu(
    option: str, hardware: str | None, found: bool, validators: Validators
) -> None:
    command = f"--model-path m {option}"
    assert bool(said(validators, "MOE106", command, hardware=hardware)) is found


@pytest.mark.parametrize(
    ("aiter", "options", "engine", "found"),
    [
        ("1", "--model-path /m/Qwen3-Next-FP8/ --moe-runner-backend triton", "0.5.22", True),
        ("true", "--model-path m --quantization fp8 --moe-runner-backend triton", "0.5.9", True),
        ("1", "--model-path /m/Qwen3-Next-FP8 --moe-runner-backend triton", "0.5.23", False),
        ("1", "--model-path /m/Qwen3-Next --moe-runner-backend triton", "0.5.17", False),
        ("1", "--model-path /m/Qwen3-Next-FP8 --moe-runner-backend auto", "0.5.17", False),
        ("0", "--model-path /m/Qwen3-Next-FP8 --moe-runner-backend triton", "0.5.17", False),
    ],
)
def test_experts_shuffled_for_aiter(
    aiter: str, options: str, engine: str, found: bool, validators: Validators
) -> None:
    command = f"SGLANG_USE_AITER={aiter} sglang serve {options}"
    assert bool(said(validators, "MOE107", command, engine)) is found
    # On GPUs with an entry, which are not AMD's, the variable does nothing.
    assert said(validators, "MOE107", command, engine, "h200") == []


def test_the_checkpoint_says_whether_its_experts_are_fp8(validators: Validators) -> None:
    command = "SGLANG_USE_AITER=1 sglang serve --model-path m --moe-runner-backend triton"
    stored = checkpoint({**MOE, "quantization_config": {"quant_method": "fp8"}})
    assert len(said(validators, "MOE107", command, "0.5.17", target=stored)) == 1
    plain = checkpoint(MOE)
    command = command.replace("--model-path m", "--model-path name-FP8")
    assert said(validators, "MOE107", command, "0.5.17", target=plain) == []


@pytest.mark.parametrize(
    ("env", "options", "engine", "needed"),
    [
        ("", "--tp-size 8 --chunked-prefill-size 8192", "0.5.17", 8192),
        ("", "--tp-size 8 --chunked-prefill-size 8192", "0.5.23", None),
        ("", "--tp-size 8 --chunked-prefill-size 16384", "0.5.23", 16384),
        (f"{CAP}=8192", "--tp-size 8 --chunked-prefill-size 8192", "0.5.17", None),
        (f"{CAP}=4096", "--tp-size 8 --chunked-prefill-size 8192", "0.5.23", 8192),
        # A rank of 8 groups gets an eighth; without them the step is a multiple of tp.
        ("", "--tp-size 8 --dp-size 8 --enable-dp-attention --chunked-prefill-size 8192",
         "0.5.17", None),
        ("", "--tp-size 8 --chunked-prefill-size 1025", "0.5.17", 1032),
        ("", "--tp-size 8 --chunked-prefill-size 8192 --disaggregation-mode decode", "0.5.17",
         None),
        ("", "--tp-size 8", "0.5.17", None),
        (f"{CAP}=$ROOM", "--tp-size 8 --chunked-prefill-size 8192", "0.5.17", None),
    ],
)  # fmt: skip
def test_megamoe_has_room_for_a_prefill_step(
    env: str, options: str, engine: str, needed: int | None, validators: Validators
) -> None:
    command = f"{env} sglang serve --model-path m --moe-a2a-backend megamoe {options}"
    found = said(validators, "MOE108", command, engine)
    assert len(found) == (needed is not None)
    assert needed is None or f"brings {needed} tokens to a rank" in found[0]
    other = command.replace("megamoe", "deepep")
    assert said(validators, "MOE108", other, engine) == []


DRAFTS = "--model-path m --moe-runner-backend marlin --speculative-algorithm"


@pytest.mark.parametrize(
    ("options", "target", "draft", "found"),
    [
        ("EAGLE --speculative-draft-model-quantization unquant", None, None, True),
        ("EAGLE", checkpoint(MOE, mtp__layers__0__mlp__experts__0__up_proj__weight="BF16"), None,
         True),
        ("EAGLE", checkpoint(MOE, mtp__layers__0__mlp__experts__0__up_proj__weight="U8"), None,
         False),
        ("EAGLE", checkpoint(MOE, mtp__layers__0__self_attn__q_proj__weight="BF16"), None, False),
        ("EAGLE --speculative-draft-model-path d", None, checkpoint(MOE), True),
        ("EAGLE --speculative-draft-model-path d", None, checkpoint(DENSE), False),
        ("EAGLE --speculative-draft-model-path d", None,
         checkpoint({**MOE, "quantization_config": {"quant_method": "fp8"}}), False),
        ("EAGLE", None, None, False),
        # These draft outside the draft's own setting, so it would not help.
        ("DSPARK --speculative-draft-model-quantization unquant", None, None, False),
    ],
)  # fmt: skip
def test_drafts_inherit_the_runner(
    options: str, target: Checkpoint | None, draft: Checkpoint | None, found: bool,
    validators: Validators,
) -> None:  # fmt: skip
    command = f"{DRAFTS} {options}"
    assert bool(said(validators, "MOE109", command, target=target, draft=draft)) is found
    own = f"{command} --speculative-moe-runner-backend triton"
    assert said(validators, "MOE109", own, target=target, draft=draft) == []
    readable = command.replace("marlin", "triton")
    assert said(validators, "MOE109", readable, target=target, draft=draft) == []


def test_arguments_about_experts_that_are_not_there(validators: Validators) -> None:
    command = "--model-path m --tp-size 8 --ep-size 8 --moe-a2a-backend deepep"
    found = said(validators, "MOE110", command, target=checkpoint(DENSE))
    assert [text.split()[0] for text in found] == ["--moe-a2a-backend", "--ep-size"]
    assert said(validators, "MOE110", command, target=checkpoint(MOE)) == []
    assert said(validators, "MOE110", command) == []
    for more in ({"ffn_config": {"moe_num_experts": 16}}, {"num_experts": [64, 64]}):
        assert said(validators, "MOE110", command, target=checkpoint(DENSE | more)) == []
    partial = checkpoint({"architectures": ["GptOssForCausalLM"]})
    assert said(validators, "MOE110", command, target=partial) == []
    idle = "--model-path m --ep-size 1 --moe-a2a-backend none --moe-runner-backend auto"
    assert said(validators, "MOE110", idle, target=checkpoint(DENSE)) == []


@pytest.mark.parametrize(
    ("options", "engine", "found"),
    [
        ("--model-path /m/Kimi-K3", "0.5.17", True),
        ("--model-path /m/Kimi-K3", "0.5.18", True),
        ("--model-path /m/Kimi-K3", "0.5.16", False),
        ("--model-path /m/Kimi-K3", "0.5.19", False),
        ("--model-path /m/Kimi-K3 --dcp-size 2", "0.5.19", True),
        ("--model-path /m/Kimi-K3 --disable-cuda-graph", "0.5.17", False),
        ("--model-path /m/Qwen3", "0.5.17", False),
    ],
)
def test_symmetric_memory_of_kimi_hybrids(
    options: str, engine: str, found: bool, validators: Validators
) -> None:
    command = f"{options} --enable-symm-mem"
    assert bool(said(validators, "MOE111", command, engine)) is found
    assert said(validators, "MOE111", options, engine) == []


def test_kimi_hybrids_are_told_by_their_class(validators: Validators) -> None:
    kimi = checkpoint({"architectures": ["KimiLinearForCausalLM"]})
    command = "--model-path m --enable-symm-mem"
    assert len(said(validators, "MOE111", command, "0.5.17", target=kimi)) == 1
    other = command.replace("--model-path m", "--model-path Kimi-K3-copy")
    assert said(validators, "MOE111", other, "0.5.17", target=checkpoint(MOE)) == []


@pytest.mark.parametrize(
    ("runner", "hardware", "found"),
    [("flashinfer_mxfp4", "dgx-spark", True), ("marlin", "dgx-spark", False),
     ("flashinfer_mxfp4", "b200", False), ("flashinfer_mxfp4", None, False)],
)  # fmt: skip
def test_runners_to_prove_on_gb10(
    runner: str, hardware: str | None, found: bool, validators: Validators
) -> None:
    command = f"--model-path m --moe-runner-backend {runner}"
    assert bool(said(validators, "MOE112", command, hardware=hardware)) is found


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--tp-size 8 --ep-size 3", True),
        ("--ep-size 2", True),
        ("--tp-size 8 --ep-size 4", False),
        ("--tp-size 8 --ep-size 1", False),
        ("--tp-size 8 --ep-size 3 --moe-a2a-backend deepep", False),
        ("--tp-size $TP --ep-size 3", False),
    ],
)
@pytest.mark.parametrize("engine", ["0.5.9", "0.5.23"])
def test_expert_sizes_divide_the_tensor_group(
    options: str, found: bool, engine: str, validators: Validators
) -> None:
    assert bool(said(validators, "PAR106", f"--model-path m {options}", engine)) is found
