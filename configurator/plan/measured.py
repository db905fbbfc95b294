"""Stored measurements as deployments, whose bytes are counted as those of a plan are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.engine.catalogue import available_versions
from configurator.errors import ConfiguratorError
from configurator.layers import Layers
from configurator.plan.efficiency import Plain, known_as
from configurator.plan.model import Geometry
from configurator.plan.sharing import ranks_of
from configurator.plan.step_passes import round_of
from configurator.plan.step_reads import Load, reads_of
from configurator.resolve import resolve
from configurator.schema.measurement import Measurement
from configurator.schema.profile import EngineRef, Extra, HardwareRef, ModelRef, Profile, Workload
from configurator.source import Source

Geometer = Callable[[Deployment, Library], Geometry]
"""What counts a deployment's parts; `geometry_of`, or a test's own."""

CONTEXT = 1024
"""Tokens in the cache where nothing says how many: a question and half of its answer."""


def deployment_of(measurement: Measurement, library: Library) -> Deployment:
    """The configuration that was measured.

    Raises:
        ConfiguratorError: it names what does not exist, or its accepted length does not fit.
    """
    topology = measurement.topology
    profile = Profile(
        apiVersion="configurator/v1",
        kind="Deployment",
        name=measurement.name,
        engine=EngineRef(version=available_versions()[-1]),
        hardware=HardwareRef(name=measurement.hardware, gpus=topology.tensor * topology.pipeline),
        model=ModelRef(name=measurement.model, overrides=measurement.overrides),
        topology=topology,
        optimizations=measurement.optimizations,
        workload=Workload(concurrency=measurement.batch),
        extra=Extra(args=dict(measurement.args)),
    )
    layers = Layers({}, (Source(f"measurement {measurement.name}", "", {}, None),))
    deployment = resolve(profile, layers, library)
    speculates = deployment.speculation is not None
    if speculates != (measurement.accepted is not None):
        raise ConfiguratorError.single(
            "SCH007",
            f"measurement {measurement.name} "
            + ("speculates and has no 'accepted'" if speculates else "accepts without speculation"),
            "give 'accepted' with a mechanism that drafts, and only with one",
        )
    return deployment


def load_of(measurement: Measurement, deployment: Deployment) -> Load:
    """What its steps worked on."""
    return Load(
        measurement.batch,
        measurement.context or CONTEXT,
        ranks_of(deployment),
        deployment.model.vocab_size,
        measurement.experts,
    )


def plain_steps(
    library: Library, geometry_of: Geometer, hardware: str, left_out: Collection[str] = ()
) -> tuple[Plain, ...]:
    """Measured steps without speculation: of `hardware`, or of any where none is of it.

    Args:
        library: content with the measurements.
        geometry_of: counts the parts of what was measured.
        hardware: name of the hardware entry to predict for.
        left_out: measurements that must not count.
    """
    every = [library.measurement(n) for n in library.names("measurement") if n not in left_out]
    plain = [each for each in every if _plain_seconds(each) is not None]
    same = [each for each in plain if each.hardware == hardware]
    found = tuple(plain_of(each, library, geometry_of) for each in same)
    known = tuple(each for each in found if each is not None)
    if known:
        return known
    others = (plain_of(each, library, geometry_of) for each in plain if each.hardware != hardware)
    return tuple(each for each in others if each is not None)


def _plain_seconds(measurement: Measurement) -> float | None:
    """Seconds of a step without speculation; None: only one with it was measured."""
    if measurement.accepted is None:
        return measurement.step
    return None if measurement.plain_ms is None else measurement.plain_ms / 1000


def plain_of(measurement: Measurement, library: Library, geometry_of: Geometer) -> Plain | None:
    """The step without speculation of a measurement; None where there is none, or no bytes."""
    deployment = deployment_of(measurement, library)
    geometry = geometry_of(deployment, library)
    bandwidth = deployment.hardware.bandwidth_gb_s
    seconds = _plain_seconds(measurement)
    if geometry.weights is None or bandwidth is None or seconds is None:
        return None
    forward = round_of(deployment, geometry).plain
    reads = reads_of(geometry, forward, load_of(measurement, deployment))
    return Plain(
        name=measurement.name,
        hardware=measurement.hardware,
        model=known_as(deployment.model),
        seconds=seconds,
        size=sum(each.size.value for each in reads),
        layers=forward.layers,
        bandwidth=float(bandwidth),
        prefills=measurement.prefills,
        tensor=measurement.topology.tensor,
    )


def measured_of(
    deployment: Deployment, batch: int, library: Library
) -> tuple[tuple[Measurement, ...], frozenset[str]]:
    """The measurements of this very configuration, and the names that must not predict it.

    These are the same configurations, and all of the series that they belong to: the same people
    in the same run.
    """
    every = [library.measurement(name) for name in library.names("measurement")]
    wanted = (*_placed(deployment), batch, _decisive(deployment, library))
    same = [m for m in every if (*_place(m), m.batch, _named(m, library)) == wanted]
    series = {m.series for m in same if m.series is not None}
    out = {m.name for m in every if m in same or m.series in series}
    return tuple(same), frozenset(out)


def _placed(deployment: Deployment) -> tuple[object, ...]:
    model = deployment.profile.model
    return deployment.hardware.name, model.name, model.overrides, *_sizes(deployment.profile)


def _place(measurement: Measurement) -> tuple[object, ...]:
    return (
        measurement.hardware, measurement.model, measurement.overrides, *_sizes(measurement)
    )  # fmt: skip


def _sizes(of: Profile | Measurement) -> tuple[int, int, int, int]:
    topology = of.topology
    return topology.tensor, topology.expert, topology.data, topology.pipeline


def _decisive(deployment: Deployment, library: Library) -> frozenset[str]:
    return frozenset(_deciding(deployment.mechanisms, library))


def _named(measurement: Measurement, library: Library) -> frozenset[str]:
    return frozenset(_deciding(measurement.optimizations, library))


def _deciding(names: Collection[str], library: Library) -> Iterator[str]:
    """Mechanisms that make it another configuration: graphs do not, nor do those that set
    nothing."""
    for name in names:
        kernel = library.kernel(name)
        if kernel.family != "cuda-graphs" and (kernel.args or kernel.env):
            yield name
