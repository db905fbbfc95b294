"""What is left out when a mechanism is refuted, and what goes with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.evidence.model import ServerState
from configurator.judge import Judgement
from configurator.loader import Validators
from configurator.resolve import resolve
from configurator.up.dropping import (
    Dropped,
    fails_beyond_drops,
    refuted_mechanisms,
    with_dependents,
    without,
)
from configurator.verdicts import Answer, Verdict

FLAGSHIP = "ling-3.0-flash-spark"


@pytest.fixture
def flagship(library: Library) -> Deployment:
    return resolve(*library.profile(FLAGSHIP), library)


def verdict(answer: Answer, on_refuted: str = "drop", on_unproven: str = "warn") -> Verdict:
    return Verdict(
        "x", "mechanism", answer, None, True, "seen",
        on_refuted=on_refuted, on_unproven=on_unproven,  # type: ignore[arg-type]
    )  # fmt: skip


def judged(*verdicts: Verdict, state: str = "ready", crashed: bool = False) -> Judgement:
    states = {0: ServerState(state, "")}  # type: ignore[arg-type]
    return Judgement(states, verdicts, crashed)


@pytest.mark.parametrize(
    ("judgement", "beyond"),
    [
        (judged(verdict(Answer.REFUTED)), False),
        (judged(verdict(Answer.REFUTED, "warn")), False),
        (judged(verdict(Answer.REFUTED, "fail")), True),
        (judged(verdict(Answer.REFUTED), verdict(Answer.REFUTED, "fail")), True),
        (judged(verdict(Answer.REFUTED), verdict(Answer.INCONCLUSIVE)), False),
        (judged(verdict(Answer.INCONCLUSIVE, "drop", "fail")), True),
        (judged(verdict(Answer.REFUTED), state="failed"), True),
        (judged(verdict(Answer.REFUTED), crashed=True), True),
    ],
)
def test_what_dropping_does_not_mend(judgement: Judgement, beyond: bool) -> None:
    assert fails_beyond_drops(judgement) is beyond


def test_refuted_verdicts_name_their_optimization(flagship: Deployment) -> None:
    verdicts = [
        dataclasses.replace(
            verdict(Answer.REFUTED if e.mechanism == "draft-tokens" else Answer.PROVEN),
            mechanism=e.mechanism,
        )
        for e in flagship.expectations
    ]
    invariant = dataclasses.replace(verdict(Answer.REFUTED), mechanism="an-invariant")
    (dropped,) = refuted_mechanisms(flagship, judged(*verdicts, invariant))
    assert dropped == Dropped("nextn-mtp", "draft-tokens is refuted: seen")


def test_what_needs_it_goes_with_it(flagship: Deployment) -> None:
    names = [d.name for d in with_dependents(flagship, (Dropped("nextn-mtp", "why"),))]
    leaning = [
        name for name, m in flagship.mechanisms.items() if "nextn-mtp" in m.kernel.needs.with_any
    ]
    assert names == ["nextn-mtp", *leaning]
    alone = with_dependents(flagship, (Dropped("humming-mxfp4-moe", "why"),))
    assert [d.name for d in alone] == ["humming-mxfp4-moe"]


def test_the_rest_is_validated_anew(
    flagship: Deployment, library: Library, validators: Validators
) -> None:
    names = tuple(d.name for d in with_dependents(flagship, (Dropped("nextn-mtp", "why"),)))
    result = without(flagship, names, library, validators)
    assert result.deployment is not None, result.findings
    assert not set(names) & set(result.deployment.mechanisms)
    assert set(result.deployment.mechanisms) == set(flagship.mechanisms) - set(names)
    assert "speculative-algorithm" not in result.deployment.args
    assert "speculative-algorithm" in flagship.args
    assert "nextn-mtp" in flagship.layers.data["optimizations"]
    # Both figures of the profile were measured with what is dropped.
    assert len(flagship.profile.claims) == 2
    assert result.deployment.profile.claims == []


def test_a_rest_that_has_errors_is_told(
    tmp_path: Path, library: Library, validators: Validators
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: p\nengine: {version: 0.5.23}\n"
        "hardware: {name: cpu, gpus: 1}\nmodel: {name: qwen3-8b}\n"
        "optimizations: {fp8-kv-cache: {}}\nextra: {args: {no-such-argument: 1}}\n"
    )
    made = resolve(*library.profile(str(path)), library)
    assert without(made, ("fp8-kv-cache",), library, validators).exit_code("error") == 1
