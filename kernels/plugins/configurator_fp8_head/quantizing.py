"""The target's head: found, quantized in its place, tried, and its former weight given up."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

from .internals import LOGITS
from .method import Fp8HeadMethod
from .numbers import relative_error, weights_in_fp8
from .settings import NAME, RefusedError

PLAIN = ("UnquantizedEmbeddingMethod", "UnquantizedLinearMethod")
FLOAT32 = ("use_fp32_lm_head", "use_fp32_lm_head_output")
"""Switches of what computes logits; not every config that sets them is one of the model's own."""
READER = "JointSchemaPooler"
MEGAKERNEL = "_megakernel"
MADE = "made"
"""Attribute of the head with what was done to it, which the in-engine report hands on."""
MOST_ERROR = 0.2
"""Of a head that works it is about 0.04; a kernel that is wrong gives 1 or more."""


def heads_of(model: Any) -> list[Any]:
    """Every LM head of a model once, without a wrapper around it."""
    found = [module for module in model.modules() if _is_a(module, "ParallelLMHead")]
    return list({id(module): module for module in found}.values())


def quantized_head(model: Any) -> Any:
    """The head that `quantize` made.

    Raises:
        RefusedError: something put another one in its place.
    """
    heads = heads_of(model)
    if len(heads) != 1 or not isinstance(heads[0].quant_method, Fp8HeadMethod):
        raise RefusedError(["the target's LM head was replaced after it was quantized"])
    return heads[0]


def quantize(model: Any, granularity: str) -> None:
    """Make the model's head FP8, in the module that it is.

    Raises:
        RefusedError: the head that was built cannot be quantized, or its logits are wrong.
    """
    heads = heads_of(model)
    reasons = [*_of_heads(heads), *of_logits(model)]
    for head in heads[:1]:
        reasons += _of_built(model, head)
    if reasons:
        raise RefusedError(reasons)
    head = heads[0]
    before = _bytes_of(head)
    former = head.weight
    kept = bool(_sharing(model, head))
    values, scale = weights_in_fp8(former.detach(), granularity == "per-row")
    method = Fp8HeadMethod(granularity)
    error = relative_error(method, former.detach(), values, scale)
    if not error <= MOST_ERROR:
        fact = f"logits of the FP8 head are off by {error:.3g} of their size, and not by 0.04"
        raise RefusedError([f"{fact}: leave the head in BF16 on this GPU and torch"])
    del head.weight
    for name, tensor in (("weight", values), ("weight_scale", scale)):
        parameter = torch.nn.Parameter(tensor, requires_grad=False)
        parameter.weight_loader = _no_update
        head.register_parameter(name, parameter)
    head.quant_method = method
    gone = weakref.ref(former)
    device = former.device
    del former
    if device.type == "cuda":
        torch.cuda.empty_cache()
    made = {"by": NAME, "granularity": granularity, "relative_error": round(error, 4)}
    held = {
        "bytes_before": before,
        "bytes_after": _bytes_of(head),
        "freed": gone() is None and not kept,
    }
    setattr(head, MADE, {**made, **held})


def _is_a(module: Any, name: str) -> bool:
    return any(kind.__name__ == name for kind in type(module).__mro__)


def _bytes_of(head: Any) -> int:
    tensors = [*head.parameters(), *head.buffers()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _no_update(*_arguments: Any, **_options: Any) -> None:
    """In the place of a loader: it would write BF16 numbers among FP8 ones, without a scale."""
    raise RuntimeError(f"{NAME}: the LM head was quantized after loading and takes no new weights")


def _of_heads(heads: list[Any]) -> Iterator[str]:
    if len(heads) != 1:
        yield f"the model has {len(heads)} LM heads (ParallelLMHead), not one"


def _of_built(model: Any, head: Any) -> Iterator[str]:
    """What only the built head shows."""
    if any(getattr(module, "base_layer", None) is head for module in model.modules()):
        yield "the LM head has a LoRA adapter: leave lm_head out of its modules"
    weight: Any = getattr(head, "weight", None)
    method = type(getattr(head, "quant_method", None)).__name__
    if not isinstance(weight, torch.nn.Parameter):
        yield f"the LM head's weight is a {type(weight).__name__}, not a Parameter"
        return
    if method not in PLAIN or weight.dtype not in (torch.bfloat16, torch.float16):
        yield f"the LM head is {weight.dtype} with {method}, not plain bfloat16 or float16"
    others = [module for module, tensor in _sharing(model, head) if _overlap(tensor, weight)]
    if others:
        yield f"the LM head's weight is also that of {type(others[0]).__name__}: it is tied"
    rows, columns = weight.shape
    if weight.is_cuda and (rows % 16 or columns % 16):
        yield f"the head of this rank is {rows} x {columns}; FP8 needs multiples of 16"


def _sharing(model: Any, head: Any) -> list[tuple[Any, Any]]:
    """Modules that are not the head, with a tensor in the memory of its weight."""
    memory = memory_of(head.weight)
    return [
        (module, tensor)
        for module in model.modules()
        if module is not head
        for tensor in tensors_of(module)
        if memory and memory_of(tensor) == memory
    ]


def tensors_of(module: Any) -> list[Any]:
    """The parameters and buffers that are a module's own."""
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]


def memory_of(tensor: Any) -> int:
    """Where the memory lies that a tensor may share with others; 0: it has none that can be told,
    as one that is empty, not made yet, or spread over ranks."""
    try:
        return int(tensor.untyped_storage().data_ptr()) if tensor.numel() else 0
    except (RuntimeError, ValueError, NotImplementedError):
        return 0


def _overlap(one: Any, other: Any) -> bool:
    """Whether two contiguous tensors of one memory have any of it in common."""
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (one, other)]
    ends = [
        start + tensor.numel() * tensor.element_size()
        for start, tensor in zip(starts, (one, other), strict=True)
    ]
    return bool(max(starts) < min(ends))


def of_logits(model: Any) -> Iterator[str]:
    """What computes logits past the head's method, and would read FP8 numbers without a scale, or
    what asks for another type of them than the method gives."""
    base = import_module(LOGITS).LogitsProcessor
    processors = [module for module in model.modules() if _is_a(module, "LogitsProcessor")]
    if not processors:
        yield "the model has no LogitsProcessor: its logits are of its own making"
    for processor in processors:
        for name in ("_compute_lm_head", "_get_logits"):
            if getattr(type(processor), name, None) is not getattr(base, name):
                own = f"{type(processor).__name__}.{name}"
                yield f"{own} is the model's own, which may read the weight past its method"
        for name in FLOAT32:
            if getattr(processor, name, False):
                yield f"{type(processor).__name__}.{name} asks for logits in float32"
    for module in model.modules():
        if _is_a(module, READER):
            yield f"{READER} reads the LM head's weight past its method"
    if getattr(model, MEGAKERNEL, None) is not None:
        yield "the model runs a megakernel, which may read the LM head's weight past its method"
