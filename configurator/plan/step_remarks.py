"""What a reader of a step must know beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from configurator.deployment import Deployment
from configurator.plan.figures import Figure
from configurator.plan.model import Change, Geometry
from configurator.plan.step_passes import Round
from configurator.plan.step_reads import Load, operations_of, reads_of
from configurator.plan.step_round import Timed
from configurator.plan.step_time import INTENSE, Machine, computed, shown, size_of, usual
from configurator.schema.measurement import Measurement

_MOST_BATCH = 1 << 16


def bound_of(timed: Timed, machine: Machine, geometry: Geometry, load: Load) -> str:
    """What bounds the step: the largest classes it reads, operations, or what is beside both."""
    alone = timed.step is None or timed.ratio is None
    passes = [timed.plain] if alone else list(timed.passes[1:])
    sizes: dict[str, float] = {}
    for one in passes:
        for read in one.reads:
            name = f"{read.name} ({read.dtype})" if read.dtype else read.name
            sizes[name] = sizes.get(name, 0.0) + read.size.value * one.times
    total = sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    text = ", ".join(f"{name} {size / total:.0%}" for name, size in largest)
    step = sum(one.time.value * one.times for one in passes)
    reading = total / (machine.bandwidth * 1e9 * machine.efficiency.share.value)
    computing = _computing(timed.round, machine, geometry, load, alone=alone)
    if computing >= max(reading, step / 2):
        return (
            f"operations: {shown(computing, 's')} of {shown(step, 's')} by habit, where reading "
            f"{shown(total, 'B')} takes {shown(reading, 's')}"
        )
    if reading < step / 2:
        return (
            f"launches, synchronisation and the host: reading {shown(total, 'B')} takes "
            f"{reading / step:.0%} of the step"
        )
    return f"memory bandwidth: {shown(total, 'B')} a step, of it {text}"


def _computing(
    found: Round, machine: Machine, geometry: Geometry, load: Load, *, alone: bool
) -> float:
    """Seconds of a step's operations by habit; 0 where the machine's throughput is not known."""
    verify = (found.verify,) if found.verify else ()
    seconds = 0.0
    for forward in (found.plain,) if alone else (*found.drafts, *verify):
        ends = computed(geometry, forward, load, machine.hardware)
        seconds += usual(ends) * forward.times if ends else 0.0
    return seconds


def remarks_of(
    deployment: Deployment,
    geometry: Geometry,
    load: Load,
    machine: Machine,
    timed: Timed,
    published: Sequence[Measurement],
    changes: Sequence[Change],
) -> tuple[str, ...]:
    """Facts with their values, the most surprising first."""
    return (
        *_speculation(deployment, machine.efficiency.round, timed),
        *_published(published, timed),
        *_efficiency(deployment, machine, timed),
        *_unchanged(deployment, changes),
        *_bytes(deployment, geometry, load, timed),
        *_operations(geometry, load, machine, timed),
    )


def _speculation(deployment: Deployment, beside: Figure, timed: Timed) -> Iterator[str]:
    if timed.round.unknown:
        yield timed.round.unknown
    mechanism = deployment.speculation
    if mechanism is None:
        return
    if not timed.round.unknown and timed.ratio is None and timed.verify_ratio is not None:
        yield (
            f"what the draft of {mechanism.name} reads is not known, so neither is its step; "
            f"verify over plain is {timed.verify_ratio.value:.2f}, and it pays only above that"
        )
    if timed.ratio is None or timed.verify_ratio is None:
        return
    passes = sum(one.time.value * one.times for one in timed.passes[1:])
    ours = (
        f"verify over plain is {timed.verify_ratio.value:.2f}, with the draft's passes "
        f"{passes / timed.plain.time.value:.2f}, with what a round takes beside them "
        f"{timed.ratio.value:.2f} ({timed.ratio.low:.2f} to {timed.ratio.high:.2f})"
    )
    said = mechanism.wish.acceptance.verify_cost_ratio if mechanism.wish.acceptance else None
    if said is not None:
        inside = timed.ratio.low <= said <= timed.ratio.high
        ours += (
            f"; the profile's verify_cost_ratio of {said:g} is "
            f"{'inside' if inside else 'outside of'} the range, and it is not known which of the "
            "three it is"
        )
    yield ours
    if beside.high > 0:
        yield (
            f"a round takes {beside.value * 1e3:.1f} ms ({beside.low * 1e3:.1f} to "
            f"{beside.high * 1e3:.1f}) beside its passes: {beside.formula}"
        )
    if timed.accepted is None:
        yield (
            f"no acceptance length is known, so no time a token: it pays above "
            f"{timed.ratio.value:.2f} tokens a step; a profile's floor is a wish, no estimate"
        )


def _published(published: Sequence[Measurement], timed: Timed) -> Iterator[str]:
    step = timed.step
    if step is None:
        return
    for each in published:
        if each.accepted is None and timed.ratio is not None:
            continue
        length = each.accepted or 1.0
        low, high = step.low / length, step.high / length
        token = each.per_token
        inside = low <= token <= high
        at = f" at {length:g} tokens a step" if each.accepted is not None else ""
        text = (
            f"measured by {each.measured_by}{at}: {token * 1e3:.4g} ms a token; ours "
            f"{step.value / length * 1e3:.4g} ({low * 1e3:.4g} to {high * 1e3:.4g})"
        )
        yield text if inside else f"{text}: outside, {_why(token < low)}"


def _why(is_faster: bool) -> str:
    if is_faster:
        return (
            "faster than the bytes allow: fewer distinct experts than uniform routing reads, a "
            "larger share of the bandwidth, or fewer bytes than counted"
        )
    return (
        "slower than the bytes explain: launches, sampling, synchronisation, prefills in between "
        "or a longer context than counted"
    )


def _unchanged(deployment: Deployment, changes: Sequence[Change]) -> Iterator[str]:
    """Mechanisms whose gain no count of bytes can tell."""
    counted = {change.mechanism for change in changes}
    names = [
        name
        for name, mechanism in deployment.mechanisms.items()
        if name not in counted
        and mechanism is not deployment.speculation
        and (mechanism.kernel.args or mechanism.kernel.env)
    ]
    if names:
        yield (
            f"changes no byte that is read: {', '.join(names)}; what kernels, launches and graphs "
            "gain is not planned, see the published figures"
        )


def _efficiency(deployment: Deployment, machine: Machine, timed: Timed) -> Iterator[str]:
    found = machine.efficiency
    if found.layer.high > 0 and not timed.round.plain.layers:
        yield (
            f"how many layers {deployment.model.name} has is not known, so these times are of "
            f"bytes alone, without up to {found.layer.high * 1e6:.0f} us a layer: give its entry "
            "'layers'"
        )
        return
    ranks = deployment.profile.topology.tensor
    if found.rests_on and ranks > max(found.tensors, default=1):
        yield (
            f"measured at tensor {max(found.tensors)} at most: what {ranks} GPUs wait for each "
            "other is not in it"
        )
    if not found.rests_on:
        yield (
            f"no plain step that counts is measured on {machine.hardware.name}: share of the "
            f"bandwidth by habit, and up to {found.layer.high * 1e6:.0f} us a layer beside the "
            "bytes, the most that was seen on other hardware"
        )


def _bytes(deployment: Deployment, geometry: Geometry, load: Load, timed: Timed) -> Iterator[str]:
    for text in geometry.unknown:
        yield f"not counted: {text}"
    said = geometry.context or deployment.model.context
    most = deployment.profile.workload.context or said
    plain = timed.round.plain
    if most and most > load.context:
        here = size_of(reads_of(geometry, plain, load)).value
        there = size_of(reads_of(geometry, plain, replace(load, context=most))).value
        if there > here * 1.02:
            yield (
                f"caches are read at {load.context:,} tokens; at {most:,} a plain step reads "
                f"{shown(there, 'B')} instead of {shown(here, 'B')}"
            )
    if deployment.profile.topology.pipeline > 1:
        yield "stages of the pipeline run one after another; nothing is taken to overlap"


def _operations(geometry: Geometry, load: Load, machine: Machine, timed: Timed) -> Iterator[str]:
    if machine.hardware.tflops.get("bf16") is not None:
        return
    forward = timed.round.verify or timed.round.plain
    batch = 1
    while batch < _MOST_BATCH:
        other = replace(load, batch=batch)
        operations = sum(operations_of(geometry, forward, other).values())
        if operations > INTENSE * size_of(reads_of(geometry, forward, other)).value:
            yield (
                f"only bandwidth is considered, for the throughput of {machine.hardware.name} is "
                f"not known: doubtful from batch {batch} on, more than {INTENSE} operations a byte"
            )
            return
        batch *= 2
