"""In-engine reports of both shapes, and which of several count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configurator.evidence.model import Report, Sharing
from configurator.evidence.read import read_evidence
from configurator.evidence.reports import latest, parse_report

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def report(file: str, stage: str, pipeline: int) -> Report:
    raw = {"rank": {"tp_rank": 0, "pp_rank": pipeline, "dp_rank": None}}
    return Report(file, 0, stage, None, raw=raw)


def test_every_pipeline_stage_keeps_its_report() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 1)])
    assert [one.file for one in kept] == ["a.json", "b.json"]


def test_of_one_rank_the_later_report_counts() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 0)])
    assert [one.file for one in kept] == ["b.json"]


def test_the_early_report_goes_whatever_the_order_and_the_rank() -> None:
    early = Report("plugin/head-early.json", 0, "after_head_sharing", None)
    ready = Report("plugin/head-ready.json", 0, "ready", None)
    assert latest([ready, early]) == (ready,)
    unranked = [
        Report("plugin/head-early.json", None, "after_head_sharing", None),
        Report("plugin/head-ready.json", None, "ready", None),
        Report("plugin/other.json", None, "ready", None),
    ]
    assert latest(unranked) == tuple(unranked[1:])


def tensor(dtype: str, place: str, value: str | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [8, 4], "nbytes": 32, "storage": place, "value": value}


def lm_head(**tensors: dict[str, Any]) -> dict[str, Any]:
    return {"module": "ParallelLMHead", "quant_method": "Fp8Head", "tensors": tensors}


def sharing(
    ours: dict[str, Any], theirs: dict[str, Any], said: dict[str, Any] | None = None
) -> Sharing:
    drafts = [{"lm_head": theirs, "sharing_with_target": said or {}}]
    parsed = parse_report("a.json", {"target": {"lm_head": ours}, "drafts": drafts})
    assert parsed is not None
    assert parsed.drafts[0].sharing is not None
    return parsed.drafts[0].sharing


WEIGHT = tensor("torch.float8_e4m3fn", "S0")


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1")), True),
        (lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S9")), False),
        (lm_head(weight=WEIGHT), False),
        ({}, False),
    ],
)
def test_scales_are_the_same_where_they_are_stored_in_one_place(
    theirs: dict[str, Any], same: bool
) -> None:
    ours = lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1"))
    assert sharing(ours, theirs).same_scales is same


def test_a_stated_sharing_counts_before_places() -> None:
    ours = lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1", "0.5"))
    said = {
        "same_module": False,
        "weight": {"same_parameter": False, "same_storage": True},
        "weight_scale": {"same_parameter": False, "same_storage": False, "values": ["0.5", "0.0"]},
    }
    assert sharing(ours, ours, said) == Sharing(False, True, None, False, ("0.5", "0.0"))
    assert sharing(ours, ours, {"same_module": True}).same_scales is True


def test_a_head_without_a_scale_has_no_scales_to_share() -> None:
    assert sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT)).same_scales is None


def test_what_is_no_report() -> None:
    assert parse_report("a.json", {"mode": "bf16", "target": "x"}) is None
    assert parse_report("a.json", [1]) is None


def test_the_report_of_a_whole_model() -> None:
    path = RECORDINGS / "cpu" / "moe_triton" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert parsed.target is not None
    assert parsed.target.head is not None
    assert (parsed.stage, parsed.drafts, parsed.simulated_acceptance) == ("ready", (), {})
    assert parsed.target.head.dtype == "bfloat16"
    assert {layer.runner for layer in parsed.target.moe_layers} == {"triton"}


def test_a_simulated_acceptance_and_undeclared_variables_are_kept() -> None:
    path = RECORDINGS / "cpu" / "sim_acc_nextn_bad" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert parsed.simulated_acceptance == {"SGLANG_SIMULATE_ACC_LEN": "3"}
    path = RECORDINGS / "cpu" / "unknown_env" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert "SGLANG_ENABLE_FP8_LM_HEAD" in parsed.env_undeclared


@pytest.mark.parametrize(
    ("case", "stage", "method", "sharing"),
    [
        (
            "fp8_target_only",
            "after_head_sharing",
            "UnquantizedEmbeddingMethod",
            Sharing(False, True, None, False),
        ),
        (
            "fp8_both_scale_own",
            "ready",
            "Fp8DynamicHeadMethod",
            Sharing(False, True, None, False, ("0.0013340541627258062", "0.0")),
        ),
        (
            "fp8_module_shared",
            "ready",
            "Fp8DynamicHeadMethod",
            Sharing(True, True, None, True, ("0.0013340541627258062",) * 2),
        ),
        ("bf16_nextn", "ready", "UnquantizedEmbeddingMethod", Sharing(False, True)),
    ],
)
def test_reports_of_real_heads(case: str, stage: str, method: str, sharing: Sharing) -> None:
    (one,) = read_evidence(RECORDINGS / "fp8head" / case).replicas[0].reports
    (draft,) = one.drafts
    assert (one.rank, one.stage) == (0, stage)
    assert draft.head is not None
    assert draft.head.quant_method == method
    assert draft.sharing == sharing
