"""What the pools hold: requests, the longest sequence, and what fails first."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from configurator.deployment import Deployment
from configurator.plan import settings
from configurator.plan.engine_memory import (
    GIB,
    Cells,
    States,
    Steps,
    derived_limit,
    graphs_of,
    running,
    running_here,
    workspace_of,
)
from configurator.plan.figures import Figure, between
from configurator.plan.model import Geometry
from configurator.plan.sharing import groups_of

_POOLS = "SGLang 0.5.23, mem_cache/kv_cache_configurator.py"


@dataclass(frozen=True, slots=True)
class Bound:
    """The pools in one case of what is not known."""

    rest: float
    """Bytes left for tokens."""
    states: States | None
    tokens: int
    slots: int
    """State slots that a request takes."""


@dataclass(frozen=True, slots=True)
class Room:
    """What limits are computed of."""

    deployment: Deployment
    geometry: Geometry
    cells: Cells | None
    steps: Steps
    fraction: float
    free: Figure
    """Bytes free before weights load."""
    loaded: Figure
    bounds: tuple[Bound, Bound, Bound]
    """With least, likely and most memory."""

    @property
    def request(self) -> int | None:
        """Tokens of one request of the profile's workload; None: it says none."""
        workload = self.deployment.profile.workload
        if workload.context is not None:
            return workload.context
        if workload.input_tokens is not None:
            return workload.input_tokens + (workload.output_tokens or 0)
        return None

    @property
    def configured(self) -> int | None:
        """Tokens of a sequence that the deployment allows; None: not known."""
        asked = settings.natural(self.deployment, "context-length")
        return asked or self.request or self.geometry.context or self.deployment.model.context


def needed(room: Room) -> float:
    """Bytes of states and of one request of the profile's context, beyond the weights."""
    states = room.bounds[1].states
    size = (states.pool + states.verify) if states else 0.0
    if states and states.ratio is not None:
        # The engine makes as many as fit; one request needs its own slots.
        size = states.slot * (states.per_request + 1) + states.fixed + 2 * states.snapshot
    kept = 0.0
    if room.cells is not None:
        page = settings.natural(room.deployment, "page-size") or 1
        tokens = ceil((room.request or page) / page) * page
        kept = tokens * room.cells.token + room.cells.fixed * room.cells.sliding
    if states and states.ratio is not None:
        # Either has its share, whatever the other needs of its own.
        return max(size * (1 + states.ratio) / states.ratio, kept * (1 + states.ratio))
    return size + kept


def context_of(room: Room, tokens: Figure | None) -> Figure | None:
    """The longest single sequence: the pool, or what the deployment allows."""
    if tokens is None:
        return None
    low, value, high = (bound.tokens for bound in room.bounds)
    value, high = max(low, value), max(low, value, high)
    allowed = room.configured
    if allowed is None:
        text = f"{value:,} tokens of the pool; the configured length is not known"
        return between(low, value, high, "tokens", text, _POOLS)
    text = f"smaller of {allowed:,} configured and {value:,} tokens of the pool"
    return between(
        min(low, allowed), min(value, allowed), min(high, allowed), "tokens", text, _POOLS
    )


def requests_of(room: Room, tokens: Figure | None) -> Figure | None:
    """Sequences of the profile's context that fit at once; None where it says no context."""
    size = room.request or room.configured
    if tokens is None or size is None or room.cells is None:
        return None
    held = [_held(room, room.cells, bound, size) for bound in room.bounds]
    low, value, high = held[0], max(held[:2]), max(held)
    text = f"{room.bounds[1].tokens:,} tokens of the pool / {size:,}"
    if room.cells.ratio:
        text += f", and {room.cells.ratio:g} of them for sliding layers"
    states = room.bounds[1].states
    if states is not None:
        text += f"; {states.slots} state slots / {states.per_request}"
    limit = at_once(room)
    if limit is not None:
        said = running(room.deployment) is not None
        text += "; " if said else "; without --max-running-requests the engine runs "
        text += f"at most {limit:,} at once"
        low, value, high = min(low, limit), min(value, limit), min(high, limit)
    return between(low, value, high, "", text, _POOLS)


def at_once(room: Room) -> int | None:
    """Requests at once that a replica allows; None: as many as fit."""
    groups = groups_of(room.deployment)
    limit = running_here(room.deployment)
    if limit is not None:
        return limit * groups
    context = settings.natural(room.deployment, "context-length") or room.deployment.model.context
    most = derived_limit(room.bounds[1].tokens, context)
    size = room.request or room.configured
    return most * groups if size and room.bounds[1].tokens // size >= most else None


