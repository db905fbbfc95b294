"""Which reports count: stale, foreign and contradicting ones do not, and the reason is said."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.evidence.model import Report
from configurator.evidence.report_choice import choose
from configurator.evidence.reports import parse_report

START = 1_796_028_502.0
ANSWERS: dict[str, Any] = {"internal_states": [{}]}


def report(
    file: str = "report.json", *, pid: Any = 7, time: Any = START, rank: Any = 0, **more: Any
) -> Report:
    hooks = {"applied": ["a.Controller.get_internal_state"]}
    data = {
        "schema": "configurator/report/1", "stage": "ready", "process": {"pid": pid, "time": time},
        "rank": rank if isinstance(rank, dict) else {"tp_rank": rank},
        "target": {"model_class": "A", "model_path": "m"},
        "hooks": hooks, "versions": {"engine": "0.5.23"},
    }  # fmt: skip
    found = parse_report(file, data | more)
    assert found is not None
    return found


LIVE = "server_info.json#/configurator_probe"
OTHER = {"model_class": "B", "model_path": "m"}


def chosen(
    *files: Report,
    live: tuple[Report, ...] = (),
    info: dict[str, Any] | None = None,
    model: str = "",
) -> tuple[list[str], tuple[str, ...]]:
    kept, why = choose(files, live, info, model)
    return [one.file for one in kept], why


def test_a_file_that_is_the_servers_own_report_counts() -> None:
    assert chosen(report(), live=(report(LIVE),), info=ANSWERS) == (["report.json"], ())


@pytest.mark.parametrize(
    ("stale", "says"),
    [
        (report(pid=99), "another start: process 99, and process 7 answers"),
        (report(pid=99, target=OTHER), "another start: process 99"),
        (report(time=START - 3600), "another start, 3600 s before"),
        (report(time=START + 3600), "another start, 3600 s after"),
    ],
)
def test_a_file_of_another_start_goes_for_the_answer(stale: Report, says: str) -> None:
    kept, why = chosen(stale, live=(report(LIVE),), info=ANSWERS)
    assert kept == [LIVE]
    assert says in why[0]


def test_a_stale_ready_file_does_not_hide_a_live_report_of_an_earlier_stage() -> None:
    live = report(LIVE, stage="loaded", target=OTHER)
    assert chosen(report(pid=99), live=(live,))[0] == [LIVE]
    assert chosen(report(time=START - 3600), live=(live,))[0] == [LIVE]
    kept, why = chosen(report(pid=None), live=(live,))
    assert kept == [LIVE]
    assert "may be of different starts" in why[0]
    assert chosen(report(time=START + 900), live=(live,)) == (["report.json"], ())


def test_two_reports_of_one_rank_that_contradict_each_other_do_not_count() -> None:
    kept, why = chosen(report("a.json"), report("z.json", target=OTHER))
    assert kept == []
    assert why == ("a.json and z.json contradict each other in what one rank is: neither counts",)
    assert chosen(report("a.json"), report("z.json")) == (["z.json"], ())
    assert chosen(report(target=OTHER), live=(report(LIVE),))[0] == []


def test_a_stage_that_is_not_known_never_displaces_ready() -> None:
    odd = report("z.json", stage="bogus", target=OTHER)
    assert chosen(report("a.json"), odd) == (["a.json"], ())


def test_an_answer_without_the_report_leaves_the_file_open() -> None:
    kept, why = chosen(report(), info=ANSWERS)
    assert kept == []
    assert "/server_info carries no report of this rank" in why[0]
    assert chosen(report(time=0), info=ANSWERS)[0] == ["report.json"]
    assert chosen(report(hooks={"applied": []}), info=ANSWERS)[0] == ["report.json"]
    assert chosen(report(rank=1), info=ANSWERS)[0] == ["report.json"]
    assert chosen(report())[0] == ["report.json"]


def test_a_file_without_a_rank_is_held_against_the_only_rank() -> None:
    sizes = {"tp_rank": 0, "tp_size": 1, "pp_size": 1, "dp_size": 1}
    failed = report("report-pid99.json", pid=99, rank={"error": "KeyError"}, target=OTHER)
    kept, why = chosen(failed, live=(report(LIVE, rank=sizes),))
    assert kept == [LIVE]
    assert "process 99, and process 7 answers" in why[0]
    assert chosen(failed, live=(report(LIVE, rank=sizes | {"tp_size": 2}),))[1] == ()


def test_the_ranks_of_one_start_are_ready_together() -> None:
    old = report("old.json", rank=1, time=START - 3600)
    live = (report(LIVE),)
    assert chosen(old, live=live)[0] == [LIVE]
    assert chosen(report("r0.json"), old)[0] == ["r0.json"]
    near = report("r1.json", rank=1, pid=8, time=START - 3)
    assert chosen(near, live=live) == ([LIVE, "r1.json"], ())


@pytest.mark.parametrize(
    ("info", "model", "says"),
    [
        ({"version": "0.5.17"}, "", "of engine 0.5.23, and 0.5.17 answers"),
        (None, "/models/other/", "of the model m, and other is served"),
    ],
)
def test_a_report_of_another_engine_or_model_does_not_count(
    info: dict[str, Any] | None, model: str, says: str
) -> None:
    kept, why = chosen(report(), info=info, model=model)
    assert kept == []
    assert says in why[0]


@pytest.mark.parametrize(
    ("info", "model"),
    [
        ({"version": "0.5.23+cu130"}, "org/m"),
        ({"version": None}, "/hub/snapshots/" + "0a" * 20),
        ({}, ""),
    ],
)
def test_what_cannot_be_compared_contradicts_nothing(info: dict[str, Any], model: str) -> None:
    assert chosen(report(), info=info, model=model) == (["report.json"], ())
