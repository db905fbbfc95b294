"""The model of a deployment in numbers: parts of its weights, and what its layers keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from configurator.checkpoint import Checkpoint
from configurator.content import Library
from configurator.deployment import Deployment
from configurator.launch import checkpoint_at
from configurator.plan import settings
from configurator.plan.caches import Kept, caches_of, nextn_cache
from configurator.plan.config_shape import shape_of_config
from configurator.plan.figures import Figure, between, exact
from configurator.plan.headers import lacking, parts_of_headers, whole
from configurator.plan.model import Cache, Geometry, Owner, Part
from configurator.plan.shape import Shape, as_served, shape_of_entry
from configurator.plan.sharing import Ranks, ranks_of
from configurator.plan.weights import Count, counted, counted_nextn, part_of, size_of
from configurator.schema.content import Model

_CLOSE = 0.02
"""Share by which counted parts and a published total may differ before it is said."""
_WHOLE = ("not itemized", "all weights")
"""Classes that stand for whatever is not counted."""
_ONLINE = ("attention", "keys and values", "dense MLP", "shared experts", "routed experts",
           "linear attention", "mamba mixers", "latent projections")  # fmt: skip
"""Classes that the engine quantizes while loading."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One model: its shape, and its files where they are on this machine."""

    shape: Shape
    checkpoint: Checkpoint | None


def geometry_of(deployment: Deployment, library: Library) -> Geometry:
    """The numbers of a deployment's model: headers of the checkpoint where its path is a
    directory of this machine, else what its entry says.

    Args:
        deployment: what is to run.
        library: the content, for a draft that only an argument names.

    Returns:
        Parts of the whole model, caches and weights of one GPU; what no source says is in
        `unknown` and nowhere else.
    """
    ranks = ranks_of(deployment)
    target = _target(deployment)
    unknown: list[str] = []
    kept, problem = settings.kept_by(deployment, target.checkpoint)
    if kept is None:
        unknown.append(problem)
    parts, missing = _target_parts(deployment, target, ranks)
    unknown += [*_lacks(target, target.shape.layers), *missing, *_towers(target)]
    caches = [
        _pooled(deployment, target.shape, cache, unknown)
        for cache in _caches(target.shape, ranks, kept, unknown)
    ]
    separate = _separate(deployment, library)
    draft_parts, draft_caches, draft = _draft(deployment, separate, target, ranks, kept, unknown)
    # A sum without one of its classes is no size of the weights.
    whole_sum = not missing or any(part.name in _WHOLE for part in parts)
    weights = _on_gpu("weights", parts, target.shape, ranks) if whole_sum else None
    shape = target.shape
    return Geometry(
        (*parts, *draft_parts), (*caches, *draft_caches), weights, draft, tuple(unknown),
        layers=shape.layers, draft_layers=separate.shape.layers if separate else shape.nextn,
        vocabulary=shape.vocabulary, context=shape.context,
    )  # fmt: skip


def _target(deployment: Deployment) -> _Source:
    profile = deployment.profile.model
    checkpoint = checkpoint_at(profile.path or _path(deployment, "model-path"))
    if checkpoint is None:
        return _Source(shape_of_entry(deployment.model), None)
    checkpoint = settings.overridden(deployment, checkpoint)
    return _Source(shape_of_config(checkpoint), checkpoint)


def _path(deployment: Deployment, name: str) -> str | None:
    return settings.text(deployment, name)


def _target_parts(
    deployment: Deployment, target: _Source, ranks: Ranks
) -> tuple[list[Part], list[str]]:
    online = settings.online_weights(deployment, target.checkpoint)
    head, mechanism = settings.served_head(deployment)
    parts, missing = _stored(target, ranks, online, target.shape.layers)
    parts = [_headed(part, head, mechanism) for part in parts]
    return parts, missing


