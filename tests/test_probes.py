"""Words that several probes share: which ranks differ, and why there is no report."""

from __future__ import annotations

import pytest

from configurator.evidence.model import Hooks, ModelReport, Replica, Report, ServerState
from configurator.probes import on_ranks, why_no_report

READY = ServerState("ready")
HOOK = "sglang.srt.managers.scheduler.Scheduler.get_init_info"


def report(**ranks: int) -> Report:
    name = "-".join(f"{key}{value}" for key, value in ranks.items())
    target = ModelReport("Model", is_draft=False)
    return Report(f"{name}.json", ranks.get("tp_rank"), "ready", target, ranks=ranks)


TP = [report(tp_rank=rank, tp_size=2, dp_rank=0, dp_size=1) for rank in range(2)]
DP = [report(tp_rank=0, tp_size=1, dp_rank=rank, dp_size=2) for rank in range(2)]


def test_what_all_ranks_say_names_none() -> None:
    assert on_ranks(TP, TP) == ""
    assert on_ranks(TP[:1], TP[:1]) == ""


def test_what_some_ranks_say_names_them() -> None:
    assert on_ranks(TP[1:], TP) == " on rank 1"
    assert on_ranks(DP[1:], DP) == " on data parallel rank 1"
    both = [report(tp_rank=t, tp_size=2, dp_rank=d, dp_size=2) for t in (0, 1) for d in (0, 1)]
    assert on_ranks(both[1:3], both) == (
        " on rank 0 of data parallel rank 1, rank 1 of data parallel rank 0"
    )


def test_a_report_that_does_not_know_its_rank_is_named_by_its_file() -> None:
    unknown = Report("reports/report-pid7.json", None, "ready", None)
    assert on_ranks([unknown], [unknown, TP[0]]) == " on reports/report-pid7.json"
    early = Report("reports/a.json", 3, "ready", None)
    assert on_ranks([early], [early, TP[0]]) == " on rank 3"


FAILED = Report("r.json", None, "ready", None, errors={"all": "RuntimeError: no"})


@pytest.mark.parametrize(
    ("replica", "text"),
    [
        (Replica(0, READY), ""),
        (Replica(0, READY, reports=(FAILED,)), ": the report failed, RuntimeError: no"),
        (
            Replica(0, READY, hooks=(Hooks("h.json", 7, error="not this engine"),)),
            ": the probe could not hook into the engine, not this engine",
        ),
        (
            Replica(0, READY, hooks=(Hooks("h.json", 7, missing={HOOK: "renamed"}),)),
            f": the probe could not hook into the engine, {HOOK} was not applied",
        ),
        (
            Replica(0, READY, hooks=(Hooks("h.json", 7, registered=(HOOK,)),)),
            ": the probe was loaded, but the engine called none of its hooks",
        ),
        (
            Replica(0, READY, environment={"SGLANG_PLUGINS": "other, more"}),
            ": SGLANG_PLUGINS is other, more and leaves configurator_probe out",
        ),
        (Replica(0, READY, environment={"SGLANG_PLUGINS": "other, configurator_probe"}), ""),
    ],
)  # fmt: skip
def test_why_there_is_no_report(replica: Replica, text: str) -> None:
    assert why_no_report(replica) == text
