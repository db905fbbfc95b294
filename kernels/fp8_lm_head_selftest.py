"""FP8 LM head against BF16: error, top-1 agreement, and time eager and replayed from a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from selftest_kit import (
    Clock,
    Report,
    Timing,
    error_of,
    main,
    need_gpu,
    need_memory,
    poisoned,
    ratio,
    torch,
    why_wrong,
)

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SHAPES = ((157_184, 2_560), (202_048, 8_192))
"""Rows and columns of two published models' heads: BailingMoeV3's, and Muse Spark's."""
SMALL = (8_192, 1_024)
"""What a CPU computes in a second."""
BATCHES = (1, 2, 4, 8, 16)
TOKENS = 64
"""Tokens whose best row is compared."""
CHUNK = 16_384
"""Rows that are held in float64 at a time."""
E4M3_MAX = 448.0
MOST_ERROR = {"bf16": 0.01, "per-tensor": 0.06, "per-row": 0.06}
"""Rounding to three bits of mantissa is 2.6 % of each factor, 3.7 % of a product of two."""
CLEAR = 0.3
"""Margin over the second row, in standard deviations of the logits: eight times the rounding."""
WORTH = 1.05


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _maxima(x, most, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
        """The largest magnitude of each row; one program a row."""
        row = tl.program_id(0)
        found = tl.zeros((block,), dtype=tl.float32)
        for start in range(0, columns, block):
            places = start + tl.arange(0, block)
            part = tl.load(x + row * columns + places, mask=places < columns, other=0.0)
            found = tl.maximum(found, tl.abs(part.to(tl.float32)))
        tl.store(most + row, tl.max(found, 0))

    @triton.jit  # type: ignore[untyped-decorator]
    def _scaled(  # type: ignore[no-untyped-def]
        x, most, out, scales, rows, columns, rowwise: tl.constexpr, block: tl.constexpr
    ):
        """Rows in FP8 by their own scale, or by that of all of at most 16 rows."""
        row = tl.program_id(0)
        each = tl.load(most + tl.arange(0, 16), mask=tl.arange(0, 16) < rows, other=0.0)
        scale = (tl.load(most + row) if rowwise else tl.max(each, 0)) / 448.0
        tl.store(scales + (row if rowwise else 0), scale)
        places = tl.program_id(1) * block + tl.arange(0, block)
        part = tl.load(x + row * columns + places, mask=places < columns, other=0.0)
        value = (part.to(tl.float32) / scale).to(tl.float8e4nv)
        tl.store(out + row * columns + places, value, mask=places < columns)

    @triton.jit  # type: ignore[untyped-decorator]
    def _given_back(y, own, scales, columns, block: tl.constexpr):  # type: ignore[no-untyped-def]
        """Each number of a product times its row's scale and its column's, in its place."""
        row = tl.program_id(0)
        places = tl.program_id(1) * block + tl.arange(0, block)
        inside = places < columns
        scale = tl.load(own + row) * tl.load(scales + places, mask=inside, other=0.0)
        here = y + row * columns + places
        value = tl.load(here, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(here, value, mask=inside)


class Quantized(NamedTuple):
    """FP8 values, and the scale that gives back the original: one, or one a row."""

    values: Any
    scale: Any


@dataclass
class Head:
    """One shape's weights."""

    weight: Any
    """[rows, columns], BF16."""
    fp8: dict[str, Quantized]
    """`per-tensor` and `per-row`."""
    tokens: Any
    """[TOKENS, columns], BF16."""
    one: Any
    """The scale of what is scaled afterwards."""

    def call(self, kind: str, x: Any, out: Any, plain: bool = False) -> Callable[[], object]:
        """The head with the quantization of its input; `plain`: as torch has it, without kernels of
        ours."""
        if kind == "bf16":
            return lambda: torch.mm(x, self.weight.t(), out=out)
        rowwise = kind == "per-row"
        if plain or triton is None or not x.is_cuda:
            return lambda: self.multiply(kind, quantized(x, rowwise), out)
        if rowwise:
            return lambda: self.scaled_after(fused(x, True), out)
        return lambda: self.multiply(kind, fused(x, False), out)

    def scaled_after(self, x: Quantized, out: Any) -> object:
        """A scale a row by the kernel for one scale: the bare product, then both scales."""
        weight = self.fp8["per-row"]
        torch._scaled_mm(
            x.values, weight.values.t(), scale_a=self.one, scale_b=self.one,
            out_dtype=out.dtype, out=out,
        )  # fmt: skip
        rows, columns = out.shape
        _given_back[(rows, triton.cdiv(columns, 1024))](out, x.scale, weight.scale, columns, 1024)
        return out

    def multiply(self, kind: str, x: Quantized, out: Any) -> object:
        """The scaled matmul alone, for input that is FP8 already."""
        weight = self.fp8[kind]
        return torch._scaled_mm(
            x.values, weight.values.t(), scale_a=x.scale, scale_b=weight.scale.t(),
            out_dtype=out.dtype, out=out,
        )  # fmt: skip


def quantized(x: Any, rowwise: bool) -> Quantized:
    """`x` in FP8 with one scale, or with one for each of its rows, in plain torch."""
    if rowwise:
        most = torch.linalg.vector_norm(x, ord=float("inf"), dim=1, keepdim=True)
    else:
        most = torch.linalg.vector_norm(x, ord=float("inf"))
    scale = most.float() / E4M3_MAX
    return Quantized((x / scale).to(torch.float8_e4m3fn), scale)


def fused(x: Any, rowwise: bool) -> Quantized:
    """The same for at most 16 rows in two kernels, as engines have it."""
    rows, columns = x.shape
    most = torch.empty(rows, dtype=torch.float32, device=x.device)
    shape = (rows, 1) if rowwise else ()
    scale = torch.empty(shape, dtype=torch.float32, device=x.device)
    out = torch.empty(rows, columns, dtype=torch.float8_e4m3fn, device=x.device)
    _maxima[(rows,)](x, most, columns, 4096)
    _scaled[(rows, triton.cdiv(columns, 1024))](x, most, out, scale, rows, columns, rowwise, 1024)
    return Quantized(out, scale)


def run(report: Report) -> None:
    """On a GPU all of it; elsewhere the numbers of a small head."""
    torch.manual_seed(1)
    if not torch.cuda.is_available():
        head = make_head(*SMALL, torch.device("cpu"))
        why = _judge_all(report, head, "x".join(map(str, SMALL)))
        if not why:
            report.check("speed", "not_run", "no GPU: only the numbers of a small head were tried")
        return
    properties = need_gpu()
    if (properties.major, properties.minor) < (8, 9):
        reason = f"FP8 needs sm_89 or newer; this is sm_{properties.major}{properties.minor}"
        report.check("all", "not_run", reason)
        return
    speedups: dict[str, list[Timing]] = {}
    clock = Clock()
    for rows, columns in SHAPES:
        name = f"{rows}x{columns}"
        # BF16, twice FP8, one of them in pieces too, and chunks in float64 and float32.
        need_memory(rows * columns * 5 + CHUNK * columns * 16)
        head = make_head(rows, columns, torch.device("cuda"))
        _judge_all(report, head, name)
        for key, value in _speed(report, clock, head, name).items():
            speedups.setdefault(key, []).append(value)
        del head
        torch.cuda.empty_cache()
    for key, values in speedups.items():
        # What holds for every shape.
        report.figure(key, "", min(values, key=lambda value: value.median))


def make_head(rows: int, columns: int, device: Any) -> Head:
    """Random weights of unit rows, and tokens that each lean towards one row of them.

    Logits then have a deviation of 1, and the best of them stands out by a margin from none to
    several: on plain noise the best row would be chance for any kernel.
    """
    weight = torch.empty(rows, columns, dtype=torch.bfloat16, device=device)
    weight.normal_(0, columns**-0.5)
    chosen = torch.randint(0, rows, (TOKENS,), device=device)
    lean = torch.linspace(4, 9, TOKENS, device=device)[:, None]
    tokens = torch.randn(TOKENS, columns, device=device) + lean * weight[chosen].float()
    fp8 = {"per-tensor": _weights(weight, False), "per-row": _weights(weight, True)}
    return Head(weight, fp8, tokens.bfloat16(), torch.ones((), device=device))


def _weights(weight: Any, rowwise: bool) -> Quantized:
    """Weights in FP8, a chunk at a time: the whole head in float32 need not fit."""
    if rowwise:
        parts = [quantized(part.float(), True) for part in weight.split(CHUNK)]
        return Quantized(torch.cat([p.values for p in parts]), torch.cat([p.scale for p in parts]))
    scale = torch.linalg.vector_norm(weight, ord=float("inf")).float() / E4M3_MAX
    parts = [(part.float() / scale).to(torch.float8_e4m3fn) for part in weight.split(CHUNK)]
    return Quantized(torch.cat(parts), scale)


def _judge_all(report: Report, head: Head, name: str) -> str:
    """Compare every kind with float64, over all rows; why the first is wrong."""
    exact = torch.cat([head.tokens.double() @ p.double().t() for p in head.weight.split(CHUNK)], 1)
    best = exact.topk(2, dim=1)
    margin = (best.values[:, 0] - best.values[:, 1]) / exact.std()
    clear = margin > CLEAR
    first = ""
    for kind in ("bf16", "per-tensor", "per-row"):
        why, facts = _judge(head, kind, exact, best.indices[:, 0], clear)
        report.check(f"{kind} {name}", "wrong" if why else "ok", why, **facts)
        first = first or why
    return first


def _judge(
    head: Head, kind: str, exact: Any, best: Any, clear: Any
) -> tuple[str, dict[str, object]]:
    """Why a kind is wrong, and its error and agreement over batches of every size."""
    errors: dict[int, float] = {}
    agreed = torch.zeros(TOKENS, dtype=torch.bool, device=exact.device)
    for batch in BATCHES:
        for start in range(0, TOKENS if batch == max(BATCHES) else batch, batch):
            rows = slice(start, start + batch)
            x = head.tokens[rows].contiguous()
            out = poisoned(batch, exact.shape[1], dtype=torch.bfloat16, device=exact.device)
            # The plain way first; the output of the last one is compared below.
            for plain in (True, False):
                out.fill_(float("nan"))
                head.call(kind, x, out, plain)()
                error = error_of(out, exact[rows])
                why = why_wrong(out, error, MOST_ERROR[kind])
                if why:
                    return f"M = {batch}: {why}", {"m": batch}
                errors[batch] = max(error, errors.get(batch, 0))
            agreed[rows] = out.float().argmax(1) == best[rows]
    facts = {
        "relative_error": {str(m): float(f"{e:.3g}") for m, e in errors.items()},
        "top1_agreement": float(agreed.float().mean()),
        "top1_agreement_clear": float(agreed[clear].float().mean()),
        "tokens": TOKENS, "clear": int(clear.sum()),
    }  # fmt: skip
    lost = int((~agreed[clear]).sum())
    text = f"another best row for {lost} of {int(clear.sum())} tokens with a clear margin"
    return (text if lost else ""), facts


def _speed(report: Report, clock: Clock, head: Head, name: str) -> dict[str, Timing]:
    """Time every kind at every batch size; the speed-ups at M = 1 by figure."""
    table: list[dict[str, object]] = []
    useless = []
    first: dict[str, dict[str, Timing]] = {}
    for batch in BATCHES:
        times = _times(clock, head, batch)
        first = first or times
        for kind in head.fp8:
            row: dict[str, object] = {"m": batch, "kind": kind}
            for way, found in times.items():
                if "bf16" in found:
                    row[f"{way}_bf16_us"] = round(found["bf16"].median, 1)
                row[f"{way}_fp8_us"] = round(found[kind].median, 1)
            table.append(row)
            for way in ("graph", "eager"):
                gain = times[way]["bf16"].median / times[way][kind].median
                if gain < WORTH:
                    useless.append(f"{kind} {way} at M = {batch} ({gain:.2f}x)")
    worth = "FP8 is not worth it: " + ", ".join(useless) if useless else ""
    report.check(f"time {name}", "ok", worth, times=table)
    bf16 = first["graph"]["bf16"]
    return {
        "speedup": ratio(bf16, first["graph"]["per-tensor"]),
        "speedup_torch": ratio(bf16, first["torch"]["per-tensor"]),
        "speedup_matmul": ratio(bf16, first["matmul"]["per-tensor"]),
        "speedup_per_row": ratio(bf16, first["graph"]["per-row"]),
        "speedup_per_row_torch": ratio(bf16, first["torch"]["per-row"]),
        "speedup_eager": ratio(first["eager"]["bf16"], first["eager"]["per-tensor"]),
    }


def _times(clock: Clock, head: Head, batch: int) -> dict[str, dict[str, Timing]]:
    """Times by way and kind. `graph` and `eager`: with the quantization of the input, `torch`: the
    same from a graph as torch has it, `matmul`: from a graph without the input's."""
    x = head.tokens[:batch].contiguous()
    out = poisoned(batch, head.weight.shape[0], dtype=torch.bfloat16, device=x.device)
    found: dict[str, dict[str, Timing]] = {"graph": {}, "eager": {}, "torch": {}, "matmul": {}}
    for kind in ("bf16", *head.fp8):
        call = head.call(kind, x, out)
        found["graph"][kind], found["eager"][kind] = clock.replayed(call), clock.eager(call)
        if kind != "bf16":
            given = quantized(x, kind == "per-row")
            found["torch"][kind] = clock.replayed(head.call(kind, x, out, plain=True))
            found["matmul"][kind] = clock.replayed(partial(head.multiply, kind, given, out))
    return found


if __name__ == "__main__":
    main(run)
