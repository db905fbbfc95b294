"""What the memory of one GPU is used for, and what fits in it, as the engine computes it."""

from __future__ import annotations

from math import ceil

from configurator.deployment import Deployment
from configurator.plan import settings
from configurator.plan.engine_memory import (
    GIB,
    Cells,
    States,
    Steps,
    cells_of,
    default_fraction,
    graphs_of,
    slots_a_request,
    states_of,
    steps_of,
    tokens_in,
    workspace_of,
)
from configurator.plan.figures import Figure, between, exact
from configurator.plan.limits import Bound, Room, context_of, needed, remarks_of, requests_of
from configurator.plan.model import Geometry, Memory, Share
from configurator.plan.sharing import groups_of

_ENGINE = "SGLang 0.5.23, arg_groups/memory_hook.py"
_POOLS = "SGLang 0.5.23, mem_cache/kv_cache_configurator.py"
_CONTEXT = (0.3 * GIB, 0.9 * GIB, 2.0 * GIB)
"""Taken by CUDA and its libraries before weights load; one rank on an H200 takes 1.3 GiB of what
nvidia-smi shows."""
_LOADING = (0.0, 0.1 * GIB, 0.5 * GIB)
"""Beyond the weights: rotary tables, workspaces, fragments. Public starts show 0.1 to 0.3 GiB."""
_CAPTURES = (0.1, 5.5)
"""What captures took on an H200, of what the engine sets aside for them: prefill graphs keep
activations that it counts apart."""
_MEDIA = (0.1 * GIB, 0.1 * GIB, 1.1 * GIB)
"""Kept of the pools for a multimodal model: a cache of embeddings, and a pool for features where
they go between processes on the GPU, as the engine chooses over NVLink between hosts
(SGLANG_VLM_CACHE_SIZE_MB, SGLANG_MM_FEATURE_CACHE_MB)."""
_UNIFIED = 0.03
"""Share of usable unified memory that other processes may hold at the launch."""


def memory_of(deployment: Deployment, geometry: Geometry) -> Memory | None:
    """The memory of one GPU of a deployment; None where its size or the weights are not known.

    Ranges come of what is not known before a start: what CUDA and loading take, states and tokens
    that share what is left. Sources are in each figure.
    """
    before = _before(deployment)
    if before is None or geometry.weights is None:
        return None
    total, free, reserve = before
    steps = steps_of(deployment, geometry, total.value)
    fraction, asked, why = _fraction(deployment, steps, total.value)
    loaded = _loaded(deployment, geometry)
    cells = cells_of(deployment, geometry, steps)
    low = _bound(deployment, geometry, cells, fraction, free.low, loaded.high, tracked=True)
    mid = _bound(deployment, geometry, cells, fraction, free.value, loaded.value, tracked=False)
    high = _bound(deployment, geometry, cells, fraction, free.high, loaded.low, tracked=False)
    tokens = _tokens(deployment, cells, (low, mid, high), free, loaded, fraction)
    room = Room(deployment, geometry, cells, steps, fraction, free, loaded, (low, mid, high))
    context = context_of(room, tokens)
    requests = requests_of(room, tokens)
    working = _working(room)
    fits = _fits(room, working)
    shares = _shares(room, total, reserve)
    breaks, remarks = remarks_of(room, tokens, requests, context, working, why)
    return Memory(total, shares, fits, working, asked, tokens, requests, context, breaks, remarks)


def _before(deployment: Deployment) -> tuple[Figure, Figure, Figure | None] | None:
    """What the engine sees, what is free before it loads, and what others take of it."""
    hardware = deployment.hardware
    source = f"hardware entry {hardware.name}"
    if hardware.usable_gib is not None:
        size = hardware.usable_gib * GIB
        total = exact(size, "B", f"{hardware.usable_gib:g} GiB usable", source)
        if not hardware.unified_memory:
            return total, total, None
        taken = between(0, size * _UNIFIED / 2, size * _UNIFIED, "B",
                        f"0 to {_UNIFIED:.0%} held by other processes", "estimate")  # fmt: skip
    elif hardware.memory_gb is not None:
        size = hardware.memory_gb * 1e9
        total = exact(size, "B", f"{hardware.memory_gb:g} GB", source)
        low, value, high = _CONTEXT
        taken = between(low, value, high, "B", "CUDA context and libraries: 0.3 to 2 GiB",
                        "estimate; 0.13 GiB of NCCL to 1.3 GiB in all were seen")  # fmt: skip
    else:
        return None
    free = between(
        size - taken.high, size - taken.value, size - taken.low, "B",
        f"{size / GIB:.1f} GiB less {taken.value / GIB:.1f} GiB", source,
    )  # fmt: skip
    return total, free, taken


