"""Speculative decoding: window, draft, break-even, and what the engine adjusts in silence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from configurator import Deployment, Finding, Mechanism, did_you_mean, rule

_BLOCK_DRAFTS = ("DFLASH", "DSPARK")


def _drafting(deployment: Deployment) -> Iterator[Mechanism]:
    return iter(deployment.of_family("speculation"))


def _number(deployment: Deployment, name: str) -> int | None:
    value: Any = deployment.arg(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@rule("SPEC101", "window-is-not-steps-plus-one", source="sglang 0.5.23: speculative_hook.py")
def window_is_not_steps_plus_one(deployment: Deployment) -> Iterator[Finding]:
    """With topk 1 the engine sets the window to steps + 1, whatever was written.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {steps: 3, topk: 1, draft_tokens: 6}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          nextn-mtp: {steps: 3, topk: 1, draft_tokens: 4}
    """
    steps = _number(deployment, "speculative-num-steps")
    tokens = deployment.args.get("speculative-num-draft-tokens")
    chain = _number(deployment, "speculative-eagle-topk") == 1
    for mechanism in _drafting(deployment):
        if mechanism.kernel.algorithm in _BLOCK_DRAFTS or not chain or not steps or not tokens:
            continue
        if tokens.value != steps + 1:
            yield Finding(
                (*tokens.path, "draft_tokens") if tokens.path[0] != "extra" else tokens.path,
                f"topk 1 and {steps} steps verify {steps + 1} tokens; draft_tokens is "
                f"{tokens.value}, and the engine adjusts it",
                f"set draft_tokens to {steps + 1}, or steps to match",
            )


@rule("SPEC104", "tree-where-a-chain-is-verified", source="sglang 0.5.23: DFLASH forces topk 1")
def tree_where_a_chain_is_verified(deployment: Deployment) -> Iterator[Finding]:
    """A candidate tree (topk above 1) with an algorithm that verifies one chain.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {speculative-eagle-topk: 4}}

    Good:
        extends: muse-spark-open-gb300x8
    """
    for mechanism in _drafting(deployment):
        given = deployment.args.get("speculative-eagle-topk")
        topk = _number(deployment, "speculative-eagle-topk")
        if given is None or topk is None or mechanism.kernel.algorithm not in _BLOCK_DRAFTS:
            continue
        if topk > 1:
            yield Finding(
                given.path if given.path[0] == "extra" else (*given.path, "topk"),
                f"topk {topk} asks for a tree of candidates; {mechanism.kernel.algorithm} in "
                f"{deployment.engine.name} verifies a chain and forces topk 1",
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


@rule("SPEC111", "pipeline-with-block-drafts", source="sglang 0.5.23: DFLASH and DSPARK want pp 1")
def pipeline_with_block_drafts(deployment: Deployment) -> Iterator[Finding]:
    """DFLASH and DSPARK do not run with pipeline parallelism.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 4, pipeline: 2}

    Good:
        extends: muse-spark-open-gb300x8
    """
    pipeline = deployment.profile.topology.pipeline
    for mechanism in _drafting(deployment):
        if pipeline > 1 and mechanism.kernel.algorithm in _BLOCK_DRAFTS:
            yield Finding(
                ("topology", "pipeline"),
                f"pipeline {pipeline} with {mechanism.name}: {mechanism.kernel.algorithm} runs "
                "with pipeline 1 only",
                "set topology.pipeline to 1, or remove the drafts",
            )


@rule("SPEC112", "dp-attention-without-dp-head", source="sglang 0.5.23: speculative_hook.py")
def dp_attention_without_dp_head(deployment: Deployment) -> Iterator[Finding]:
    """DFLASH and DSPARK with data parallel attention want the LM head data parallel too.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}
        extra: {args: {enable-dp-attention: true}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {data: 4}
        extra: {args: {enable-dp-attention: true, enable-dp-lm-head: true}}
    """
    for mechanism in _drafting(deployment):
        block = mechanism.kernel.algorithm in _BLOCK_DRAFTS
        if (
            block
            and deployment.arg("enable-dp-attention")
            and not deployment.arg("enable-dp-lm-head")
        ):
            yield Finding(
                ("extra", "args", "enable-dp-attention"),
                f"{mechanism.kernel.algorithm} with data parallel attention is refused without "
                "--enable-dp-lm-head",
                "set 'enable-dp-lm-head: true' in extra.args",
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


@rule("SPEC115", "acceptance-is-simulated", source="sglang 0.5.23: environ.py; sglang issue 34740")
def acceptance_is_simulated(deployment: Deployment) -> Iterator[Finding]:
    """SGLANG_SIMULATE_ACC_LEN commits tokens that nobody verified: every figure becomes fake.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_SIMULATE_ACC_LEN: 3.33}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for name in deployment.profile.extra.env:
        if name.startswith(("SGLANG_SIMULATE_ACC", "SGLANG_SIMULATE_UNIFORM_EXPERTS",
                            "SGLANG_SIMULATE_ROUND_ROBIN")):  # fmt: skip
            yield Finding(
                ("extra", "env", name),
                f"{name} replaces what the model decides by a simulation",
                "remove it: it is for benchmarks of the engine's own overhead",
            )


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
