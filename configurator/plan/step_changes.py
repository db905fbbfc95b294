"""What each mechanism of a profile changes in its step, all others kept."""

from __future__ import annotations

from collections.abc import Callable

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan.figures import Figure
from configurator.plan.model import Change
from configurator.plan.step_round import Timed
from configurator.resolve import resolve


def without(deployment: Deployment, name: str, library: Library) -> Deployment:
    """The same deployment with one mechanism less."""
    profile = deployment.profile
    kept = {key: wish for key, wish in profile.optimizations.items() if key != name}
    less = profile.model_copy(update={"optimizations": kept})
    return resolve(less, deployment.layers, library)


def changes_of(
    deployment: Deployment,
    library: Library,
    timed_of: Callable[[Deployment], Timed | None],
    timed: Timed,
) -> tuple[Change, ...]:
    """The mechanisms that change what a step reads, in the order of the profile.

    One that changes no byte is absent: what it does to launches or kernels no count of bytes says.
    Speculation is absent too where no acceptance length is known.
    """
    found = []
    for name, mechanism in deployment.mechanisms.items():
        if mechanism is deployment.speculation:
            if timed.per_token is not None and timed.ratio is not None:
                found.append(Change(name, timed.plain.time, timed.per_token))
            continue
        other = timed_of(without(deployment, name, library))
        if other is not None and not _same(_seconds(other), _seconds(timed)):
            found.append(Change(name, _seconds(other), _seconds(timed)))
    return tuple(found)


def _seconds(timed: Timed) -> Figure:
    """A token where acceptance is known, else a step, of an unknown draft a plain one."""
    return timed.per_token or timed.step or timed.plain.time


def _same(one: Figure, other: Figure) -> bool:
    return abs(one.value - other.value) <= 1e-9 * max(one.value, other.value)
