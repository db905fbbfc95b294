"""The LM head's plugin: what it refuses at start, said before one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from configurator import Deployment, Finding, Mechanism, rule

_PACKAGE = "configurator_fp8_head"
_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM")
_SM = 89
# As the plugin has them; --enable-fp32-lm-head is HEAD101's.
_ARGUMENTS = {
    "speculative-token-map": "gives the draft a copy of some rows of the head",
    "enable-dp-lm-head": "divides the head in a way that it does not handle",
    "enable-tp-lm-head-all-to-all": "exchanges logits in a way that it does not handle",
    "enable-memory-saver": "keeps weights in memory that it does not handle",
    "enable-torch-compile": "compiles the head, which it does not handle",
    "enable-deterministic-inference": "promises logits that are the same in any batch",
    "rl-on-policy-target": "makes inference deterministic, with logits that are the same anywhere",
    "torchao-config": "quantizes layers after loading too",
    "enable-multi-layer-eagle": "drafts in a way that was not tried with it",
    "enable-nvidia-megakernel": "may read the head past its method",
    "remote-instance-weight-loader-start-seed-via-transfer-engine": "hands the memory of the BF16 "
    "head on, which is given up",
}
# Values of arguments that it refuses, where others are right.
_VALUES = {
    "startup-weight-load-mode": (("overlap",), "loads the weights while graphs are captured"),
    "weight-cache-mode": (("daemon", "client"), "leaves the weights to a daemon"),
    "quantization": (("gguf",), "is of a head that is quantized already"),
    "load-format": (("gguf",), "is of a head that is quantized already"),
}
_DEVICES = ("cuda", "cpu")


def _brought(deployment: Deployment) -> Mechanism | None:
    """The mechanism that the plugin brings; None where the launch does not bring it along."""
    found = deployment.mechanisms.values()
    return next((m for m in found if m.plugin and m.plugin.package == _PACKAGE), None)


@rule("HEAD108", "fp8-head-plugin-refuses", source="kernels/plugins/configurator_fp8_head")
def fp8_head_plugin_refuses(deployment: Deployment) -> Iterator[Finding]:
    """The plugin that makes the LM head FP8 ends a launch that it cannot serve right, before the
    weights load. What the profile shows of that is said here.

    Bad:
        extends: ling-3.0-flash-spark-plugin
        extra: {args: {enable-dp-lm-head: true}}

    Good:
        extends: ling-3.0-flash-spark-plugin
    """
    head = _brought(deployment)
    if head is None:
        return
    for path, fact, remedy in (
        *_of_shape(deployment, head),
        *_of_drafting(deployment),
        *_of_arguments(deployment),
    ):
        yield Finding(path, f"{fact}: the plugin of {head.name} refuses that at start", remedy)


_Reason = tuple[tuple[str | int, ...], str, str]


def _of_shape(deployment: Deployment, head: Mechanism) -> Iterator[_Reason]:
    model, stages = deployment.model, deployment.profile.topology.pipeline
    remove = f"remove it with '{head.name}: null'"
    if model.tied_embeddings:
        yield head.path, f"{model.name} ties its LM head to the embedding", remove
    if stages > 1:
        fact = f"topology.pipeline is {stages}, and only the last stage has the head"
        yield ("topology", "pipeline"), fact, "set topology.pipeline to 1"
    if head.options.get("share") == "tensors":
        fact = "share is tensors, and its drafts get the whole module"
        yield (*head.path, "share"), fact, "set share to module"
    found = re.fullmatch(r"sm_([0-9]+)", deployment.hardware.arch or "")
    if found and int(found[1]) < _SM:
        fact = f"{deployment.hardware.name} is {found[0]}, which multiplies no FP8"
        yield ("hardware", "name"), fact, f"choose a GPU of sm_{_SM} or newer, or {remove}"


def _of_drafting(deployment: Deployment) -> Iterator[_Reason]:
    asked = deployment.args.get("speculative-algorithm")
    name = str(asked.value).upper() if asked else ""
    if asked and name not in _ALGORITHMS:
        fact = f"drafts of {name} read the weight of the head past its method"
        yield asked.path, fact, f"draft with one of {', '.join(_ALGORITHMS)}"


def _of_arguments(deployment: Deployment) -> Iterator[_Reason]:
    for name, why in _ARGUMENTS.items():
        found = deployment.args.get(name)
        if found and found.value:
            yield found.path, f"--{name} {why}", f"leave out {name}"
    for name, (values, why) in _VALUES.items():
        found = deployment.args.get(name)
        if found and str(found.value).lower() in values:
            yield found.path, f"--{name} {found.value} {why}", f"leave out {name}"
    device = deployment.args.get("device")
    if device and str(device.value) not in _DEVICES:
        fact = f"--device is {device.value}, on which it was not tried"
        yield device.path, fact, f"choose one of {', '.join(_DEVICES)}"
    modules = deployment.args.get("lora-target-modules")
    if modules:
        value = modules.value
        names = [str(each) for each in value] if isinstance(value, tuple) else [str(value)]
        if {"lm_head", "all"}.intersection(names):
            fact = f"--lora-target-modules is {' '.join(names)}, with the LM head"
            yield modules.path, fact, "leave the LM head out of lora-target-modules"


@rule(
    "HEAD109", "fp8-head-option-of-the-plugin", severity="warning",
    source="kernels/fp8-lm-head.yaml",
)  # fmt: skip
def fp8_head_option_of_the_plugin(deployment: Deployment) -> Iterator[Finding]:
    """Scales are chosen for an FP8 LM head that a build makes: it has its own, and nobody reads the
    wish.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations: {fp8-lm-head: {granularity: per-row}}

    Good:
        extends: ling-3.0-flash-spark-plugin
        optimizations: {fp8-lm-head: {granularity: per-row}}
    """
    for head in deployment.mechanisms.values():
        offered = head.kernel.plugin
        if head.plugin or not offered or offered.package != _PACKAGE:
            continue
        if "granularity" in head.wish.options:
            value = head.wish.options["granularity"]
            yield Finding(
                (*head.path, "granularity"),
                f"granularity is {value}, and only the plugin of {head.name} reads it: its "
                f"provider is {head.wish.provider or 'the build'}",
                "leave granularity out, or set provider to configurator",
            )
