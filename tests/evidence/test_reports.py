"""Which of several in-engine reports count."""

from __future__ import annotations

from configurator.evidence.model import Report
from configurator.evidence.reports import latest


def report(file: str, stage: str, pipeline: int) -> Report:
    raw = {"rank": {"tp_rank": 0, "pp_rank": pipeline, "dp_rank": None}}
    return Report(file, 0, stage, None, raw=raw)


def test_every_pipeline_stage_keeps_its_report() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 1)])
    assert [one.file for one in kept] == ["a.json", "b.json"]


def test_of_one_rank_the_later_report_counts() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 0)])
    assert [one.file for one in kept] == ["b.json"]
