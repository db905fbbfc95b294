"""The shape that a checkpoint's config.json says, in the words of its many dialects."""

from __future__ import annotations

from collections import Counter
from typing import Any

from configurator.checkpoint import Checkpoint
from configurator.plan.shape import Experts, Gate, Kind, Latent, Layers, Linear, Shape, Stored

_MOST_LAYERS = 10_000
_TYPES: dict[str, Kind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
}
_PATTERN: dict[str, Kind] = {"*": "full", "M": "mamba"}
"""Letters of hybrid_override_pattern; others are layers without attention."""
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "top_k_experts")
_KERNEL = "short_conv_kernel_size"
_MAMBA = (
    ("mamba_num_heads", "mamba_n_heads"),
    ("mamba_head_dim", "mamba_d_head"),
    ("n_groups", "mamba_n_groups"),
    ("ssm_state_size", "mamba_d_state"),
    ("conv_kernel", "mamba_d_conv"),
)
_LARGEST = 10**7
_SHARED_WIDTHS = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
_METHODS = {
    "fp8": Stored("fp8", "fp8"),
    "mxfp4": Stored("mxfp4", "bf16"),
    "nvfp4": Stored("nvfp4", "nvfp4"),
    "modelopt_fp4": Stored("nvfp4", "nvfp4"),
    "w4afp8": Stored("int4", "fp8"),
    "awq": Stored("int4", "int4"),
    "gptq": Stored("int4", "int4"),
}
"""By quantization method; what a header says comes first."""


def shape_of_config(checkpoint: Checkpoint) -> Shape:
    """The shape of a checkpoint on disk; None wherever its config says nothing usable."""
    config = checkpoint
    latent = _latent(config)
    found = config.tied
    tied = config.head is None if found is None and config.tensors else bool(found)
    return Shape(
        source=f"config.json of {checkpoint.path.name}",
        architecture=next(iter(config.architectures), "unknown"),
        layers=config.layers,
        hidden=config.hidden_size,
        vocabulary=config.vocabulary,
        context=config.context,
        heads=config.heads,
        attention=_attention(config, latent),
        latent=latent,
        linear=_linear(config),
        gate="full" if config.text.get("attn_output_gate") is True else "none",
        dense=config.intermediate_size,
        experts=_experts(config),
        stored=_stored(config),
        tied=tied,
        nextn=min(config.declared_draft_layers or 0, 16),
        total=float(config.size) or None,
        compressed="compress_ratios" in config.text,
    )


def _attention(config: Checkpoint, latent: Latent | None) -> tuple[Layers, ...]:
    kinds = _kinds(config, latent)
    window = config.number("sliding_window", "window_size", "attention_chunk_size")
    heads = config.heads
    kv = config.number("num_key_value_heads") or heads
    key = config.number("head_dim")
    if key is None and config.hidden_size and heads:
        key = config.hidden_size // heads
    value = config.number("v_head_dim") or key
    found = []
    for kind in sorted(set(kinds)):
        count = kinds[kind]
        if kind == "mla":
            found.append(Layers(kind, count, v_head_dim=config.number("v_head_dim")))
        elif kind == "sliding":
            own = config.number("swa_num_key_value_heads") or kv
            width = config.number("swa_head_dim") or key
            wide = config.number("swa_v_head_dim") or width
            found.append(Layers(kind, count, window, own, width, wide))
        elif kind == "full":
            found.append(Layers(kind, count, None, kv, key, value))
        else:
            found.append(Layers(kind, count))
    return tuple(found)


def _kinds(config: Checkpoint, latent: Latent | None) -> Counter[Kind]:
    """Layers by kind; empty when the number of layers is not said."""
    count = config.layers
    if count is None or count > _MOST_LAYERS:
        return Counter()
    named = _named(config, count)
    if named is None:
        named = Counter({"full": count})
    if latent is not None:
        named = Counter({("mla" if k == "full" else k): n for k, n in named.items()})
    return Counter({kind: n for kind, n in named.items() if n > 0})


