"""The engine's own arithmetic of memory: what it sets aside, and how it sizes its pools.

Source: SGLang 0.5.23, arg_groups/memory_hook.py (reserve, default fraction, sizes by GPU),
mem_cache/kv_cache_configurator.py (budget, states, requests), model_executor/pool_configurator.py
(tokens). Facts of them; 0.5.17 differs only in the sizes of small GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from configurator.deployment import Deployment
from configurator.plan import settings
from configurator.plan.model import Geometry

MIB = 2**20
GIB = 2**30
_CLASSES = (
    (20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (90, 8192, 256, 512),
    (160, 8192, 256, 512),
)  # fmt: skip
"""Below so many GiB: prefill chunk, largest decode batch with fewer than 4 ranks, and with more."""
_LARGEST = (16384, 512, 512)
_SPECULATING = 48
"""Requests at once where speculation is on and nothing else is said."""
_SLIDING_RATIO = 0.8
_STATE_RATIO = 0.9
_SLOTS = 3
"""State slots a running request with the radix cache on."""
_TRACKED = 2
"""More slots a request where states are tracked with the scheduler overlapped."""
_PER_TOKEN = 1.5 * MIB
_CONSTANT = 512 * MIB
_PER_BATCH = 2 * MIB
_PER_PREFILL = 8 * MIB
_LATENT_PREFILL = 1536 * MIB
_FLOOR = 10 * GIB
_FLOOR_FROM = 60 * GIB


@dataclass(frozen=True, slots=True)
class Steps:
    """The largest steps that the engine prepares for."""

    chunk: int
    """Tokens of one prefill chunk."""
    batch: int
    """Largest captured decode batch; 0: no graphs."""
    prefills: int
    """Captured sizes of prefill; 0: no graphs."""
    latent: bool


def steps_of(deployment: Deployment, geometry: Geometry, total: float) -> Steps:
    """Prefill chunk and captured sizes, as arguments say or as the engine chooses by memory."""
    chunk, few, many = next(
        ((c, f, m) for below, c, f, m in _CLASSES if total < below * GIB), _LARGEST
    )
    chunk = settings.natural(deployment, "chunked-prefill-size") or chunk
    batch = _batch(deployment, few if deployment.profile.topology.tensor < 4 else many)
    off = settings.on(deployment, "disable-cuda-graph")
    if off or settings.text(deployment, "cuda-graph-backend-decode") == "disabled":
        batch = 0
    latent = any(cache.kind == "mla" for cache in geometry.caches)
    prefills = len(_prefill_sizes(min(8192, chunk) if latent else chunk))
    if (
        off
        or settings.on(deployment, "disable-prefill-cuda-graph")
        or settings.text(deployment, "cuda-graph-backend-prefill") == "disabled"
    ):
        prefills = 0
    return Steps(chunk, batch, prefills, latent)


def _batch(deployment: Deployment, default: int) -> int:
    for name in ("cuda-graph-bs-decode", "cuda-graph-bs"):
        asked = deployment.arg(name)
        sizes = asked if isinstance(asked, tuple) else (asked,)
        numbers = [int(str(size)) for size in sizes if str(size).isdecimal()]
        if numbers:
            return max(numbers)
    for name in ("cuda-graph-max-bs-decode", "cuda-graph-max-bs"):
        limit = settings.natural(deployment, name)
        if limit is not None:
            return limit
    return min(default, running(deployment) or default)


def _prefill_sizes(largest: int) -> list[int]:
    sizes = [
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256), *range(4608, largest + 1, 512),
    ]  # fmt: skip
    return [size for size in sizes if size <= largest]


def graphs_of(steps: Steps) -> tuple[float, str]:
    """Bytes that the engine sets aside for graphs, and the formula."""
    prefill = _LATENT_PREFILL if steps.latent and steps.prefills else steps.prefills * _PER_PREFILL
    text = f"largest decode batch {steps.batch} x 2 MiB"
    if steps.prefills:
        text += (
            " + 1,536 MiB for prefill of latent attention"
            if steps.latent
            else f" + {steps.prefills} prefill sizes x 8 MiB"
        )
    return steps.batch * _PER_BATCH + prefill, text


def workspace_of(deployment: Deployment, steps: Steps) -> tuple[float, str]:
    """Bytes that the engine sets aside for activations and buffers, and the formula."""
    topology = deployment.profile.topology
    ranks = topology.tensor * topology.pipeline
    tokens = max(steps.chunk, 2048)
    size = _CONSTANT + tokens * _PER_TOKEN + ranks / 8 * GIB
    return size, f"512 MiB + {tokens:,} tokens x 1.5 MiB + {ranks} ranks / 8 x 1 GiB"


def default_fraction(deployment: Deployment, steps: Steps, total: float) -> tuple[float, str]:
    """--mem-fraction-static that the engine takes where none is said, and the formula."""
    graphs, text = graphs_of(steps)
    workspace, other = workspace_of(deployment, steps)
    reserved = graphs + workspace
    formula = f"1 - ({other} + {text}) / {total / GIB:.1f} GiB"
    if total > _FLOOR_FROM and reserved < _FLOOR:
        reserved, formula = _FLOOR, f"1 - 10 GiB / {total / GIB:.1f} GiB"
    return round(max(0.0, 1 - reserved / total), 3), formula


def running(deployment: Deployment) -> int | None:
    """Requests at once that are asked for; None: the engine derives them from its tokens."""
    asked = settings.natural(deployment, "max-running-requests")
    if asked is None and settings.algorithm_of(deployment) is not None:
        return _SPECULATING
    return asked


def own_limit(tokens: int, context: int) -> int:
    """Requests at once that the engine allows a data parallel group where nothing says how many.

    Args:
        tokens: that the pool holds.
        context: tokens of the longest sequence.

    Source: SGLang 0.5.23, mem_cache/kv_cache_configurator.py (resolve_max_num_reqs).
    """
    return min(max(min(int(tokens / context * 512), 4096), 2048), tokens // 2)


@dataclass(frozen=True, slots=True)
class Cells:
    """Bytes that a token of the pool costs, as the engine prices it."""

    full: float
    """Layers that keep every token, the draft's included."""
    sliding: float
    """Layers with a pool of their own, a token of that pool."""
    window: int
    ratio: float
    """Tokens of the sliding pool a token of the full one; 0: it has a fixed size."""
    fixed: int = 0
    """Tokens of the sliding pool where it is sized by requests."""

    @property
    def token(self) -> float:
        """Bytes a token of the full pool costs together with its share of the sliding one."""
        return self.full + self.ratio * self.sliding


