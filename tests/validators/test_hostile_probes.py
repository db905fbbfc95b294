"""Reports that failed in part, that contradict themselves, or that only repeat the wish."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from replicas import judged, log, said, spoken

from configurator.evidence.model import Report, Sample
from configurator.evidence.reports import parse_report
from configurator.loader import Validators
from configurator.verdicts import Outcome

FIXTURES = Path(__file__).parents[1] / "fixtures" / "inengine"
ERROR = {"error": "KeyError: x"}


def raw(name: str = "nextn_good", **target: Any) -> dict[str, Any]:
    """A recorded report, with parts of its target replaced."""
    path = FIXTURES / name / "report-tp0-pp0-dp0.json"
    data: dict[str, Any] = json.loads(path.read_text())
    data["target"].update(target)
    return data


def ranks(*reports: dict[str, Any]) -> tuple[Report, ...]:
    """The reports as ranks 0, 1, ... of one server."""
    found = []
    for rank, data in enumerate(reports):
        data = copy.deepcopy(data)
        data["rank"].update(tp_rank=rank, tp_size=len(reports))
        report = parse_report(f"tp{rank}.json", data)
        assert report is not None
        found.append(report)
    return tuple(found)


def asked(validators: Validators, what: str, *reports: dict[str, Any], **evidence: Any) -> Outcome:
    return judged(validators, what, reports=ranks(*reports), **evidence)


def graphs(captured: list[int] | None, *, wanted: tuple[int, ...] = (1, 2, 4)) -> dict[str, Any]:
    return raw(graphs={"decode": {"class": "G", "batch_sizes": [*wanted], "captured": captured}})


EAGER, BROKEN = raw(graphs={"decode": None}), raw(graphs={"decode": ERROR})


@pytest.mark.parametrize(
    ("reports", "expected", "fact"),
    [
        ([graphs([1, 2, 4])], ("PROVEN", "captured"), "batch sizes 1, 2, 4"),
        ([graphs([])], ("REFUTED", "captured"), "batch size 1, 2; captured: none"),
        ([graphs(None)], ("INCONCLUSIVE", None), "neither metrics"),
        # Tokens of ragged verification: 4 of them are no batch of 4.
        ([graphs([4, 8, 16])], ("INCONCLUSIVE", None), "neither metrics"),
        ([graphs([1, 4])], ("REFUTED", "captured"), "batch size 2; captured: 1, 4"),
        ([graphs([1, 2, 4]), graphs([])], ("REFUTED", "captured"), "on rank 1; captured: none"),
        ([graphs([1, 2, 4]), EAGER], ("REFUTED", "captured"), "on rank 1"),
        ([graphs([1, 2, 4]), graphs([1, 4])], ("REFUTED", "captured"), "captured: 1, 4"),
        ([graphs([1, 2]), graphs(None)], ("INCONCLUSIVE", "captured"), "not known on rank 1"),
        ([graphs([1, 2]), BROKEN], ("INCONCLUSIVE", "captured"), "not known on rank 1"),
        ([EAGER], ("INCONCLUSIVE", None), "neither metrics"),
    ],
)
def test_captured_sizes_are_those_of_every_rank(
    validators: Validators, reports: list[dict[str, Any]], expected: tuple[str, str | None],
    fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, "decode-cuda-graphs=1,2", *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_before_the_capture_an_empty_table_means_nothing(validators: Validators) -> None:
    loaded = {**graphs([]), "stage": "loaded"}
    assert said(asked(validators, "decode-cuda-graphs=1", loaded)) == ("INCONCLUSIVE", None)


def passes(graph: float, eager: float) -> tuple[Sample, ...]:
    name = "sglang:cuda_graph_passes_total"
    pairs = (("decode_cuda_graph", graph), ("decode_none", eager))
    return tuple(Sample(name, {"mode": mode}, value) for mode, value in pairs)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (passes(5, 0), (), ("PROVEN", "executed")),
        # A restart between the snapshots: 3 of 8 since then were eager.
        (passes(5, 3), passes(0, 100), ("INCONCLUSIVE", "executed")),
        (passes(5, -3), (), ("INCONCLUSIVE", None)),
        (passes(5, 0), passes(0, -3), ("INCONCLUSIVE", "executed")),
        (passes(float("inf"), 0), (), ("INCONCLUSIVE", None)),
        (passes(float("nan"), 0), (), ("INCONCLUSIVE", None)),
    ],
)
def test_counters_that_fell_or_are_no_counts_do_not_prove_graphs(
    validators: Validators, now: tuple[Sample, ...], before: tuple[Sample, ...],
    expected: tuple[str, str | None],
) -> None:  # fmt: skip
    outcome = judged(validators, "decode-cuda-graphs", metrics=now, metrics_startup=before)
    assert said(outcome) == expected
