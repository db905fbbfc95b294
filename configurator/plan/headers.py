"""Weights by class from a checkpoint's headers: the bytes that are there, scales included."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import prod

from configurator.checkpoint import Checkpoint, Tensor
from configurator.checkpoint_files import INDEX
from configurator.plan.figures import exact
from configurator.plan.model import Owner, Part, Reading, Split
from configurator.plan.shape import Shape
from configurator.plan.sharing import Divided, Ranks

_DTYPES = {
    "F64": "fp64", "F32": "fp32", "BF16": "bf16", "F16": "fp16", "I64": "int64", "I32": "int32",
    "F8_E4M3": "fp8", "F8_E5M2": "fp8", "F8_E8M0": "fp8", "U8": "uint8", "I8": "int8",
}  # fmt: skip
_PACKED = {"uint8", "int32", "int8"}
"""Types of tensors that hold several 4-bit parameters each."""
_SCALE = re.compile(
    r"(?:scale|scales|scale_inv|weight_scale_2|input_scale|zeros|qzeros|g_idx|absmax)$"
)
_SHARD = re.compile(r"(.*?)-\d{5}-of-(\d{5})\.safetensors")
_TOWER = re.compile(r"(?:^|\.)(?:vision|visual|audio|image|speech|mm_|multi_modal|multimodal)")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_ATTENTION = re.compile(r"(?:^|\.)(?:self_attn|self_attention|attention|attn|cross_attn)\.")
_MIXER = re.compile(r"(?:^|\.)(?:linear_attn|mamba|mixer|kda|gdn)\.")
_STATES = re.compile(r"\.(?:A_log|dt_bias|conv1d|q_conv1d|ssm_a|f_proj|f_a_proj)(?:\.|$)")
"""What only recurrent layers have, in attention blocks that are not named so."""
_EXPERTS = re.compile(r"\.experts(?:\.|_|$)")
_SHARED = re.compile(r"\.shared_experts?\.")
_ROUTER = re.compile(
    r"\.(?:gate|router|shared_expert_gate|wg)\.(?:weight|bias|expert_bias|e_score)|correction_bias"
)
_LATENT = re.compile(r"\.(?:kv_a_proj|q_a_proj|kv_a_|q_a_|fused_qkv_a|wq_a|wkv_a|indexer)")
_KV = re.compile(r"\.(?:k_proj|v_proj|key|value|wk|wv)\.")
_MLP = re.compile(r"\.(?:mlp|feed_forward|ffn|block_sparse_moe)\.|(?:gate|up|down)_proj\.")
_NORM = re.compile(r"norm|ln_|layernorm", re.IGNORECASE)
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embeddings)\.")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|output|shared_head\.head)\.")


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    divided: Divided
    reads: Reading = "all"


_CLASSES = {
    "towers": _Class("towers", "replicated", "never"),
    "experts": _Class("routed experts", "expert", "experts"),
    "shared": _Class("shared experts", "tensor"),
    "router": _Class("router", "replicated"),
    "latent": _Class("latent projections", "replicated"),
    "kv": _Class("keys and values", "kv"),
    "attention": _Class("attention", "attention"),
    "mixers": _Class("linear attention", "attention"),
    "mlp": _Class("dense MLP", "dense"),
    "embedding": _Class("embedding", "vocabulary", "rows"),
    "head": _Class("LM head", "head"),
    "norms": _Class("norms", "replicated"),
    "other": _Class("other", "replicated"),
}


@dataclass(slots=True)
class _Sum:
    size: int = 0
    parameters: int = 0
    tensors: int = 0
    layers: set[str] = field(default_factory=set)
    dtypes: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def parts_of_headers(checkpoint: Checkpoint, shape: Shape, ranks: Ranks) -> list[Part]:
    """The parts of a checkpoint whose headers are there; draft layers belong to the draft.

    Embedding and head of draft layers are left out: the engine gives a draft the target's.
    """
    drafts = set(checkpoint.draft_tensors)
    recurrent = {_layer(name) for name in checkpoint.tensors if _STATES.search(name)}
    sums: dict[tuple[Owner, str], _Sum] = {}
    for tensor in checkpoint.tensors.values():
        kind = _class_of(tensor, recurrent)
        owner: Owner = "draft" if tensor.name in drafts and kind != "towers" else "target"
        if owner == "draft" and kind in ("embedding", "head"):
            continue
        if kind == "head" and shape.tied:
            continue
        _add(sums.setdefault((owner, kind), _Sum()), tensor)
    parts = [
        _part(owner, kind, total, shape, ranks, checkpoint.path.name)
        for (owner, kind), total in sums.items()
    ]
    return sorted(parts, key=lambda part: (part.owner == "draft", -part.size.value))


def whole(checkpoint: Checkpoint) -> bool:
    """Every tensor's size is known: headers are there, and no shard is missing."""
    sizes = all(t.size or prod(t.shape) == 0 for t in checkpoint.tensors.values() if t.dtype)
    return (
        any(tensor.size for tensor in checkpoint.tensors.values())
        and not checkpoint.missing_shards
        and all(tensor.dtype for tensor in checkpoint.tensors.values())
        and sizes
    )


