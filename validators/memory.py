"""Memory: weights, the static fraction, and machines where host and GPU share one memory."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, rule

_SAFE = 0.68
_TOO_HIGH = 0.80
_SPARK = "0xBakeer/ling3-flash-spark and MiaAI-Lab: 0.68 safe, 0.75 risky, 0.95 rebooted the host"
_FRACTION = ("memory", "mem_fraction_static")


def _fraction(deployment: Deployment) -> float | None:
    value = deployment.arg("mem-fraction-static")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@rule("MEM101", "fraction-leaves-the-host-no-memory", source=_SPARK)
def fraction_leaves_the_host_no_memory(deployment: Deployment) -> Iterator[Finding]:
    """On unified memory the fraction is taken from the host too; out of memory wedges the driver
    until a power cycle, and nothing is logged.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.85}

    Good:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.68}
    """
    fraction, hardware = _fraction(deployment), deployment.hardware
    shared = hardware.memory_gb if hardware.unified_memory else None
    if shared is not None and fraction is not None and fraction > _TOO_HIGH:
        left = shared * (1 - fraction)
        yield Finding(
            _FRACTION,
            f"{fraction:g} of {shared:g} GB shared by host and GPU leaves "
            f"{left:.0f} GB for everything else",
            f"set memory.mem_fraction_static to {_SAFE}",
        )


@rule("MEM102", "fraction-above-the-safe-one", severity="info", source=_SPARK)
def fraction_above_the_safe_one(deployment: Deployment) -> Iterator[Finding]:
    """On unified memory 0.68 is reported as safe; somewhat more works, with risk.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.75}

    Good:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.68}
    """
    fraction = _fraction(deployment)
    if deployment.hardware.unified_memory and fraction and _SAFE < fraction <= _TOO_HIGH:
        yield Finding(
            _FRACTION,
            f"{fraction:g} on unified memory is above the {_SAFE} reported as safe",
            f"watch MemAvailable at the first start, or set it to {_SAFE}",
        )


@rule("MEM103", "weights-do-not-fit", source="the model's weights_gb and the machine's memory_gb")
def weights_do_not_fit(deployment: Deployment) -> Iterator[Finding]:
    """An even split of the weights alone is more than the share of memory the engine may take.

    Bad:
        extends: muse-spark-open-gb300x8
        hardware: {gpus: 2}
        topology: {replicas: 2, tensor: 1}

    Good:
        extends: muse-spark-open-gb300x8
    """
    model, hardware = deployment.model, deployment.hardware
    fraction = _fraction(deployment) or 1.0
    if not model.weights_gb or not hardware.memory_gb:
        return
    each = model.weights_gb / deployment.gpus_per_replica
    room = hardware.memory_gb * fraction
    if each > room:
        least = -(-model.weights_gb // room)
        yield Finding(
            ("topology", "tensor"),
            f"{model.weights_gb:g} GB of weights over {deployment.gpus_per_replica} GPUs is "
            f"{each:.0f} GB each; {fraction:g} of {hardware.memory_gb:g} GB is {room:.0f} GB",
            f"use at least {least:.0f} GPUs per replica",
        )


@rule(
    "MEM104",
    "unified-memory-without-a-floor",
    severity="warning",
    source="0xBakeer/ling3-flash-spark: start only with MemAvailable of 85 GiB; sglang 35860",
)
def unified_memory_without_a_floor(deployment: Deployment) -> Iterator[Finding]:
    """On unified memory a launch into memory that a crashed container still holds hangs the host;
    a floor for the free memory lets preflight refuse it.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {min_available_gib: null}

    Good:
        extends: ling-3.0-flash-spark
        memory: {min_available_gib: 85}
    """
    memory, hardware = deployment.profile.memory, deployment.hardware
    if hardware.unified_memory and memory.min_available_gib is None:
        weights = (deployment.model.weights_gb or 0) / deployment.gpus_per_replica / 1.0737
        floor = max(8, round(weights * 1.25 + 3))
        yield Finding(
            ("memory", "min_available_gib"),
            f"host and GPU of {hardware.name} share {hardware.memory_gb:g} GB, and nothing says "
            "how much must be free before the launch",
            f"set memory.min_available_gib, for instance to {floor}",
        )


@rule("MEM105", "unified-memory-without-a-fraction", severity="warning", source=_SPARK)
def unified_memory_without_a_fraction(deployment: Deployment) -> Iterator[Finding]:
    """The engine's own choice of the fraction is made for GPUs with memory of their own.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: null}

    Good:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.68}
    """
    if deployment.hardware.unified_memory and _fraction(deployment) is None:
        yield Finding(
            _FRACTION,
            f"{deployment.hardware.name} shares its memory with the host, and the fraction is left "
            "to the engine",
            f"set memory.mem_fraction_static to {_SAFE}",
        )
