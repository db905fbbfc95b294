"""MoE read cost against distinct experts: what verifying several tokens costs over decoding one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from selftest_kit import (
    Clock,
    Report,
    Timing,
    error_of,
    main,
    need_gpu,
    need_memory,
    poisoned,
    rate,
    ratio,
    torch,
    why_wrong,
)

TOKENS = (1, 2, 4, 8, 16)
ROUTINGS = 8
"""Different choices of experts in one graph, so that no choice finds its experts in the L2."""
MOST_ERROR = 0.02
BLOCK_M = 16
CONFIGS = (
    {"BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 128, "num_warps": 4, "num_stages": 4},
    {"BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "num_warps": 4, "num_stages": 4},
    {"BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "num_warps": 4, "num_stages": 5},
    {"BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "num_warps": 8, "num_stages": 3},
)
"""Tiles of the engine's kernel, of which the fastest counts."""


@dataclass(frozen=True)
class Shape:
    """One MoE layer."""

    name: str
    experts: int
    chosen: int
    width: int
    """Of one expert."""
    hidden: int

    @property
    def key(self) -> str:
        """How names of figures end."""
        return f"{self.experts}x{self.width}x{self.hidden}"

    @property
    def expert_bytes(self) -> int:
        """Of one expert in BF16: gate, up and down."""
        return 3 * self.width * self.hidden * 2


SHAPES = (
    Shape("512 experts of 768x2560, top 8", 512, 8, 768, 2560),
    Shape("256 experts of 4096x4096, top 8", 256, 8, 4096, 4096),
)
SMALL = Shape("16 experts of 64x128, top 4", 16, 4, 64, 128)


class Way(Protocol):
    """One way to multiply tokens with their experts' matrices."""

    name: str

    def prepare(self, routing: Routing) -> Callable[[Any, Any, Any, int], object]:
        """`multiply(source, weights, out, per)` for one routing.

        Row `r` of `out` is row `r // per` of `source` times its expert's matrix.
        """
        ...


@dataclass(frozen=True)
class Routing:
    """Which experts each token takes."""

    ids: Any
    """[tokens, chosen], int32."""
    scores: Any
    """[tokens, chosen], float32."""
    experts: int

    @property
    def distinct(self) -> int:
        """Experts that are read."""
        return len(set(self.ids.flatten().tolist()))


class Layer:
    """Weights of one layer, and a forward pass over one routing."""

    def __init__(self, shape: Shape, device: Any) -> None:
        self.shape = shape
        two, one = 2 * shape.width, shape.width
        options: dict[str, Any] = {"dtype": torch.bfloat16, "device": device}
        self.up = torch.empty(shape.experts, two, shape.hidden, **options)
        self.down = torch.empty(shape.experts, shape.hidden, one, **options)
        for weights in (self.up, self.down):
            for part in weights:
                part.normal_(0, part.shape[1] ** -0.5)
        self.device = device

    def route(self, tokens: int) -> Routing:
        """A random choice of experts for each token."""
        noise = torch.rand(tokens, self.shape.experts, device=self.device)
        scores, ids = noise.topk(self.shape.chosen, dim=1)
        return Routing(ids.int(), scores.softmax(1), self.shape.experts)

    def forward(self, way: Way, x: Any, routing: Routing, out: Any) -> Callable[[], object]:
        """A call that computes the layer into `out`, over buffers of its own."""
        multiply = way.prepare(routing)
        pairs = routing.ids.numel()
        shape, options = self.shape, {"dtype": torch.bfloat16, "device": self.device}
        both = poisoned(pairs, 2 * shape.width, **options)
        each = poisoned(pairs, shape.hidden, **options)
        scores = routing.scores[:, :, None]

        def call() -> None:
            multiply(x, self.up, both, shape.chosen)
            gate, up = both.chunk(2, dim=1)
            multiply(torch.nn.functional.silu(gate) * up, self.down, each, 1)
            pieces = each.view(len(x), shape.chosen, shape.hidden)
            torch.sum(pieces * scores, dim=1, dtype=out.dtype, out=out)

        return call

    def exact(self, x: Any, routing: Routing) -> Any:
        """The same in float64, expert by expert."""
        out = torch.zeros(len(x), self.shape.hidden, dtype=torch.float64, device=self.device)
        for expert in set(routing.ids.flatten().tolist()):
            token, place = (routing.ids == expert).nonzero(as_tuple=True)
            gate, up = (x[token].double() @ self.up[expert].double().t()).chunk(2, dim=1)
            down = (gate / (1 + torch.exp(-gate)) * up) @ self.down[expert].double().t()
            out[token] += routing.scores[token, place, None].double() * down
        return out


