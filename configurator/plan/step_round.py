"""The passes of a step together: seconds a step and a token, and what speculation costs."""

from __future__ import annotations

from dataclasses import dataclass

from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.plan.efficiency import HABIT
from configurator.plan.figures import Figure, between, exact
from configurator.plan.model import Geometry, Pass
from configurator.plan.settings import speculates
from configurator.plan.step_passes import Round, round_of
from configurator.plan.step_reads import Load
from configurator.plan.step_time import Machine, added, pass_of


@dataclass(frozen=True, slots=True)
class Timed:
    """The passes of a deployment with their times."""

    round: Round
    plain: Pass
    passes: tuple[Pass, ...]
    step: Figure | None
    accepted: Figure | None
    per_token: Figure | None
    ratio: Figure | None
    verify_ratio: Figure | None


def timed_round(
    deployment: Deployment,
    geometry: Geometry,
    load: Load,
    machine: Machine,
    accepted: float | None,
) -> Timed:
    """All passes of a step, and what follows from them.

    Raises:
        ConfiguratorError: PLN001, an accepted length that the profile's speculation cannot reach.
    """
    found = round_of(deployment, geometry)
    plain = pass_of(geometry, found.plain, load, machine)
    if not speculates(deployment):
        one = exact(1.0, "tokens", "no speculation", "the profile")
        return Timed(found, plain, (plain,), plain.time, one, plain.time, None, None)
    if found.verify is None:
        return Timed(found, plain, (plain,), None, None, None, None, None)
    verify = pass_of(geometry, found.verify, load, machine)
    if geometry.draft is None:
        over = _ratio(verify.time, plain.time)
        return Timed(found, plain, (plain, verify), None, None, None, None, over)
    drafts = [pass_of(geometry, each, load, machine) for each in found.drafts]
    beside = machine.efficiency.round
    terms = [*map(_times, drafts), verify.time, *([beside] if beside.high > 0 else [])]
    whole = added(terms, "s", verify.time.source)
    length = _accepted(accepted, found.width)
    return Timed(
        found, plain, (plain, *drafts, verify), whole, length, _divided(whole, length),
        _ratio(whole, plain.time, beside), _ratio(verify.time, plain.time),
    )  # fmt: skip


def _times(one: Pass) -> Figure:
    time, n = one.time, one.times
    return between(
        time.low * n, time.value * n, time.high * n, "s", f"{n} x {time.formula}", time.source
    )


def _accepted(accepted: float | None, width: int) -> Figure | None:
    if accepted is None:
        return None
    if not 1 <= accepted <= width:
        raise ConfiguratorError.single(
            "PLN001", f"an accepted length of {accepted:g} tokens a step cannot be",
            f"give 1 to {width}, the width of the verify step; the bonus token is counted",
        )  # fmt: skip
    return exact(accepted, "tokens", f"{accepted:g} of at most {width}", "given as measured")


def _divided(step: Figure, accepted: Figure | None) -> Figure | None:
    if accepted is None:
        return None
    by = accepted.value
    formula = f"{step.value * 1e3:.3g} ms / {by:g} tokens"
    return between(step.low / by, step.value / by, step.high / by, "s", formula, step.source)


def _ratio(step: Figure, plain: Figure, beside: Figure | None = None) -> Figure:
    """One over the other at one share; passes of another shape may reach another share.

    Args:
        step: seconds, with what is `beside` its passes in it.
        plain: seconds of a plain step.
        beside: what the round takes beside its passes, whose range is its own.
    """
    value = step.value / plain.value
    less = (beside.value - beside.low) / plain.value if beside else 0.0
    more = (beside.high - beside.value) / plain.value if beside else 0.0
    formula = (
        f"{step.value * 1e3:.3g} ms / {plain.value * 1e3:.3g} ms; the passes may reach shares that "
        f"differ as {HABIT[0]}, {HABIT[1]} and {HABIT[2]} do"
    )
    return between(
        (value - less) * HABIT[0] / HABIT[1], value, (value + more) * HABIT[2] / HABIT[1], "",
        formula, step.source,
    )  # fmt: skip
