"""How wrong predictions are: of runs in a store, and of the measurements of the content."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from configurator.content import Library
from configurator.plan.efficiency import known_as
from configurator.plan.measured import Geometer, deployment_of
from configurator.plan.predictions import Compared, Record
from configurator.plan.step import Asked, step_of
from configurator.schema.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Wrong:
    """The error of one quantity over several runs."""

    quantity: str
    count: int
    median: float
    """Of predicted over measured."""
    worst: float
    """The ratio farthest from 1, either way."""
    inside: int
    """How many measured values lie in their predicted range."""


@dataclass(frozen=True, slots=True)
class Held:
    """One measurement of the content against what the others predict of it."""

    measurement: Measurement
    compared: Compared
    """Time a token; or the break-even of a launch that was timed with and without speculation."""
    rests_on: tuple[str, ...]


def errors_of(compared: Iterable[Compared]) -> tuple[Wrong, ...]:
    """The error of each quantity, in the order in which they are met."""
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        groups.setdefault(each.quantity, []).append(each)
    return tuple(_wrong(name, group) for name, group in groups.items())


def errors_of_runs(records: Iterable[Record]) -> tuple[Wrong, ...]:
    """The error of each quantity over the runs of a store."""
    return errors_of(each for record in records for each in record.compared)


def held_out(
    library: Library, geometry_of: Geometer, *, whole_model: bool = False
) -> tuple[Held, ...]:
    """Every stored measurement, predicted without itself and its series.

    Args:
        library: the content.
        geometry_of: counts the parts of what was measured.
        whole_model: leave out all measurements of its model, on any hardware: as a model is
            predicted that nobody has measured.

    Returns:
        What can be predicted; without the model's bytes nothing can.
    """
    found = []
    every = [library.measurement(name) for name in library.names("measurement")]
    deployments = [deployment_of(measurement, library) for measurement in every]
    models = [known_as(deployment.model) for deployment in deployments]
    for measurement, deployment, model in zip(every, deployments, models, strict=True):
        alike = zip(every, models, strict=True)
        out = {m.name for m, other in alike if whole_model and other == model}
        geometry = geometry_of(deployment, library)
        asked = Asked(
            measurement.batch, measurement.context, measurement.experts, measurement.accepted
        )
        step = step_of(deployment, geometry, library, geometry_of, asked, left_out=out)
        if step is None or step.per_token is None:
            continue
        token = step.per_token
        compared = Compared(
            "time a token", "s", token.low, token.value, token.high, measurement.per_token
        )
        found.append(Held(measurement, compared, step.efficiency.rests_on))
        if measurement.plain_ms is not None and step.ratio is not None:
            ratio, seen = step.ratio, measurement.step * 1000 / measurement.plain_ms
            compared = Compared("break-even", "", ratio.low, ratio.value, ratio.high, seen)
            found.append(Held(measurement, compared, step.efficiency.rests_on))
    return tuple(found)


def uncounted(library: Library, geometry_of: Geometer) -> tuple[str, ...]:
    """Measurements of which no bytes can be counted, each with what is missing: they are not
    predicted, and nothing is predicted of them.

    Args:
        library: the content.
        geometry_of: counts the parts of what was measured.
    """
    found = []
    for name in library.names("measurement"):
        deployment = deployment_of(library.measurement(name), library)
        lacks = []
        if deployment.hardware.bandwidth_gb_s is None:
            lacks.append(f"hardware entry {deployment.hardware.name} has no bandwidth_gb_s")
        if geometry_of(deployment, library).weights is None:
            lacks.append(f"give model entry {deployment.model.name} its shape")
        if lacks:
            found.append(f"measurement {name} counts for nothing: {'; '.join(lacks)}")
    return tuple(found)


def _wrong(quantity: str, group: list[Compared]) -> Wrong:
    ratios = [each.ratio for each in group]
    worst = max(ratios, key=lambda ratio: abs(math.log(ratio)))
    inside = sum(each.inside for each in group)
    return Wrong(quantity, len(group), median(ratios), worst, inside)
