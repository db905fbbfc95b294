"""Drafts of speculative decoding: whether they are there, public, and made for this target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator import Deployment, Finding, Mechanism, rule

# sglang 0.5.23, arg_groups/speculative_hook.py: the draft path defaults to the target for these.
_DEFAULT_DRAFT_PATH = (
    "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM",
    "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM",
    "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "HYV3ForCausalLM",
    "HYV4ForCausalLM", "MistralLarge3ForCausalLM", "PixtralForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration",
)  # fmt: skip


def _drafting(deployment: Deployment) -> Iterator[Mechanism]:
    return iter(deployment.of_family("speculation"))


def _window(mechanism: Mechanism) -> int | None:
    """Tokens of one verify step as the profile asks for them."""
    tokens, block = mechanism.options.get("draft_tokens"), mechanism.options.get("block_size")
    if isinstance(tokens, int):
        return tokens
    return block + 1 if isinstance(block, int) else None


def _number(deployment: Deployment, name: str) -> int | None:
    value: Any = deployment.arg(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@rule("SPEC102", "draft-path-missing", source="sglang 0.5.23: speculative_hook.py")
def draft_path_missing(deployment: Deployment) -> Iterator[Finding]:
    """NEXTN needs a draft path for architectures without a default, even when the draft is part
    of the target's checkpoint: the path then names the target.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {draft: null}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {draft: {same_checkpoint: true}}
    """
    if deployment.arg("speculative-draft-model-path"):
        return
    architecture = deployment.model.architecture
    default = architecture in _DEFAULT_DRAFT_PATH
    for mechanism in _drafting(deployment):
        if mechanism.kernel.algorithm == "NEXTN" and default:
            continue
        if mechanism.kernel.algorithm and mechanism.kernel.algorithm != "DSPARK":
            yield Finding(
                mechanism.path,
                f"{mechanism.name} has no draft, and the engine has no default draft path for "
                f"{architecture}",
                "write 'draft: {same_checkpoint: true}', or 'draft: {name: ...}'",
            )


@rule("SPEC103", "window-beyond-the-drafts-width", source="the draft entry's verify_width")
def window_beyond_the_drafts_width(deployment: Deployment) -> Iterator[Finding]:
    """More tokens are verified than the draft was trained to propose: the rest is junk.

    Bad:
        extends: muse-spark-open-gb300x8
        optimizations:
          dflash: {draft_tokens: 16}

    Good:
        extends: muse-spark-open-gb300x8
        optimizations:
          dflash: {draft_tokens: 8}
    """
    for mechanism in _drafting(deployment):
        facts = mechanism.draft.draft if mechanism.draft else None
        width = facts.verify_width if facts else None
        wanted = _window(mechanism)
        if width and wanted and wanted > width:
            assert mechanism.draft is not None
            option = "draft_tokens" if "draft_tokens" in mechanism.options else "block_size"
            yield Finding(
                (*mechanism.path, option),
                f"{wanted} tokens are verified a step; {mechanism.draft.name} is made for {width}: "
                f"1 current and {width - 1} drafted",
                f"set {option} to {width if option == 'draft_tokens' else width - 1}",
            )


@rule("SPEC105", "draft-not-public", source="the draft entry")
def draft_not_public(deployment: Deployment) -> Iterator[Finding]:
    """The draft's checkpoint is not published: nobody else can start this deployment.

    Bad:
        extends: muse-spark-open-gb300x8
        optimizations:
          dflash: {draft: {name: muse-spark-open-dflash2-article}}

    Good:
        extends: muse-spark-open-gb300x8
        optimizations:
          dflash: {draft: {name: muse-spark-open-dflash2}}
    """
    for mechanism in _drafting(deployment):
        draft, wish = mechanism.draft, mechanism.wish.draft
        if draft is not None and draft.repository == "unpublished" and not (wish and wish.path):
            yield Finding(
                (*mechanism.path, "draft", "name"),
                " ".join([f"the checkpoint of {draft.name} is not public.", *draft.notes]),
                "name a published draft of this target, for instance muse-spark-open-dflash2 with "
                "draft_tokens 8 and topk 1; or write draft.path if you have the checkpoint",
            )


@rule("SPEC106", "block-draft-with-another-window", source="sglang 0.5.23: DSPARK, gamma + 1")
def block_draft_with_another_window(deployment: Deployment) -> Iterator[Finding]:
    """A DSPARK step verifies the block and the current token: the window must be block + 1.

    Bad:
        extends: ling-3.0-flash-spark-dspark
        extra: {args: {speculative-num-draft-tokens: 8}}

    Good:
        extends: ling-3.0-flash-spark-dspark
        extra: {args: {speculative-num-draft-tokens: 9}}
    """
    given = deployment.args.get("speculative-num-draft-tokens")
    for mechanism in _drafting(deployment):
        block = mechanism.options.get("block_size")
        if given is not None and isinstance(block, int) and given.value != block + 1:
            yield Finding(
                given.path,
                f"speculative-num-draft-tokens is {given.value}; a block of {block} is verified "
                f"with {block + 1} tokens",
                f"set it to {block + 1}, or leave it out",
            )


@rule("SPEC108", "draft-of-another-target", source="the draft entry's targets")
def draft_of_another_target(deployment: Deployment) -> Iterator[Finding]:
    """The draft was trained on another model's hidden states: nothing would be accepted.

    Bad:
        extends: ling-3.0-flash-spark-dspark
        optimizations:
          dspark: {draft: {name: muse-spark-open-dflash2}}

    Good:
        extends: ling-3.0-flash-spark-dspark
    """
    for mechanism in deployment.mechanisms.values():
        if not mechanism.separate_draft or mechanism.draft is None:
            continue
        facts = mechanism.draft.draft
        targets = facts.targets if facts else []
        if deployment.model.name not in targets:
            made = f"drafts for {', '.join(targets)}" if targets else "is no draft"
            yield Finding(
                (*mechanism.path, "draft", "name"),
                f"{mechanism.draft.name} {made}; the target is {deployment.model.name}",
                "name a draft made for this target",
            )


@rule("SPEC109", "draft-of-another-algorithm", source="the draft entry's algorithm")
def draft_of_another_algorithm(deployment: Deployment) -> Iterator[Finding]:
    """The draft is made for another speculative algorithm than the one asked for.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {draft: {same_checkpoint: null, name: ling-3.0-flash-dspark}}

    Good:
        extends: ling-3.0-flash-spark-dspark
    """
    for mechanism in deployment.mechanisms.values():
        facts = mechanism.draft.draft if mechanism.separate_draft and mechanism.draft else None
        algorithm = mechanism.kernel.algorithm
        same = facts is None or {facts.algorithm, algorithm} in ({"NEXTN", "EAGLE"}, {algorithm})
        if facts and algorithm and not same:
            assert mechanism.draft is not None
            yield Finding(
                (*mechanism.path, "draft", "name"),
                f"{mechanism.draft.name} is made for {facts.algorithm}; {mechanism.name} runs "
                f"{algorithm}",
                f"use the mechanism of {facts.algorithm}, or another draft",
            )


@rule(
    "SPEC110", "replay-cache-too-short", source="0xBakeer/ling3-flash-spark; the default 16 fails"
)
def replay_cache_too_short(deployment: Deployment) -> Iterator[Finding]:
    """The replay cache of linear attention must be a power of two of at least twice the window.

    Bad:
        extends: ling-3.0-flash-spark-dspark
        extra: {args: {linear-replayssm-cache-len: 16}}

    Good:
        extends: ling-3.0-flash-spark-dspark
        extra: {args: {linear-replayssm-cache-len: 32}}
    """
    length = _number(deployment, "linear-replayssm-cache-len")
    if length is None and deployment.arg("enable-linear-replayssm-spec"):
        length = 16
    for mechanism in _drafting(deployment):
        facts = mechanism.draft.draft if mechanism.draft else None
        window = _window(mechanism) or (facts.verify_width if facts else None)
        if length is None or window is None:
            continue
        least = 1 << max(0, 2 * window - 1).bit_length()
        if length < 2 * window or length & (length - 1):
            given = deployment.args.get("linear-replayssm-cache-len")
            yield Finding(
                given.path if given else mechanism.path,
                f"a replay cache of {length} for a window of {window} tokens; it must be a power "
                f"of two of at least {2 * window}",
                f"set linear-replayssm-cache-len to {least}",
            )


@rule(
    "SPEC130",
    "linear-attention-without-replay",
    severity="warning",
    source="docs.sglang.io cookbook, InclusionAI/Ling-3.0-flash; 0xBakeer/ling3-flash-spark",
)
def linear_attention_without_replay(deployment: Deployment) -> Iterator[Finding]:
    """Block drafts for a model with linear attention are published with the replay of its states
    only; without it nobody has shown that they work, or what they gain.

    Bad:
        extends: ling-3.0-flash-spark-dspark
        extra: {args: {enable-linear-replayssm-spec: null}}

    Good:
        extends: ling-3.0-flash-spark-dspark
    """
    linear = any(layer.kind == "linear" for layer in deployment.model.attention)
    for mechanism in _drafting(deployment):
        if (
            linear
            and mechanism.kernel.algorithm == "DSPARK"
            and not deployment.arg("enable-linear-replayssm-spec")
        ):
            yield Finding(
                mechanism.path,
                f"{deployment.model.name} has linear attention, and {mechanism.name} is published "
                "for it with --enable-linear-replayssm-spec only",
                "set 'enable-linear-replayssm-spec: true' and linear-replayssm-cache-len in "
                "extra.args",
            )
