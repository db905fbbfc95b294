"""The decode step of a deployment: what bounds it, and when speculation pays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.plan.efficiency import Plain, at_most, efficiency_of, known_as, with_rounds
from configurator.plan.figures import Figure, between
from configurator.plan.measured import CONTEXT, Geometer, measured_of, plain_steps
from configurator.plan.model import Geometry, SpeedUp, Step
from configurator.plan.settings import speculates
from configurator.plan.sharing import ranks_of
from configurator.plan.step_changes import changes_of
from configurator.plan.step_reads import Load
from configurator.plan.step_remarks import bound_of, remarks_of
from configurator.plan.step_round import Timed, timed_round
from configurator.plan.step_rounds import round_rests
from configurator.plan.step_time import Machine


@dataclass(frozen=True, slots=True)
class Asked:
    """What a step is asked about beyond the profile; None: the profile's, or a default."""

    batch: int | None = None
    """Sequences decoded together; default: workload.concurrency."""
    context: int | None = None
    """Tokens of each in the cache; default: the workload's input and half of its output."""
    experts: float | None = None
    """Distinct routed experts a layer, measured; default: uniform routing."""
    accepted: float | None = None
    """Tokens a step, measured; a profile's floor is a wish and no estimate."""


def step_of(
    deployment: Deployment,
    geometry: Geometry,
    library: Library,
    geometry_of: Geometer,
    asked: Asked | None = None,
    own: Sequence[Plain] = (),
    left_out: Collection[str] = (),
    reads: Figure | None = None,
) -> Step | None:
    """The decode step of one replica; None where its bytes or the bandwidth are not known.

    Args:
        deployment: what is planned.
        geometry: its parts.
        library: content; its measurements tell what share of the bandwidth is reached.
        geometry_of: counts the parts of other deployments: measured ones, and this one without
            one of its mechanisms.
        asked: batch, context, measured experts and measured acceptance.
        own: plain steps measured on this host, which count before all others.
        reads: GB/s that a self-test reads on this host, which no step exceeds.
        left_out: measurements that must not count, beside those of this very configuration.

    Raises:
        ConfiguratorError: PLN001, a value of `asked` that cannot be.
    """
    bandwidth = deployment.hardware.bandwidth_gb_s
    if bandwidth is None or geometry.weights is None or not geometry.parts:
        return None
    asked = asked or Asked()
    _refuse_impossible(deployment, geometry, asked)
    load = load_of_profile(deployment, geometry, asked)
    published, itself = measured_of(deployment, load.batch, library)
    out = itself | frozenset(left_out)
    known = [*own, *plain_steps(library, geometry_of, deployment.hardware.name, out)]
    efficiency = efficiency_of(deployment.hardware, known_as(deployment.model), known)
    if deployment.speculation is not None:
        rounds = round_rests(library, geometry_of, out)
        efficiency = with_rounds(efficiency, deployment.hardware.name, rounds)
    efficiency = at_most(efficiency, reads, float(bandwidth))
    machine = Machine(deployment.hardware, float(bandwidth), efficiency)
    timed = timed_round(deployment, geometry, load, machine, asked.accepted)
    changes = changes_of(
        deployment,
        library,
        lambda other: _again(other, library, geometry_of, load, machine, asked.accepted),
        timed,
    )
    return Step(
        batch=load.batch,
        context=load.context,
        passes=timed.passes,
        efficiency=efficiency,
        plain=timed.plain.time,
        step=timed.step,
        accepted=timed.accepted,
        per_token=timed.per_token,
        throughput=_throughput(load.batch, timed.per_token),
        ratio=timed.ratio,
        verify_ratio=timed.verify_ratio,
        curve=curve_of(timed.ratio, timed.round.width),
        changes=changes,
        bound=bound_of(timed, machine, geometry, load),
        remarks=remarks_of(deployment, geometry, load, machine, timed, published, changes),
    )  # fmt: skip


def _refuse_impossible(deployment: Deployment, geometry: Geometry, asked: Asked) -> None:
    """Values that no step has; an accepted length is looked at with the verify width."""
    if asked.accepted is not None and not speculates(deployment):
        raise _impossible(
            f"{deployment.name} drafts nothing, so it accepts no {asked.accepted:g} tokens a step",
            "leave out the accepted length, or give a profile that speculates",
        )
    for name, value in (("batch", asked.batch), ("context", asked.context)):
        if value is not None and value < 1:
            raise _impossible(f"a {name} of {value} cannot be", "give 1 or more")
    if asked.experts is None:
        return
    routed = [part for part in geometry.parts if part.owner == "target" and part.experts]
    if not routed:
        raise _impossible("the model has no routed experts to count", "leave out the count")
    least, most = max(part.chosen for part in routed), min(part.experts for part in routed)
    if not least <= asked.experts <= most:
        raise _impossible(
            f"{asked.experts:g} distinct experts a layer cannot be",
            f"give {least} to {most}: a token chooses {least} of {most}",
        )


def _impossible(fact: str, remedy: str) -> ConfiguratorError:
    return ConfiguratorError.single("PLN001", fact, remedy)


def load_of_profile(deployment: Deployment, geometry: Geometry, asked: Asked) -> Load:
    """What a step works on."""
    workload = deployment.profile.workload
    context = asked.context
    if context is None and workload.input_tokens is not None:
        context = workload.input_tokens + (workload.output_tokens or 0) // 2
    most = workload.context or geometry.context or deployment.model.context
    if context is None:
        context = min(CONTEXT, most) if most else CONTEXT
    return Load(
        asked.batch or workload.concurrency, context, ranks_of(deployment),
        geometry.vocabulary or deployment.model.vocab_size, asked.experts,
    )  # fmt: skip


def _throughput(batch: int, per_token: Figure | None) -> Figure | None:
    if per_token is None:
        return None
    formula = f"{batch} / {per_token.value * 1e3:.3g} ms"
    return between(
        batch / per_token.high, batch / per_token.value, batch / per_token.low, "tok/s", formula,
        per_token.source,
    )  # fmt: skip


def curve_of(ratio: Figure | None, width: int) -> tuple[SpeedUp, ...]:
    """Speed-up of decoding at acceptance lengths from 1 to `width`, by quarters."""
    if ratio is None:
        return ()
    lengths = [1 + quarter / 4 for quarter in range(4 * (width - 1) + 1)]
    return tuple(
        SpeedUp(length, length / ratio.high, length / ratio.value, length / ratio.low)
        for length in lengths
    )


def _again(
    deployment: Deployment, library: Library, geometry_of: Geometer, load: Load, machine: Machine,
    accepted: float | None,
) -> Timed | None:  # fmt: skip
    """The same step of another deployment."""
    geometry = geometry_of(deployment, library)
    if geometry.weights is None:
        return None
    return timed_round(deployment, geometry, load, machine, accepted)