def lacking(checkpoint: Checkpoint, layers: int | None) -> str:
    """What files that are there lack of a model, as while they are being fetched; empty: nothing.

    Args:
        checkpoint: without an index, for that says itself what is missing.
        layers: decoder layers that its config names; None: any number will do.
    """
    wanted: dict[str, int] = {}
    there: Counter[str] = Counter()
    for name in checkpoint.files if INDEX not in checkpoint.files else ():
        found = _SHARD.fullmatch(name)
        if found is not None:
            wanted[found[1]] = max(wanted.get(found[1], 0), int(found[2]))
            there[found[1]] += 1
    for stem, number in wanted.items():
        if there[stem] < number:
            return f"{there[stem]} of {number} files {stem}-*.safetensors are there"
    drafts = set(checkpoint.draft_tensors)
    names = [n for n in checkpoint.tensors if n not in drafts and not _TOWER.search(n)]
    held = len({_layer(name) for name in names} - {""})
    if layers is not None and 0 < held < layers:
        return f"the files that are there hold {held} of {layers} layers"
    return ""


def _layer(name: str) -> str:
    found = _LAYER.search(name)
    return found[0] if found else ""


def _class_of(tensor: Tensor, recurrent: set[str]) -> str:
    name = tensor.name
    if _TOWER.search(name):
        return "towers"
    if _SHARED.search(name):
        return "shared"
    if _EXPERTS.search(name):
        return "experts"
    if _ROUTER.search(name):
        return "router"
    if _HEAD.search(name) and not _ATTENTION.search(name):
        return "head"
    if _EMBEDDING.search(name):
        return "embedding"
    block = _class_of_block(tensor, recurrent)
    if block is not None:
        return block
    return "norms" if _NORM.search(name) else "other"


def _class_of_block(tensor: Tensor, recurrent: set[str]) -> str | None:
    """Class of a tensor of a decoder layer; None outside of attention and MLP."""
    name = tensor.name
    attends = _ATTENTION.search(name) is not None
    if _MIXER.search(name) or (attends and _layer(name) in recurrent):
        return "mixers"
    if _NORM.search(name) and len(tensor.shape) <= 1:
        return "norms"
    if attends:
        if _LATENT.search(name):
            return "latent"
        return "kv" if _KV.search(name) else "attention"
    return "mlp" if _MLP.search(name) else None


def _add(total: _Sum, tensor: Tensor) -> None:
    dtype = _DTYPES.get(tensor.dtype, tensor.dtype.lower())
    total.size += tensor.size
    total.tensors += 1
    total.layers.add(_layer(tensor.name))
    if _SCALE.search(tensor.name):
        return
    # Two 4-bit numbers a byte; of types of other widths a parameter each.
    count = tensor.size * 2 if dtype in _PACKED else prod(tensor.shape)
    total.parameters += count
    total.dtypes[dtype] += tensor.size


def _part(owner: Owner, kind: str, total: _Sum, shape: Shape, ranks: Ranks, name: str) -> Part:
    known = _CLASSES[kind]
    dtypes = sorted(total.dtypes, key=lambda dtype: -total.dtypes[dtype])
    dtype = dtypes[0] if dtypes else "unknown"
    if dtype in _PACKED:
        dtype = shape.stored.experts if kind == "experts" else shape.stored.dense
        dtype = "int4" if dtype in ("bf16", "fp8") else dtype
    divided = known.divided
    kv_heads = min(
        (layers.kv_heads for layers in shape.attention if layers.kv_heads), default=ranks.attention
    )
    split: Split = {"expert": "expert", "replicated": "replicated"}.get(divided, "tensor")  # type: ignore[assignment]
    experts = shape.experts if kind == "experts" else None
    return Part(
        known.name,
        owner,
        total.parameters,
        dtype,
        exact(total.size, "B", f"{total.tensors} tensors, scales included", f"headers of {name}"),
        split,
        known.reads,
        max(1, len(total.layers - {""})),
        experts.count if experts else 0,
        experts.chosen if experts else 0,
        ranks.pieces(divided, kv_heads),
    )