def _held(room: Room, cells: Cells, bound: Bound, size: int) -> int:
    """Sequences of `size` tokens in the pools of one case, without the limits of the profile."""
    fit = bound.tokens // size
    if cells.window:
        page = settings.natural(room.deployment, "page-size") or 1
        sliding = cells.fixed or int(bound.tokens * cells.ratio)
        fit = min(fit, sliding // (min(size, cells.window) + page))
    if bound.states is not None:
        fit = min(fit, bound.states.slots // bound.slots)
    return fit * groups_of(room.deployment)


def remarks_of(
    room: Room,
    tokens: Figure | None,
    requests: Figure | None,
    context: Figure | None,
    working: Figure | None,
    why: str,
) -> tuple[str, tuple[str, ...]]:
    """What breaks first, and facts with values for the reader."""
    remarks = [why] if why else []
    remarks += _of_headroom(room, working)
    remarks += _of_context(room, context)
    remarks += _of_sliding(room, tokens)
    remarks += _of_states(room)
    remarks += _of_unified(room)
    remarks += [f"not counted: {problem}" for problem in room.geometry.unknown]
    return _breaks(room, tokens, requests, context), tuple(remarks)


def _of_headroom(room: Room, working: Figure | None) -> list[str]:
    graphs, _ = graphs_of(room.steps)
    workspace, _ = workspace_of(room.deployment, room.steps)
    left = room.free.value * (1 - room.fraction)
    wanted = graphs + workspace
    if left >= wanted:
        return []
    text = (
        f"{room.fraction:g} leaves {left / GIB:.1f} GiB for graphs and activations, and the "
        f"engine's own formula sets {wanted / GIB:.1f} GiB aside: long prefills may run out"
    )
    if working is not None:
        return [f"{text}; use at most {working.high:g}, or a smaller --chunked-prefill-size"]
    return [f"{text}; use a smaller --chunked-prefill-size, or more GPUs a replica"]


def _of_context(room: Room, context: Figure | None) -> list[str]:
    allowed = room.configured
    if context is None or allowed is None or context.value >= allowed:
        return []
    return [
        f"{allowed:,} tokens of context are configured and the pool holds {context.value:,.0f}: "
        f"usable are {context.value:,.0f}, and longer requests are refused"
    ]


def _of_sliding(room: Room, tokens: Figure | None) -> list[str]:
    """What the engine's ratio of the sliding pool costs."""
    cells, size = room.cells, room.request or room.configured
    if cells is None or tokens is None or not cells.ratio or size is None or size <= cells.window:
        return []
    page = settings.natural(room.deployment, "page-size") or 1
    best = 2 * (cells.window + page) / size
    ratio = ceil(min(best, cells.ratio) * 1000) / 1000
    with_it = int(room.bounds[1].rest // (cells.full + ratio * cells.sliding))
    if with_it <= room.bounds[1].tokens * 1.1 or ratio >= cells.ratio:
        return []
    return [
        f"sliding layers keep {cells.window:,} tokens a sequence, and the engine's pool for them "
        f"has {cells.ratio:g} of the other's tokens: --swa-full-tokens-ratio {ratio:g} gives "
        f"{with_it:,} tokens instead of {room.bounds[1].tokens:,}, {with_it // size} sequences of "
        f"{size:,} instead of {room.bounds[1].tokens // size}"
    ]


def _of_states(room: Room) -> list[str]:
    states, limit = room.bounds[1].states, running_here(room.deployment)
    if states is None or limit is None:
        return []
    used = limit * states.per_request
    asked = settings.natural(room.deployment, "max-mamba-cache-size")
    if asked is None or asked <= 2 * used:
        return []
    each = states.slot
    return [
        f"{asked} state slots are {states.pool / 1e9:.2f} GB; requests at once ({limit}) use "
        f"{used}, and the rest keeps prefixes: a slot less frees {each / 1e6:.0f} MB"
    ]


def _of_unified(room: Room) -> list[str]:
    """Whether the floor that preflight asks for is enough to start."""
    if not room.deployment.hardware.unified_memory or room.fraction <= 0:
        return []
    least = (room.loaded.value + needed(room)) / room.fraction / GIB
    floor = room.deployment.profile.memory.min_available_gib
    text = f"{least:.0f} GiB must be available at the launch for {room.fraction:g}"
    if room.request:
        text += f" to hold the weights and one request of {room.request:,} tokens"
    if floor is not None and floor < least:
        text += (
            f"; memory.min_available_gib is {floor:g}, which lets a launch begin that then stops "
            "for want of memory"
        )
    return [text]


def _breaks(
    room: Room, tokens: Figure | None, requests: Figure | None, context: Figure | None
) -> str:
    mid = room.bounds[1]
    if mid.rest <= 0 or (room.cells is not None and mid.tokens == 0):
        return (
            f"the start: {room.loaded.value / 1e9:.1f} GB of weights leave nothing of "
            f"{room.free.value * room.fraction / 1e9:.1f} GB for the cache"
        )
    size = room.request or room.configured
    if tokens is None or requests is None or size is None or room.cells is None:
        return "not known: what sequences take is not known"
    if context is not None and context.value < size:
        return f"a sequence of more than {context.value:,.0f} tokens is refused"
    return _next(room, room.cells, int(requests.value), size)


def _next(room: Room, cells: Cells, held: int, size: int) -> str:
    """What stops one request more of the profile's context."""
    limit, states = at_once(room), room.bounds[1].states
    groups = groups_of(room.deployment)
    each = f"request {held + 1} of {size:,} tokens"
    if limit is not None and held == limit:
        asked = running(room.deployment)
        if asked is None:
            return f"{each} waits: without --max-running-requests the engine takes {limit}"
        return f"{each} waits: --max-running-requests is {asked}"
    if states is not None and held == states.slots // states.per_request * groups:
        return f"{each} waits: {states.slots} state slots, {states.per_request} a request"
    pool = room.bounds[1].tokens
    if cells.window and cells.ratio and pool // size > held:
        return f"{each} waits: the sliding pool has {int(pool * cells.ratio):,} tokens"
    return f"{each} waits, or one is retracted: the pool has {pool:,} tokens"