def _named(config: Checkpoint, count: int) -> Counter[Kind] | None:
    """Kinds by whichever key says them; None where none does."""
    text = config.text
    for key in ("layer_types", "layers_block_type"):
        types = text.get(key)
        if isinstance(types, list) and types:
            found = [
                _TYPES[kind] for kind in types[:count] if isinstance(kind, str) and kind in _TYPES
            ]
            return Counter(found)
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return Counter(_PATTERN[key] for key in pattern[:_MOST_LAYERS] if key in _PATTERN)
    linear = text.get("linear_attn_config")
    if isinstance(linear, dict) and isinstance(linear.get("kda_layers"), list):
        recurrent = len(linear["kda_layers"])
        return Counter({"linear": recurrent, "full": count - recurrent})
    every = config.number("full_attention_interval", "layer_group_size")
    if every and every > 1:
        full = count // every
        return Counter({"linear": count - full, "full": full})
    return _sliding(config, count)


def _sliding(config: Checkpoint, count: int) -> Counter[Kind] | None:
    mixed = config.text.get("hybrid_layer_pattern")
    if isinstance(mixed, list) and mixed:
        slides = sum(1 for entry in mixed[:count] if entry == 1)
        return Counter({"sliding": slides, "full": count - slides})
    every = config.number("sliding_window_pattern")
    if every and every > 1 and config.number("sliding_window"):
        full = count // every
        return Counter({"sliding": count - full, "full": full})
    return None


def _latent(config: Checkpoint) -> Latent | None:
    rank = config.number("kv_lora_rank")
    if not rank:
        return None
    rope = 0 if config.text.get("use_mla_nope") is True else config.number("qk_rope_head_dim") or 0
    return Latent(
        rank,
        rope,
        config.number("qk_nope_head_dim") or None,
        config.number("q_lora_rank") or None,
        config.number("index_head_dim") or 0,
    )


def _linear(config: Checkpoint) -> Linear | None:
    dtype = config.text.get("mamba_ssm_dtype")
    state = {"bfloat16": "bf16", "float16": "fp16"}.get(str(dtype), "fp32")
    nested = config.text.get("linear_attn_config")
    if isinstance(nested, dict):
        heads, width = nested.get("num_heads"), nested.get("head_dim")
        return _sized([heads, width, heads, width, nested.get(_KERNEL)], "kda", state)
    found = [
        config.number(f"linear_{key}")
        for key in (
            "num_value_heads", "value_head_dim", "num_key_heads", "key_head_dim", "conv_kernel_dim"
        )
    ]  # fmt: skip
    if any(found):
        return _sized(found, "gdn", state)
    if config.number(_KERNEL) and config.number("layer_group_size"):
        width = config.number("head_dim") or 128
        sizes = [config.heads, width, config.heads, width, config.number(_KERNEL)]
        return _sized(sizes, "kda", state)
    found = [config.number(*keys) for keys in _MAMBA]
    return _sized(found, "mamba", state)


def _sized(sizes: list[Any], gate: Gate, state: str) -> Linear | None:
    """Heads and width of the values, of the keys, and the convolution; None if one is missing."""
    if not all(type(size) is int and 0 < size < _LARGEST for size in sizes):
        return None
    heads, value, key_heads, key, kernel = sizes
    return Linear(heads, value, key_heads, key, kernel, gate, state)


def _experts(config: Checkpoint) -> Experts | None:
    count, layers = config.experts, config.layers
    if count is None or layers is None:
        return None
    width = config.expert_size
    shared = config.number(*_SHARED_WIDTHS)
    if shared is None:
        shared = (config.number("n_shared_experts", "num_shared_experts") or 0) * (width or 0)
    return Experts(
        count,
        config.number(*_CHOSEN) or 0,
        width,
        shared,
        config.number("moe_hidden_size", "routed_expert_hidden_size") or None,
        layers - _dense_layers(config, layers),
    )


def _dense_layers(config: Checkpoint, layers: int) -> int:
    types = config.text.get("mlp_layer_types")
    if isinstance(types, list) and types:
        return sum(1 for entry in types[:layers] if entry == "dense")
    only = config.text.get("mlp_only_layers")
    dense = len(only) if isinstance(only, list) else 0
    first = config.number("first_k_dense_replace") or 0
    step = config.number("decoder_sparse_step", "moe_layer_freq") or 1
    skipped = layers - layers // step if step > 1 else 0
    return min(layers, max(dense, first, skipped))


def _stored(config: Checkpoint) -> Stored:
    method = config.quantization.method if config.quantization else None
    return _METHODS.get(method or "", Stored())
