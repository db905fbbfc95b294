"""Every reason against this launch, before the weights load: from its arguments and its config."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from .internals import missing_internals

ALGORITHMS = ("NONE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
"""Ways to draft whose use of the target's head is known; DFLASH, DSPARK and others read its weight
in kernels of their own."""
ARGUMENTS = {
    "enable_fp32_lm_head": "asks for logits in float32: leave it out",
    "speculative_token_map": "gives the draft some rows of the head, copied: leave it out",
    "enable_dp_lm_head": "divides the head otherwise, which is not handled: leave it out",
    "enable_tp_lm_head_all_to_all": "exchanges logits otherwise, not handled: leave it out",
    "enable_memory_saver": "keeps weights in memory of its own, not handled: leave it out",
    "enable_torch_compile": "compiles the head, which is not handled: leave it out",
    "enable_deterministic_inference": "promises logits that are the same in any batch, which is "
    "not kept here: leave it out",
    "torchao_config": "quantizes layers after loading too: leave it out",
    "enable_nvidia_megakernel": "may read the head past its method, not handled: leave it out",
    "remote_instance_weight_loader_start_seed_via_transfer_engine": "hands the memory of the BF16 "
    "head on, which is given up: leave it out",
}
"""Arguments that must not be set, and why."""
LATER = ("enable_tp_lm_head_all_to_all", "torchao_config", "enable_nvidia_megakernel")
"""Arguments that not every release has."""
OTHERS = ("pp_size", "lora_target_modules", "enable_multi_layer_eagle", "device")
NAMES = (*ARGUMENTS, *OTHERS, "startup_weight_load_mode", "weight_cache_mode")
"""Every argument that is looked at."""
CONFIG = ("enable_lm_head_fp32", "enable_lm_head_output_fp32")
"""Keys of a model's config by which it asks for a float32 head."""
SM = (8, 9)
"""The first GPU that multiplies FP8."""


def reasons_against(scheduler: Any) -> list[str]:
    """All of them at once, of the engine's scheduler; [] where its head can be quantized."""
    arguments = arguments_of(scheduler)
    return [
        *missing_internals(),
        *of_arguments(arguments),
        *of_drafting(scheduler, arguments),
        *of_model(getattr(scheduler, "model_config", None)),
        *of_device(arguments.get("device")),
    ]


def arguments_of(scheduler: Any) -> dict[str, Any]:
    """Those arguments that are looked at and that this engine has, as it resolved them."""
    raw = scheduler.server_args
    found = {name: getattr(raw, name) for name in NAMES if hasattr(raw, name)}
    context = import_module("sglang.srt.runtime_context")
    resolved = context.get_context().resolved_server_args_dict()
    found.update({name: resolved[name] for name in NAMES if name in resolved})
    return found


def of_arguments(arguments: dict[str, Any]) -> Iterator[str]:
    """Flags that contradict an FP8 head, or that the plugin does not know how to serve."""
    for name in (*ARGUMENTS, *OTHERS):
        if name not in arguments and name not in LATER:
            yield f"the engine has no argument {name}, which must be looked at"
    for name, why in ARGUMENTS.items():
        if arguments.get(name):
            yield f"--{name.replace('_', '-')} {why}"
    stages = arguments.get("pp_size", 1)
    if stages != 1:
        yield f"--pp-size is {stages}: only its last stage has the head; set it to 1"
    modules = arguments.get("lora_target_modules") or ()
    on_head = {"lm_head", "all"}.intersection(modules)
    if on_head:
        yield f"--lora-target-modules has {', '.join(sorted(on_head))}: leave the LM head out"
    if str(arguments.get("startup_weight_load_mode") or "").lower() == "overlap":
        yield "the weights load while graphs are captured: leave --startup-weight-load-mode out"
    cache = str(arguments.get("weight_cache_mode") or "off").lower()
    if cache != "off":
        yield f"--weight-cache-mode is {cache}: its weights belong to a daemon; set it to off"


def of_drafting(scheduler: Any, arguments: dict[str, Any]) -> Iterator[str]:
    """Ways to draft that use the head's weight past its method."""
    algorithm = getattr(scheduler, "spec_algorithm", None)
    name = str(getattr(algorithm, "name", None) or algorithm or "NONE").upper()
    if name not in ALGORITHMS:
        known = ", ".join(ALGORITHMS[1:])
        yield f"drafts of {name} read the head's weight past its method: use one of {known}"
    if arguments.get("enable_multi_layer_eagle"):
        yield "--enable-multi-layer-eagle was not tried with it: leave it out"


def of_model(config: Any) -> Iterator[str]:
    """What the model's config says against quantizing its head."""
    if config is None:
        yield "the engine's Scheduler has no model_config, which must be looked at"
        return
    texts = [getattr(config, name, None) for name in ("hf_config", "hf_text_config")]
    if any(getattr(text, "tie_word_embeddings", False) is True for text in texts):
        yield "the model ties its LM head to the embedding: there is no head of its own to quantize"
    for key in CONFIG:
        if any(getattr(text, key, False) for text in texts):
            yield f"the model's config asks for a float32 head ({key})"
    for text in texts:
        stored = getattr(text, "quantization_config", None)
        if isinstance(stored, dict) and stored.get("lm_head") is True:
            yield "the checkpoint's LM head is quantized already (quantization_config.lm_head)"
            break
    if str(getattr(config, "quantization", None)) == "gguf":
        yield "the checkpoint is GGUF, whose LM head is quantized already"
    # From 0.5.22 on. Its pooler multiplies by rows of the head's weight itself.
    if getattr(config, "joint_head_config", None) is not None:
        yield (
            "the checkpoint has joint_head_config.json: its joint schema head reads the LM head's "
            "weight past its method"
        )


def of_device(device: str | None) -> Iterator[str]:
    """Devices and torch builds that cannot multiply FP8; None: the engine takes a GPU itself."""
    torch: Any = import_module("torch")
    device = device or ("cuda" if torch.cuda.is_available() else None)
    if not hasattr(torch, "float8_e4m3fn"):
        yield f"torch {torch.__version__} has no float8_e4m3fn: install 2.1 or newer"
    if device == "cpu":
        return
    if device != "cuda" or getattr(torch.version, "hip", None):
        yield f"device {device} is not handled: use an NVIDIA GPU, or a CPU to try it"
        return
    if not hasattr(torch, "_scaled_mm"):
        yield f"torch {torch.__version__} has no _scaled_mm: install the one of the engine"
    found = tuple(torch.cuda.get_device_capability())
    if found < SM:
        yield f"the GPU is sm_{found[0]}{found[1]}: FP8 needs sm_89 or newer"