def _lacks(source: _Source, layers: int | None) -> list[str]:
    """What the files of a checkpoint lack, which is why its config is counted instead."""
    if source.checkpoint is None or not whole(source.checkpoint):
        return []
    lacks = lacking(source.checkpoint, layers)
    return [f"weights from headers: {lacks}"] if lacks else []


def _towers(target: _Source) -> list[str]:
    """Towers that the config of a checkpoint without weights describes."""
    if target.checkpoint is None or target.shape.total is not None:
        return []
    return [
        f"towers: {target.shape.source} has a {key}, and only headers of the weights say its size"
        for key in target.checkpoint.towers
    ]


def _stored(
    source: _Source, ranks: Ranks, online: str | None, layers: int | None
) -> tuple[list[Part], list[str]]:
    """Parts of one model as the engine loads them, its draft layers left out.

    Args:
        source: the model.
        ranks: that share it.
        online: what unquantized weights are quantized to; None: nothing.
        layers: decoder layers that its files must hold; None: as many as they do.
    """
    shape, checkpoint = source.shape, source.checkpoint
    if checkpoint is not None and whole(checkpoint):
        lacks = lacking(checkpoint, layers)
        if lacks:
            return _counted(replace(shape, total=None), ranks, online)
        parts = [p for p in parts_of_headers(checkpoint, shape, ranks) if p.owner == "target"]
        parts = [_quantized(part, online) for part in parts] if online else parts
        return [*parts, *_absorbed(shape, ranks, "target")], []
    return _counted(shape, ranks, online)


def _counted(shape: Shape, ranks: Ranks, online: str | None) -> tuple[list[Part], list[str]]:
    """Parts as the shape has them, and what is missing."""
    served = as_served(shape, weights=online, lm_head=None)
    counts, missing = counted(served)
    parts = [part_of(count, "target", ranks, shape.source) for count in counts]
    if shape.total is not None and online is None:
        parts, missing = _completed(shape, parts, missing, ranks)
    elif shape.parameters is not None and not parts:
        text = f"{shape.parameters / 1e9:g}B"
        whole_part = Count(
            "all weights", int(shape.parameters), served.stored.dense, "tensor", text
        )
        parts = [part_of(whole_part, "target", ranks, shape.source)]
        missing = [f"classes of weights: {problem}" for problem in missing[:1]]
    return [*parts, *_absorbed(shape, ranks, "target")], missing


def _completed(
    shape: Shape, parts: list[Part], missing: list[str], ranks: Ranks
) -> tuple[list[Part], list[str]]:
    """The counted parts, and what a published total has beyond them and the draft layers."""
    total = shape.total or 0
    layers, _ = counted_nextn(shape)
    drafts = sum(part_of(count, "draft", ranks, "").size.value for count in layers)
    listed = sum(part.size.value for part in parts) + drafts
    rest = total - listed
    if missing or rest > total * _CLOSE:
        text = f"{total / 1e9:g} GB in all less {listed / 1e9:.1f} GB of the classes above"
        size = exact(max(rest, 0), "B", text, shape.source)
        other = Part("not itemized", "target", 0, "unknown", size, "tensor", "all",
                     pieces=ranks.tensor)  # fmt: skip
        return [*parts, other], [f"classes of weights: {problem}" for problem in missing]
    if -rest > total * _CLOSE:
        return parts, [
            f"weights: the classes make {listed / 1e9:.1f} GB, {shape.source} says "
            f"{total / 1e9:g} GB"
        ]
    return parts, missing


def _absorbed(shape: Shape, ranks: Ranks, owner: Owner) -> list[Part]:
    """Copies that the engine makes of the latent attention's up-projection, in BF16, to multiply
    queries and outputs with. Decode reads them instead of the stored one, so no read is added.

    Source: SGLang 0.5.23, models/deepseek_common (w_kc, w_vc).
    """
    latent, count = shape.latent, shape.kept("mla")
    if latent is None or latent.nope_dim is None or shape.heads is None or not count:
        return []
    layers = next(entry for entry in shape.attention if entry.kind == "mla")
    value = layers.v_head_dim or latent.nope_dim
    size = latent.kv_rank * shape.heads * (latent.nope_dim + value) * count
    text = f"{latent.kv_rank} x {shape.heads} x ({latent.nope_dim} + {value}) x {count} layers"
    absorbed = Count("absorbed projections", size, "bf16", "attention", text, "never", count)
    return [part_of(absorbed, owner, ranks, shape.source)]


