"""What rounds of speculation take beside their passes, from launches timed with and without."""

from __future__ import annotations

from collections.abc import Collection

from configurator.content import Library
from configurator.plan.efficiency import RoundRest, efficiency_of
from configurator.plan.measured import Geometer, deployment_of, load_of, plain_of
from configurator.plan.step_round import timed_round
from configurator.plan.step_time import Machine
from configurator.schema.measurement import Measurement


def round_rests(
    library: Library, geometry_of: Geometer, left_out: Collection[str] = ()
) -> tuple[RoundRest, ...]:
    """Every measured round, against its passes at the efficiency of its own plain step.

    Args:
        library: content with the measurements.
        geometry_of: counts the parts of what was measured.
        left_out: measurements that must not count.
    """
    every = [library.measurement(n) for n in library.names("measurement") if n not in left_out]
    both = [each for each in every if each.plain_ms is not None]
    found = (_rest(each, library, geometry_of) for each in both)
    return tuple(each for each in found if each is not None)


def _rest(measurement: Measurement, library: Library, geometry_of: Geometer) -> RoundRest | None:
    plain = plain_of(measurement, library, geometry_of)
    if plain is None:
        return None
    deployment = deployment_of(measurement, library)
    efficiency = efficiency_of(deployment.hardware, plain.model, [plain])
    machine = Machine(deployment.hardware, plain.bandwidth, efficiency)
    load = load_of(measurement, deployment)
    timed = timed_round(deployment, geometry_of(deployment, library), load, machine, None)
    if timed.step is None:
        return None
    rest = max(0.0, measurement.step - timed.step.value)
    return RoundRest(measurement.name, measurement.hardware, rest)