def cells_of(deployment: Deployment, geometry: Geometry, steps: Steps) -> Cells | None:
    """How the engine prices a token; None where no cache of the target is known."""
    target = [c for c in geometry.caches if c.owner == "target" and c.per_token.value]
    if not target:
        return None
    pooled = [c for c in target if c.kind == "sliding" and c.window is not None]
    whole = [c for c in target if c not in pooled]
    if not whole:
        # Nothing but sliding layers: the engine then has one pool, of them.
        whole, pooled = pooled, []
    full = sum(cache.per_token.value for cache in whole)
    layers = sum(cache.layers for cache in whole)
    full += _draft_cell(deployment, geometry, full / layers)
    sliding = sum(cache.per_token.value for cache in pooled)
    window = max((cache.window or 0 for cache in pooled), default=0)
    if not pooled:
        return Cells(full, 0, 0, 0)
    ratio = settings.number(deployment, "swa-full-tokens-ratio") or _SLIDING_RATIO
    requests = settings.natural(deployment, "max-running-requests")
    if requests is not None and settings.on(deployment, "disable-radix-cache"):
        return Cells(full, sliding, window, 0, _by_requests(deployment, requests, window, steps))
    return Cells(full, sliding, window, ratio)


def _draft_cell(deployment: Deployment, geometry: Geometry, layer: float) -> float:
    """Of EAGLE and its kin the engine prices a draft layer as one of the target's."""
    drafts = [c for c in geometry.caches if c.owner == "draft"]
    if settings.is_eagle(settings.algorithm_of(deployment)):
        return layer * sum(cache.layers for cache in drafts)
    return sum(cache.per_token.value for cache in drafts)


