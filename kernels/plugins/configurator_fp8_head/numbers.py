"""FP8 arithmetic: quantizing a weight and an input, and multiplying them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0
SMALLEST = 1e-12
"""Least magnitude that a scale is made for: warm-up runs of the engine are all zeros."""
CHUNK = 16_384
"""Rows of a weight that are held in float32 at a time."""
TRIED = (8, 4_096)
"""Tokens and about how many rows of a head that is tried."""


def weights_in_fp8(weight: Any, rowwise: bool) -> tuple[Any, Any]:
    """A weight [rows, columns] in FP8, and its scale: float32 [rows, 1], or of no dimension.

    In chunks: the whole weight in float32 need not fit.
    """
    parts = weight.split(CHUNK)
    most = torch.cat([part.float().abs().amax(1, keepdim=True) for part in parts])
    scale = (most if rowwise else most.amax()).clamp_min(SMALLEST) / LARGEST
    values = torch.empty(weight.shape, dtype=E4M3, device=weight.device)
    start = 0
    for part in parts:
        end = start + len(part)
        values[start:end] = in_fp8(part.float(), scale[start:end] if rowwise else scale)
        start = end
    return values, scale


def in_fp8(x: Any, scale: Any) -> Any:
    """Numbers divided by their scale, held within the range of FP8. What is infinite becomes NaN:
    as the largest number there is it would hide what a BF16 head shows in its logits."""
    held = (x / scale).clamp(-LARGEST, LARGEST)
    return held.masked_fill(x.isinf(), float("nan")).to(E4M3)


def input_in_fp8(x: Any, rowwise: bool) -> tuple[Any, Any]:
    """An input [tokens, columns] in FP8, and its scale: float32 [tokens, 1], or of no dimension.

    Rows that a padded batch leaves full of infinities or NaN do not spoil the scale of the others.
    """
    wide = x.float()
    most = wide.abs().nan_to_num(0.0, 0.0, 0.0)
    most = most.amax(1, keepdim=True) if rowwise else most.amax()
    scale = most.clamp_min(SMALLEST) / LARGEST
    return in_fp8(wide, scale), scale


def logits(x: Any, weight: Any, scale: Any) -> Any:
    """`x` [tokens, columns] times an FP8 weight [rows, columns] with its scale, as `x`'s type."""
    rowwise = scale.dim() == 2
    if not x.shape[0]:
        return x.new_empty(0, weight.shape[0])
    if not x.is_cuda:
        values, own = input_in_fp8(x, rowwise)
        return _slow(values, own, weight, scale).to(x.dtype)
    x = x.contiguous()
    fused = _fused()
    values, own = (fused.quantized if fused else input_in_fp8)(x, rowwise)
    if not rowwise:
        return _product(values, weight, own, scale, x.dtype)
    # Scaled afterwards: torch's product with a scale a row takes half as long again. Bare FP8
    # numbers reach 448 * 448 * columns: within BF16 and float32, and far beyond float16.
    one = _one(x.device)
    wide = torch.float32 if x.dtype == torch.float16 else x.dtype
    bare = _product(values, weight, one, one, wide)
    given_back = fused.given_back if fused else _given_back
    return given_back(bare, own, scale).to(x.dtype)


def _product(values: Any, weight: Any, own: Any, scale: Any, dtype: Any) -> Any:
    # The weight's rows lie one after another, so its transpose is the column-major operand.
    return torch._scaled_mm(values, weight.t(), scale_a=own, scale_b=scale, out_dtype=dtype)


def _given_back(bare: Any, own: Any, scale: Any) -> Any:
    return bare.float() * own * scale.t()


@cache
def _one(device: Any) -> Any:
    """The scale of numbers that are scaled afterwards. The head is tried before any graph, so a
    captured graph finds it made."""
    return torch.ones((), dtype=torch.float32, device=device)


def _slow(x: Any, own: Any, weight: Any, scale: Any) -> Any:
    """The same product in float32, some rows of the weight at a time."""
    wide = x.float()
    parts = [wide @ part.float().t() for part in weight.split(CHUNK)]
    return torch.cat(parts, 1) * own * (scale.t() if scale.dim() == 2 else scale)


@cache
def _fused() -> Any:
    """The module with the kernels; None where there is no Triton."""
    try:
        from . import fused
    except ImportError:
        return None
    return fused


def relative_error(method: Any, former: Any, values: Any, scale: Any) -> float:
    """How far logits by a method are from those of the weight before, over random tokens.

    Args:
        method: the quantization method to try.
        former: the weight before [rows, columns].
        values: it in FP8.
        scale: its scale.
    """
    tokens, rows = TRIED
    generator = torch.Generator(device="cpu").manual_seed(1)
    x = torch.randn(tokens, former.shape[1], generator=generator).to(former)
    # From all over the head: what is wrong beyond some size of it would not show in its first rows.
    step = max(1, former.shape[0] // rows)
    some = former[::step].float()

    class Layer:
        """A head, as far as a method looks at it."""

        weight = values
        weight_scale = scale

    found = method.apply(Layer, x)[:, ::step].float()
    exact = x.float() @ some.t()
    return float((found - exact).norm() / exact.norm().clamp_min(SMALLEST))
