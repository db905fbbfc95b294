"""What a deployment's arguments say about weights and caches, as the engine reads them."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from configurator.checkpoint import Checkpoint
from configurator.deployment import Deployment, Mechanism
from configurator.plan.caches import Kept, element
from configurator.plan.sharing import size_of

_EAGLE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_ONLINE = {"fp8": "fp8", "w8a8_fp8": "fp8"}
"""Values of --quantization that quantize unquantized weights while they load."""
_RING = 16
"""The engine's default of --linear-replayssm-cache-len."""


def natural(deployment: Deployment, name: str) -> int | None:
    """The whole number above zero that an argument has; None without one."""
    return size_of(deployment.arg(name))


def number(deployment: Deployment, name: str) -> float | None:
    """The number that an argument has; None without one."""
    value = deployment.arg(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def ratio(deployment: Deployment, name: str, default: float) -> float:
    """The ratio that an argument has; `default` without one that can be."""
    found = number(deployment, name)
    return found if found is not None and 1e-6 <= found <= 1e6 else default


def text(deployment: Deployment, name: str) -> str | None:
    """The word that an argument has; None without one."""
    value = deployment.arg(name)
    return value if isinstance(value, str) else None


def on(deployment: Deployment, name: str) -> bool:
    """A bare flag is set."""
    return deployment.arg(name) is True


def algorithm_of(deployment: Deployment) -> str | None:
    """The speculative algorithm that the engine is asked for, in capitals; None: none."""
    asked = text(deployment, "speculative-algorithm")
    return asked.upper() if asked else None


def speculates(deployment: Deployment) -> bool:
    """A mechanism drafts, or an argument alone asks for drafts."""
    return deployment.speculation is not None or algorithm_of(deployment) is not None


def is_eagle(algorithm: str | None) -> bool:
    """The engine sizes the draft's cache by the target's layers."""
    return algorithm in _EAGLE


def drafting(deployment: Deployment) -> Mechanism | None:
    """The mechanism that brings a draft model."""
    return next((m for m in deployment.mechanisms.values() if m.draft is not None), None)


def verify_width(deployment: Deployment) -> int:
    """Tokens of a verify step; 1 without speculation."""
    asked = natural(deployment, "speculative-num-draft-tokens")
    if asked is not None:
        return asked
    block = natural(deployment, "speculative-dspark-block-size")
    if block is None:
        block = natural(deployment, "speculative-dflash-block-size")
        return block or 1
    return block + 1


def online_weights(deployment: Deployment, checkpoint: Checkpoint | None) -> str | None:
    """What the engine quantizes unquantized weights to; None: nothing."""
    if checkpoint is not None and checkpoint.quantization is not None:
        return None
    stored = deployment.model.quantization
    if checkpoint is None and (stored.dense != "bf16" or stored.experts not in (None, "bf16")):
        return None
    return _ONLINE.get(text(deployment, "quantization") or "")


def served_head(deployment: Deployment) -> tuple[str | None, str]:
    """What the LM head becomes while serving, and by which mechanism."""
    for mechanism in deployment.mechanisms.values():
        if mechanism.kernel.changes.lm_head is not None:
            return mechanism.kernel.changes.lm_head, mechanism.name
    return None, ""


def overridden(deployment: Deployment, checkpoint: Checkpoint) -> Checkpoint:
    """The target as --json-model-override-args leaves it; unusable ones change nothing."""
    try:
        changes: Any = json.loads(text(deployment, "json-model-override-args") or "{}")
    except (ValueError, RecursionError):
        return checkpoint
    return checkpoint.overridden(changes) if isinstance(changes, dict) else checkpoint


def kept_by(deployment: Deployment, checkpoint: Checkpoint | None) -> tuple[Kept | None, str]:
    """How caches are stored; None and why, for a type that is not known.

    Source: SGLang 0.5.23, mem_cache/kv_cache_dtype.py: `auto` is the model's dtype, unless the
    checkpoint's quantization names FP8 for the cache.
    """
    asked = text(deployment, "kv-cache-dtype") or "auto"
    if asked == "auto":
        dtype, why = _automatic(deployment, checkpoint)
    else:
        dtype, why = asked, f"--kv-cache-dtype {asked}"
    if element(dtype) is None:
        return None, f"KV cache: bytes of an element of {dtype!r} ({why}) are not known"
    state = text(deployment, "mamba-ssm-dtype") or _variable(deployment, "SGLANG_MAMBA_SSM_DTYPE")
    if state is not None and element(state) is None:
        return None, f"states: bytes of an element of {state!r} are not known"
    ring = 0
    if on(deployment, "enable-linear-replayssm-spec"):
        ring = natural(deployment, "linear-replayssm-cache-len") or _RING
    names = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float": "fp32"}
    names["float32"] = "fp32"
    return Kept(names.get(dtype, dtype), why, names.get(state or "", state), ring), ""


def _automatic(deployment: Deployment, checkpoint: Checkpoint | None) -> tuple[str, str]:
    if checkpoint is not None and checkpoint.quantization is not None:
        algorithm = checkpoint.quantization.config.get("kv_cache_quant_algo")
        if isinstance(algorithm, str) and algorithm.upper() == "FP8":
            return "fp8_e4m3", "kv_cache_quant_algo FP8 of the checkpoint"
    asked = text(deployment, "dtype") or "auto"
    if asked != "auto":
        return asked, f"--dtype {asked}"
    if checkpoint is not None:
        for part in (checkpoint.text, checkpoint.config):
            for key in ("dtype", "torch_dtype"):
                said = part.get(key)
                if isinstance(said, str) and element(said):
                    # The engine serves FP32 checkpoints in half precision.
                    named = "float16" if said == "float32" else said
                    return named, f"{key} {said} of the checkpoint"
    return "bf16", "auto: the model's dtype"


def _variable(deployment: Deployment, name: str) -> str | None:
    found = deployment.env.get(name)
    return found.value if found and found.value else None
