"""Which ranks must have left a report, and what is said of those that did not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from up.test_preflight import deployment

from configurator.evidence.model import Evidence, Hooks, Replica, Report, ServerState
from configurator.up.engine_python import EnginePython
from configurator.up.launching import commands_of
from configurator.up.preflight import CHECKS, Host
from configurator.up.required import missing_reports

NEEDED = {"evidence": {"require_report": True}}
PIPELINE = {"hardware": {"name": "h200", "gpus": 4}, "topology": {"tensor": 2, "pipeline": 2}}
TWO_HOSTS = {"hardware": {"name": "dgx-spark", "gpus": 2}, "topology": {"tensor": 2}}


def evidence(*ranks: tuple[int, int], **more: Any) -> Evidence:
    reports = tuple(
        Report(f"r{tp}-{pp}.json", tp, "loaded", None, ranks={"tp_rank": tp, "pp_rank": pp})
        for tp, pp in ranks
    )
    replica = Replica(0, ServerState("ready"), reports=reports, **more)
    return Evidence("x", (replica,))


@pytest.mark.parametrize(
    ("profile", "ranks", "missing"),
    [
        ({}, [(0, 0)], ""),
        ({}, [], "0"),
        (PIPELINE, [(0, 0), (1, 0), (0, 1), (1, 1)], ""),
        (PIPELINE, [(0, 0), (1, 1)], "1 of pipeline rank 0, 0 of pipeline rank 1"),
        (TWO_HOSTS, [(0, 0)], ""),  # rank 1 reports on its own host
        (TWO_HOSTS, [(1, 0)], "0"),
    ],
)
def test_ranks_without_a_report(
    tmp_path: Path, profile: dict[str, Any], ranks: list[tuple[int, int]], missing: str
) -> None:
    made = deployment(tmp_path, **profile, **NEEDED)
    found = missing_reports(made, evidence(*ranks), [0])
    assert [text.split(";")[0].split(":")[0] for text in found] == (
        [f"no in-engine report of rank {missing}"] if missing else []
    )
    assert missing_reports(deployment(tmp_path, **profile), evidence(), [0]) == []


def test_the_reason_is_said(tmp_path: Path) -> None:
    made = deployment(tmp_path, **NEEDED)
    hooks = (Hooks("hooks.json", 1, error="no such module"),)
    (text,) = missing_reports(made, evidence(hooks=hooks), [0])
    assert "rank 0: the probe could not hook into the engine, no such module; let" in text
    (text,) = missing_reports(made, evidence(), [0])
    assert "rank 0: the plugin gave no sign in the engine, so it was not loaded; let" in text
    failed = Report("r.json", 0, "failed", None, errors={"heads": "boom"})
    one = evidence()
    broken = dataclasses.replace(one.replicas[0], reports=(failed,))
    (text,) = missing_reports(made, dataclasses.replace(one, replicas=(broken,)), [0])
    assert "rank 0: the report failed, boom; let every process of the engine load" in text


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ({"evidence": {"require_report": True, "instrument": "none"}}, "instrument is none"),
        ({"engine": {"version": "0.5.9"}, **NEEDED}, "sglang 0.5.9 loads no plugins"),
    ],
)
def test_an_engine_that_cannot_report(tmp_path: Path, profile: dict[str, Any], why: str) -> None:
    made = deployment(tmp_path, **profile)
    (text,) = missing_reports(made, evidence(), [0])
    assert why in text
    assert text.endswith("leave evidence.require_report out")
    commands = commands_of(made, 0, {}, None, {})
    host = Host(made, commands, EnginePython(), None, tmp_path, instrumented=False)
    (finding,) = CHECKS["plugins"](host)
    assert finding.severity == "error"
    assert why in finding.fact
