"""Two runs that are one prove nothing of each other."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.evidence.alike import why_alike
from configurator.evidence.model import Evidence, Replica, Report, ServerState

READY = ServerState("ready")
URL = "http://127.0.0.1:30000"


def run(
    *, when: str = "", url: str = URL, process: dict[str, Any] | None = None,
    info: dict[str, Any] | None = None, asked: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> tuple[Evidence, Replica]:  # fmt: skip
    """Evidence of one server."""
    reports = () if process is None else (Report("r", 0, "ready", None, raw={"process": process}),)
    replica = Replica(
        0, READY, server_info=info, requested=asked or {}, environment=env, reports=reports
    )
    manifest = {"collected_at": when, "replicas": [{"index": 0, "url": url}]} if when else {}
    return Evidence("d", (replica,), manifest), replica


NOW, LATER = "2026-11-30T09:00:00Z", "2026-11-30T09:10:00Z"
FP8 = {"model_path": "/m", "quantization": "fp8", "port": "1"}
ON = {"SGLANG_X": "1", "CUDA_VISIBLE_DEVICES": "0"}
TIMES = {"load_weight": 0.0131, "cuda_graph": {"decode": 0.2}}


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        (run(when=NOW), run(when=NOW), "the same evidence"),
        (run(when=NOW), run(when=LATER), ""),
        (run(when=NOW), run(when=NOW, url="http://127.0.0.1:30001"), ""),
        (run(process={"pid": 7, "time": 1.5}), run(process={"pid": 7, "time": 1.5}), "process"),
        (run(process={"pid": 7, "time": 1.5}), run(process={"pid": 7, "time": 2.5}), ""),
        (run(process={"pid": 7}), run(process={"pid": 7}), ""),
        (run(info={"startup_time": TIMES}), run(info={"startup_time": dict(TIMES)}), "startup_t"),
        (run(info={"startup_time": {}}), run(info={"startup_time": {}}), ""),
        (run(info={"random_seed": 5}, asked=FP8), run(info={"random_seed": 5}, asked={"tp": "2"}),
         "random_seed 5"),
        # A seed that was asked for may be the same in many runs.
        (run(info={"random_seed": 42}, asked={**FP8, "random_seed": "42"}),
         run(info={"random_seed": 42}, asked={"random_seed": "42"}), ""),
        (run(info={"random_seed": 42}), run(info={"random_seed": 42}), "random_seed 42"),
        (run(info={"random_seed": 42, "startup_time": TIMES}),
         run(info={"random_seed": 42, "startup_time": {"load_weight": 0.2}}), ""),
        (run(asked=FP8), run(asked={**FP8, "port": "2"}), "launched by the same command"),
        (run(asked=FP8), run(asked={"model_path": "/m", "port": "1"}), ""),
        (run(), run(), ""),
        (run(asked=FP8, env=ON), run(asked=FP8, env={**ON, "CUDA_VISIBLE_DEVICES": "1"}),
         "launched by the same command"),
        (run(asked=FP8, env=ON), run(asked=FP8, env={"SGLANG_X": "0"}), ""),
        (run(asked=FP8, env=ON), run(asked=FP8), "launched by the same command"),
        (run(asked=FP8, info={"version": "0.5.23"}), run(asked=FP8, info={"version": "0.5.22"}),
         ""),
    ],
)  # fmt: skip
def test_one_server_or_one_command_is_no_other_run(
    ours: tuple[Evidence, Replica], theirs: tuple[Evidence, Replica], why: str
) -> None:
    found = why_alike(*ours, *theirs)
    assert why in found
    assert bool(found) == bool(why)