def _headed(part: Part, head: str | None, mechanism: str) -> Part:
    """The LM head as a mechanism leaves it."""
    if part.name != "LM head" or head is None or part.dtype == head or not part.parameters:
        return part
    size = exact(
        part.parameters + 4, "B",
        f"{part.parameters:,.0f} parameters x 1 B (fp8) and one scale, quantized while loading",
        f"mechanism {mechanism}",
    )  # fmt: skip
    return replace(part, dtype=head, size=size)


def _quantized(part: Part, dtype: str) -> Part:
    """A part as `--quantization` leaves it: BF16 matrices become FP8 with a scale a row."""
    if part.name not in _ONLINE or part.dtype not in ("bf16", "fp16"):
        return part
    size = size_of(part.parameters, dtype, "quantized while loading", part.size.source)
    return replace(part, dtype=dtype, size=size)


def _caches(shape: Shape, ranks: Ranks, kept: Kept | None, unknown: list[str]) -> list[Cache]:
    if kept is None:
        return []
    if shape.compressed:
        unknown.append(f"KV cache: {shape.architecture} keeps compressed vectors; no formula here")
        return []
    found = caches_of(shape, ranks, kept)
    done = {cache.kind for cache in found}
    for layers in shape.attention:
        if layers.kind not in done:
            unknown.append(f"cache of {layers.count} {layers.kind} layers: {shape.source} does "
                           "not say their shape")  # fmt: skip
    if not shape.attention:
        unknown.append(f"KV cache: {shape.source} does not say layers, heads and widths")
    return found


def _pooled(deployment: Deployment, shape: Shape, cache: Cache, unknown: list[str]) -> Cache:
    """Sliding layers as the engine keeps them: in a pool of their own, or every token."""
    if cache.kind != "sliding":
        return cache
    pools = deployment.engine.sliding_pools
    if settings.on(deployment, "disable-hybrid-swa-memory"):
        return replace(cache, window=None)
    if pools is None:
        unknown.append(
            f"whether {deployment.engine.name} has a smaller pool for the sliding layers of "
            f"{shape.architecture}: it is taken to have one; else they keep every token"
        )
        return cache
    return cache if shape.architecture in pools else replace(cache, window=None)


def _draft(
    deployment: Deployment,
    separate: _Source | None,
    target: _Source,
    ranks: Ranks,
    kept: Kept | None,
    unknown: list[str],
) -> tuple[list[Part], list[Cache], Figure | None]:
    """Parts and caches of the draft, and its bytes on one GPU beyond what it shares."""
    if settings.algorithm_of(deployment) in (None, "NGRAM"):
        return [], [], None
    if separate is None:
        parts, missing = _nextn(target, ranks)
        caches = nextn_cache(target.shape, ranks, kept) if kept else []
        shape = target.shape
    else:
        parts, missing = _stored(separate, ranks, None, None)
        parts = [replace(part, owner="draft") for part in parts if not _shared(part, separate)]
        shape = separate.shape
        caches = _draft_caches(shape, ranks, kept)
        if not caches:
            missing.append(f"KV cache: {shape.source} does not say layers, heads and widths")
    lacks = _lacks(separate, None) if separate is not None else []
    unknown += [f"draft: {problem}" for problem in (*lacks, *missing)]
    if not parts or (missing and separate is not None and not shape.total and not shape.parameters):
        return parts, caches, None
    return parts, caches, _on_gpu("draft", parts, shape, replace(ranks, pipeline=1))


