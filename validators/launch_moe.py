"""Mixture of experts: runners, exchange between ranks, and the draft's own experts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from configurator import Finding, Launch, before, launch_rule, since

# Backends that exchange tokens between ranks and make the expert group the tensor group.
_SPANNING = ("deepep", "mooncake", "ascend_fuseep", "flashinfer", "mori", "megamoe", "nixl", "pplx",
             "deepep_v2", "flashinfer_megamoe")  # fmt: skip
_TRTLLM = ("flashinfer_trtllm", "flashinfer_trtllm_routed", "experimental_sgl_trtllm")
_LARGE_GB, _LARGE_CHUNK = 160, 16384
"""What the engine takes for a prefill step by itself on GPUs of that memory, and more."""
_CAP = "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK"
# Runners that a model without quantization can use; with another it runs Triton or stops.
_UNQUANTIZED = ("auto", "triton", "triton_kernel", "flashinfer_cutlass", "flashinfer_trtllm",
                "flashinfer_trtllm_routed", "deep_gemm", "aiter")  # fmt: skip
_DRAFTS_WITHOUT_RUNNER = ("DFLASH", "DSPARK", "STANDALONE")
_TRUE = ("1", "true", "yes", "y")


def _is_dense(launch: Launch) -> bool:
    """The checkpoint is here and says that there are no experts."""
    target = launch.checkpoint
    if target is None or not (target.hidden_size and target.intermediate_size):
        return False
    # Models name their experts in many ways, so any word of them counts.
    words = (*_keys(target.config), *target.tensors, *target.architectures)
    return not any(re.search("(?i)expert|moe", word) for word in words)


def _keys(config: object) -> Iterator[str]:
    if isinstance(config, dict):
        for key, value in config.items():
            yield str(key)
            yield from _keys(value)


def _architectures(launch: Launch) -> tuple[str, ...]:
    return launch.checkpoint.architectures if launch.checkpoint else ()


@launch_rule(
    "MOE105",
    "expert-size-overruled-by-the-exchange",
    severity="warning",
    source="sglang 0.5.5 to 0.5.23: _handle_a2a_moe, _a2a_ep_size; sglang issue 39080",
)
def expert_size_overruled_by_the_exchange(launch: Launch) -> Iterator[Finding]:
    """With an exchange of tokens between ranks the experts are spread over the whole tensor
    group, whatever --ep-size says.

    Bad:
        sglang serve --model-path m --tp 8 --ep-size 4 --moe-a2a-backend deepep

    Good:
        sglang serve --model-path m --tp 8 --ep-size 8 --moe-a2a-backend deepep
    """
    option, size = launch.option("ep-size"), launch.integer("ep-size")
    exchange, ranks = launch.text("moe-a2a-backend"), launch.integer("tp-size")
    tensor = 1 if not launch.on("tp-size") else ranks
    if option is None or exchange not in _SPANNING or tensor is None or size in (None, tensor):
        return
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {size} becomes {tensor}: --moe-a2a-backend {exchange} spreads the "
        "experts over all ranks of --tp-size",
        f"set --ep-size to {tensor}, or leave it out",
    )


@launch_rule(
    "MOE106",
    "moe-runner-not-on-this-gpu",
    source="flashinfer: the TensorRT-LLM fused MoE is built for sm_100 and sm_103; sglang "
    "0.5.12 to 0.5.23 pick it by default on sm_100 alone",
)
def moe_runner_not_on_this_gpu(launch: Launch) -> Iterator[Finding]:
    """The TensorRT-LLM kernels for experts exist for sm_100 and sm_103: elsewhere the argument is
    accepted and the first forward fails.

    Bad:
        # hardware: h200
        sglang serve --model-path m --moe-runner-backend flashinfer_trtllm

    Good:
        # hardware: b200
        sglang serve --model-path m --moe-runner-backend flashinfer_trtllm
    """
    hardware = launch.hardware
    if hardware is None or hardware.arch != "sm_90" or _is_dense(launch):
        return
    for name in ("moe-runner-backend", "speculative-moe-runner-backend"):
        option, runner = launch.option(name), launch.text(name)
        if option is not None and runner in _TRTLLM:
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} {runner} has no kernels for {hardware.arch} "
                f"({hardware.name})",
                f"leave --{name} out, or set it to triton",
            )


def _stored_as_fp8(launch: Launch) -> bool:
    """The experts are FP8, as far as the launch shows."""
    if launch.text("quantization") == "fp8":
        return True
    if launch.checkpoint is not None and launch.checkpoint.config:
        stored = launch.checkpoint.quantization
        return stored is not None and stored.method == "fp8"
    path = launch.text("model-path") or launch.text("model") or ""
    return "fp8" in path.rstrip("/").rpartition("/")[2].lower()


@launch_rule(
    "MOE107",
    "experts-shuffled-for-another-runner",
    source="sglang 0.5.9 to 0.5.22: layers/quantization/fp8.py shuffles for aiter whatever the "
    "runner; 0.5.23 asks for the runner first",
)
def experts_shuffled_for_another_runner(launch: Launch) -> Iterator[Finding]:
    """SGLANG_USE_AITER stores FP8 experts in the order that aiter reads; Triton reads them as
    they are, so the server answers, and every answer is garbage.

    Bad:
        # engine: 0.5.17
        SGLANG_USE_AITER=1 sglang serve --model-path Qwen3-Next-FP8 --moe-runner-backend triton

    Good:
        # engine: 0.5.17
        SGLANG_USE_AITER=1 sglang serve --model-path Qwen3-Next-FP8
    """
    option, aiter = launch.option("moe-runner-backend"), launch.env.get("SGLANG_USE_AITER")
    if option is None or aiter is None or launch.hardware is not None:
        # No hardware entry is of AMD: on the others the variable has no effect.
        return
    on = (aiter.value or "").lower() in _TRUE
    triton = launch.text("moe-runner-backend") == "triton"
    if on and triton and _stored_as_fp8(launch) and before(launch.catalogue, "0.5.23"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} triton with SGLANG_USE_AITER=1: FP8 experts are shuffled "
            "for aiter, and Triton reads them wrongly",
            "leave --moe-runner-backend out, or unset SGLANG_USE_AITER",
        )


def _tokens_per_rank(launch: Launch, chunk: int) -> int | None:
    """Tokens of the longest prefill step on one rank; None with context parallelism."""
    if launch.on("enable-prefill-cp") or (launch.integer("attn-cp-size") or 1) > 1:
        return None
    tensor = launch.integer("tp-size") or 1
    shared = launch.on("enable-dp-attention") or launch.on("attn-dp-size")
    groups = (launch.integer("attn-dp-size") or launch.integer("dp-size") or 1) if shared else 1
    local, step = chunk // groups, max(1, tensor // groups)
    return -(-local // step) * step


def _exchange(launch: Launch) -> tuple[str | int, ...]:
    """Where MegaMoE is asked for."""
    named = launch.option("moe-a2a-backend") or launch.option("moe-runner-backend")
    return launch.path(named) if named else ()


@launch_rule(
    "MOE108",
    "megamoe-buffer-below-the-prefill-chunk",
    source="sglang 0.5.16 to 0.5.23: deepseek_v4_hook.py, mega_moe_hook.py; pull request 34326",
)
def megamoe_buffer_below_the_prefill_chunk(launch: Launch) -> Iterator[Finding]:
    """MegaMoE has room for a fixed number of tokens a rank; a longer prefill step is refused at
    the start, or runs the slower experts.

    Bad:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --moe-a2a-backend megamoe --chunked-prefill-size 8192

    Good:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --moe-a2a-backend megamoe --chunked-prefill-size 1024
    """
    option, chunk = launch.option("chunked-prefill-size"), launch.integer("chunked-prefill-size")
    megamoe = "megamoe" in (launch.text("moe-a2a-backend"), launch.text("moe-runner-backend"))
    known, decode = launch.catalogue, launch.text("disaggregation-mode") == "decode"
    variable = known.variables.get(_CAP) if known else None
    if option is None and launch.hardware and (launch.hardware.memory_gb or 0) >= _LARGE_GB:
        chunk = _LARGE_CHUNK
    if not megamoe or not chunk or chunk < 0 or decode or variable is None:
        return
    given = launch.env.get(_CAP)
    room = given.value if given else variable.default
    needed = _tokens_per_rank(launch, chunk)
    if needed is None or room is None or not str(room).isdigit() or int(room) >= needed:
        return
    default = "" if given else " by default"
    yield Finding(
        given.path if given else launch.path(option) if option else _exchange(launch),
        f"a prefill step brings {needed} tokens to a rank; {_CAP} has room for {room}{default}",
        f"set {_CAP} to {needed}, or --chunked-prefill-size to {chunk * int(room) // needed}",
    )


@launch_rule(
    "MOE109",
    "draft-inherits-the-targets-runner",
    severity="warning",
    source="sglang 0.5.5 to 0.5.23: --speculative-moe-runner-backend defaults to the target's; "
    "unquant.py, create_moe_runner",
)
def draft_inherits_the_targets_runner(launch: Launch) -> Iterator[Finding]:
    """The draft takes the target's runner when it has none of its own. A runner for quantized
    experts cannot read a draft stored in BF16: it stops, or runs Triton without a word.

    Bad:
        sglang serve --model-path m --moe-runner-backend marlin --speculative-algorithm EAGLE \
