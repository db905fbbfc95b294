"""A plan of a deployment: every estimator asked once, and what none of them knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan.efficiency import Plain
from configurator.plan.engine_memory import running
from configurator.plan.figures import Figure
from configurator.plan.geometry import geometry_of
from configurator.plan.memory import memory_of
from configurator.plan.model import Geometry, Memory, Plan, Step
from configurator.plan.step import Asked, step_of


def plan_of(
    deployment: Deployment,
    library: Library,
    asked: Asked | None = None,
    own: Sequence[Plain] = (),
    reads: Figure | None = None,
) -> Plan:
    """Memory and decode step of a deployment, from content and files of this machine alone.

    Args:
        deployment: what is planned.
        library: content: entries of drafts, measured steps.
        asked: batch, context, experts and acceptance instead of the profile's.
        own: plain steps that were measured on this host, which count before all others.
        reads: GB/s that a self-test reads on this host, which no step exceeds; None: not measured.

    Raises:
        ConfiguratorError: PLN001, an acceptance length that the profile's speculation cannot reach.
    """
    geometry = geometry_of(deployment, library)
    memory = memory_of(deployment, geometry)
    step = step_of(deployment, geometry, library, geometry_of, asked, own, reads=reads)
    if step is not None:
        step = replace(step, remarks=(*_beyond(deployment, memory, step), *step.remarks))
    unknown = tuple(dict.fromkeys(_unknown(deployment, geometry, memory, step)))
    return Plan(deployment.name, geometry, memory, step, unknown)


def _beyond(deployment: Deployment, memory: Memory | None, step: Step) -> Iterator[str]:
    """Why the server never decodes so many requests together as the step is planned for."""
    limit = running(deployment)
    if limit is not None and step.batch > limit:
        yield (
            f"{step.batch:,} requests are never decoded together: at most {limit:,} run at once; "
            f"set --max-running-requests {step.batch}, or plan for --batch {limit}"
        )
    tokens = memory.tokens if memory is not None else None
    wanted = step.batch * step.context
    if tokens is not None and wanted > tokens.high:
        most = int(tokens.value) // step.context
        remedy = f"plan for --batch {most}" if most else "plan for a smaller --context"
        yield (
            f"{step.batch:,} requests are never decoded together: with {step.context:,} tokens "
            f"each they take {wanted:,} of the {tokens.value:,.0f} that the pool holds; {remedy}"
        )


def _unknown(
    deployment: Deployment, geometry: Geometry, memory: Memory | None, step: Step | None
) -> Iterator[str]:
    if memory is None:
        yield "memory: " + _lacking(
            deployment, geometry, deployment.hardware.memory_gb, "memory_gb"
        )
    if step is None:
        bandwidth = deployment.hardware.bandwidth_gb_s
        yield "decode step: " + _lacking(deployment, geometry, bandwidth, "bandwidth_gb_s")
    yield from geometry.unknown


def _lacking(
    deployment: Deployment, geometry: Geometry, fact: float | None, name: str
) -> str:  # fmt: skip
    """Why an estimator has nothing to say, and where to say it."""
    if fact is None:
        return (
            f"hardware entry {deployment.hardware.name} has no {name}: give it there, or set "
            "hardware.name to the machine that it is (configurator list hardware)"
        )
    if geometry.weights is None:
        return (
            f"the size of the weights is not known: give model entry {deployment.model.name} its "
            "shape, or model.path a directory of this machine"
        )
    return f"too little is known of model {deployment.model.name}"
