"""How fast a machine reads: from stored measurements that are not what is being predicted.

    step = bytes / (bandwidth x share) + layers x rest

A measured step is one number for these two unknowns. Where its bytes alone would need 60 % of the
bandwidth or more, all of it is put down to the share, and the rest is nothing. A smaller share is
not read as slow memory: the usual 70 % is taken, and what is left is counted a layer (launches,
synchronisation between GPUs, the host). What a round of speculation takes beside its passes is
measured where a launch was timed with and without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from configurator.plan.figures import Figure, between, exact
from configurator.plan.model import Efficiency
from configurator.schema.content import Hardware, Model

HABIT = (0.60, 0.70, 0.82)
"""Share of the bandwidth that decode steps usually reach: least, likely, most. No measurement;
what is taken where there is none, and how far a measured share is trusted for another step."""
REST_SPREAD = 1.5
"""How far the seconds a layer beside the bytes are trusted for another step, either way: in stored
measurements of one model at two batch sizes they differ by up to that."""

_NAMED = 4
"""Most measurements that a figure names."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A measured plain decode step and what it reads."""

    name: str
    """The measurement, or the evidence it is from."""
    hardware: str
    model: str
    """The model, as `known_as` names it."""
    seconds: float
    size: float
    """Bytes it reads on one GPU, by the same count as predictions."""
    layers: int
    bandwidth: float
    """GB/s of one GPU."""
    prefills: bool = False
    """Its time holds prefills of other requests."""
    tensor: int = 1
    """GPUs that shared its layers."""
    host: str = ""
    """The host it was measured on; empty: not this one."""

    @property
    def apparent(self) -> float:
        """Share of the bandwidth that its bytes alone would need."""
        return self.size / (self.seconds * self.bandwidth * 1e9)

    @property
    def bound_by_bandwidth(self) -> bool:
        """Its bytes explain it."""
        return self.apparent >= HABIT[0]

    @property
    def rest(self) -> float:
        """Seconds a layer that its bytes do not explain."""
        if self.bound_by_bandwidth or not self.layers:
            return 0.0
        usual = self.size / (self.bandwidth * 1e9 * HABIT[1])
        return (self.seconds - usual) / self.layers


def known_as(model: Model) -> str:
    """A model by its entry, depth and width: overrides of those make it another one."""
    return f"{model.name} {model.layers} x {model.hidden_size}"


def efficiency_of(hardware: Hardware, model: str, measured: Sequence[Plain]) -> Efficiency:
    """What a step of `model` on `hardware` can be expected to reach.

    The nearest measurements count: of this host, else of this hardware with this model, else of
    this hardware, else nothing but habit. Among equally near ones those without prefills of other
    requests in their time.

    Args:
        hardware: the machine.
        model: the model, as `known_as` names it.
        measured: measurements of any hardware, those of the figure to predict left out.
    """
    same = [each for each in measured if each.hardware == hardware.name]
    tiers = (
        [each for each in same if each.host],
        [each for each in same if each.model == model],
        same,
    )
    found = next((tier for tier in tiers if tier), [])
    nearest = [each for each in found if not each.prefills] or found
    host = nearest[0].host if nearest else ""
    if not nearest:
        return Efficiency(_habit(), _rest_of_others(measured), "")
    names = tuple(each.name for each in nearest)
    tensors = tuple(sorted({each.tensor for each in nearest}))
    return Efficiency(_share(nearest), _rest(nearest), host, names, tensors)


@dataclass(frozen=True, slots=True)
class RoundRest:
    """What a measured round of speculation took beside the passes it is made of."""

    name: str
    hardware: str
    seconds: float


