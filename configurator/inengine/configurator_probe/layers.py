"""Layers of a model: MoE runners, quantization methods, bytes of weights."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .heads import head_of
from .run import Run
from .tensors import bytes_of
from .values import class_of, is_a, text_of


def moe_facts(name: str, layer: Any) -> dict[str, Any]:
    """One MoE layer: what was asked of it, and the runner that was built."""
    method = getattr(layer, "quant_method", None)
    runner = getattr(method, "runner", None)
    fused = getattr(runner, "fused_func", None)
    weights = dict(layer.named_parameters(recurse=False))
    first = next((w for key, w in weights.items() if key.startswith("w13")), None)
    return {
        "name": name,
        "layer_class": type(layer).__name__,
        "quant_method": class_of(method),
        "layer_backend": text_of(getattr(layer, "runner_backend", None)),
        "runner_backend": text_of(getattr(runner, "runner_backend", None)),
        "runner_core": class_of(getattr(runner, "runner_core", None)),
        "fused_func": None if fused is None else getattr(fused, "__qualname__", class_of(fused)),
        "mxfp4_backend": text_of(getattr(layer, "_dsv4_mxfp4_backend", None)),
        "activations": _activations(layer),
        "w13_dtype": None if first is None else str(first.dtype),
    }


def _activations(layer: Any) -> str | None:
    """The numbers of the input, where a layer is laid out for them: Humming's are."""
    metas = getattr(layer, "humming_metas", None)
    meta = metas.get("w13") if isinstance(metas, dict) else None
    return text_of(getattr(meta, "a_dtype", None))


def method_counts(modules: list[tuple[str, Any]]) -> dict[str, int]:
    """`Class:QuantMethod` and how many modules are so."""
    pairs = ((module, getattr(module, "quant_method", None)) for _, module in modules)
    names = (f"{class_of(one)}:{class_of(how)}" for one, how in pairs if how is not None)
    return dict(Counter(names))


def weight_bytes(run: Run, model: Any, modules: list[tuple[str, Any]]) -> dict[str, int]:
    """Bytes of parameters on this rank by component; a storage counts once in a report."""
    head = head_of(model)[1]
    experts = tuple(f"{name}." for name, module in modules if is_a(module, "FusedMoE"))
    sums = {"embedding": 0, "head": 0, "experts": 0, "other": 0, "counted_before": 0}
    for name, module in modules:
        if module is head:
            component = "head"
        elif is_a(module, "FusedMoE") or name.startswith(experts):
            component = "experts"
        elif is_a(module, "VocabParallelEmbedding", "Embedding"):
            component = "embedding"
        else:
            component = "other"
        for _, tensor in module.named_parameters(recurse=False):
            label = run.label(tensor)
            seen = label in run.counted and label != "empty"
            sums["counted_before" if seen else component] += bytes_of(tensor)
            run.counted.add(label)
    return sums