def _draft_caches(shape: Shape, ranks: Ranks, kept: Kept | None) -> list[Cache]:
    """A draft's pool holds every token, also of its sliding layers."""
    if kept is None:
        return []
    layers = tuple(
        replace(entry, kind="full", window=None) if entry.kind == "sliding" else entry
        for entry in shape.attention
    )
    return caches_of(replace(shape, attention=layers), replace(ranks, pipeline=1), kept, "draft")


def _shared(part: Part, draft: _Source) -> bool:
    """Embedding and head of a draft that takes the target's."""
    return draft.shape.from_target and part.name in ("embedding", "LM head")


def _separate(deployment: Deployment, library: Library) -> _Source | None:
    """The draft's own checkpoint or entry; None: it is in the target's checkpoint."""
    mechanism = settings.drafting(deployment)
    path = _path(deployment, "speculative-draft-model-path")
    if mechanism is not None:
        path = mechanism.draft_path or path
        if not mechanism.separate_draft:
            return None
    profile = deployment.profile.model
    if path is None or path in (profile.path, _path(deployment, "model-path")):
        return None
    checkpoint = checkpoint_at(path)
    if checkpoint is not None:
        shape = shape_of_config(checkpoint)
        takes = checkpoint.head is None and bool(checkpoint.tensors)
        return _Source(replace(shape, from_target=takes, tied=False), checkpoint)
    entry = mechanism.draft if mechanism is not None else _named(path, library)
    if entry is None:
        return _Source(Shape(f"draft {path}", "unknown"), None)
    return _Source(shape_of_entry(entry), None)


def _named(path: str, library: Library) -> Model | None:
    """The entry of the repository that an argument names."""
    entries = (library.model(name) for name in library.names("model"))
    return next((entry for entry in entries if entry.repository == path), None)


def _nextn(target: _Source, ranks: Ranks) -> tuple[list[Part], list[str]]:
    """The prediction layers of the target's own checkpoint."""
    shape, checkpoint = target.shape, target.checkpoint
    if checkpoint is not None and whole(checkpoint) and not lacking(checkpoint, shape.layers):
        parts = [p for p in parts_of_headers(checkpoint, shape, ranks) if p.owner == "draft"]
        if not parts:
            return [], [f"{shape.source} promises prediction layers, and no tensor is one"]
        return parts, []
    if not shape.nextn:
        return [], [f"{shape.source} has no prediction layers"]
    counts, missing = counted_nextn(shape)
    return [part_of(count, "draft", ranks, shape.source) for count in counts], missing


def _on_gpu(name: str, parts: list[Part], shape: Shape, ranks: Ranks) -> Figure:
    """Bytes of parts on the GPU that holds most of them."""
    low = value = high = 0.0
    terms = []
    for part in parts:
        share = _stage(part, shape, ranks) / part.pieces
        # Most towers are divided and some are whole on every rank; which, no header says.
        low += part.size.low * share / (ranks.tensor if part.name == "towers" else 1)
        value += part.size.value * share
        high += part.size.high * share
        if part.size.value * share >= 5e6:
            over = f" / {part.pieces}" if part.pieces > 1 else ""
            terms.append(f"{part.name} {part.size.value / 1e9:.2f} GB{over}")
    text = " + ".join(terms) or f"{value:,.0f} B of {len(parts)} classes"
    if ranks.pipeline > 1:
        text += f"; the fullest of {ranks.pipeline} stages"
    sources = sorted({part.size.source for part in parts})
    return between(low, value, high, "B", f"{name}: {text}", "; ".join(sources) or shape.source)


def _stage(part: Part, shape: Shape, ranks: Ranks) -> float:
    """Share of a part on the fullest pipeline stage: the first has the embedding too, or the last
    the head, so one of them is counted with the largest share of layers."""
    if ranks.pipeline == 1 or part.name in ("embedding", "LM head", "towers"):
        return 1.0
    layers = shape.layers or ranks.pipeline
    return ceil(layers / ranks.pipeline) / layers
