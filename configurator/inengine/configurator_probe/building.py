"""The report of one rank, put together from its parts."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from .drafts import draft_facts, draft_runners
from .environment import environment_facts
from .hooks import hook_facts
from .models import model_facts, target_runner
from .origin import device_facts, rank_facts, start_facts, version_facts
from .run import Run
from .values import class_of, get, text_of

SCHEMA = "configurator/report/1"


def opening(run: Run, scheduler: Any, stage: str) -> dict[str, Any]:
    """Which rank of which start speaks: a report has it even when nothing else can be told."""
    return {
        "schema": SCHEMA,
        "stage": stage,
        "process": {"pid": os.getpid(), "time": round(time.time(), 3)},
        "start": run.part("start", start_facts, scheduler),
        "rank": run.part("rank", rank_facts, scheduler),
    }


def build(scheduler: Any, stage: str) -> dict[str, Any]:
    """The report of this rank; a part that fails holds its error, and the others stay."""
    run = Run(stage)
    report: dict[str, Any] = {
        **opening(run, scheduler, stage),
        "versions": run.part("versions", version_facts),
        "device": run.part("device", device_facts, scheduler),
        "target": None,
        "drafts": [],
    }
    worker = getattr(scheduler, "draft_worker", None)
    report["draft_worker"] = class_of(worker)
    runner = run.part("target", target_runner, scheduler)
    if not isinstance(runner, dict):
        report["target"] = run.part("target", model_facts, run, "target", runner)
        report["speculative_algorithm"] = text_of(get(runner, "spec_algorithm.name"))
        pairs = run.part("drafts", draft_runners, worker) if worker is not None else []
        for index, pair in enumerate(pairs if isinstance(pairs, list) else []):
            name = f"drafts.{index}"
            report["drafts"].append(run.part(name, draft_facts, run, name, runner, worker, pair))
    if stage != "ready":
        # No graph is captured yet: silence about graphs must not read as their absence.
        for facts in (report["target"] or {}, *report["drafts"]):
            facts.pop("graphs", None)
    report["environment"] = run.part("environment", environment_facts)
    report["hooks"] = run.part("hooks", hook_facts)
    report["errors"] = run.errors
    report["build_ms"] = round((time.perf_counter() - run.start) * 1e3, 2)
    # Only what JSON can hold leaves: the report also travels to the engine's HTTP server.
    return dict(json.loads(json.dumps(report, default=str)))
