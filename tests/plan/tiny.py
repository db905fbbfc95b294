"""Tensors of the tiny models of the self-test, by name, from their config."""

from __future__ import annotations

from typing import Any

Tensors = dict[str, tuple[str, tuple[int, ...]]]


def llama(config: dict[str, Any]) -> Tensors:
    """A dense model with separate embedding and head."""
    tensors = _ends(config)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        tensors |= _attention(name, config)
        tensors |= _mlp(f"{name}.mlp", config["hidden_size"], config["intermediate_size"])
    return tensors


def glm(config: dict[str, Any], *, draft: bool = True) -> Tensors:
    """A model with experts after its first layer, and a prediction layer after its last."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    tensors = _ends(config)
    for layer in range(layers + draft):
        name = f"model.layers.{layer}"
        tensors |= _attention(name, config, norms=True)
        if layer < config["first_k_dense_replace"]:
            tensors |= _mlp(f"{name}.mlp", hidden, config["intermediate_size"])
            continue
        width, count = config["moe_intermediate_size"], config["n_routed_experts"]
        for expert in range(count):
            tensors |= _mlp(f"{name}.mlp.experts.{expert}", hidden, width)
        tensors |= _mlp(f"{name}.mlp.shared_experts", hidden, width)
        tensors[f"{name}.mlp.gate.weight"] = ("BF16", (count, hidden))
        tensors[f"{name}.mlp.gate.e_score_correction_bias"] = ("BF16", (count,))
    if draft:
        last = f"model.layers.{layers}"
        words = ("BF16", (config["vocab_size"], hidden))
        tensors |= {
            f"{last}.eh_proj.weight": ("BF16", (hidden, 2 * hidden)),
            f"{last}.embed_tokens.weight": words,
            f"{last}.shared_head.head.weight": words,
        }
        for norm in ("enorm", "hnorm", "shared_head.norm"):
            tensors[f"{last}.{norm}.weight"] = ("BF16", (hidden,))
    return tensors


def _ends(config: dict[str, Any]) -> Tensors:
    words = ("BF16", (config["vocab_size"], config["hidden_size"]))
    return {
        "model.embed_tokens.weight": words,
        "lm_head.weight": words,
        "model.norm.weight": ("BF16", (config["hidden_size"],)),
    }


def _attention(name: str, config: dict[str, Any], *, norms: bool = False) -> Tensors:
    hidden, width = config["hidden_size"], config["head_dim"]
    rows = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
    rows["v"] = rows["k"]
    tensors: Tensors = {
        f"{name}.self_attn.{key}_proj.weight": ("BF16", (heads * width, hidden))
        for key, heads in rows.items()
    }
    tensors[f"{name}.self_attn.o_proj.weight"] = ("BF16", (hidden, rows["q"] * width))
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{name}.{norm}.weight"] = ("BF16", (hidden,))
    for key in ("q", "k") if norms else ():
        tensors[f"{name}.self_attn.{key}_norm.weight"] = ("BF16", (width,))
    return tensors


def _mlp(name: str, hidden: int, width: int) -> Tensors:
    return {
        f"{name}.gate_proj.weight": ("BF16", (width, hidden)),
        f"{name}.up_proj.weight": ("BF16", (width, hidden)),
        f"{name}.down_proj.weight": ("BF16", (hidden, width)),
    }
