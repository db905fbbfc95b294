"""A plan as data: what the estimators make and reports show.

All bytes are per GPU unless said otherwise. A part that is not known is no zero: it is named in
`unknown`, and what depends on it is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.plan.figures import Figure, exact

Owner = Literal["target", "draft"]
Split = Literal["tensor", "expert", "replicated"]
"""How ranks share a part: by tensor parallel size, whole experts by expert parallel size, or each
rank has all of it."""
Reading = Literal["all", "experts", "rows", "never"]
"""What one forward pass of decode reads of a part: all of it, the experts its tokens choose, single
rows (an embedding), or nothing (towers, which only prompts pass through)."""


@dataclass(frozen=True, slots=True)
class Part:
    """Weights of one class of tensors, of the whole model."""

    name: str
    """`routed experts`, `shared experts`, `attention`, `dense MLP`, `router`, `LM head`, ..."""
    owner: Owner
    parameters: float
    dtype: str
    """As stored: `bf16`, `fp8`, `mxfp4`, ..."""
    size: Figure
    """Bytes of all of it, scales included, before ranks share it."""
    split: Split
    reads: Reading
    layers: int = 1
    experts: int = 0
    """Routed experts a layer; 0: no experts."""
    chosen: int = 0
    """Routed experts that one token activates."""
    pieces: int = 1
    """Into how many pieces the ranks of this deployment divide it: a GPU of a pipeline stage holds
    `size / pieces` of what the stage has."""


@dataclass(frozen=True, slots=True)
class Cache:
    """What layers of one kind keep of the sequences, on one GPU."""

    kind: Literal["full", "sliding", "mla", "linear", "mamba"]
    owner: Owner
    layers: int
    per_token: Figure
    """Bytes a token, all layers of this kind together; 0 where they keep a state."""
    per_request: Figure
    """Bytes of a request's state, whatever its length; 0 where they keep tokens."""
    window: int | None = None
    """Tokens of a sequence that are kept; None: all."""
    ring: Figure | None = None
    """Bytes of the speculative ring beside a state, a slot or a request; None: there is none."""
    ring_a_request: bool = False
    """The ring is of a running request; else each state slot has one."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The model of a deployment in numbers."""

    parts: tuple[Part, ...]
    caches: tuple[Cache, ...]
    weights: Figure | None
    """Bytes of the target on one GPU; None: not known."""
    draft: Figure | None
    """Bytes of the draft on one GPU, beyond what it shares; None: no draft, or not known."""
    unknown: tuple[str, ...] = ()
    """What is not known, and what therefore is missing."""
    layers: int | None = None
    """Decoder layers of the target; this and the next three of the checkpoint, else of the entry;
    None: neither says."""
    draft_layers: int | None = None
    vocabulary: int | None = None
    context: int | None = None
    """Tokens that the engine allows a sequence where no argument says how many."""


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a GPU's memory."""

    name: str
    kind: Literal["weights", "draft", "kv", "state", "graphs", "workspace", "reserve", "free"]
    size: Figure


@dataclass(frozen=True, slots=True)
class Memory:
    """What one GPU's memory is used for."""

    total: Figure
    """Bytes that the engine sees."""
    shares: tuple[Share, ...]
    """In the order in which they are taken; together they are `total`, unless it does not fit."""
    fits: bool | None
    """None: it cannot be told."""
    fraction: Figure | None
    """--mem-fraction-static that works, least to most; None: none does, or it is not known."""
    asked_fraction: float | None
    """What the profile sets; None: the engine chooses."""
    tokens: Figure | None
    """Token capacity of one replica's KV cache."""
    requests: Figure | None
    """Sequences of the profile's context that fit at once, limits of the profile included."""
    context: Figure | None
    """Longest single sequence that fits."""
    breaks_first: str
    """What fails first when more is asked for, and at which value."""
    remarks: tuple[str, ...] = ()
    """Facts with values for the reader: what does not fit and what would."""


@dataclass(frozen=True, slots=True)
class ReadOf:
    """Bytes that one pass reads, or reads and writes, of one class."""

    name: str
    size: Figure
    dtype: str = ""
    """As stored; empty: a cache, whose entry has it."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass of decode."""

    name: Literal["plain decode", "draft", "verify"]
    tokens: int
    """Tokens a sequence in it: 1, or the width of the verify step."""
    times: int
    """How often it runs in one step."""
    reads: tuple[ReadOf, ...]
    time: Figure
    """Seconds of one run."""


NO_ROUND = exact(0.0, "s", "no measured round of speculation", "")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a step takes beside its bytes over the bandwidth, and the measurements it rests on."""

    share: Figure
    """Part of the memory bandwidth that reading reaches."""
    layer: Figure
    """Seconds a decoder layer that no byte explains: launches, synchronisation, the host."""
    host: str
    """The host it was measured on; empty: other hosts of this kind."""
    rests_on: tuple[str, ...] = ()
    """The measurements; empty: none of this hardware is known, only habit."""
    tensors: tuple[int, ...] = ()
    """Tensor parallel sizes that they were taken at."""
    round: Figure = NO_ROUND
    """Seconds a step that speculation takes beside its passes: drafting, accepting, the host."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one mechanism of the profile changes in a step, all others kept."""

    mechanism: str
    without: Figure
    """Seconds a token without it; a step where the acceptance length is not known, and a plain one
    where the draft is not."""
    with_it: Figure


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """Speed-up by speculation at one acceptance length."""

    accepted: float
    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Step:
    """The decode step of a deployment at one batch size."""

    batch: int
    context: int
    """Tokens of context that the caches are read at."""
    passes: tuple[Pass, ...]
    efficiency: Efficiency
    plain: Figure
    """Seconds a token without speculation, the other mechanisms kept."""
    step: Figure | None
    """Seconds a step as the profile has it; None: the passes of its draft are not known."""
    accepted: Figure | None
    """Tokens a step; None: no speculation, or nothing says."""
    per_token: Figure | None
    """Seconds a token of one request (TPOT); None where acceptance is not known."""
    throughput: Figure | None
    """tok/s over the batch; None where acceptance is not known."""
    ratio: Figure | None
    """(draft + verify) / plain: the acceptance length at which speculation breaks even."""
    verify_ratio: Figure | None = None
    """verify / plain, without the draft's passes."""
    curve: tuple[SpeedUp, ...] = ()
    changes: tuple[Change, ...] = ()
    bound: str = ""
    """What bounds the step: bytes of which class, launches, synchronisation."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is planned of one deployment, before it runs."""

    name: str
    geometry: Geometry
    memory: Memory | None
    step: Step | None
    unknown: tuple[str, ...]
    """What is missing and why, across all of it."""
