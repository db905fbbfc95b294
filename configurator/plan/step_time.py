"""Seconds of a forward pass: bytes over bandwidth, the rest a layer, or operations if more."""

from __future__ import annotations

from dataclasses import dataclass

from configurator.plan.efficiency import HABIT
from configurator.plan.figures import Figure, between
from configurator.plan.model import Efficiency, Geometry, Pass, ReadOf
from configurator.plan.step_passes import Forward
from configurator.plan.step_reads import Load, operations_of, reads_of
from configurator.schema.content import Hardware

INTENSE = 100
"""Operations a byte above which bandwidth alone is doubtful: half of what the machines of the
content do whose throughput is known (206 to 313 in BF16)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What passes run on."""

    hardware: Hardware
    bandwidth: float
    """GB/s of one GPU."""
    efficiency: Efficiency


def pass_of(geometry: Geometry, forward: Forward, load: Load, machine: Machine) -> Pass:
    """One pass with its bytes and its time."""
    reads = reads_of(geometry, forward, load)
    time = _time(reads, forward, machine)
    ends = computed(geometry, forward, load, machine.hardware)
    if ends is not None:
        time = _at_least(time, ends)
    return Pass(forward.name, forward.tokens, forward.times, reads, time)


def size_of(reads: tuple[ReadOf, ...]) -> Figure:
    """All bytes of a pass."""
    return added([each.size for each in reads], "B", "header or entry of the model")


def added(figures: list[Figure], unit: str, source: str) -> Figure:
    """The sum; ranges add up, for what is behind them is the same in all."""
    formula = " + ".join(f"{shown(each.value, unit)}" for each in figures) or "0"
    return between(
        sum(each.low for each in figures), sum(each.value for each in figures),
        sum(each.high for each in figures), unit, formula, source,
    )  # fmt: skip


def shown(value: float, unit: str) -> str:
    """A number with a unit that people read: GB, ms."""
    if unit == "B":
        return f"{value / 1e9:.3g} GB" if value >= 1e7 else f"{value / 1e6:.3g} MB"
    return f"{value * 1e3:.3g} ms" if unit == "s" else f"{value:.3g}"


def _time(reads: tuple[ReadOf, ...], forward: Forward, machine: Machine) -> Figure:
    size, share = size_of(reads), machine.efficiency.share
    rest, rate = machine.efficiency.layer, machine.bandwidth * 1e9
    layers = forward.layers
    formula = f"{shown(size.value, 'B')} / ({machine.bandwidth:g} GB/s x {share.value:.2f})"
    if rest.high > 0 and layers:
        formula += f" + {layers} layers x {rest.value * 1e6:.0f} us"
    return between(
        size.low / (rate * share.high) + layers * rest.low,
        size.value / (rate * share.value) + layers * rest.value,
        size.high / (rate * share.low) + layers * rest.high,
        "s", formula, f"hardware entry {machine.hardware.name}; {share.source or share.formula}",
    )  # fmt: skip


def computed(
    geometry: Geometry, forward: Forward, load: Load, hardware: Hardware
) -> tuple[float, float] | None:
    """Seconds of the operations: at the rate of the weights' dtype, and in BF16; None: unknown."""
    slow = hardware.tflops.get("bf16")
    if slow is None:
        return None
    rates: dict[str, float] = {str(name): float(rate) for name, rate in hardware.tflops.items()}
    counts = operations_of(geometry, forward, load)
    fast = sum(count / (rates.get(dtype, slow) * 1e12) for dtype, count in counts.items())
    return fast, sum(counts.values()) / (float(slow) * 1e12)


def usual(ends: tuple[float, float]) -> float:
    """Seconds of operations as they usually take: nothing reaches the data sheet's rate."""
    return sum(ends) / 2 / HABIT[1]


def _at_least(time: Figure, ends: tuple[float, float]) -> Figure:
    """`time`, where operations take longer: the data sheet's rate is a bound that none reaches."""
    low, value = max(time.low, ends[0]), max(time.value, usual(ends))
    high = max(time.high, ends[1] / HABIT[0])
    if (low, value, high) == (time.low, time.value, time.high):
        return time
    formula = (
        f"{time.formula}; at least {ends[0] * 1e3:.3g} ms of operations at the data sheet's rate, "
        f"by habit {usual(ends) * 1e3:.3g} ms at {HABIT[1]:.2f} of it"
    )
    # Of one rate the two can differ by the last bit.
    return between(low, max(low, value), max(low, value, high), "s", formula, time.source)
