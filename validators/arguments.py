"""Who sets an argument: mechanisms against each other, and `extra` against all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator import Deployment, Finding, Launch, launch_rule, rule

# Second names of parsers.
_PARSERS = {"qwen25": "qwen", "glm45": "glm"}
_BELONGS = {
    "tp": "topology.tensor", "tp-size": "topology.tensor",
    "tensor-parallel-size": "topology.tensor", "pp-size": "topology.pipeline",
    "pipeline-parallel-size": "topology.pipeline",
    "dp": "topology.data", "dp-size": "topology.data", "data-parallel-size": "topology.data",
    "ep": "topology.expert", "ep-size": "topology.expert",
    "expert-parallel-size": "topology.expert", "nnodes": "hardware.gpus",
    "node-rank": "hardware.gpus", "model": "model.path", "model-path": "model.path",
    "host": "serving.host", "port": "serving.port",
    "served-model-name": "serving.served_model_name", "context-length": "workload.context",
    "mem-fraction-static": "memory.mem_fraction_static",
}  # fmt: skip


@rule("REF112", "mechanisms-set-the-same-argument", source="the kernel entries' args and env")
def mechanisms_set_the_same_argument(deployment: Deployment) -> Iterator[Finding]:
    """Two mechanisms set one argument to different values: only the last would count.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          fp8-kv-cache: {}
          decode-cuda-graphs: {overrides: {args: {kv-cache-dtype: auto}}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for lost in deployment.overridden:
        winner = deployment.args.get(lost.name) or deployment.env.get(lost.name)
        if winner is None or not winner.origin.startswith("kernel "):
            continue
        if lost.origin.startswith("kernel ") and not _known_rivals(deployment, lost, winner):
            yield Finding(
                winner.path,
                f"{lost.origin} sets {lost.name} to {lost.value}, {winner.origin} sets it to "
                f"{winner.value}",
                f"remove one, for instance with '{lost.path[-1]}: null' under optimizations",
            )


@rule("REF113", "extra-overrides-a-mechanism", source="the order of origins in resolve.py")
def extra_overrides_a_mechanism(deployment: Deployment) -> Iterator[Finding]:
    """`extra` replaces what a mechanism sets, so the mechanism would not take effect as wished.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {moe-runner-backend: triton}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for lost in deployment.overridden:
        kept = deployment.args.get(lost.name) or deployment.env.get(lost.name)
        if kept is not None and not kept.origin.startswith("extra"):
            continue
        if lost.origin.startswith("kernel "):
            section = "args" if lost.name in _extra_args(deployment) else "env"
            yield Finding(
                kept.path if kept else ("extra", section, lost.name),
                f"extra.{section} replaces {lost.name} of {lost.origin}, which wants {lost.value}",
                f"remove it from extra.{section}, or remove the mechanism",
            )


def _known_rivals(deployment: Deployment, *rivals: Any) -> bool:
    """REF111 or SPEC107 already say that one of these two mechanisms must go."""
    first, second = (deployment.mechanisms[str(rival.path[-1])] for rival in rivals)
    return (
        first.kernel.family == second.kernel.family == "speculation"
        or second.name in first.kernel.excludes
        or first.name in second.kernel.excludes
    )


def _extra_args(deployment: Deployment) -> set[str]:
    return {name.lstrip("-") for name in deployment.profile.extra.args}


@rule("REF114", "argument-has-a-key-of-its-own", source="configurator/schema/profile.py")
def argument_has_a_key_of_its_own(deployment: Deployment) -> Iterator[Finding]:
    """`extra.args` sets what a key of the profile sets; hosts and checks follow the key alone.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {tp-size: 2}}

    Good:
        extends: ling-3.0-flash-spark
        topology: {tensor: 1}
    """
    for name in deployment.profile.extra.args:
        key = _BELONGS.get(name.lstrip("-").replace("_", "-"))
        if key:
            yield Finding(
                ("extra", "args", name),
                f"extra.args sets --{name.lstrip('-')}, but hosts, ranks and checks follow {key}",
                f"write {key} instead",
            )


@launch_rule(
    "REF115",
    "parser-of-another-model",
    severity="warning",
    source="the model entry's parsers; for Ling 3.0: ling3-flash-spark, ly01325 and 0xBakeer",
)
def parser_of_another_model(launch: Launch) -> Iterator[Finding]:
    """A parser that does not fit the model's output: reasoning or tool calls come out as text.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {tool-call-parser: qwen25}}

    Good:
        extends: ling-3.0-flash-spark
        extra: {args: {tool-call-parser: ling3}}

    Bad:
        sglang serve --model-path inclusionAI/Ling-3.0-flash-fp4 --reasoning-parser deepseek-r1

    Good:
        sglang serve --model-path inclusionAI/Ling-3.0-flash-fp4 --reasoning-parser ling3
    """
    if launch.entry is None:
        return
    parsers = launch.entry.parsers
    for name, right in (
        ("reasoning-parser", parsers.reasoning),
        ("tool-call-parser", parsers.tool_call),
    ):
        option, given = launch.option(name), launch.text(name)
        if option is None or right is None or given in (None, "auto"):
            continue
        if _PARSERS.get(str(given), given) == right:
            continue
        ours = launch.words[option.index].origin
        yield Finding(
            launch.path(option),
            f"--{name} is {given}; the output of {launch.entry.name} is read by {right}",
            f"remove it from {ours}: the model entry sets {right}"
            if ours
            else f"set it to {right}",
        )