def with_rounds(found: Efficiency, hardware: str, rounds: Sequence[RoundRest]) -> Efficiency:
    """`found` with what rounds of speculation take beside their passes.

    Measured on this hardware it is taken as that; of other hardware from nothing up, for drivers
    and hosts differ.

    Args:
        found: of plain steps.
        hardware: name of the entry to predict for.
        rounds: measured ones, those of the figure to predict left out.
    """
    if not rounds:
        return found
    same = [each for each in rounds if each.hardware == hardware]
    every = [each.seconds for each in same or rounds]
    least = min(every) / REST_SPREAD if same else 0.0
    each = ", ".join(f"{seconds * 1e3:.2f}" for seconds in sorted(every))
    formula = f"ms a round beside its passes{'' if same else ', on other hardware'}: {each}"
    source = ", ".join(one.name for one in same or rounds)
    high = max(every) * REST_SPREAD
    return replace(found, round=between(least, median(every), high, "s", formula, source))


def at_most(found: Efficiency, reads: Figure | None, bandwidth: float) -> Efficiency:
    """`found` on a host that was measured to read no faster than that.

    Args:
        found: what steps of this kind reach.
        reads: GB/s that a self-test reads on the host that is planned for; None: not measured.
        bandwidth: GB/s of the hardware entry, which shares are of.
    """
    share = found.share
    most = reads.value / bandwidth if reads is not None else share.high
    if reads is None or most >= share.high:
        return found
    formula = (
        f"{share.formula}; at most {most:.2f}, for this host reads {reads.value:,.0f} of "
        f"{bandwidth:,.0f} GB/s"
    )
    source = "; ".join(filter(None, (share.source, reads.source)))
    low, value = min(share.low, most), min(share.value, most)
    return replace(found, share=between(low, value, most, "", formula, source))


def _habit() -> Figure:
    low, value, high = HABIT
    formula = f"{value:.2f}, {low:.2f} to {high:.2f}: a habit, not measured on this hardware"
    return between(low, value, high, "", formula, "decode steps of other machines")


def _share(nearest: Sequence[Plain]) -> Figure:
    """The measured shares; for another step they hold no better than shares differ by habit."""
    shares = [each.apparent for each in nearest if each.bound_by_bandwidth]
    if not shares:
        figure = _habit()
        text = "below 0.60 measured, which is not read as slow memory; the habit is taken"
        return between(figure.low, figure.value, figure.high, "", text, _names(nearest))
    value = median(shares)
    low = min(*shares, value * HABIT[0] / HABIT[1])
    high = max(*shares, min(1.0, value * HABIT[2] / HABIT[1]))
    each = ", ".join(f"{share:.2f}" for share in sorted(shares))
    formula = f"median of {each}; for another step {HABIT[0]}/{HABIT[1]} to {HABIT[2]}/{HABIT[1]}"
    return between(low, value, high, "", formula, _names(nearest))


def _rest(nearest: Sequence[Plain]) -> Figure:
    rests = [each.rest for each in nearest]
    if not any(rests):
        return exact(0.0, "s", "nothing left beside the bytes", _names(nearest))
    each = ", ".join(f"{rest * 1e6:.0f}" for rest in sorted(rests))
    formula = (
        f"us a layer beside the bytes: {each}; for another step {REST_SPREAD} times either way"
    )
    low, high = min(rests) / REST_SPREAD, max(rests) * REST_SPREAD
    return between(low, median(rests), high, "s", formula, _names(nearest))


def _rest_of_others(measured: Sequence[Plain]) -> Figure:
    """Without a measurement of this hardware: from nothing to the most seen anywhere."""
    if not measured:
        return exact(0.0, "s", "no measurement of any hardware is known", "")
    rests = [each.rest for each in measured]
    formula = (
        f"us a layer beside the bytes on other hardware: {min(rests) * 1e6:.0f} to "
        f"{max(rests) * 1e6:.0f}"
    )
    return between(0.0, median(rests), max(rests), "s", formula, _names(measured))


def _names(measured: Iterable[Plain]) -> str:
    names = [each.name for each in measured]
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more measurements"
    return ", ".join(names)