def _fraction(
    deployment: Deployment, steps: Steps, total: float
) -> tuple[float, float | None, str]:
    """The fraction that holds, what is asked for, and why it is the engine's own choice."""
    asked = settings.number(deployment, "mem-fraction-static")
    if asked is not None and 0 < asked < 1:
        return asked, asked, ""
    fraction, formula = default_fraction(deployment, steps, total)
    return fraction, None, f"the engine's own choice of {fraction:g}: {formula}"


def _loaded(deployment: Deployment, geometry: Geometry) -> Figure:
    """What target and draft take when the pools are sized."""
    weights, draft = geometry.weights, geometry.draft
    assert weights is not None
    parts = [weights, *([draft] if draft else [])]
    low, value, high = (sum(getattr(p, k) for p in parts) for k in ("low", "value", "high"))
    text = " + ".join(f"{part.value / 1e9:.2f} GB" for part in parts)
    if any(part.name == "towers" for part in geometry.parts):
        low, value, high = low + _MEDIA[0], value + _MEDIA[1], high + _MEDIA[2]
        text += f" + {_MEDIA[1] / GIB:.1f} GiB that the engine keeps for images"
    own = _until_shared(deployment, geometry)
    if own:
        low, value, high = low + own, value + own, high + own
        text += (
            f" + {own / 1e9:.2f} GB of the draft's embedding and head, until it has the target's"
        )
    return between(
        low + _LOADING[0], value + _LOADING[1], high + _LOADING[2], "B",
        f"{text} + {_LOADING[1] / GIB:.1f} GiB (0 to {_LOADING[2] / GIB:.1f}) beyond weights",
        weights.source,
    )  # fmt: skip


def _until_shared(deployment: Deployment, geometry: Geometry) -> float:
    """Bytes of the embedding and head that a draft of EAGLE's kind makes for itself, and gives up
    for the target's only after the pools have been sized.

    Source: SGLang 0.5.23, speculative/eagle_worker_v2.py (alloc_memory_pool, then init_lm_head);
    seen on an H200 too.
    """
    drafts = {part.name for part in geometry.parts if part.owner == "draft"}
    if not drafts or "embedding" in drafts:
        return 0.0
    if not settings.is_eagle(settings.algorithm_of(deployment)):
        return 0.0
    shared = [part for part in geometry.parts if part.owner == "target"]
    return sum(
        2 * part.parameters / part.pieces
        for part in shared
        if part.name in ("embedding", "LM head")
    )


