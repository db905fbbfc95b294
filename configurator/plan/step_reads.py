"""Bytes that one forward pass reads on one GPU, by class of tensors and dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from configurator.plan.figures import Figure, between
from configurator.plan.model import Cache, Geometry, Owner, Part, ReadOf
from configurator.plan.sharing import Ranks
from configurator.plan.step_passes import Forward

LM_HEAD = "LM head"
"""The name of the part that turns hidden states into logits."""
EMBEDDING = "embedding"
"""The name of the part that turns tokens into hidden states."""
_LEAST = 1e-4
"""Share of a pass below which a class is not listed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a step works on."""

    batch: int
    """Sequences of one replica."""
    context: int
    """Tokens of each in the cache."""
    ranks: Ranks
    vocabulary: int | None
    """Rows of the embedding; None: not known, and its few rows are not counted."""
    experts: float | None = None
    """Distinct routed experts a layer that the widest pass was seen to read; None: uniform."""

    @property
    def sequences(self) -> int:
        """Sequences whose caches one GPU reads: data parallel attention divides them."""
        return math.ceil(self.batch / self.ranks.data)


def distinct_experts(experts: int, chosen: int, tokens: float) -> float:
    """Routed experts that `tokens` tokens read together, each choosing `chosen` at random.

    Neighbouring tokens choose alike, so that a measured count is smaller.
    """
    missed: float = (1 - min(chosen, experts) / experts) ** tokens
    return experts * (1 - missed)


def reads_of(geometry: Geometry, forward: Forward, load: Load) -> tuple[ReadOf, ...]:
    """What one run of `forward` reads on one GPU, largest first.

    Stages of a pipeline run one after another: what all of them read counts, as one GPU's.

    A draft without an LM head of its own reads the target's, in every pass.
    """
    reads = [_part(part, forward, load) for part in _parts(geometry, forward.owner)]
    reads += [_cache(c, forward, load) for c in geometry.caches if c.owner == forward.owner]
    least = _LEAST * sum(read.size.value for read in reads)
    return tuple(sorted((r for r in reads if r.size.high > least), key=lambda r: -r.size.value))


def _parts(geometry: Geometry, owner: Owner) -> list[Part]:
    """What a pass of `owner` reads of; logits are computed from a tied embedding if need be."""
    parts = [p for p in geometry.parts if p.owner == owner and p.reads != "never"]
    parts = [part for part in parts if part.name != LM_HEAD or part.size.value > 0]
    if any(part.name == LM_HEAD for part in parts):
        return parts
    target = {part.name: part for part in geometry.parts if part.owner == "target"}
    head, embedding = target.get(LM_HEAD), target.get(EMBEDDING)
    if head is not None and head.size.value > 0:
        return [*parts, head]
    if embedding is not None:
        return [*parts, replace(embedding, name=LM_HEAD, reads="all")]
    return parts


def operations_of(geometry: Geometry, forward: Forward, load: Load) -> dict[str, float]:
    """Operations of one run of `forward` on one GPU by dtype of the weights: two a parameter
    and token.

    What a group of data parallel attention has of its own works on the group's tokens.
    """
    ranks = load.ranks
    found: dict[str, float] = {}
    for part in _parts(geometry, forward.owner):
        if part.reads == "rows":
            continue
        used = part.chosen / part.experts if part.reads == "experts" and part.experts else 1.0
        own = part.pieces * ranks.data <= ranks.tensor
        tokens = (load.sequences if own else load.batch) * forward.tokens
        count = 2 * part.parameters * used * tokens / part.pieces
        found[part.dtype] = found.get(part.dtype, 0.0) + count
    return found


def _part(part: Part, forward: Forward, load: Load) -> ReadOf:
    size, ranks = part.size, part.pieces
    tokens = load.batch * forward.tokens
    shared = f" / {ranks} GPUs" if ranks > 1 else ""
    if part.reads == "experts" and part.experts and part.chosen:
        return _experts(part, tokens, load)
    if part.reads == "rows":
        rows = min(1.0, tokens / load.vocabulary) if load.vocabulary else 0.0
        figure = _scaled(size, rows / ranks, f"{tokens} rows of {_gb(size.value)}{shared}")
    else:
        figure = _scaled(size, 1 / ranks, f"{_gb(size.value)}{shared}")
    return ReadOf(part.name, figure, part.dtype)


def _experts(part: Part, tokens: int, load: Load) -> ReadOf:
    ranks, groups = part.pieces, load.ranks.expert
    uniform = distinct_experts(part.experts, part.chosen, tokens)
    count = uniform if load.experts is None else min(uniform, load.experts)
    how = "uniform routing" if load.experts is None else f"{load.experts:g} measured"
    # Whole experts on few GPUs are not shared evenly: the fullest of them is what a step waits for.
    extra = math.sqrt(2 * count / groups * math.log(groups)) * groups if groups > 1 else 0.0
    most = min(count + extra, part.experts, count * groups)
    one = part.size.value / part.experts
    formula = (
        f"{count:.1f} of {part.experts} experts a layer ({how}, {tokens} tokens x {part.chosen}) x "
        f"{part.layers} layers x {one / part.layers / 1e6:.3f} MB"
        + (f" / {ranks} GPUs" if ranks > 1 else "")
    )
    scale = one / ranks
    figure = between(count * scale, count * scale, most * scale, "B", formula, part.size.source)
    return ReadOf(part.name, figure, part.dtype)


def _cache(cache: Cache, forward: Forward, load: Load) -> ReadOf:
    sequences = load.sequences
    if cache.per_request.value > 0:
        return _state(cache, forward, sequences)
    tokens = min(load.context, cache.window) if cache.window else load.context
    formula = f"{sequences} x {tokens:,} tokens x {cache.per_token.value:,.0f} B"
    return ReadOf(f"{cache.kind} KV cache", _scaled(cache.per_token, sequences * tokens, formula))


def _state(cache: Cache, forward: Forward, sequences: int) -> ReadOf:
    """A state is read and written by every pass.

    A verify pass keeps one for each of its tokens until it is known which are accepted: from one
    writing to one a token and one of the accepted. With a replay ring it keeps their inputs.
    """
    one, width = cache.per_request, forward.tokens
    least, likely, most = (2, 2, 2) if width == 1 else (2, 1 + width, 3 + width)
    if cache.ring is not None:
        least, likely, most = (2, 2, 3)
    each = f"{sequences} x {_gb(one.value)}"
    return ReadOf(
        f"{cache.kind} state",
        between(
            one.low * sequences * least, one.value * sequences * likely,
            one.high * sequences * most, "B",
            f"{each} read and written, {likely} times in all"
            + (f" ({least} to {most})" if least != most else ""),
            one.source,
        ),
    )  # fmt: skip


def _scaled(figure: Figure, by: float, formula: str) -> Figure:
    return between(
        figure.low * by, figure.value * by, figure.high * by, "B", formula, figure.source
    )


def _gb(size: float) -> str:
    return f"{size / 1e9:.3f} GB"
