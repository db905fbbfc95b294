"""What a checkpoint was made for against what a launch asks: context, experts, LM head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configurator import Checkpoint, Finding, Launch, before, launch_rule, since

_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_TRUE = ("1", "true", "yes", "y", "on", "t")
_FP8_HEAD = ("SGLANG_ENABLE_FP8_LM_HEAD", "SGLANG_QUANTIZE_LM_HEAD_FP8")
"""Variables of builds that make the LM head FP8 while loading."""
_RUNNERS = ("auto", "triton", "triton_kernel", "marlin", "aiter", "flashinfer_mxfp4")
_RUNNERS_SINCE_0_5_17 = ("deep_gemm",)
_NOT_JUDGED = ("intel_xpu", "megamoe", "flashinfer_megamoe")
"""Runners that take their experts from elsewhere."""
_TAKES_MODULE = (("Qwen3_5", "0.5.15"), ("NemotronH", "0.5.16"))
"""Beginnings of architectures whose draft takes the whole head, and since when."""


def _set(launch: Launch, name: str) -> bool | None:
    """A switch of the environment; None when its value is known only where it runs."""
    variable = launch.env.get(name)
    if variable is None:
        return False
    return None if variable.value is None else variable.value.lower() in _TRUE


def _overridden(launch: Launch) -> Checkpoint | None:
    """The target as --json-model-override-args leaves it; None when nobody can tell."""
    if launch.checkpoint is None or not launch.on("json-model-override-args"):
        return launch.checkpoint
    try:
        changes: Any = json.loads(launch.text("json-model-override-args") or "null")
    except (ValueError, RecursionError):
        return None
    return launch.checkpoint.overridden(changes) if isinstance(changes, dict) else None


@launch_rule(
    "CKPT131",
    "context-beyond-the-config",
    source="sglang 0.5.17 and 0.5.23: model_config.py, _derive_context_length",
)
def context_beyond_the_config(launch: Launch) -> Iterator[Finding]:
    """The context of the launch is longer than what the engine derives from config.json, and the
    variable that allows it is not set: the engine refuses to start.

    The variable alone makes it start, and the model leaves what it was trained for: longer
    positions need `rope_scaling` as well.

    Bad:
        # config: {"max_position_embeddings": 40960}
        sglang serve --model-path CHECKPOINT --context-length 131072

    Good:
        # config: {"max_position_embeddings": 40960}
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 sglang serve --model-path CHECKPOINT --context-length 131072 --json-model-override-args '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}'
    """  # noqa: E501
    checkpoint, context = _overridden(launch), launch.integer("context-length")
    option, limit = launch.option("context-length"), checkpoint.context if checkpoint else None
    if checkpoint is None or option is None or not context or not limit or context <= limit:
        return
    allowed = _set(launch, _LONGER)
    if allowed is False:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {context} is above the {limit} that config.json gives",
            f"set --context-length {limit} or less, or {_LONGER}=1 with"
            f"{' ' if not checkpoint.rope_scaling else ' the present '}rope_scaling"
            f"{_factor(checkpoint, context)}",
        )


def _factor(checkpoint: Checkpoint, context: int) -> str:
    """The stretching that a context takes, for a config that has none."""
    positions = checkpoint.number("max_position_embeddings")
    if checkpoint.rope_scaling or not positions:
        return ""
    return f" of factor {context / positions:g} in --json-model-override-args"


@launch_rule(
    "CKPT132",
    "context-stretched-without-scaling",
    severity="warning",
    source="sglang 0.5.23: model_config.py; QwenLM/Qwen3 issue 1321",
)
def context_stretched_without_scaling(launch: Launch) -> Iterator[Finding]:
    """The context goes beyond the config by the variable alone: positions that the model never
    saw, without rope_scaling. It starts, and answers to long prompts are garbage.

    Bad:
        # config: {"max_position_embeddings": 40960}
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 sglang serve --model-path CHECKPOINT --context-length 131072

    Good:
        # config: {"max_position_embeddings": 40960}
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 sglang serve --model-path CHECKPOINT --context-length 40960
    """  # noqa: E501
    checkpoint, context = _overridden(launch), launch.integer("context-length")
    option, limit = launch.option("context-length"), checkpoint.context if checkpoint else None
    if checkpoint is None or option is None or not context or not limit or context <= limit:
        return
    stretched = any(key in checkpoint.rope_scaling for key in ("factor", "long_factor"))
    if _set(launch, _LONGER) and not stretched:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {context} is above the {limit} of config.json, and nothing "
            "scales the positions",
            f"set --context-length {limit}, or rope_scaling{_factor(checkpoint, context)}",
        )


@launch_rule(
    "CKPT151",
    "moe-runner-without-mxfp4",
    source="sglang issue 36569; sglang 0.5.17 and 0.5.23: mxfp4.py, create_moe_runner",
)
def moe_runner_without_mxfp4(launch: Launch) -> Iterator[Finding]:
    """An MXFP4 checkpoint (quant_method mxfp4, as gpt-oss has) runs on some MoE runners only.
    Releases before 0.5.20 start with any other and die at the first request.

    The FP4 experts of DeepSeek-V4 are another case: its quant_method is fp8.

    Bad:
        # engine: 0.5.17
        # config: {"num_local_experts": 128, "quantization_config": {"quant_method": "mxfp4"}}
        sglang serve --model-path CHECKPOINT --moe-runner-backend humming

    Good:
        # engine: 0.5.17
        # config: {"n_routed_experts": 256, "quantization_config": {"quant_method": "fp8"}}
        sglang serve --model-path CHECKPOINT --moe-runner-backend humming
    """
    checkpoint, option = launch.checkpoint, launch.option("moe-runner-backend")
    runner = launch.text("moe-runner-backend")
    found = checkpoint.quantization if checkpoint else None
    if option is None or runner is None or found is None or found.method != "mxfp4":
        return
    if launch.on("quantization") and launch.text("quantization") != "mxfp4":
        return
    newer = since(launch.catalogue, "0.5.17")
    fitting = _RUNNERS + (_RUNNERS_SINCE_0_5_17 if newer else ())
    if not since(launch.catalogue, "0.5.12") or runner in (*fitting, *_NOT_JUDGED):
        return
    late = before(launch.catalogue, "0.5.20")
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {runner} cannot run the MXFP4 experts of this checkpoint: the "
        + ("server starts, and dies at the first request" if late else "engine refuses to start"),
        f"set --moe-runner-backend to one of {', '.join(fitting)}",
    )


@launch_rule(
    "CKPT161",
    "fp8-head-of-tied-embeddings",
    severity="warning",
    source="sglang 0.5.23: qwen3.py and others, lm_head is embed_tokens when tied",
)
def fp8_head_of_tied_embeddings(launch: Launch) -> Iterator[Finding]:
    """The LM head is to be FP8, and config.json ties it to the embedding: the engine uses the
    embedding for both, so an FP8 head in the files is not loaded, and one made while loading
    makes the embedding FP8 or does nothing.

    Bad:
        # config: {"tie_word_embeddings": true}
        # tensors: model.embed_tokens.weight lm_head.weight lm_head.weight_scale
        sglang serve --model-path CHECKPOINT

    Good:
        # config: {"tie_word_embeddings": false}
        # tensors: model.embed_tokens.weight lm_head.weight lm_head.weight_scale
        sglang serve --model-path CHECKPOINT
    """
    checkpoint = launch.checkpoint
    if checkpoint is None or not checkpoint.tied:
        return
    variable = next((name for name in _FP8_HEAD if _set(launch, name)), None)
    if variable:
        yield Finding(
            launch.env[variable].path,
            f"{variable} is set, and config.json has tie_word_embeddings true: there is no LM "
            "head of its own to make FP8",
            f"remove {variable}",
        )
    elif checkpoint.head_quantized:
        option = launch.option("model-path")
        yield Finding(
            launch.path(option) if option else ("argv",),
            f"{checkpoint.head.name if checkpoint.head else 'lm_head'} is stored quantized, and "
            "config.json has tie_word_embeddings true: the embedding is used instead",
            f"set tie_word_embeddings to false in {checkpoint.path}/config.json if the head was "
            "trained or quantized on its own",
        )


@launch_rule(
    "CKPT162",
    "draft-shares-only-the-heads-weight",
    source="sglang 0.5.23: eagle_worker_v2.py, maybe_share_target_lm_head",
)
def draft_shares_only_the_heads_weight(launch: Launch) -> Iterator[Finding]:
    """The LM head is stored quantized, and MTP layers of the checkpoint draft with it. Most draft
    classes take only the head's weight and not its scale: the draft reads numbers without their
    scale, and nothing of it is accepted. The server is healthy and slower than without drafts.

    Silent when the MTP layers bring a scale for a head of their own, and for builds that are no
    release.

    Bad:
        # config: {"architectures": ["BailingMoeV3ForCausalLM"], "num_hidden_layers": 1}
        # tensors: lm_head.weight lm_head.weight_scale model.layers.1.eh_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN

    Good:
        # config: {"architectures": ["BailingMoeV3ForCausalLM"], "num_hidden_layers": 1}
        # tensors: lm_head.weight model.layers.1.eh_proj.weight
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN
    """
    checkpoint, option = launch.checkpoint, launch.option("speculative-algorithm")
    if checkpoint is None or option is None or not launch.engine.released:
        return
    algorithm = (launch.text("speculative-algorithm") or "").upper()
    if algorithm not in ("NEXTN", "EAGLE") or not _drafts_from_target(launch):
        return
    scaled = any("head" in n and "scale" in n for n in checkpoint.draft_tensors)
    if not checkpoint.head_quantized or checkpoint.tied or scaled or _takes_module(launch):
        return
    names = ", ".join(checkpoint.architectures) or "this architecture"
    yield Finding(
        launch.path(option),
        f"the LM head is stored quantized, and in sglang {launch.engine.version} the MTP draft of "
        f"{names} takes its weight without its scale",
        "use a checkpoint whose lm_head is BF16, or remove --speculative-algorithm",
    )


def _drafts_from_target(launch: Launch) -> bool:
    if not launch.on("speculative-draft-model-path"):
        return True
    path = launch.text("speculative-draft-model-path")
    if path is None or launch.checkpoint is None:
        return False
    return path == launch.model or Path(path) == launch.checkpoint.path


def _takes_module(launch: Launch) -> bool:
    """The draft takes the head with all that belongs to it, or nobody can tell."""
    names = launch.checkpoint.architectures if launch.checkpoint else ()
    if launch.catalogue is None or not names:
        return True
    return any(
        name.startswith(start) and since(launch.catalogue, version)
        for name in names
        for start, version in _TAKES_MODULE
    )
