"""The plugin's Triton kernels against plain torch, in Triton's interpreter on a CPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import need_engine

PLUGINS = Path(__file__).parents[2] / "kernels" / "plugins"
PROGRAM = """
import json, sys
sys.path.insert(0, {plugins!r})
import torch
from configurator_fp8_head import fused, numbers

torch.manual_seed(1)
{body}
"""
SIZES = ((1, 64), (3, 2560), (8, 4096), (200, 5000))


def computed(body: str, home: str = "/nonexistent", interpreted: str = "1") -> Any:
    """What `body` prints as JSON, in a Python with the real torch and Triton."""
    done = subprocess.run(
        [str(need_engine()), "-c", PROGRAM.format(plugins=str(PLUGINS), body=body)],
        env={"TRITON_INTERPRET": interpreted, "PATH": "/usr/bin:/bin", "HOME": home},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("rowwise", [False, True])
def test_an_input_is_quantized_as_in_plain_torch(rowwise: bool) -> None:
    found = computed(f"""
rows = []
for size in {SIZES}:
    x = torch.randn(*size).bfloat16()
    x[size[0] // 2, :7] *= 50
    ours, own = fused.quantized(x, {rowwise})
    plain, scale = numbers.input_in_fp8(x, {rowwise})
    # The interpreter's conversion to FP8 loses the carry just below a power of two.
    same = (ours.float() == plain.float()).float().mean()
    rows.append([torch.equal(own, scale), tuple(own.shape) == tuple(scale.shape), float(same)])
print(json.dumps(rows))
""")
    assert [row[:2] for row in found] == [[True, True]] * len(SIZES)
    assert all(row[2] > 0.95 for row in found)


def test_rows_that_are_no_numbers_spoil_no_other() -> None:
    found = computed("""
x = torch.randn(4, 300).bfloat16()
whole, scale = fused.quantized(x[:2], False)
x[2], x[3, 5] = float("nan"), float("inf")
x[3, :5] = 0
x[3, 6:] = 0
spoilt, same = fused.quantized(x, False)
print(json.dumps([bool(scale == same), torch.equal(whole.float(), spoilt[:2].float())]))
""")
    assert found == [True, True]


@pytest.mark.parametrize("rowwise", [False, True])
def test_an_infinite_input_is_not_hidden(rowwise: bool) -> None:
    """As with a BF16 head: its logits are no numbers, and those of the others are."""
    found = computed(f"""
x = torch.randn(5, 300).bfloat16()
x[1, 7], x[2, 7], x[3] = float("inf"), -float("inf"), float("nan")
values, scale = numbers.weights_in_fp8(torch.randn(64, 300), {rowwise})
given = numbers.logits(x, values, scale)
# The interpreter's conversion makes some number of NaN, but no longer the largest.
kernels = fused.quantized(x, {rowwise})[0][1:3, 7].float().abs()
print(json.dumps([given.isfinite().all(1).tolist(), given.isnan().all(1).tolist(),
                  bool((kernels == 448).any())]))
""")
    assert found == [
        [True, False, False, False, True], [False, True, True, True, False], False,
    ]  # fmt: skip


def test_a_head_is_tried_from_end_to_end() -> None:
    """What is wrong in its last rows alone, beyond some size for instance, is seen too."""
    found = computed("""
class Method:
    spoilt = 0

    def apply(self, layer, x):
        found = numbers.logits(x, layer.weight, layer.weight_scale)
        if self.spoilt:
            found[:, -self.spoilt:] = 0
        return found

errors = []
for rows in (5000, 30_000):
    weight = torch.randn(rows, 64).bfloat16()
    values, scale = numbers.weights_in_fp8(weight, False)
    method = Method()
    whole = numbers.relative_error(method, weight, values, scale)
    method.spoilt = rows // 4
    errors.append([whole, numbers.relative_error(method, weight, values, scale)])
print(json.dumps(errors))
""")
    assert all(whole < 0.05 < 0.4 < spoilt < 0.6 for whole, spoilt in found)


def test_a_product_gets_the_scales_of_both_in_its_place() -> None:
    found = computed(f"""
rows = []
for tokens, width in {SIZES}:
    for dtype in (torch.bfloat16, torch.float32):
        bare = (torch.randn(tokens, width) * 1e6).to(dtype)
        own, scales = torch.rand(tokens, 1), torch.rand(width, 1)
        wanted = (bare.float() * (own * scales.t())).to(dtype)
        given = fused.given_back(bare, own, scales)
        # The interpreter cuts BF16 off where a GPU rounds it.
        off = ((given.float() - wanted.float()).abs() / wanted.float().abs()).max()
        rows.append([given is bare, bool(off <= (0 if dtype == torch.float32 else 2**-7))])
print(json.dumps(rows))
""")
    assert found == [[True, True]] * (2 * len(SIZES))


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_both_granularities_multiply_right(dtype: str, kernels: bool) -> None:
    """The path of a GPU, with a scaled product of whole scales in plain torch for its kernel."""
    found = computed(f"""
def product(x, weight, *, scale_a, scale_b, out_dtype):
    # As the kernel: one scale each, in float32, and infinite beyond float16.
    assert scale_a.dim() == scale_b.dim() == 0
    return (x.float() @ weight.float() * scale_a * scale_b).to(out_dtype)

class Gpu(torch.Tensor):
    is_cuda = True

torch._scaled_mm = product
if not {kernels}:
    numbers._fused = lambda: None
# Close to the largest product of FP8 numbers there can be, which float16 cannot hold.
x = (1 + torch.rand(5, 512)).to(torch.{dtype})
weight = 1 + torch.rand(640, 512)
weight[::3] *= 0.01
exact = x.float() @ weight.t()
errors = []
for rowwise in (False, True):
    values, scale = numbers.weights_in_fp8(weight, rowwise)
    given = numbers.logits(x.as_subclass(Gpu), values, scale).as_subclass(torch.Tensor)
    assert given.dtype == x.dtype
    errors.append(float((given.float() - exact).norm() / exact.norm()))
print(json.dumps(errors))
""")
    assert all(error < 0.04 for error in found)


@pytest.mark.parametrize("architecture", [89, 90, 100, 121])
def test_every_kernel_compiles_for_gpus(tmp_path: Path, architecture: int) -> None:
    """Down to the machine's code, which needs no GPU. The conversion to FP8 keeps NaN as NaN."""
    found = computed(
        f"""
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

quantized = dict(
    most="*fp32", out="*fp8e4nv", scales="*fp32", rows="i32", columns="i32",
    rowwise="constexpr", block="constexpr",
)
cases = [
    (fused._fp8_head_maxima,
     dict(x="*bf16", most="*fp32", columns="i32", block="constexpr"), dict(block=fused.WIDE)),
    *((fused._fp8_head_input, dict(x=x, **quantized), dict(rowwise=rowwise, block=fused.NARROW))
      for x in ("*bf16", "*fp16", "*fp32") for rowwise in (True, False)),
    *((fused._fp8_head_scales,
       dict(y=y, own="*fp32", scales="*fp32", columns="i32", block="constexpr"),
       dict(block=fused.NARROW)) for y in ("*bf16", "*fp32")),
]
rows = []
for kernel, signature, constants in cases:
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel, signature=dict((name, signature[name]) for name in names),
        constexprs=dict(((names.index(key),), value) for key, value in constants.items()),
    )
    made = triton.compile(source, target=GPUTarget("cuda", {architecture}, 32))
    rows.append([kernel.__name__, len(made.asm["cubin"]) > 1000, "e4m3x2" in made.asm["ptx"]])
print(json.dumps(rows))
""",
        str(tmp_path),
        "0",
    )
    assert found == [
        ["_fp8_head_maxima", True, False],
        *[["_fp8_head_input", True, True]] * 6,
        *[["_fp8_head_scales", True, False]] * 2,
    ]
