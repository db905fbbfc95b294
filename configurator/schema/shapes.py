"""Parts of a Model entry: its layers, experts and storage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configurator.schema.base import StrictModel

Positive = Annotated[float, Field(gt=0)] | Annotated[int, Field(gt=0)]
PositiveInt = Annotated[int, Field(gt=0)]


class Attention(StrictModel):
    """One kind of attention layer."""

    kind: Literal["full", "sliding", "mla", "linear", "mamba"]
    """Kind of the layers."""
    layers: PositiveInt
    """How many layers are of this kind."""
    window: PositiveInt | None = None
    """Window of sliding layers in tokens."""
    kv_heads: PositiveInt | None = None
    """Key and value heads of these layers where they are not the model's."""
    head_dim: PositiveInt | None = None
    """Width of a head of these layers where it is not the model's."""


class Latent(StrictModel):
    """Latent attention (MLA): what is kept of a token is one vector, whatever the heads."""

    kv_rank: PositiveInt
    """Width of the latent vector: kv_lora_rank."""
    rope_dim: Annotated[int, Field(ge=0)]
    """Width of the rotary part kept beside it: qk_rope_head_dim."""
    nope_dim: PositiveInt | None = None
    """Width of a query head without its rotary part: qk_nope_head_dim."""
    q_rank: PositiveInt | None = None
    """Width of the queries' own latent vector; null: they are projected at full rank."""


class LinearState(StrictModel):
    """State of linear-attention and Mamba layers, of which each request has its own."""

    heads: PositiveInt
    """Value heads: num_v_heads, or the heads of a Mamba mixer."""
    value_dim: PositiveInt
    """Width of a value head."""
    key_heads: PositiveInt
    """Key heads; of a Mamba mixer its groups."""
    key_dim: PositiveInt
    """Width of a key head; of a Mamba mixer the size of its state."""
    conv_kernel: PositiveInt
    """Width of the short convolution; one less is kept."""
    gate: Literal["kda", "gdn", "mamba"]
    """Which recurrence it is: kda decays each key channel, gdn and mamba each head."""


class Moe(StrictModel):
    """Mixture of experts."""

    experts: PositiveInt
    """Routed experts per layer."""
    experts_per_token: PositiveInt
    """Routed experts that one token activates."""
    shared_experts: Annotated[int, Field(ge=0)] = 0
    """Experts that every token activates."""
    intermediate_size: PositiveInt | None = None
    """Width of one expert."""
    shared_intermediate_size: PositiveInt | None = None
    """Width of all shared experts together; null: as many widths as there are shared experts."""
    hidden_size: PositiveInt | None = None
    """Width of what the experts read, where a projection shrinks the residual stream first."""
    dense_layers: Annotated[int, Field(ge=0)] = 0
    """Layers that have a dense MLP instead: first_k_dense_replace."""
    whole_experts: bool = False
    """The engine keeps every expert whole on a rank: expert parallel size must equal tensor."""


class Quantization(StrictModel):
    """What the checkpoint's tensors are stored as."""

    experts: Literal["bf16", "fp8", "mxfp4", "nvfp4", "int4"] | None = None
    """Routed experts."""
    expert_layers: PositiveInt | None = None
    """Layers whose routed experts are stored so; those of all others are BF16. Null: all."""
    dense: Literal["bf16", "fp8", "mxfp4", "nvfp4", "int4"] = "bf16"
    """Attention and dense layers."""
    lm_head: Literal["bf16", "fp8", "fp32"] = "bf16"
    """The LM head."""
    block: PositiveInt | None = None
    """Edge of a quantization block; partitions must be multiples of it."""
