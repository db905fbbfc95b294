"""Memory: weights, the static fraction, and machines where host and GPU share one memory."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Launch, Option, launch_rule, rule

_SAFE = 0.68
_TOO_HIGH = 0.80
_SPARK = "0xBakeer/ling3-flash-spark and MiaAI-Lab: 0.68 safe, 0.75 risky, 0.95 rebooted the host"


def _shared(launch: Launch) -> tuple[Option, float] | None:
    """The fraction, on a machine where host and GPU share one memory."""
    option, fraction = launch.option("mem-fraction-static"), launch.number("mem-fraction-static")
    unified = launch.hardware is not None and launch.hardware.unified_memory
    # MEM106 says it of a number that is no fraction at all.
    if option is None or fraction is None or not unified or not 0 < fraction < 1:
        return None
    return option, fraction


def _fraction(deployment: Deployment) -> float | None:
    value = deployment.arg("mem-fraction-static")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@launch_rule("MEM101", "fraction-leaves-the-host-no-memory", source=_SPARK)
def fraction_leaves_the_host_no_memory(launch: Launch) -> Iterator[Finding]:
    """On unified memory the fraction is taken from the host too; out of memory wedges the driver
    until a power cycle, and nothing is logged.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.85}

    Good:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.68}

    Bad:
        # hardware: dgx-spark
        sglang serve --model-path m --mem-fraction-static 0.85
    """
    found = _shared(launch)
    if found is None or found[1] <= _TOO_HIGH:
        return
    option, fraction = found
    memory = launch.hardware.memory_gb if launch.hardware else None
    left = f"{memory * (1 - fraction):.0f} GB" if memory else f"{1 - fraction:.0%}"
    of = f" of {memory:g} GB" if memory else ""
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {fraction:g}{of} shared by host and GPU leaves {left} for "
        "everything else",
        f"set it to {_SAFE}",
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
            ("memory", "mem_fraction_static"),
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


@launch_rule("MEM105", "unified-memory-without-a-fraction", severity="warning", source=_SPARK)
def unified_memory_without_a_fraction(launch: Launch) -> Iterator[Finding]:
    """The engine's own choice of the fraction is made for GPUs with memory of their own.

    Bad:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: null}

    Good:
        extends: ling-3.0-flash-spark
        memory: {mem_fraction_static: 0.68}

    Bad:
        # hardware: dgx-spark
        sglang serve --model-path m
    """
    hardware = launch.hardware
    if hardware is None or not hardware.unified_memory or launch.on("mem-fraction-static"):
        return
    model = launch.option("model-path")
    path = launch.path(model) if model else launch.words[0].path if launch.words else ()
    yield Finding(
        # Of a profile: where the fraction would stand.
        ("memory", "mem_fraction_static") if path == ("model", "path") else path,
        f"{hardware.name} shares its memory with the host, and the fraction is left to the engine",
        f"set the fraction (--mem-fraction-static) to {_SAFE}",
    )


@launch_rule("MEM110", "command-with-a-risky-fraction", severity="warning", source=_SPARK)
def command_with_a_risky_fraction(launch: Launch) -> Iterator[Finding]:
    """On unified memory the fraction is no bound while the engine loads and measures, and a
    command has no floor that stops it before the host hangs. MEM102 says it of profiles.

    Bad:
        # hardware: dgx-spark
        sglang serve --model-path m --mem-fraction-static 0.7

    Good:
        # hardware: dgx-spark
        sglang serve --model-path m --mem-fraction-static 0.68
    """
    found = _shared(launch)
    if found is None or not _SAFE < found[1] <= _TOO_HIGH:
        return
    option, fraction = found
    if not launch.words[option.index].origin:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {fraction:g} on memory shared with the host is above the "
            f"{_SAFE} reported as safe",
            f"set it to {_SAFE}, with small --max-running-requests and --chunked-prefill-size, "
            "and watch MemAvailable at the first start",
        )
