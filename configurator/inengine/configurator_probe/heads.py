"""The LM head of a model: where it lies, and which way computes the logits."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .run import Run
from .tensors import is_tensor, tensor_facts
from .values import class_of, get, is_a

_HEADS = ("lm_head", "language_model.lm_head", "model.lm_head", "model.shared_head.head",
          "thinker.lm_head", "llm.lm_head")  # fmt: skip


def head_of(model: Any) -> tuple[str | None, Any]:
    """Where the LM head lies in a model, and the head without a LoRA wrapper around it."""
    found = [(path, get(model, path)) for path in _HEADS]
    if not any(head is not None for _, head in found) and hasattr(model, "named_modules"):
        found = [(name, m) for name, m in model.named_modules() if is_a(m, "ParallelLMHead")]
    for path, head in found:
        if head is not None:
            inner = get(head, "base_layer")
            return path, head if inner is None else inner
    return None, None


def head_tensors(head: Any) -> dict[str, Any]:
    """Parameters, buffers and plain tensors of a head by name."""
    tensors = dict(head.named_parameters())
    tensors.update(head.named_buffers())
    plain = {name: value for name, value in vars(head).items() if is_tensor(value)}
    return {**plain, **tensors}


def _applied(head: Any, method: Any) -> bool | None:
    """Whether the engine would let the method compute the logits; None where it has no rule."""
    module = import_module("sglang.srt.layers.logits_processor")
    rule = getattr(module, "should_apply_lm_head_quant_method", None)
    return None if rule is None else bool(rule(head, method))


def head_facts(run: Run, part: str, model: Any) -> dict[str, Any] | None:
    """The LM head of a model; None when it has none."""
    path, head = head_of(model)
    if head is None:
        return None
    method = getattr(head, "quant_method", None)
    applied = run.part(f"{part}.quant_method_applied", _applied, head, method)
    fp32 = get(model, "logits_processor.use_fp32_lm_head")
    if fp32 is None and path is not None and "." in path:
        fp32 = get(model, path.rpartition(".")[0] + ".logits_processor.use_fp32_lm_head")
    tensors = {
        name: run.part(f"{part}.{name}", tensor_facts, run, tensor)
        for name, tensor in head_tensors(head).items()
    }
    dtype = tensors.get("weight", {}).get("dtype")
    plain = "matmul(float32 casts)" if fp32 else f"matmul(hidden cast to {dtype})"
    return {
        "path": path,
        "module": type(head).__name__,
        "quant_method": class_of(method),
        "quant_method_applied": applied,
        "use_fp32_lm_head": fp32 if isinstance(fp32, bool) else None,
        "path_taken": "quant_method.apply" if applied is True else plain if dtype else None,
        "tied_to_embedding": head is get(model, "model.embed_tokens"),
        "tensors": tensors,
        "made": _made(head),
    }


def _made(head: Any) -> dict[str, Any] | None:
    """What a plugin that made this head of another one says of it: words and numbers by name."""
    said = getattr(head, "made", None)
    if not isinstance(said, dict):
        return None
    return {str(k): v for k, v in said.items() if isinstance(v, (str, int, float))}