def _by_requests(deployment: Deployment, requests: int, window: int, steps: Steps) -> int:
    """Tokens of a sliding pool that is sized by requests: with the radix cache off."""
    page = settings.natural(deployment, "page-size") or 1
    width = settings.verify_width(deployment)
    each = window + 128 * width + page + (page if width == 1 else 2 * max(width, page))
    return each * requests + 2 * steps.chunk + page


@dataclass(frozen=True, slots=True)
class States:
    """The pool of recurrent states."""

    slots: int
    """Without the padding slot."""
    per_request: int
    """Slots that a running request takes."""
    pool: float
    """Bytes of slots and rings."""
    verify: float
    """Bytes of the states that verify steps keep, one a drafted token."""
    formula: str


def states_of(
    deployment: Deployment, geometry: Geometry, rest: float, tracked: bool
) -> States | None:
    """The state pool that the engine makes of what weights leave; None without such layers.

    Args:
        deployment: for slots and limits.
        geometry: for the sizes of a state and of its ring.
        rest: bytes left for states and tokens together.
        tracked: states are tracked in extra slots, which depends on the architecture.
    """
    caches = [c for c in geometry.caches if c.owner == "target" and c.per_request.value]
    if not caches:
        return None
    state = sum(cache.per_request.value for cache in caches)
    ring = sum(cache.ring.value for cache in caches if cache.ring)
    each = slots_a_request(deployment, tracked)
    width = settings.verify_width(deployment)
    speculates = settings.algorithm_of(deployment) is not None
    steps = width if speculates and not ring else 0
    asked = settings.natural(deployment, "max-mamba-cache-size")
    limit = running(deployment)
    if asked is not None:
        slots, why = asked, f"--max-mamba-cache-size {asked}"
    elif settings.on(deployment, "disable-radix-cache") and limit is not None:
        slots, why = limit, f"one a request of --max-running-requests {limit}"
    else:
        slots, why = _fitted(deployment, rest, state, ring, steps, each)
    requests = min(limit or slots, slots // each) if steps else 0
    pool = (slots + 1) * (state + ring)
    verify = state * (requests + 1) * steps
    text = f"({slots} slots + 1) x {(state + ring) / 1e6:.1f} MB ({why})"
    if steps:
        text += f", and ({requests} requests + 1) x {steps} drafted x {state / 1e6:.1f} MB"
    return States(slots, each, pool, verify, text)


def _fitted(
    deployment: Deployment, rest: float, state: float, ring: float, steps: int, each: int
) -> tuple[int, str]:
    """Slots that the share of memory for states holds."""
    ratio = settings.number(deployment, "mamba-full-memory-ratio") or _STATE_RATIO
    budget = rest * ratio / (1 + ratio)
    first = state * (1 + steps) + ring
    more = state * (1 + steps / each) + ring
    text = f"{ratio:g} / {1 + ratio:g} of {rest / 1e9:.1f} GB"
    return max(0, int((budget - first) // more)), text


def slots_a_request(deployment: Deployment, tracked: bool) -> int:
    """State slots that a running request takes."""
    if settings.on(deployment, "disable-radix-cache"):
        return 1
    strategy = settings.text(deployment, "mamba-radix-cache-strategy")
    strategy = strategy or settings.text(deployment, "mamba-scheduler-strategy") or "auto"
    if strategy == "no_buffer" or (strategy == "auto" and not tracked):
        return _SLOTS
    overlapped = not settings.on(deployment, "disable-overlap-schedule")
    lazy = strategy == "extra_buffer_lazy"
    return _SLOTS + (_TRACKED if overlapped and not lazy else 1)


def tokens_in(rest: float, cells: Cells, page: int) -> int:
    """Tokens of the full pool in `rest` bytes, whole pages."""
    rest -= cells.fixed * cells.sliding
    return max(0, int(rest // cells.token)) // page * page
