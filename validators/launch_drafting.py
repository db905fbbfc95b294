"""Arguments of speculative decoding that the engine ignores, replaces, or fills in by itself."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, launch_rule, since

_BLOCK = ("DFLASH", "DSPARK")
_SWITCH = "SGLANG_ENABLE_SPEC_V2"
_SOURCE = "sglang 0.5.9 to 0.5.23: server_args.py, arg_groups/speculative_hook.py"
# Of 0.5.23; sglang 0.5.12 lacks the last ones.
_DEFAULT_DRAFT = (
    "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM",
    "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM",
    "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "HYV3ForCausalLM",
    "HYV4ForCausalLM", "IQuestQ1ForCausalLM", "MistralLarge3ForCausalLM",
    "PixtralForConditionalGeneration", "Qwen4ExpForConditionalGeneration",
)  # fmt: skip
_LIMITED = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "FROZEN_KV_MTP", *_BLOCK)


def _algorithm(launch: Launch) -> str | None:
    """The algorithm in capitals; None without one, or where nobody can tell."""
    text = launch.text("speculative-algorithm")
    return text.upper() if text else None


@launch_rule(
    "SPEC124",
    "speculation-argument-without-effect",
    severity="warning",
    source=_SOURCE + "; draft_worker_common.py runs block drafts outside the draft's MoE context",
)
def speculation_argument_without_effect(launch: Launch) -> Iterator[Finding]:
    """An argument that this algorithm does not read, or that the engine switches off.

    Bad:
        sglang serve --model-path m --speculative-algorithm DSPARK \
--speculative-moe-runner-backend triton

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE \
--speculative-moe-runner-backend triton
    """
    name = _algorithm(launch)
    for flag, reason in _idle_arguments(launch, name):
        option = launch.option(flag)
        if option is not None:
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} has no effect {reason}",
                f"remove --{flag}",
            )


def _idle_arguments(launch: Launch, name: str | None) -> Iterator[tuple[str, str]]:
    known = launch.catalogue
    if not launch.on("speculative-algorithm"):
        for flag in ("num-steps", "eagle-topk", "num-draft-tokens", "draft-model-path"):
            yield f"speculative-{flag}", "without --speculative-algorithm"
    if name is None or known is None:
        return
    with_algorithm = f"with --speculative-algorithm {name}"
    if name in _BLOCK:
        yield "speculative-moe-runner-backend", with_algorithm
    mixed = ("EAGLE", "EAGLE3", "NEXTN", *_BLOCK) if since(known, "0.5.19") else ()
    if name not in mixed:
        yield "enable-mixed-chunk", f"{with_algorithm}: the engine switches it off"
    honoured = ("EAGLE", "EAGLE3", "NEXTN", "DFLASH")
    if since(known, "0.5.14") and name not in honoured:
        yield "speculative-draft-window-size", with_algorithm
    if name == "EAGLE3":
        yield "speculative-token-map", f"{with_algorithm}: the draft brings its own"


@launch_rule("SPEC125", "sink-without-a-window", source="sglang 0.5.21 to 0.5.23: "
             "speculative_hook.py")  # fmt: skip
def sink_without_a_window(launch: Launch) -> Iterator[Finding]:
    """The draft keeps its first tokens beside a window: without the window the engine refuses
    it.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-draft-sink-size 4

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-draft-sink-size 4 \
--speculative-draft-window-size 512
    """
    option = launch.option("speculative-draft-sink-size")
    if option is not None and not launch.on("speculative-draft-window-size"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} without --speculative-draft-window-size",
            "set --speculative-draft-window-size too, for instance to 512",
        )


@launch_rule("SPEC126", "running-requests-lowered-by-speculation", severity="info", source=_SOURCE)
def running_requests_lowered_by_speculation(launch: Launch) -> Iterator[Finding]:
    """With speculation and without a limit of its own the engine runs at most 48 requests at
    once; the others wait.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE --max-running-requests 64
    """
    option, name = launch.option("speculative-algorithm"), _algorithm(launch)
    if option is None or name not in _LIMITED:
        return
    if not launch.on("max-running-requests") and since(launch.catalogue, "0.5.9"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} without --max-running-requests: the engine runs at "
            "most 48 requests at once",
            "set --max-running-requests to what the deployment is for",
        )


@launch_rule("SPEC127", "algorithm-under-another-name", severity="info", source=_SOURCE)
def algorithm_under_another_name(launch: Launch) -> Iterator[Finding]:
    """NEXTN is a second name of EAGLE: that is what /server_info and the log show, and for a
    Gemma 4 draft FROZEN_KV_MTP.

    Bad:
        sglang serve --model-path m --speculative-algorithm NEXTN

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE
    """
    option = launch.option("speculative-algorithm")
    # A profile's mechanism knows the name by itself.
    by_hand = option is not None and not launch.words[option.index].origin
    if option is not None and by_hand and _algorithm(launch) == "NEXTN":
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} NEXTN shows as EAGLE in /server_info and in the log",
            "expect EAGLE there; nothing has to change",
        )


@launch_rule(
    "SPEC128",
    "draft-of-the-target-not-named",
    severity="warning",
    source="sglang 0.5.12 to 0.5.23: the list in speculative_hook.py; pull request 23859",
)
def draft_of_the_target_not_named(launch: Launch) -> Iterator[Finding]:
    """The draft path defaults to the target for certain architectures only. For another
    /server_info shows no draft, and whether the layers inside the checkpoint draft at all is not
    sure.

    Bad:
        # config: {"architectures": ["Qwen3_5MoeForConditionalGeneration"]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN

    Good:
        # config: {"architectures": ["Glm4MoeForCausalLM"]}
        sglang serve --model-path CHECKPOINT --speculative-algorithm NEXTN
    """
    option, name, target = (
        launch.option("speculative-algorithm"),
        _algorithm(launch),
        launch.checkpoint,
    )
    if option is None or name not in ("NEXTN", "EAGLE") or target is None:
        return
    architectures = target.architectures
    if launch.on("speculative-draft-model-path"):
        return
    if architectures and architectures[0] not in _DEFAULT_DRAFT:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} without --speculative-draft-model-path: "
            f"{architectures[0]} has no default",
            "set --speculative-draft-model-path to the target's own path",
        )


@launch_rule(
    "SPEC129",
    "switch-of-a-version-that-is-gone",
    severity="warning",
    source="sglang 0.5.14 to 0.5.20: speculative_hook.py, 'has been removed'; pull request 22128",
)
def switch_of_a_version_that_is_gone(launch: Launch) -> Iterator[Finding]:
    """SGLANG_ENABLE_SPEC_V2 chose between two implementations; the second is the only one now,
    and the variable is looked at to say so.

    Bad:
        # engine: 0.5.17
        SGLANG_ENABLE_SPEC_V2=False sglang serve --model-path m --speculative-algorithm EAGLE

    Good:
        # engine: 0.5.12
        SGLANG_ENABLE_SPEC_V2=True sglang serve --model-path m --speculative-algorithm EAGLE
    """
    given, known = launch.env.get(_SWITCH), launch.catalogue
    # A release that does not even look at it: ENV101.
    if given is None or known is None or _SWITCH in known.variables:
        return
    if _SWITCH in known.env_read:
        yield Finding(
            given.path,
            f"{_SWITCH} has no effect in sglang {known.version}: speculation always runs its "
            "second version",
            "remove it; --disable-overlap-schedule runs drafts without overlap",
        )