class Grouped:
    """Torch's grouped matmul over tokens sorted by expert; only chosen experts are read."""

    name = "torch grouped_mm"

    def prepare(self, routing: Routing) -> Callable[[Any, Any, Any, int], object]:
        """See `Way`."""
        order = routing.ids.flatten().argsort(stable=True)
        counts = torch.bincount(routing.ids.flatten(), minlength=routing.experts)
        ends = counts.cumsum(0).int()
        rows = {per: order // per for per in (1, routing.ids.shape[1])}

        def multiply(source: Any, weights: Any, out: Any, per: int) -> None:
            sorted_rows = source[rows[per]]
            out[order] = torch._grouped_mm(sorted_rows, weights.transpose(1, 2), offs=ends)

        return multiply


class Fused:
    """The engine's own fused MoE kernel in Triton, with one of its tiles."""

    def __init__(self, config: dict[str, int]) -> None:
        from sglang.kernels.ops.moe import fused_moe_triton_kernels

        self.kernel = fused_moe_triton_kernels.invoke_fused_moe_kernel
        self.config = {"BLOCK_SIZE_M": BLOCK_M, "GROUP_SIZE_M": 1, **config}
        tile = "x".join(str(config[f"BLOCK_SIZE_{edge}"]) for edge in "NK")
        self.name = f"SGLang's Triton kernel, tile {tile}"

    def prepare(self, routing: Routing) -> Callable[[Any, Any, Any, int], object]:
        """See `Way`."""
        import triton.language as tl

        blocks, experts, padded = aligned(routing)

        def multiply(source: Any, weights: Any, out: Any, per: int) -> None:
            self.kernel(
                A=source, B=weights, bias=None, C=out.view(*routing.ids.shape, -1),
                A_scale=None, B_scale=None, B_zp=None, topk_weights=routing.scores,
                topk_ids=routing.ids, sorted_token_ids=blocks, expert_ids=experts,
                num_tokens_post_padded=padded, mul_routed_weight=False, top_k=per,
                config=self.config, compute_type=tl.bfloat16, use_fp8_w8a8=False,
                use_int8_w8a8=False, use_int8_w8a16=False, use_int4_w4a16=False,
                per_channel_quant=False, filter_expert=False,
            )  # fmt: skip

        return multiply


def aligned(routing: Routing) -> tuple[Any, Any, Any]:
    """Pairs of token and expert in blocks of one expert each, as the fused kernel takes them.

    Returns the pairs (their number stands for none), the expert of each block, and the length.
    """
    flat = routing.ids.flatten().tolist()
    pairs: list[int] = []
    experts: list[int] = []
    for expert in sorted(set(flat)):
        mine = [pair for pair, chosen in enumerate(flat) if chosen == expert]
        mine += [len(flat)] * (-len(mine) % BLOCK_M)
        pairs += mine
        experts += [expert] * (len(mine) // BLOCK_M)
    device = routing.ids.device
    lists = (pairs, experts, [len(pairs)])
    return tuple(torch.tensor(each, dtype=torch.int32, device=device) for each in lists)  # type: ignore[return-value,unused-ignore]


def run(report: Report) -> None:
    """On a GPU all of it; elsewhere the numbers of a small layer."""
    torch.manual_seed(1)
    if not torch.cuda.is_available():
        layer = Layer(SMALL, torch.device("cpu"))
        why = _wrong(layer, Grouped())
        report.check(SMALL.name, "wrong" if why else "ok", why, kernel=Grouped.name)
        report.check("speed", "not_run", "no GPU: only the numbers of a small layer were tried")
        return
    need_gpu()
    clock = Clock()
    ways, missing = _ways()
    for shape in SHAPES:
        need_memory(shape.experts * shape.expert_bytes + 2e9)
        layer = Layer(shape, torch.device("cuda"))
        way, why, tried = _best(clock, layer, ways)
        if missing:
            tried["SGLang's Triton kernel"] = missing
        if way is None:
            report.check(shape.name, "wrong", why, tried=tried)
        else:
            _measure(report, clock, layer, way, tried)
        del layer
        torch.cuda.empty_cache()


def _ways() -> tuple[list[Way], str]:
    """Every way to compute here, and why the engine's is none of them."""
    grouped: list[Way] = [Grouped()]
    try:
        return [*map(Fused, CONFIGS), *grouped], ""
    except Exception as error:
        return grouped, f"cannot be imported: {type(error).__name__}: {str(error)[:200]}"


def _best(
    clock: Clock, layer: Layer, ways: Sequence[Way]
) -> tuple[Way | None, str, dict[str, object]]:
    """The fastest way at four tokens of those that are right, and what was tried."""
    best, least, first = None, math.inf, ""
    tried: dict[str, object] = {}
    for way in ways:
        try:
            why = _wrong(layer, way)
            if not why:
                took = clock.replayed(_steps(layer, way, 4)[0], runs=10).per(ROUTINGS).median
                tried[way.name] = round(took, 1)
                if took < least:
                    best, least = way, took
                continue
        except Exception as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        first = first or f"{way.name}: {why}"
        tried[way.name] = why
    return best, first, tried


def _wrong(layer: Layer, way: Way) -> str:
    """Why a way's numbers are wrong at any number of tokens; empty: they are right."""
    for tokens in TOKENS:
        x = torch.randn(tokens, layer.shape.hidden, device=layer.device).bfloat16()
        routing = layer.route(tokens)
        out = poisoned(*x.shape, dtype=torch.bfloat16, device=layer.device)
        layer.forward(way, x, routing, out)()
        why = why_wrong(out, error_of(out, layer.exact(x, routing)), MOST_ERROR)
        if why:
            return f"{tokens} tokens: {why}"
    return ""


def _steps(layer: Layer, way: Way, tokens: int) -> tuple[Callable[[], object], float]:
    """A call over several routings, and how many distinct experts one of them takes on average."""
    calls, distinct = [], []
    for _ in range(ROUTINGS):
        x = torch.randn(tokens, layer.shape.hidden, device=layer.device).bfloat16()
        routing = layer.route(tokens)
        out = poisoned(*x.shape, dtype=torch.bfloat16, device=layer.device)
        calls.append(layer.forward(way, x, routing, out))
        distinct.append(routing.distinct)
    return (lambda: [call() for call in calls]), sum(distinct) / len(distinct)


def _measure(
    report: Report, clock: Clock, layer: Layer, way: Way, tried: dict[str, object]
) -> None:
    """Times over numbers of tokens."""
    key = layer.shape.key
    times: dict[int, Timing] = {}
    rows: list[dict[str, object]] = []
    for tokens in TOKENS:
        call, distinct = _steps(layer, way, tokens)
        times[tokens] = took = clock.replayed(call, runs=30).per(ROUTINGS)
        read = distinct * layer.shape.expert_bytes
        speed = rate(read, took)
        rows.append({
            "tokens": tokens, "distinct": distinct, "us": round(took.median, 1),
            "gb_s": round(speed.median), "cost_ratio": round(took.median / times[1].median, 3),
        })  # fmt: skip
        if tokens > 1:
            report.figure(f"verify_cost_ratio_{tokens}_{key}", "", ratio(took, times[1]))
    report.figure(f"read_gb_s_{key}", "GB/s", speed)
    fixed, each = _line([(row["distinct"], row["us"]) for row in rows])
    report.check(
        layer.shape.name, "ok", kernel=way.name, dtype="bf16",
        expert_bytes=layer.shape.expert_bytes, times=rows, tried=tried,
        fixed_us=round(fixed, 1), us_per_expert=round(each, 3),
    )  # fmt: skip


def _line(points: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """Least squares: the part of a time that does not grow, and what one more expert adds."""
    count = len(points)
    mean_x, mean_y = (sum(axis) / count for axis in zip(*points, strict=True))
    across = sum((x - mean_x) * (y - mean_y) for x, y in points)
    slope = across / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


if __name__ == "__main__":
    main(run)
