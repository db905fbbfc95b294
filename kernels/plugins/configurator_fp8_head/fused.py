"""What is done to the input and to the output of the product, in three kernels.

In plain torch the input takes seven, a tenth of the head's time, and torch's own product with a
scale a row reads the weight at two thirds of the speed of the one with a single scale. Profilers
show the kernels by these names, which kernels/families has.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

WIDE, NARROW = 4_096, 1_024


@triton.jit  # type: ignore[untyped-decorator]
def _fp8_head_maxima(x, most, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """The largest finite magnitude of each row; one program a row."""
    row = tl.program_id(0)
    found = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, columns, block):
        places = start + tl.arange(0, block)
        part = tl.load(x + row * columns + places, mask=places < columns, other=0.0)
        size = tl.abs(part.to(tl.float32))
        # False for NaN too: rows that a padded batch leaves full of them spoil no other's scale.
        found = tl.maximum(found, tl.where(size < float("inf"), size, 0.0))
    tl.store(most + row, tl.max(found, 0))


@triton.jit(do_not_specialize=["rows"])  # type: ignore[untyped-decorator]
def _fp8_head_input(  # type: ignore[no-untyped-def]
    x, most, out, scales, rows, columns, rowwise: tl.constexpr, block: tl.constexpr
):
    """Rows in FP8 by their own scale, or all of them by one."""
    row = tl.program_id(0)
    if rowwise:
        top = tl.load(most + row)
    else:
        each = tl.zeros((128,), dtype=tl.float32)
        for start in range(0, rows, 128):
            places = start + tl.arange(0, 128)
            each = tl.maximum(each, tl.load(most + places, mask=places < rows, other=0.0))
        top = tl.max(each, 0)
    scale = tl.maximum(top, 1e-12) / 448.0
    if rowwise:
        tl.store(scales + row, scale)
    else:
        tl.store(scales, scale)
    places = tl.program_id(1) * block + tl.arange(0, block)
    part = tl.load(x + row * columns + places, mask=places < columns, other=0.0)
    wide = part.to(tl.float32)
    # The conversion would make the largest number of what is infinite, and hide it.
    wide = tl.where(tl.abs(wide) < float("inf"), wide, float("nan"))
    value = (wide / scale).to(tl.float8e4nv)
    tl.store(out + row * columns + places, value, mask=places < columns)


def quantized(x: Any, rowwise: bool) -> tuple[Any, Any]:
    """As `input_in_fp8`: `x` [tokens, columns] in FP8, and its scale."""
    x = x.contiguous()
    rows, columns = x.shape
    most = torch.empty(rows, dtype=torch.float32, device=x.device)
    shape = (rows, 1) if rowwise else ()
    scale = torch.empty(shape, dtype=torch.float32, device=x.device)
    out = torch.empty(rows, columns, dtype=torch.float8_e4m3fn, device=x.device)
    _fp8_head_maxima[(rows,)](x, most, columns, WIDE)
    grid = (rows, triton.cdiv(columns, NARROW))
    _fp8_head_input[grid](x, most, out, scale, rows, columns, rowwise, NARROW)
    return out, scale


@triton.jit(do_not_specialize=["columns"])  # type: ignore[untyped-decorator]
def _fp8_head_scales(  # type: ignore[no-untyped-def]
    y, own, scales, columns, block: tl.constexpr
):
    """Each number of a product times its row's scale and its column's, in its place."""
    # Of a prompt whose every token is asked for, rows times columns pass 2^31.
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * block + tl.arange(0, block)
    inside = places < columns
    here = y + row * columns + places
    scale = tl.load(own + row) * tl.load(scales + places, mask=inside, other=0.0)
    value = tl.load(here, mask=inside, other=0.0).to(tl.float32) * scale
    tl.store(here, value, mask=inside)


def given_back(y: Any, own: Any, scales: Any) -> Any:
    """A product `y` [tokens, rows] of bare FP8 numbers with the scales of both, in its place.

    Args:
        y: contiguous.
        own: of the tokens, [tokens, 1].
        scales: of the weight's rows, [rows, 1].
    """
    tokens, rows = y.shape
    _fp8_head_scales[(tokens, triton.cdiv(rows, NARROW))](y, own, scales, rows, NARROW)
    return y
