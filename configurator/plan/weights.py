"""Weights by class, counted from a model's shape: parameters times the bytes that each takes.

Norms, biases and per-tensor scales are left out: together below 0.1 % of any model here. What an
entry's own total has beyond the classes is a class of its own, `not itemized`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.plan.figures import Figure, between, exact
from configurator.plan.model import Owner, Part, Reading, Split
from configurator.plan.shape import Experts, Latent, Layers, Linear, Shape
from configurator.plan.sharing import Divided, Ranks

_BYTES = {
    "fp32": (4.0, "4"),
    "bf16": (2.0, "2"),
    "fp16": (2.0, "2"),
    # One FP32 scale a block of 128 x 128.
    "fp8": (1 + 4 / 128**2, "1 and 4 a block of 128 x 128"),
    "mxfp4": (0.5 + 1 / 32, "1/2 and 1 a group of 32"),
    "nvfp4": (0.5 + 1 / 16, "1/2 and 1 a group of 16"),
    "int4": (0.5 + 2 / 64, "1/2 and 2 a group of 64"),
}
"""Bytes a parameter with its scales, and in words."""
_INT4 = (0.5 + 2 / 128, 0.5 + 2 / 32)
"""With groups of 128 and of 32: an entry does not say which."""


@dataclass(frozen=True, slots=True)
class Count:
    """Parameters of one class."""

    name: str
    parameters: int
    dtype: str
    divided: Divided
    formula: str
    reads: Reading = "all"
    layers: int = 1
    kv_heads: int = 0
    experts: int = 0
    chosen: int = 0


def size_of(parameters: float, dtype: str, formula: str, source: str) -> Figure:
    """Bytes of parameters stored as `dtype`, scales included."""
    each, words = _BYTES[dtype]
    text = f"{formula} = {parameters:,.0f} parameters x {words} B ({dtype})"
    if dtype == "int4":
        low, high = (parameters * part for part in _INT4)
        return between(low, parameters * each, high, "B", text, source)
    return exact(parameters * each, "B", text, source)


def part_of(count: Count, owner: Owner, ranks: Ranks, source: str) -> Part:
    """A class of weights as a part of the geometry."""
    split: Split = "tensor"
    if count.divided == "expert":
        split = "expert"
    elif count.divided == "replicated":
        split = "replicated"
    return Part(
        count.name,
        owner,
        count.parameters,
        count.dtype,
        size_of(count.parameters, count.dtype, count.formula, source),
        split,
        count.reads,
        count.layers,
        count.experts,
        count.chosen,
        ranks.pieces(count.divided, count.kv_heads),
    )


def counted(shape: Shape) -> tuple[list[Count], list[str]]:
    """Parameters of the main model by class, and what is missing."""
    counts: list[Count] = []
    missing: list[str] = []
    if shape.hidden is None:
        return [], [f"weights: {shape.source} does not say its hidden size"]
    _count_attention(shape, shape.hidden, counts, missing)
    _count_mlp(shape, shape.hidden, counts, missing)
    if shape.vocabulary is None:
        missing.append(f"embedding and LM head: {shape.source} does not say its vocabulary")
    elif not shape.from_target:
        counts += _embeddings(shape, shape.hidden, shape.vocabulary)
    if shape.towers:
        counts.append(
            Count(
                "towers",
                int(shape.towers),
                "bf16",
                "replicated",
                f"{shape.towers / 1e9:g}B",
                "never",
            )
        )
    return counts, missing


def counted_nextn(shape: Shape) -> tuple[list[Count], list[str]]:
    """Parameters of the next-token-prediction layers: decoder layers of the model's last kind,
    and the projection that joins hidden state and embedding."""
    if shape.hidden is None or not shape.nextn:
        return [], []
    softmax = [layers for layers in shape.attention if layers.kind not in ("linear", "mamba")]
    last = Layers(
        *((softmax[-1].kind, shape.nextn, softmax[-1].window, softmax[-1].kv_heads,
           softmax[-1].head_dim, softmax[-1].v_head_dim) if softmax else ("full", shape.nextn))
    )  # fmt: skip
    counts: list[Count] = []
    missing: list[str] = []
    _count_softmax(shape, shape.hidden, last, counts, missing)
    if shape.experts is not None:
        found = _experts(shape, shape.experts, shape.hidden, shape.nextn)
        counts += found
        if not found:
            missing.append(_WIDTH.format(shape.source))
    elif shape.dense is not None:
        counts.append(_dense(shape, shape.hidden, shape.dense, shape.nextn))
    else:
        missing.append(f"MLP: {shape.source} does not say its width")
    joined = 2 * shape.hidden**2 * shape.nextn
    text = f"2 x {shape.hidden:,}^2 x {shape.nextn} layers"
    counts.append(Count("hidden and embedding joined", joined, "bf16", "replicated", text))
    return counts, missing


_WIDTH = "routed experts: {} does not say the width of an expert"


def _embeddings(shape: Shape, hidden: int, vocabulary: int) -> Iterator[Count]:
    size, text = hidden * vocabulary, f"{vocabulary:,} x {hidden:,}"
    yield Count("embedding", size, "bf16", "vocabulary", text, "rows")
    if shape.tied:
        # The same tensor, read as a whole when logits are computed; it takes no memory twice.
        yield Count("LM head", 0, "bf16", "head", f"{text}, tied to the embedding")
    else:
        yield Count("LM head", size, shape.stored.lm_head, "head", text)


def _count_attention(shape: Shape, hidden: int, counts: list[Count], missing: list[str]) -> None:
    if not shape.attention:
        missing.append(f"attention: {shape.source} does not say its layers by kind")
    for layers in shape.attention:
        if layers.kind in ("linear", "mamba"):
            if shape.linear is None:
                missing.append(f"{layers.kind} layers: {shape.source} does not say their shape")
            else:
                counts.append(_mixers(shape, hidden, shape.linear, layers))
        else:
            _count_softmax(shape, hidden, layers, counts, missing)


def _count_softmax(
    shape: Shape, hidden: int, layers: Layers, counts: list[Count], missing: list[str]
) -> None:
    if layers.kind == "mla":
        counts += _latent(shape, hidden, layers, missing)
        return
    heads, kv, key = shape.heads, layers.kv_heads, layers.head_dim
    if heads is None or kv is None or key is None:
        missing.append(
            f"attention of {layers.kind} layers: {shape.source} does not say heads and widths"
        )
        return
    value = layers.v_head_dim or key
    gate = {"none": 0, "heads": heads, "full": heads * value}[shape.gate]
    each = hidden * (heads * key + heads * value + gate)
    counts.append(
        Count(
            _named("attention", layers), each * layers.count, shape.stored.dense, "attention",
            f"{hidden:,} x ({heads} x {key} + {heads} x {value}"
            f"{f' + {gate:,}' if gate else ''}) x {layers.count} layers",
            layers=layers.count,
        )
    )  # fmt: skip
    counts.append(
        Count(
            _named("keys and values", layers), hidden * kv * (key + value) * layers.count,
            shape.stored.dense, "kv",
            f"{hidden:,} x {kv} x ({key} + {value}) x {layers.count} layers",
            layers=layers.count, kv_heads=kv,
        )
    )  # fmt: skip


def _named(name: str, layers: Layers) -> str:
    return name if layers.kind in ("full", "mla") else f"{name}, {layers.kind}"


def _latent(shape: Shape, hidden: int, layers: Layers, missing: list[str]) -> list[Count]:
    latent, heads = shape.latent, shape.heads
    if latent is None or heads is None or latent.nope_dim is None:
        missing.append(f"latent attention: {shape.source} does not say heads and widths")
        return []
    value = layers.v_head_dim or latent.nope_dim
    key = latent.nope_dim + latent.rope_dim
    gate = {"none": 0, "heads": heads, "full": heads * value}[shape.gate]
    text, queries = f"{hidden:,} x {heads} x {key}", hidden * heads * key
    if latent.q_rank:
        text, queries = f"{latent.q_rank:,} x {heads} x {key}", latent.q_rank * heads * key
    divided = (
        queries + latent.kv_rank * heads * (latent.nope_dim + value)
        + heads * value * hidden + hidden * gate
    )  # fmt: skip
    whole = hidden * (latent.kept + (latent.q_rank or 0))
    text = (
        f"({text} + {latent.kv_rank} x {heads} x ({latent.nope_dim} + {value}) + {heads} x {value}"
        f" x {hidden:,}{f' + {hidden:,} x {gate}' if gate else ''}) x {layers.count} layers"
    )
    down = f"{hidden:,} x ({_ranks(latent)}) x {layers.count} layers"
    dtype, count = shape.stored.dense, layers.count
    return [
        Count("attention", divided * count, dtype, "attention", text, layers=count),
        Count("latent projections", whole * count, dtype, "replicated", down, layers=count),
    ]


def _ranks(latent: Latent) -> str:
    text = f"{latent.kv_rank} + {latent.rope_dim}"
    return f"{text} + {latent.q_rank}" if latent.q_rank else text


def _mixers(shape: Shape, hidden: int, linear: Linear, layers: Layers) -> Count:
    """Projections of the recurrent layers; the convolution's weights are below 0.1 % of them."""
    keys, values = linear.key_heads * linear.key_dim, linear.heads * linear.value_dim
    if linear.gate == "mamba":
        # Gate and input, the two that select, a step a head; and out again.
        width = 2 * values + 2 * keys + linear.heads + values
        text = f"2 x {values:,} + 2 x {keys:,} + {linear.heads} + {values:,}"
    else:
        # Queries, keys, values, output gate, output; decay of kda a channel, else a head.
        decay = linear.heads * linear.key_dim if linear.gate == "kda" else linear.heads
        width = 2 * keys + 3 * values + decay + linear.heads
        text = f"2 x {keys:,} + 3 x {values:,} + {decay:,} + {linear.heads}"
    count = layers.count
    return Count(
        "linear attention" if layers.kind == "linear" else "mamba mixers",
        hidden * width * count, shape.stored.dense, "attention",
        f"{hidden:,} x ({text}) x {count} layers", layers=count,
    )  # fmt: skip


