"""What the megakernel's flag refuses on a command line."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, Option, launch_rule

_BINDING = "sglang 0.5.23: plugin_kernels/nvidia/binding.py, refused by default"
_FLAG = "enable-nvidia-megakernel"
_ALGORITHM = "speculative-algorithm"
_REFUSED_SWITCHES = {
    "enable-lora": "LoRA", "lora-paths": "LoRA", "enable-torch-compile": "torch.compile",
    "enable-memory-saver": "the memory saver", "enable-weights-cpu-backup": "the memory saver",
    "enable-hierarchical-cache": "HiCache", "enable-lmcache": "LMCache",
    "enable-flexkv": "FlexKV", "enable-hisparse": "HiSparse",
    "disaggregation-decode-enable-offload-kvcache": "KV offload",
    "enable-eplb": "expert load balancing", "enable-two-batch-overlap": "two-batch overlap",
    "enable-single-batch-overlap": "single-batch overlap",
    "enable-deterministic-inference": "deterministic inference",
    "rl-on-policy-target": "deterministic inference",
    "enable-return-routed-experts": "returning routed experts",
    "enable-return-indexer-topk": "returning the indexer's choice",
    "enable-prefill-cp": "context parallelism", "enable-amd-monokernel": "the AMD monokernel",
}  # fmt: skip
# What is refused above this number.
_REFUSED_ABOVE = {
    "nnodes": (1, "an instance over several hosts"), "ep-size": (1, "expert parallelism"),
    "pp-size": (1, "pipeline parallelism"), "attn-dp-size": (1, "data parallel attention"),
    "attn-cp-size": (1, "context parallelism"), "dcp-size": (1, "context parallelism"),
    "cpu-offload-gb": (0, "CPU offload"), "offload-group-size": (0, "CPU offload"),
}  # fmt: skip
_RAGGED = "SGLANG_RAGGED_VERIFY_MODE"
# The plugin's waits end after half the watchdog's time, and it wants 5 seconds for them.
_SHORTEST_WATCHDOG_S = 10


@launch_rule("MEGA108", "megakernel-with-a-refused-feature", source=_BINDING)
def megakernel_with_a_refused_feature(launch: Launch) -> Iterator[Finding]:
    """Features that the megakernel refuses before the weights load, listing every reason, unless
    the model's specification in the plugin lists them.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {enable-torch-compile: true}}

    Good:
        extends: muse-spark-open-gb300x8

    Bad:
        sglang serve --model-path m --tp-size 8 --nnodes 2 --enable-nvidia-megakernel

    Good:
        sglang serve --model-path m --tp-size 4 --enable-nvidia-megakernel
    """
    if not launch.on(_FLAG):
        return
    for option, feature in _refused(launch):
        word = launch.words[option.index]
        # MEGA104 and MEGA105 say it of a profile's topology.
        if word.origin == "topology":
            continue
        value = f" {launch.text(option.name)}" if option.values else ""
        given, own = f"--{option.name}{value}", f"--{_FLAG}"
        if word.origin:
            own = "nvidia-megakernel"
            remedy = f"remove {option.name} from {word.origin}, or remove {own}"
        else:
            remedy = f"remove --{option.name}, or {own}"
        yield Finding(word.path, f"{own} refuses {feature} ({given})", remedy)
    ragged = launch.env.get(_RAGGED)
    if ragged and ragged.value and ragged.value.lower() != "static" and launch.on(_ALGORITHM):
        text = f"the megakernel refuses ragged verify steps ({_RAGGED}={ragged.value})"
        yield Finding(ragged.path, text, f"remove {_RAGGED}, or set it to static")


def _refused(launch: Launch) -> Iterator[tuple[Option, str]]:
    """Options whose features the plugin refuses by default."""
    for name, feature in _REFUSED_SWITCHES.items():
        if option := launch.option(name):
            yield option, feature
    for name, (most, feature) in _REFUSED_ABOVE.items():
        option, number = launch.option(name), launch.number(name)
        if name == "ep-size" and (launch.entry is None or not launch.entry.described):
            continue  # The table has models with expert parallelism.
        if option and number is not None and number > most:
            yield option, feature
    option, mode = launch.option("disaggregation-mode"), launch.text("disaggregation-mode")
    if option and mode not in (None, "null"):
        yield option, "disaggregation"
    option, copies = launch.option("dp-size"), launch.integer("dp-size")
    if option and copies and copies > 1 and launch.on("enable-dp-attention"):
        yield option, "data parallel attention"


@launch_rule("MEGA113", "watchdog-too-short-for-the-megakernel", source=_BINDING)
def watchdog_too_short_for_the_megakernel(launch: Launch) -> Iterator[Finding]:
    """Waits between GPUs end after half the watchdog's time; with less than 5 seconds for them
    the launch is refused.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {watchdog-timeout: 8}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {watchdog-timeout: 300}}

    Bad:
        sglang serve --model-path m --watchdog-timeout 8 --enable-nvidia-megakernel
    """
    option, seconds = launch.option("watchdog-timeout"), launch.number("watchdog-timeout")
    if option is None or seconds is None or not launch.on(_FLAG):
        return
    if 0 < seconds < _SHORTEST_WATCHDOG_S:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {seconds:g} leaves the waits of the megakernel "
            f"{seconds / 2:g} s; below {_SHORTEST_WATCHDOG_S / 2:g} s it is refused",
            f"set it to at least {_SHORTEST_WATCHDOG_S}, or leave it to the engine",
        )
