"""Decode passes as /metrics counts them: by rank, with a CUDA graph or eager."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from configurator.evidence.model import Replica, Sample
from configurator.verdicts import Observation, Rung

GRAPH, EAGER = "decode_cuda_graph", "decode_none"
_NAME = "cuda_graph_passes_total"
_RANKS = ("tp_rank", "pp_rank", "dp_rank")
_Series = tuple[tuple[str, str], ...]
"""The labels of a counter."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Decode passes of each series since start-up."""

    growth: dict[_Series, float]

    @property
    def modes(self) -> dict[str, float]:
        """The passes of all ranks by mode."""
        sums = {GRAPH: 0.0, EAGER: 0.0}
        for series, value in self.growth.items():
            sums[dict(series)["mode"]] += value
        return sums

    @property
    def eager_ranks(self) -> str:
        """Ranks that replayed no graph while others did, by their labels; empty: none."""
        ran: dict[str, set[_Series]] = {GRAPH: set(), EAGER: set()}
        for series, value in self.growth.items():
            labels = dict(series)
            rank = tuple((name, labels[name]) for name in _RANKS if name in labels)
            ran[labels["mode"]] |= {rank} if rank and value > 0 else set()
        alone = sorted(ran[EAGER] - ran[GRAPH]) if ran[GRAPH] else []
        return "; ".join(" ".join(map(" ".join, rank)) for rank in alone)

    def observations(self) -> Iterator[Observation]:
        """The passes of each rank; only those that replayed a graph speak for it."""
        for series, value in self.growth.items():
            labels = dict(series)
            names = [name for name in ("mode", *_RANKS) if name in labels]
            shown = ",".join(f'{name}="{labels[name]}"' for name in names)
            yield Observation(
                "metrics", f"{labels['mode']} passes", int(value), Rung.EXECUTED,
                f"metrics.txt {_NAME}{{{shown}}}",
                aside=labels["mode"] != GRAPH or value <= 0,
            )  # fmt: skip


def decode_passes(replica: Replica) -> Passes | None:
    """The decode passes since start-up; None when they are not counted, or not sensibly."""
    if replica.metrics is None:
        return None
    now, before = _counters(replica.metrics), _counters(replica.metrics_startup or ())
    if not now or not all(0 <= value < math.inf for value in now.values()):
        return None
    if any(value > now.get(series, 0.0) for series, value in before.items()):
        # A restart between the snapshots reset every counter: they count from it on.
        before = {}
    passes = Passes({series: value - before.get(series, 0.0) for series, value in now.items()})
    return passes if all(0 <= value < math.inf for value in passes.modes.values()) else None


def _counters(samples: Iterable[Sample]) -> dict[_Series, float]:
    """Counters of decode passes by their labels."""
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for sample in samples
        if sample.name.endswith(_NAME) and sample.labels.get("mode") in (GRAPH, EAGER)
    }
