"""A plan and a difference for programs."""

from __future__ import annotations

import json
import math

import plans

from configurator.plan.diff import Diff, Difference
from configurator.plan.figures import Figure
from configurator.report.plan_json import plain, plan_json
from configurator.report.plan_sheet import Sheet
from configurator.report.plan_text_diff import diff_json


def test_every_figure_has_its_range_formula_and_source() -> None:
    data = json.loads(plan_json(Sheet(plans.plan(), "mine.yaml", "here")))
    assert data["verdict"] == "fits"
    assert data["exit_code"] == 0
    assert data["memory"]["tokens"] == {
        "value": 1_884_000, "unit": "tokens", "formula": "15.2 GB / 8,064 B",
        "source": "memory entry", "low": 1_810_000, "high": 1_950_000,
    }  # fmt: skip
    assert data["memory"]["shares"][0]["kind"] == "weights"
    assert data["step"]["passes"][1]["times"] == 3
    assert data["step"]["per_token"]["low"] < data["step"]["per_token"]["value"]
    assert data["geometry"]["parts"][0]["chosen"] == 8
    assert len(data["step"]["curve"]) == 13


def test_what_is_not_known_is_null() -> None:
    data = json.loads(plan_json(Sheet(plans.unknown_plan(), "mine.yaml", "here")))
    assert data["memory"] is data["step"] is data["geometry"]["weights"] is None
    assert data["verdict"] == "cannot be told"
    assert data["exit_code"] == 0
    assert data["unknown"][0] == "memory: the model entry has no weights_gb"
    assert plain(Figure(math.inf, "B", "", "", 0.0, math.nan))["value"] is None


def test_what_does_not_fit_is_exit_code_1() -> None:
    tight = plans.plan(memory=plans.memory(fits=False))
    assert json.loads(plan_json(Sheet(tight, "mine.yaml", "here")))["exit_code"] == 1


def test_a_difference_has_both_values_and_no_secret() -> None:
    found = Diff(
        "mine", "theirs",
        (
            Difference("arguments", "--note", "api_key=abcdefgh12345678", None),
            Difference("memory", "token capacity", plans.memory().tokens, None),
        ),
        ("environment: not known",),
    )  # fmt: skip
    data = json.loads(diff_json(found, 1))
    assert data["exit_code"] == 1
    first, second = data["differences"]
    assert first == {
        "section": "arguments", "name": "--note", "first": "api_key=<redacted>", "second": None,
    }  # fmt: skip
    assert second["first"]["unit"] == "tokens"
    assert data["not_compared"] == ["environment: not known"]
