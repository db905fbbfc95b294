"""Speculative decoding: window, draft, break-even, and what the engine adjusts in silence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from configurator import (
    Deployment,
    Finding,
    Launch,
    LaunchEnv,
    Mechanism,
    Option,
    before,
    did_you_mean,
    launch_rule,
    rule,
)

_BLOCK_DRAFTS = ("DFLASH", "DSPARK")
_CHAINS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_SIMULATED_LENGTH = "SGLANG_SIMULATE_ACC_LEN"
_SIMULATED_EXPERTS = ("SGLANG_SIMULATE_UNIFORM_EXPERTS", "SGLANG_SIMULATE_ROUND_ROBIN_EXPERTS")
_FALSE = ("", "0", "false", "no", "n")


def _drafting(deployment: Deployment) -> Iterator[Mechanism]:
    return iter(deployment.of_family("speculation"))


def _algorithm(launch: Launch) -> str | None:
    """The algorithm in capitals; None without one, or where nobody can tell."""
    text = launch.text("speculative-algorithm")
    return text.upper() if text else None


def _place(launch: Launch, option: Option, key: str) -> tuple[str | int, ...]:
    """Where an option is written: a mechanism of a profile has a key for it."""
    path = launch.path(option)
    return (*path, key) if launch.words[option.index].origin.startswith("kernel") else path


@launch_rule(
    "SPEC101",
    "window-is-not-steps-plus-one",
    severity="warning",
    source="sglang 0.5.5 to 0.5.23: server_args.py, speculative_hook.py",
)
def window_is_not_steps_plus_one(launch: Launch) -> Iterator[Finding]:
    """With topk 1 the engine sets the window to steps + 1, whatever was written.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {steps: 3, topk: 1, draft_tokens: 6}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {steps: 3, topk: 1, draft_tokens: 4}

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 4 \
--speculative-eagle-topk 1 --speculative-num-draft-tokens 6
    """
    option = launch.option("speculative-num-draft-tokens")
    tokens, steps = (
        launch.integer("speculative-num-draft-tokens"),
        launch.integer("speculative-num-steps"),
    )
    chain = launch.integer("speculative-eagle-topk") == 1 and _algorithm(launch) in _CHAINS
    if option is None or tokens is None or not steps or not chain or tokens == steps + 1:
        return
    yield Finding(
        _place(launch, option, "draft_tokens"),
        f"topk 1 and {steps} steps verify {steps + 1} tokens; {launch.said(option)} is {tokens}, "
        "and the engine adjusts it",
        f"set draft tokens to {steps + 1}, or steps to {tokens - 1}",
    )


@launch_rule(
    "SPEC104",
    "tree-where-a-chain-is-verified",
    source="sglang 0.5.12 (DFLASH) and 0.5.16 (DSPARK) to 0.5.23: both force topk 1",
)
def tree_where_a_chain_is_verified(launch: Launch) -> Iterator[Finding]:
    """A candidate tree (topk above 1) with an algorithm that verifies one chain.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {speculative-eagle-topk: 4}}

    Good:
        extends: muse-spark-open-gb300x8

    Bad:
        sglang serve --model-path m --speculative-algorithm DFLASH \
