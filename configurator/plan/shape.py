"""What a model is made of, whatever said so: an entry of the content or a checkpoint's config."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from configurator.schema.content import Model

Gate = Literal["kda", "gdn", "mamba"]
Kind = Literal["full", "sliding", "mla", "linear", "mamba"]


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers whose attention is of one kind."""

    kind: Kind
    count: int
    window: int | None = None
    """Tokens that sliding layers look at."""
    kv_heads: int | None = None
    head_dim: int | None = None
    v_head_dim: int | None = None


@dataclass(frozen=True, slots=True)
class Latent:
    """Latent attention: one vector a token, whatever the heads. Widths in elements."""

    kv_rank: int
    rope_dim: int
    nope_dim: int | None = None
    q_rank: int | None = None
    index_dim: int = 0
    """Width of the key of a sparse indexer beside it; 0: none."""

    @property
    def kept(self) -> int:
        """Elements kept of a token and layer, without an indexer's."""
        return self.kv_rank + self.rope_dim


@dataclass(frozen=True, slots=True)
class Linear:
    """State of linear-attention and Mamba layers. Widths in elements."""

    heads: int
    value_dim: int
    key_heads: int
    key_dim: int
    conv_kernel: int
    gate: Gate
    state_dtype: str = "fp32"


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts."""

    count: int
    chosen: int
    width: int | None = None
    shared: int = 0
    """Width of all shared experts together."""
    hidden: int | None = None
    """Width of what they read, where it is not the residual stream's."""
    layers: int = 0
    """Layers that have experts."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What classes of weights are stored as: bf16, fp8, mxfp4, nvfp4, int4, fp32."""

    experts: str = "bf16"
    dense: str = "bf16"
    lm_head: str = "bf16"
    expert_layers: int | None = None
    """Layers whose experts are stored so, those of others in bf16; None: all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A model in numbers; None where nothing says."""

    source: str
    """Where the numbers are from, for people."""
    architecture: str
    layers: int | None = None
    hidden: int | None = None
    vocabulary: int | None = None
    context: int | None = None
    """Tokens of the longest sequence."""
    heads: int | None = None
    attention: tuple[Layers, ...] = ()
    latent: Latent | None = None
    linear: Linear | None = None
    gate: Literal["none", "heads", "full"] = "none"
    """Gate on the output of softmax attention."""
    dense: int | None = None
    """Width of the dense MLP."""
    experts: Experts | None = None
    stored: Stored = Stored()
    tied: bool = False
    nextn: int = 0
    """Next-token-prediction layers in the checkpoint."""
    towers: float = 0
    """Parameters of vision and audio towers."""
    total: float | None = None
    """Bytes of the whole checkpoint as somebody counted them."""
    parameters: float | None = None
    """Parameters as somebody counted them."""
    from_target: bool = False
    """A draft whose embedding and LM head are the target's."""
    compressed: bool = False
    """Attention whose cache this page knows no formula for."""

    def kept(self, kind: Kind) -> int:
        """Layers of one kind."""
        return sum(layers.count for layers in self.attention if layers.kind == kind)


def shape_of_entry(model: Model) -> Shape:
    """The shape that an entry of the content says."""
    return Shape(
        source=f"model entry {model.name}",
        architecture=model.architecture,
        layers=model.layers,
        hidden=model.hidden_size,
        vocabulary=model.vocab_size,
        context=model.context,
        heads=model.heads,
        attention=_attention(model),
        latent=_latent(model),
        linear=_linear(model),
        gate=model.attention_gate,
        dense=model.intermediate_size,
        experts=_experts(model),
        stored=Stored(
            model.quantization.experts or "bf16",
            model.quantization.dense,
            model.quantization.lm_head,
            model.quantization.expert_layers,
        ),
        tied=model.tied_embeddings,
        nextn=model.nextn_layers,
        towers=(model.towers_b or 0) * 1e9,
        total=None if model.weights_gb is None else model.weights_gb * 1e9,
        parameters=None if model.parameters_b is None else model.parameters_b * 1e9,
        from_target=model.lm_head_from_target,
    )


def _attention(model: Model) -> tuple[Layers, ...]:
    width = model.head_dim
    if width is None and model.hidden_size and model.heads and model.latent is None:
        # As the engine does where a config says none.
        width = model.hidden_size // model.heads
    kinds = tuple(
        Layers(
            entry.kind,
            entry.layers,
            entry.window,
            entry.kv_heads or model.kv_heads,
            entry.head_dim or width,
            model.v_head_dim or entry.head_dim or width,
        )
        for entry in model.attention
    )
    if kinds or model.layers is None or model.kv_heads is None:
        return kinds
    whole = Layers("full", model.layers, None, model.kv_heads, width, model.v_head_dim or width)
    return (whole,)


def _latent(model: Model) -> Latent | None:
    found = model.latent
    if found is None:
        return None
    return Latent(found.kv_rank, found.rope_dim, found.nope_dim, found.q_rank)


def _linear(model: Model) -> Linear | None:
    found = model.linear
    if found is None:
        return None
    return Linear(
        found.heads,
        found.value_dim,
        found.key_heads,
        found.key_dim,
        found.conv_kernel,
        found.gate,
    )


def _experts(model: Model) -> Experts | None:
    moe = model.moe
    if moe is None:
        return None
    shared = moe.shared_intermediate_size
    if shared is None:
        shared = moe.shared_experts * (moe.intermediate_size or 0)
    return Experts(
        moe.experts,
        moe.experts_per_token,
        moe.intermediate_size,
        shared,
        moe.hidden_size,
        (model.layers or 0) - moe.dense_layers,
    )


def as_served(shape: Shape, *, weights: str | None, lm_head: str | None) -> Shape:
    """The shape with what the engine makes of the stored weights while it loads them.

    Args:
        shape: as the checkpoint has it.
        weights: what unquantized weights are quantized to (`--quantization`); None: nothing.
        lm_head: what the LM head becomes; None: it stays.
    """
    stored = shape.stored
    if weights is not None:
        dense = weights if stored.dense == "bf16" else stored.dense
        experts = weights if stored.experts == "bf16" else stored.experts
        stored = replace(stored, dense=dense, experts=experts)
    if lm_head is not None:
        stored = replace(stored, lm_head=lm_head)
    return replace(shape, stored=stored)