def _count_mlp(shape: Shape, hidden: int, counts: list[Count], missing: list[str]) -> None:
    sparse = 0
    if shape.experts is not None:
        sparse = shape.experts.layers
        found = _experts(shape, shape.experts, hidden, sparse)
        counts += found
        if not found:
            missing.append(_WIDTH.format(shape.source))
    dense = (shape.layers or 0) - sparse
    if dense <= 0:
        return
    if shape.dense is None:
        missing.append(f"dense MLP of {dense} layers: {shape.source} does not say its width")
        return
    counts.append(_dense(shape, hidden, shape.dense, dense))


def _dense(shape: Shape, hidden: int, width: int, layers: int) -> Count:
    text = f"3 x {hidden:,} x {width:,} x {layers} layers"
    dtype = shape.stored.dense
    return Count("dense MLP", 3 * hidden * width * layers, dtype, "dense", text, layers=layers)


def _experts(shape: Shape, experts: Experts, hidden: int, layers: int) -> list[Count]:
    """Experts, routers, shared experts, and what takes tokens to the experts' width and back."""
    if experts.width is None:
        return []
    reads = experts.hidden or hidden
    each = 3 * reads * experts.width * experts.count
    stored = min(layers, shape.stored.expert_layers or layers)
    text = f"3 x {reads:,} x {experts.width:,} x {experts.count} experts"
    counts = []
    for dtype, of in ((shape.stored.experts, stored), ("bf16", layers - stored)):
        if of:
            name = "routed experts" if of == layers or dtype != "bf16" else "routed experts, BF16"
            counts.append(
                Count(name, each * of, dtype, "expert", f"{text} x {of} layers", "experts", of,
                      0, experts.count, experts.chosen)
            )  # fmt: skip
    if experts.shared:
        text = f"3 x {hidden:,} x {experts.shared:,} x {layers} layers"
        size = 3 * hidden * experts.shared * layers
        counts.append(
            Count("shared experts", size, shape.stored.dense, "tensor", text, layers=layers)
        )
    if reads != hidden:
        text = f"2 x {hidden:,} x {reads:,} x {layers} layers"
        size = 2 * hidden * reads * layers
        counts.append(Count("pooler and unpooler", size, "bf16", "replicated", text, layers=layers))
    text = f"{hidden:,} x {experts.count} x {layers} layers"
    size = hidden * experts.count * layers
    return [*counts, Count("router", size, "bf16", "replicated", text, layers=layers)]
