"""What layers keep of the sequences, by kind of layer.

Formulas from SGLang 0.5.23: model_executor/pool_configurator.py (tokens) and
configs/mamba_utils.py (states).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from configurator.plan.figures import Figure, exact
from configurator.plan.model import Cache, Owner
from configurator.plan.shape import Layers, Linear, Shape
from configurator.plan.sharing import Ranks

_ELEMENTS = {
    "bf16": (2.0, "2"),
    "fp16": (2.0, "2"),
    "fp32": (4.0, "4"),
    "fp8_e4m3": (1.0, "1"),
    "fp8_e5m2": (1.0, "1"),
    "mxfp8": (1 + 1 / 32, "(1 + 1/32)"),
    "nvfp4": (0.5 + 1 / 16, "(1/2 + 1/16)"),
    "fp4_mx_block16": (0.5 + 1 / 16, "(1/2 + 1/16)"),
}
_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float": "fp32", "float32": "fp32"}
_INDEX_BLOCK = 128
"""Elements of an indexer's key that share a scale of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How caches are stored."""

    dtype: str
    """Of keys and values."""
    why: str
    """Who said so: an argument, the checkpoint, the model's dtype."""
    state_dtype: str | None = None
    """Of recurrent states where an argument or a variable says it."""
    ring: int = 0
    """Length of the speculative ring of recurrent layers; 0: none."""


def element(dtype: str) -> tuple[float, str] | None:
    """Bytes of an element with its scales, and in words; None for a name that is not known."""
    return _ELEMENTS.get(_NAMES.get(dtype, dtype))


def caches_of(shape: Shape, ranks: Ranks, kept: Kept, owner: Owner = "target") -> list[Cache]:
    """The caches of one model on one GPU, one a kind of layer; what has no shape is left out."""
    found: list[Cache] = []
    for layers in shape.attention:
        layers = replace(layers, count=ceil(layers.count / ranks.pipeline))
        if layers.kind in ("linear", "mamba"):
            if shape.linear is not None:
                found.append(_state(shape, shape.linear, layers, ranks, kept, owner))
        elif layers.kind == "mla":
            cache = _latent(shape, layers, kept, owner)
            found += [cache] if cache else []
        elif layers.kv_heads and layers.head_dim:
            found.append(_heads(shape, layers, ranks, kept, owner))
    return found


def nextn_cache(shape: Shape, ranks: Ranks, kept: Kept) -> list[Cache]:
    """The cache of the prediction layers of a checkpoint: as the model's last kind, every token."""
    softmax = [layers for layers in shape.attention if layers.kind not in ("linear", "mamba")]
    if not softmax or not shape.nextn:
        return []
    last = replace(softmax[-1], count=shape.nextn)
    if last.kind == "sliding":
        last = replace(last, kind="full", window=None)
    return caches_of(replace(shape, attention=(last,)), replace(ranks, pipeline=1), kept, "draft")


def _heads(shape: Shape, layers: Layers, ranks: Ranks, kept: Kept, owner: Owner) -> Cache:
    heads, key = layers.kv_heads or 0, layers.head_dim or 0
    value = layers.v_head_dim or key
    own = max(1, heads // ranks.attention)
    size, words = _ELEMENTS[kept.dtype]
    shared = f"{heads} KV heads over {ranks.attention} ranks"
    if heads < ranks.attention:
        shared += ", each with a copy of one"
    figure = exact(
        own * (key + value) * layers.count * size,
        "B/token",
        f"{own} x ({key} + {value}) x {layers.count} {layers.kind} layers x {words} B "
        f"({kept.dtype}, {kept.why}); {shared}",
        shape.source,
    )
    return Cache(layers.kind, owner, layers.count, figure, _no_state(), layers.window)


def _latent(shape: Shape, layers: Layers, kept: Kept, owner: Owner) -> Cache | None:
    latent = shape.latent
    if latent is None:
        return None
    size, words = _ELEMENTS[kept.dtype]
    each = latent.kept * size
    text = f"({latent.kv_rank} + {latent.rope_dim}) x {words} B"
    if latent.index_dim:
        if kept.dtype == "fp8_e4m3":
            # Scales a block beside the latent vector, and the rotary part as it is.
            scales = latent.kv_rank // _INDEX_BLOCK * 4
            each = latent.kv_rank + scales + latent.rope_dim * 2
            text = f"{latent.kv_rank} B + {scales} B of scales + {latent.rope_dim} x 2 B"
        index = latent.index_dim + latent.index_dim // _INDEX_BLOCK * 4
        each += index
        text = f"({text} + {index} B of the indexer)"
    figure = exact(
        each * layers.count,
        "B/token",
        f"{text} x {layers.count} latent layers ({kept.dtype}, {kept.why}); one vector for keys "
        "and values, whole on every rank",
        shape.source,
    )
    return Cache("mla", owner, layers.count, figure, _no_state())


def _state(
    shape: Shape, linear: Linear, layers: Layers, ranks: Ranks, kept: Kept, owner: Owner
) -> Cache:
    over = ranks.attention
    groups = linear.key_heads
    if linear.gate != "kda" and groups % over:
        groups += over - groups
    channels = (linear.heads * linear.value_dim + 2 * groups * linear.key_dim) // over
    heads = linear.heads // over
    size, words = _ELEMENTS[_NAMES.get(kept.state_dtype or "", kept.state_dtype or "fp32")]
    if kept.state_dtype is None:
        size, words = _ELEMENTS[linear.state_dtype]
    conv = channels * (linear.conv_kernel - 1) * 2
    temporal = heads * linear.value_dim * linear.key_dim * size
    figure = exact(
        (conv + temporal) * layers.count,
        "B",
        f"({channels:,} x {linear.conv_kernel - 1} x 2 B + {heads} x {linear.value_dim} x "
        f"{linear.key_dim} x {words} B) x {layers.count} {layers.kind} layers",
        shape.source,
    )
    none = exact(0, "B/token", "a state, whatever the length", shape.source)
    ring = _ring(shape, linear, layers.count, over, kept.ring) if kept.ring else None
    a_request = linear.gate != "kda"
    return Cache(
        layers.kind, owner, layers.count, none, figure, ring=ring, ring_a_request=a_request
    )


def _ring(shape: Shape, linear: Linear, layers: int, over: int, length: int) -> Figure:
    """Bytes of the replay ring, a state slot with kda, else a request."""
    heads, keys = linear.heads // over, max(1, linear.key_heads // over)
    values, key = heads * linear.value_dim * 2, keys * linear.key_dim * 2
    gate = heads * 4
    if linear.gate == "kda":
        each = 2 * values + 2 * key + gate + heads * linear.key_dim * 4
    else:
        each = 2 * values + 2 * key + gate
    return exact(
        each * length * layers, "B", f"{each:,} B x {length} steps x {layers} layers", shape.source
    )


def _no_state() -> Figure:
    return exact(0, "B", "no state", "keys and values alone")