--speculative-draft-model-quantization unquant

    Good:
        sglang serve --model-path m --moe-runner-backend marlin --speculative-algorithm EAGLE \
--speculative-draft-model-quantization unquant --speculative-moe-runner-backend triton
    """
    option, runner = launch.option("moe-runner-backend"), launch.text("moe-runner-backend")
    own, algorithm = launch.on("speculative-moe-runner-backend"), _algorithm(launch)
    if option is None or runner is None or runner in _UNQUANTIZED or own or algorithm is None:
        return
    if algorithm in _DRAFTS_WITHOUT_RUNNER or _is_dense(launch) or not _draft_is_plain(launch):
        return
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {runner} counts for the draft too, whose experts are not quantized",
        "set --speculative-moe-runner-backend to triton",
    )


def _algorithm(launch: Launch) -> str | None:
    text = launch.text("speculative-algorithm")
    return text.upper() if text else None


def _draft_is_plain(launch: Launch) -> bool:
    """The draft is known to be stored without quantization."""
    if launch.text("speculative-draft-model-quantization") == "unquant":
        return True
    if launch.draft is not None and launch.draft.config:
        return launch.draft.quantization is None and bool(launch.draft.experts)
    if launch.checkpoint is None or launch.on("speculative-draft-model-path"):
        return False
    tensors = launch.checkpoint.tensors
    experts = [tensors[name] for name in launch.checkpoint.draft_tensors if _is_expert(name)]
    return bool(experts) and all(tensor.dtype == "BF16" for tensor in experts)


def _is_expert(name: str) -> bool:
    return ".experts." in name and name.endswith("weight")


@launch_rule(
    "MOE110",
    "experts-asked-for-on-a-dense-model",
    severity="warning",
    source="sglang 0.5.23: only MoE layers read these arguments",
)
def experts_asked_for_on_a_dense_model(launch: Launch) -> Iterator[Finding]:
    """The checkpoint has no experts: arguments about them are accepted and have no effect.

    Bad:
        # config: {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 8, "intermediate_size": 16}
        sglang serve --model-path CHECKPOINT --tp 2 --moe-a2a-backend deepep

    Good:
        # config: {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 128}
        sglang serve --model-path CHECKPOINT --tp 2 --moe-a2a-backend deepep
    """
    if not _is_dense(launch):
        return
    idle = {"none", "auto", "1", None}
    for name in ("moe-runner-backend", "moe-a2a-backend", "ep-size"):
        option, value = launch.option(name), launch.text(name)
        if option is not None and value not in idle:
            shown = ", ".join(_architectures(launch)) or "the checkpoint"
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} {value} has no effect: {shown} has no experts",
                f"remove --{name}",
            )


@launch_rule(
    "MOE111",
    "symmetric-memory-refused-by-the-model",
    severity="warning",
    source="sglang 0.5.17, 0.5.18: kimi_k3_hook.py, disable_kimi_k3_symm_mem; 0.5.19 to 0.5.23: "
    "model_overrides/kimi_k3.py, with --dcp-size only",
)
def symmetric_memory_refused_by_the_model(launch: Launch) -> Iterator[Finding]:
    """Kimi's hybrid models turn symmetric memory off while graphs are captured, since 0.5.19 with
    decode context parallelism alone: it breaks speculation, where acceptance falls to 1 or stays
    at its ceiling over garbage.

    Bad:
        # engine: 0.5.17
        sglang serve --model-path /models/Kimi-K3 --enable-symm-mem --speculative-algorithm DSPARK

    Good:
        # engine: 0.5.17
        sglang serve --model-path /models/Kimi-K3 --speculative-algorithm DSPARK
    """
    option, known = launch.option("enable-symm-mem"), launch.catalogue
    if option is None or not since(known, "0.5.17") or not _is_kimi_hybrid(launch):
        return
    eager = launch.on("disable-cuda-graph") or all(
        launch.text(f"cuda-graph-backend-{phase}") == "disabled" for phase in ("decode", "prefill")
    )
    refused = (launch.integer("dcp-size") or 1) > 1 if since(known, "0.5.19") else not eager
    if refused:
        why = "with --dcp-size above 1" if since(known, "0.5.19") else "while CUDA graphs are on"
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} has no effect: the engine turns it off for Kimi hybrid models "
            + why,
            "remove --enable-symm-mem",
        )


def _is_kimi_hybrid(launch: Launch) -> bool:
    names = _architectures(launch)
    if names:
        return names[0] in ("KimiLinearForCausalLM", "KimiK3ForConditionalGeneration")
    path = launch.text("model-path") or launch.text("model") or ""
    return "kimi-k3" in path.rstrip("/").rpartition("/")[2].lower()