def _bound(
    deployment: Deployment,
    geometry: Geometry,
    cells: Cells | None,
    fraction: float,
    free: float,
    loaded: float,
    *,
    tracked: bool,
) -> Bound:
    """The pools of one case: so much free, so much loaded."""
    rest = free * fraction - loaded
    states = states_of(deployment, geometry, max(rest, 0), tracked)
    if states is not None:
        rest -= states.pool + states.verify
    page = settings.natural(deployment, "page-size") or 1
    tokens = tokens_in(rest, cells, page) if cells is not None else 0
    limit = settings.natural(deployment, "max-total-tokens")
    if limit is not None:
        tokens = min(tokens, limit // page * page)
    return Bound(rest, states, tokens, slots_a_request(deployment, tracked))


def _tokens(
    deployment: Deployment,
    cells: Cells | None,
    bounds: tuple[Bound, Bound, Bound],
    free: Figure,
    loaded: Figure,
    fraction: float,
) -> Figure | None:
    """Token capacity of a replica."""
    if cells is None:
        return None
    low, mid, high = bounds
    groups = groups_of(deployment)
    states = mid.states.pool + mid.states.verify if mid.states else 0
    text = f"({free.value / 1e9:.1f} GB free x {fraction:g} - {loaded.value / 1e9:.2f} GB loaded"
    if states:
        text += f" - {states / 1e9:.2f} GB of states"
    if cells.fixed:
        text += f" - {cells.fixed:,} sliding tokens x {cells.sliding:,.0f} B"
    text += f") / {cells.token:,.0f} B a token"
    limit = settings.natural(deployment, "max-total-tokens")
    if limit is not None and mid.tokens >= limit - 1:
        text += f"; limited by --max-total-tokens {limit:,}"
    if groups > 1:
        text += f", in each of {groups} data parallel groups"
    return between(
        low.tokens * groups, max(low.tokens, mid.tokens) * groups,
        max(low.tokens, mid.tokens, high.tokens) * groups, "tokens", text, _POOLS,
    )  # fmt: skip


def _working(room: Room) -> Figure | None:
    """--mem-fraction-static that works: least to hold weights, states and one request of the
    profile's context; most to leave what graphs and activations need."""
    graphs, text = graphs_of(room.steps)
    workspace, other = workspace_of(room.deployment, room.steps)
    need = needed(room)
    least = (room.loaded.value + need) / room.free.value
    most = 1 - (graphs + workspace) / room.free.value
    least, most = ceil(least * 1000) / 1000, int(most * 1000) / 1000
    if least > most or least >= 1:
        return None
    value = min(max(room.fraction, least), most)
    formula = (
        f"least ({room.loaded.value / 1e9:.2f} GB loaded + {need / 1e9:.2f} GB of states and one "
        f"request) / {room.free.value / 1e9:.1f} GB; most 1 - ({other} + {text}) / "
        f"{room.free.value / 1e9:.1f} GB"
    )
    return between(least, value, most, "", formula, f"{_POOLS}; {_ENGINE}")


def _fits(room: Room, working: Figure | None) -> bool | None:
    """It starts, and one request of the profile's context fits; None: it cannot be told."""
    if room.cells is None:
        starts = [bound.rest > 0 for bound in room.bounds]
        return False if not any(starts) else None
    need = room.request or 1
    fitting = [bound.tokens >= need for bound in room.bounds]
    if not any(fitting):
        return False
    if fitting[1]:
        return True if fitting[0] or working is not None else None
    return None


def _shares(room: Room, total: Figure, reserve: Figure | None) -> tuple[Share, ...]:
    """The parts of the memory in the order in which they are taken."""
    geometry, mid = room.geometry, room.bounds[1]
    weights = geometry.weights
    assert weights is not None
    shares = [Share("weights", "weights", weights)]
    if geometry.draft is not None:
        shares.append(Share("draft", "draft", geometry.draft))
    if mid.states is not None:
        shares.append(Share("states", "state", _state(mid.states)))
    if room.cells is not None:
        shares.append(Share("KV cache", "kv", _pool(room, room.cells)))
    graphs, text = graphs_of(room.steps)
    if graphs:
        least, most = _CAPTURES
        size = between(graphs * least, graphs, graphs * most, "B", text,
                       f"{_ENGINE}; range: docs/measurements/memory-plans.md")  # fmt: skip
        shares.append(Share("CUDA graphs", "graphs", size))
    workspace, text = workspace_of(room.deployment, room.steps)
    low, value, high = _LOADING
    size = between(
        workspace * 0.2 + low, workspace + value, workspace + high, "B",
        f"{text} + {value / GIB:.1f} GiB beyond weights", _ENGINE,
    )  # fmt: skip
    shares.append(Share("activations and buffers", "workspace", size))
    if reserve is not None:
        name = "other processes" if room.deployment.hardware.unified_memory else "CUDA context"
        shares.append(Share(name, "reserve", reserve))
    left = total.value - sum(share.size.value for share in shares)
    if left > 0:
        shares.append(Share("free", "free", exact(left, "B", "what is left", "the other parts")))
    return tuple(shares)


def _state(states: States) -> Figure:
    return exact(states.pool + states.verify, "B", states.formula, _POOLS)


def _pool(room: Room, cells: Cells) -> Figure:
    low, mid, high = (
        bound.tokens * cells.token + cells.fixed * cells.sliding * (bound.tokens > 0)
        for bound in room.bounds
    )
    text = f"{room.bounds[1].tokens:,} tokens x {cells.token:,.0f} B"
    if cells.sliding and not cells.fixed:
        text += f" ({cells.full:,.0f} B and {cells.ratio:g} x {cells.sliding:,.0f} B of sliding)"
    if cells.fixed:
        text += f" + {cells.fixed:,} sliding tokens x {cells.sliding:,.0f} B"
    return between(min(low, mid), mid, max(mid, high), "B", text, _POOLS)
