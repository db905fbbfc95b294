"""Reports of the probe in real engines, read and judged: each as what was done to that engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replicas import judged

from configurator.evidence.model import Report
from configurator.evidence.reports import latest, parse_report
from configurator.loader import Validators

FOLDER = Path(__file__).parents[1] / "fixtures" / "inengine"
TRUTH: dict[str, dict[str, Any]] = json.loads((FOLDER / "truth.json").read_text())["cases"]
VERDICTS = [
    (case, asked, wanted)
    for case, facts in TRUTH.items()
    for asked, wanted in facts["verdicts"].items()
]


def reports(case: str) -> tuple[Report, ...]:
    found = []
    for path in sorted((FOLDER / case).glob("report-*.json")):
        one = parse_report(path.name, json.loads(path.read_text()))
        assert one is not None
        found.append(one)
    return latest(found)


@pytest.mark.parametrize(("case", "asked", "wanted"), VERDICTS)
def test_the_verdict_is_what_was_done(
    case: str, asked: str, wanted: list[str], validators: Validators
) -> None:
    info = TRUTH[case].get("server_info")
    outcome = judged(validators, asked, reports=reports(case), server_info=info)
    answer, rung, *words = wanted
    assert [str(outcome.answer), str(outcome.rung)] == [answer, rung], outcome.summary
    for word in words:
        assert word in " ".join((outcome.summary, *outcome.conflicts))


@pytest.mark.parametrize("case", TRUTH)
def test_the_report_is_read_as_it_was_written(case: str) -> None:
    found = reports(case)
    facts = TRUTH[case]["read"]
    assert len(found) == facts["ranks"]
    for one in found:
        assert one.errors == {}
        assert one.hooks_missing == {}
        assert one.versions["engine"] == facts["engine"]
        assert one.build_ms is not None
        assert one.build_ms < 2000
        assert one.stage == facts.get("stage", "ready")
        assert one.target is not None
        assert [draft.sharing and draft.sharing.kind for draft in one.drafts] == facts["sharing"]


def test_every_fixture_has_its_truth() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(TRUTH)


def test_ranks_and_replicas_are_told_apart() -> None:
    assert [one.ranks["tp_rank"] for one in reports("tensor_parallel_2")] == [0, 1]
    assert [one.ranks["dp_rank"] for one in reports("two_replicas")] == [0, 1]


def test_half_of_the_head_is_on_each_rank() -> None:
    whole = reports("nextn_good")[0].target
    assert whole is not None
    assert whole.head is not None
    for one in reports("tensor_parallel_2"):
        assert one.target is not None
        assert one.target.head is not None
        assert one.target.head.shape == (whole.head.shape[0] // 2, whole.head.shape[1])
        assert one.ranks["tp_size"] == 2


def test_a_shared_head_weighs_nothing_twice() -> None:
    good, copied = (reports(case)[0].drafts[0] for case in ("nextn_good", "copy_head"))
    size = good.head.nbytes if good.head else 0
    assert (good.weight_bytes["head"], copied.weight_bytes["head"]) == (0, size)


def test_scales_are_seen_apart_and_together() -> None:
    both = reports("fp8_head_both")[0].drafts[0].sharing
    one = reports("fp8_head_target_shared")[0].drafts[0].sharing
    assert both is not None
    assert one is not None
    assert len(set(both.scale_values)) == 2
    assert len(set(one.scale_values)) == 1


def test_variables_of_a_real_engine() -> None:
    (one,) = reports("moe_humming")
    assert one.env_undeclared == ("SGLANG_ENABLE_FP8_LM_HEAD", "SGLANG_FORWARD_UNKNOWN",
                                  "SGLANG_TEST_TOKEN_THING")  # fmt: skip
    assert one.env_renamed == {"SGL_FORWARD_UNKNOWN": "SGLANG_FORWARD_UNKNOWN"}
    assert one.simulated_acceptance == {"SGLANG_SIMULATE_ACC_LEN": "3"}
    raw = one.raw["environment"]["unregistered"]
    assert raw["SGLANG_TEST_TOKEN_THING"] == "(redacted)"