--speculative-draft-model-path d --speculative-eagle-topk 4
    """
    option, topk = (
        launch.option("speculative-eagle-topk"),
        launch.integer("speculative-eagle-topk"),
    )
    name = _algorithm(launch)
    if option is None or topk is None or topk < 2 or name not in _BLOCK_DRAFTS:
        return
    yield Finding(
        _place(launch, option, "topk"),
        f"topk {topk} asks for a tree of candidates; {name} in {launch.engine.name} verifies a "
        "chain and forces topk 1",
        "set topk to 1",
    )


@rule("SPEC107", "two-drafting-mechanisms", source="sglang 0.5.23: one --speculative-algorithm")
def two_drafting_mechanisms(deployment: Deployment) -> Iterator[Finding]:
    """Two speculative mechanisms are on; the engine runs one algorithm.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          dspark: {draft: {name: ling-3.0-flash-dspark}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for first, second in pairwise(_drafting(deployment)):
        yield Finding(
            second.path,
            f"{first.name} and {second.name} both draft; the engine runs one algorithm",
            f"remove one, for instance with '{first.name}: null'",
        )


@launch_rule(
    "SPEC111",
    "pipeline-with-block-drafts",
    source="sglang 0.5.12 to 0.5.23: DFLASH and DSPARK want pp 1; DSPARK prefills with more since "
    "0.5.21",
)
def pipeline_with_block_drafts(launch: Launch) -> Iterator[Finding]:
    """DFLASH and DSPARK do not run with pipeline parallelism.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 4, pipeline: 2}

    Good:
        extends: muse-spark-open-gb300x8

    Bad:
        sglang serve --model-path m --pp-size 2 --speculative-algorithm DFLASH \
--speculative-draft-model-path d
    """
    option, stages, name = (
        launch.option("pp-size"),
        launch.integer("pp-size") or 1,
        _algorithm(launch),
    )
    prefill = name == "DSPARK" and launch.text("disaggregation-mode") == "prefill"
    if option is None or stages < 2 or name not in _BLOCK_DRAFTS:
        return
    if not prefill or before(launch.catalogue, "0.5.21"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {stages} with {name}: it runs with pipeline 1 only",
            "set the pipeline size to 1, or remove the drafts",
        )


@launch_rule(
    "SPEC112",
    "dp-attention-without-dp-head",
    source="sglang 0.5.16 (DSPARK) and 0.5.23 (DFLASH): speculative_hook.py",
)
def dp_attention_without_dp_head(launch: Launch) -> Iterator[Finding]:
    """DFLASH and DSPARK with data parallel attention want the LM head data parallel too.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}
        extra: {args: {enable-dp-attention: true}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}
        extra: {args: {enable-dp-attention: true, enable-dp-lm-head: true}}

    Bad:
        # engine: 0.5.17
        sglang serve --model-path m --tp 4 --dp 4 --enable-dp-attention \
--speculative-algorithm DSPARK --speculative-draft-model-path d
    """
    option = launch.option("enable-dp-attention") or launch.option("attn-dp-size")
    groups = launch.integer("attn-dp-size") or launch.integer("dp-size") or 1
    name = _algorithm(launch)
    # Before that DFLASH does not run with it at all: SPEC120.
    early = name == "DFLASH" and before(launch.catalogue, "0.5.23")
    if option is None or groups < 2 or name not in _BLOCK_DRAFTS or early:
        return
    if not launch.on("enable-dp-lm-head"):
        yield Finding(
            launch.path(option),
            f"{name} with data parallel attention is refused without --enable-dp-lm-head",
            "set --enable-dp-lm-head too",
        )


@rule(
    "SPEC113", "acceptance-without-break-even", severity="info", source="docs/design.md, Verdicts"
)
def acceptance_without_break_even(deployment: Deployment) -> Iterator[Finding]:
    """Without a floor or a verify cost ratio, acceptance can be shown but not that it pays.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {acceptance: null}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {acceptance: {floor: 2.0}}
    """
    for mechanism in _drafting(deployment):
        acceptance = mechanism.wish.acceptance
        if not acceptance or (acceptance.floor is None and acceptance.verify_cost_ratio is None):
            yield Finding(
                mechanism.path,
                f"{mechanism.name} has neither acceptance.floor nor acceptance.verify_cost_ratio: "
                "a check can say that drafts are accepted, not that they pay",
                "measure verify step / plain step and write acceptance.verify_cost_ratio",
            )


@rule(
    "SPEC114",
    "acceptance-depends-on-sampling",
    severity="info",
    source="ly01325/Ling3-Flash-DGX-Spark: greedy 55.0, T 0.6 46.4 tok/s with the same code",
)
def acceptance_depends_on_sampling(deployment: Deployment) -> Iterator[Finding]:
    """Sampling above temperature 0 accepts fewer drafts than the greedy figures that circulate.

    Bad:
        extends: ling-3.0-flash-spark
        workload: {sampling: {temperature: 0.6}}

    Good:
        extends: ling-3.0-flash-spark
        workload: {sampling: {temperature: 0}}
    """
    temperature = deployment.profile.workload.sampling.temperature
    if deployment.speculation and temperature > 0 and "sampling" in _written(deployment):
        yield Finding(
            ("workload", "sampling", "temperature"),
            f"drafts with temperature {temperature:g}: figures measured greedily do not hold",
            "measure acceptance with this sampling (check --level 2)",
        )


def _written(deployment: Deployment) -> set[str]:
    return deployment.profile.workload.model_fields_set


@launch_rule(
    "SPEC115",
    "acceptance-is-simulated",
    source="sglang 0.5.5 to 0.5.23: environ.py, runtime simulations; sglang issues 34740, 31603",
)
def acceptance_is_simulated(launch: Launch) -> Iterator[Finding]:
    """SGLANG_SIMULATE_ACC_LEN commits tokens that nobody verified: every figure becomes fake.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_SIMULATE_ACC_LEN: 3.33}}

    Good:
        extends: ling-3.0-flash-spark

    Bad:
        SGLANG_SIMULATE_ACC_LEN=3.5 sglang serve --model-path m --speculative-algorithm DFLASH \
--speculative-draft-model-path d
    """
    for name in (_SIMULATED_LENGTH, *_SIMULATED_EXPERTS):
        given = launch.env.get(name)
        if given is not None and _simulates(given):
            yield Finding(
                given.path,
                f"{name} replaces what the model decides by a simulation",
                "remove it: it is for benchmarks of the engine's own overhead",
            )


def _simulates(given: LaunchEnv) -> bool:
    """A length simulates when it is positive; a value known only where it runs may be one."""
    if given.value is None:
        return True
    if given.name != _SIMULATED_LENGTH:
        return given.value.lower() not in _FALSE
    try:
        return float(given.value) > 0
    except ValueError:
        return False


@rule("SPEC116", "draft-without-own-algorithm", severity="warning", source="sglang 0.5.23")
def draft_without_own_algorithm(deployment: Deployment) -> Iterator[Finding]:
    """`extra.args` asks for speculation that no mechanism of the profile names: unchecked.

    Bad:
        extends: ling-3.0-flash-spark-baseline
        extra: {args: {speculative-algorithm: NEXTN}}

    Good:
        extends: ling-3.0-flash-spark
    """
    value: Any = deployment.arg("speculative-algorithm")
    if value is None or deployment.speculation:
        return
    known = ["NEXTN", "EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO",
             "FROZEN_KV_MTP"]  # fmt: skip
    word = str(value).upper()
    remedy = "name the mechanism under optimizations (see 'configurator list kernels')"
    yield Finding(
        ("extra", "args", "speculative-algorithm"),
        f"--speculative-algorithm {value} stands in extra.args: no check will prove acceptance",
        remedy if word in known else did_you_mean(word, known),
    )
