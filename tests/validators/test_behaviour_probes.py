"""Acceptance by kind of text and requests at a time; known answers; answers of another run."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from replicas import answered, judged, log, said, spoken

from configurator.collector.plan import KNOWN_ANSWER
from configurator.content import Library
from configurator.evidence.model import Exchange, Reference
from configurator.loader import Validators
from configurator.resolve import resolve

EAGLE = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4}
GOOD, FAIR, DEAD = [0, 0, 0, 100], [0, 100], [100]


@pytest.mark.parametrize(
    ("exchanges", "floor", "expected", "says"),
    [
        # The worst of the profile's own text decides, and is named with its batch.
        (
            [spoken(GOOD, together=1), spoken(DEAD, together=48)], 2.0, ("REFUTED", "executed"),
            "on the profile's text at batch 48 (others: 4.00 on the profile's text at batch 1)",
        ),
        (
            [spoken(GOOD, kind="easy", together=1), spoken(DEAD, together=1)], None,
            ("REFUTED", "executed"), "on the profile's text at batch 1 (others: 4.00 on easy",
        ),
        (
            [spoken(FAIR, together=48), spoken(GOOD, together=1)], 3.0, ("REFUTED", "executed"),
            "on the profile's text at batch 48 (others: 4.00",
        ),
        # Other text than the profile's does not refute, and is no proof of a gain.
        (
            [spoken(FAIR, kind="easy", together=1), spoken(GOOD, together=1)], 3.0,
            ("PROVEN", "effective"), "(others: 2.00 on easy text at batch 1)",
        ),
        (
            [spoken(GOOD, kind="easy", together=48)], 2.0, ("PROVEN", "executed"),
            "the text is easy, not the profile's",
        ),
        # A few steps of the profile's text decide nothing.
        (
            [spoken([10], together=1), spoken(GOOD, kind="easy", together=1)], 2.0,
            ("PROVEN", "executed"), "on easy text at batch 1",
        ),
        # Counting is the easiest of texts: it decides only where there is no other.
        (
            [spoken(GOOD, kind="known-answer"), spoken(DEAD, kind="easy")], None,
            ("REFUTED", "executed"), "on easy text: the drafts are useless",
        ),
        ([spoken(GOOD, kind="known-answer")], None, ("PROVEN", "executed"), "on known-answer text"),
        # Requests that are sent to compare runs are of no account.
        ([spoken(GOOD), spoken(DEAD, kind="reference")], 2.0, ("PROVEN", "effective"), "4.00"),
    ],
)  # fmt: skip
def test_the_worst_acceptance_counts(
    validators: Validators, exchanges: list[Exchange], floor: float | None,
    expected: tuple[str, str], says: str,
) -> None:  # fmt: skip
    outcome = judged(
        validators, "speculative-acceptance", floor=floor, exchanges=tuple(exchanges),
        server_info=EAGLE,
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary
    assert "95 % interval" in outcome.summary


def test_the_gain_is_shown_at_the_concurrency_of_the_profile(
    validators: Validators, library: Library
) -> None:
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    workload = deployment.profile.workload.model_copy(update={"concurrency": 8})
    profile = deployment.profile.model_copy(update={"workload": workload})
    busy = replace(deployment, profile=profile)

    def outcome(*together: int | None) -> Any:
        return judged(
            validators, "speculative-acceptance", floor=2.0, deployment=busy, server_info=EAGLE,
            exchanges=tuple(spoken(GOOD, together=n) for n in together),
        )  # fmt: skip

    for seen in ((1,), (None,), (1, 4)):
        assert said(outcome(*seen)) == ("PROVEN", "executed")
        assert "effective at batch 8" in outcome(*seen).summary
    assert said(outcome(1, 8)) == ("PROVEN", "effective")


@pytest.mark.parametrize(
    ("tokens", "histogram", "expected", "says"),
    [
        ([7] * 64, GOOD, ("INCONCLUSIVE", "executed"), "at its ceiling, of text that is none"),
        ([7] * 64, [10, 10, 10, 70], ("INCONCLUSIVE", "executed"), "of text that is none"),
        (list(range(64)), GOOD, ("PROVEN", "executed"), "acceptance length 4.00"),
        ([7] * 64, DEAD, ("REFUTED", "executed"), "useless"),
    ],
)
def test_acceptance_of_text_that_is_none(
    validators: Validators, tokens: list[int], histogram: list[int], expected: tuple[str, str],
    says: str,
) -> None:  # fmt: skip
    outcome = judged(
        validators, "speculative-acceptance", server_info=EAGLE,
        exchanges=(spoken(histogram, tokens=tokens),),
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary


@pytest.mark.parametrize(("length", "named"), [(4.0, True), (3.9, False)])
def test_a_log_at_the_ceiling_is_named(
    validators: Validators, length: float, named: bool
) -> None:  # fmt: skip
    lines = log(*[f"Decode batch, accept len: {length:.2f}, accept rate: 1.00"] * 3)
    outcome = judged(validators, "speculative-acceptance", server_info=EAGLE, log=lines)
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert ("at the ceiling of 4" in outcome.summary) == named


def counted(text: str, name: str = "001.json") -> Exchange:
    return answered(name, KNOWN_ANSWER, list(range(40)), text=text, kind="known-answer")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 13, 14, 15, 16", "PROVEN"),
        ("13, 14, 15", "PROVEN"),
        (" 14, 15, 16", "INCONCLUSIVE"),
        ("words 13, 14, 15", "INCONCLUSIVE"),
        ("\ufffd\ufffd 9", "INCONCLUSIVE"),
        ("", "INCONCLUSIVE"),
        ("13, 14", "INCONCLUSIVE"),
    ],
)
def test_numbers_go_on(validators: Validators, text: str, answer: str) -> None:
    outcome = judged(validators, "known-answer", exchanges=(counted(text),))
    assert said(outcome) == (answer, "executed")
    assert "13, 14, 15" in outcome.summary


def test_a_wrong_answer_that_the_reference_has_right_is_refuted(validators: Validators) -> None:
    for right, answer in ((" 13, 14, 15", "REFUTED"), (" 99", "INCONCLUSIVE")):
        outcome = judged(
            validators, "known-answer", exchanges=(counted("\ufffd\ufffd"),),
            reference=Reference("base", (counted(right),)),
        )  # fmt: skip
        assert str(outcome.answer) == answer
    unread = counted(" w437 w381")
    unread.response["meta_info"]["prompt_tokens"] = 4
    assert str(judged(validators, "known-answer", exchanges=(unread,)).answer) == "NOT_APPLICABLE"
    other = (answered("1.json", "Tell a story.", [1]),)
    assert str(judged(validators, "known-answer", exchanges=other).answer) == "NOT_APPLICABLE"


TOKENS = list(range(100, 148))
WRONG_AT_17 = [*TOKENS[:17], 5, *TOKENS[18:]]


def base(*exchanges: Exchange, model: str = "m") -> Reference:
    return Reference("base", exchanges, model)


@pytest.mark.parametrize(
    ("ours", "reference", "expected", "says"),
    [
        (
            answered("1.json", "a", TOKENS), base(answered("2.json", "a", TOKENS)),
            ("PROVEN", "executed"), "all 48 tokens of 1 greedy requests",
        ),
        (
            answered("1.json", "a", WRONG_AT_17), base(answered("2.json", "a", TOKENS)),
            ("REFUTED", "executed"), "1.json: token 17 is 5, in the reference 117 (2.json)",
        ),
        # One ended although the other goes on: that is a difference too.
        (
            answered("1.json", "a", TOKENS[:40]), base(answered("2.json", "a", TOKENS)),
            ("REFUTED", "executed"), "token 40 is none (it ended), in the reference 140",
        ),
        # One was asked for fewer: only what both have is compared.
        (
            answered("1.json", "a", TOKENS[:40], limit=40), base(answered("2.json", "a", TOKENS)),
            ("PROVEN", "executed"), "all 40 tokens",
        ),
        (
            answered("1.json", "a", TOKENS[:8], limit=8), base(answered("2.json", "a", TOKENS)),
            ("INCONCLUSIVE", "executed"), "8 tokens of 1 common greedy requests",
        ),
        (
            answered("1.json", "b", TOKENS), base(answered("2.json", "a", TOKENS)),
            ("INCONCLUSIVE", None), "0 tokens of 0 common",
        ),
        (
            answered("1.json", "a", WRONG_AT_17, temperature=1),
            base(answered("2.json", "a", TOKENS)), ("INCONCLUSIVE", None), "0 tokens",
        ),
        (
            answered("1.json", "a", WRONG_AT_17, together=8),
            base(answered("2.json", "a", TOKENS)), ("INCONCLUSIVE", None), "0 tokens",
        ),
        (
            answered("1.json", "a", None), base(answered("2.json", "a", TOKENS)),
            ("INCONCLUSIVE", None), "0 tokens",
        ),
        (
            answered("1.json", "a", WRONG_AT_17),
            base(answered("2.json", "a", TOKENS), model="other"),
            ("INCONCLUSIVE", None), "the reference ran other, this server m",
        ),
        (
            answered("1.json", "a", WRONG_AT_17),
            base(answered("2.json", "a", TOKENS), answered("3.json", "a", WRONG_AT_17)),
            ("INCONCLUSIVE", "executed"), "in two ways (2.json, 3.json)",
        ),
        (answered("1.json", "a", TOKENS), None, ("INCONCLUSIVE", None), "no reference run"),
        (
            answered("1.json", "a", TOKENS),
            dataclasses.replace(base(answered("2.json", "a", TOKENS)), alike="it is itself"),
            ("INCONCLUSIVE", None), "it is itself",
        ),
    ],
)  # fmt: skip
def test_greedy_answers_of_two_runs(
    validators: Validators, ours: Exchange, reference: Reference | None,
    expected: tuple[str, str | None], says: str,
) -> None:  # fmt: skip
    outcome = judged(
        validators, "greedy-equality", exchanges=(ours,), reference=reference,
        server_info={"model_path": "/models/m"},
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary


ACTIVE = (
    "NVIDIA megakernel: active (muse: 62 layers; widths [8]; {} numerics; built in 3.0 s, "
    "12.0 MiB; wait deadline 60 s)"
)


@pytest.mark.parametrize(
    ("numerics", "expert", "expected", "says"),
    [
        ("tolerance", False, ("INCONCLUSIVE", "executed"), "declares a tolerance, not equality"),
        # The authors promise equality against expert parallelism.
        ("tolerance", True, ("REFUTED", "executed"), "token 17 is 5, in the reference 117"),
        ("bitwise", False, ("REFUTED", "executed"), "token 17 is 5, in the reference 117"),
    ],
)
def test_a_megakernel_is_held_to_the_equality_that_it_declares(
    validators: Validators, numerics: str, expert: bool, expected: tuple[str, str], says: str
) -> None:
    reference = dataclasses.replace(base(answered("2.json", "a", TOKENS)), expert_parallel=expert)
    outcome = judged(
        validators, "greedy-equality", exchanges=(answered("1.json", "a", WRONG_AT_17),),
        reference=reference, server_info={"model_path": "/models/m"},
        log=log(ACTIVE.format(numerics)),
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary
