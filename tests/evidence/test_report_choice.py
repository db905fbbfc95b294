"""Which reports count: stale, foreign and contradicting ones do not, and the reason is said."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.evidence.model import Replica, Report, ServerState
from configurator.evidence.report_choice import choose
from configurator.evidence.report_start import is_drawn, one_server
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


def test_a_report_too_large_to_hand_on_counts_where_its_file_is() -> None:
    errors = [{"part": "all", "error": "the report of 9 bytes is too large to hand on"}]
    of_rank_1 = f"{LIVE}_ranks/0"

    def stand_in(**more: Any) -> Report:
        return report(of_rank_1, pid=8, rank=1, target=None, hooks=None, errors=errors, **more)

    own, full = report(LIVE), report("b.json", pid=8, rank=1)
    assert chosen(full, live=(own, stand_in()), info=ANSWERS) == ([LIVE, "b.json"], ())
    assert chosen(live=(own, stand_in()), info=ANSWERS) == ([LIVE, of_rank_1], ())
    # Of another process or moment it stands for another report.
    kept, why = chosen(full, live=(own, stand_in(time=START + 1)), info=ANSWERS)
    assert kept == [LIVE]
    assert "contradict each other" in why[0]


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


def begun(file: str = "report.json", *, seed: Any = 77, **more: Any) -> Report:
    """A report that says of which start it is."""
    held = {"random_seed": seed, "port": 30000, "host": "aa", "model_path": "m"}
    start = {**held, **more.pop("start", {})}
    return report(file, start=start, **more)


INFO = ANSWERS | {"random_seed": 77, "port": 30000}
TP2: dict[str, Any] = INFO | {"tp_size": 2}


def test_a_rank_of_an_earlier_start_does_not_count_however_near_it_is() -> None:
    live = (begun(LIVE),)
    old = begun("r1.json", rank=1, pid=8, time=START - 20, seed=78)
    kept, why = chosen(begun("r0.json"), old, live=live, info=TP2)
    assert kept == ["r0.json"]
    assert "r1.json does not count: the report is of another start: seed 78" in why[0]
    own = begun("r1.json", rank=1, pid=8, time=START - 20)
    assert chosen(begun("r0.json"), own, live=live, info=TP2) == (["r0.json", "r1.json"], ())


def test_two_servers_that_share_a_directory_are_told_apart_by_port() -> None:
    other = begun("r1.json", rank=1, pid=8, start={"port": 30001})
    kept, why = chosen(other, live=(begun(LIVE),), info=TP2)
    assert kept == [LIVE]
    assert "of the server on port 30001, and the one on port 30000 answers" in why[0]
    # The port of a further host is its own affair.
    several = TP2 | {"nnodes": 2}
    assert chosen(other, live=(begun(LIVE),), info=several)[0] == [LIVE, "r1.json"]


@pytest.mark.parametrize("broken", [{}, {"error": "OSError"}, {"random_seed": None}, "text", 7])
def test_a_file_that_tells_no_start_is_of_an_older_probe(broken: Any) -> None:
    live, old = (begun(LIVE),), report("r1.json", rank=1, pid=8, start=broken)
    kept, why = chosen(old, live=live, info=TP2)
    if broken == {"random_seed": None}:
        assert (kept, why) == ([LIVE, "r1.json"], ())
        return
    assert kept == [LIVE]
    assert "it does not say of which start it is, and the one that answers does" in why[0]
    assert chosen(old, live=(report(LIVE),), info=TP2) == ([LIVE, "r1.json"], ())


def test_a_seed_that_was_given_leaves_time_to_tell() -> None:
    live = (begun(LIVE),)
    ahead = begun("r1.json", rank=1, pid=8, time=START + 3600, start={"host": "bb"})
    assert choose([ahead], live, TP2, "")[0] == live
    # The clock of another host may be wrong; a seed that was drawn is not.
    kept, why = choose([ahead], live, TP2, "", drawn=True)
    assert (kept, why) == ((*live, ahead), ())
    other = begun("r1.json", rank=1, pid=8, time=START + 3600, seed=5)
    assert choose([other], live, TP2, "", drawn=True)[0] == live


def test_ranks_of_one_group_and_host_are_ready_within_a_minute() -> None:
    live = (begun(LIVE),)
    old = begun("r1.json", rank=1, pid=8, time=START - 300)
    assert chosen(old, live=live, info=TP2)[0] == [LIVE]
    afar = begun("r1.json", rank=1, pid=8, time=START - 300, start={"host": "bb"})
    assert chosen(afar, live=live, info=TP2)[0] == [LIVE, "r1.json"]
    stage = begun("r1.json", rank={"tp_rank": 0, "pp_rank": 1}, pid=8, time=START - 300)
    assert chosen(stage, live=live, info=INFO)[0] == [LIVE, "r1.json"]


def test_reports_of_several_starts_count_only_where_the_server_tells_which() -> None:
    ours, newer = begun("a.json"), begun("b.json", rank=1, pid=8, seed=5, time=START + 9)
    assert chosen(ours, newer, info=INFO)[0] == []  # /server_info would carry that of rank 0.
    ours = begun("a.json", hooks={})
    assert chosen(ours, newer, info=INFO)[0] == ["a.json"]
    kept, why = chosen(ours, newer)
    assert kept == []
    assert "reports of several starts, and nothing says which of them answers" in why[0]
    assert chosen(ours, begun("b.json", rank=1, pid=8))[0] == ["a.json", "b.json"]


@pytest.mark.parametrize(
    ("rank", "info", "says"),
    [
        ({"tp_rank": 1, "tp_size": 2}, {"tp_size": 1}, "tensor parallel size 2, and one of 1"),
        ({"tp_rank": 1}, {"tp_size": 1}, "tensor parallel rank 1, and one of 1 answers"),
        ({"tp_rank": 0, "pp_rank": 2}, {"pp_size": 2}, "pipeline rank 2, and one of 2 answers"),
        ({"tp_rank": 0, "dp_size": 2}, {"dp_size": 4}, "data parallel size 2, and one of 4"),
        ({"tp_rank": 0, "dp_size": 1}, {"dp_size": 4, "enable_dp_attention": True}, ""),
        ({"tp_rank": 1, "tp_size": 2}, {"tp_size": 2, "pp_size": None}, ""),
        ({"tp_rank": 1, "tp_size": 2}, {"tp_size": "1"}, ""),
    ],
)
def test_a_rank_that_the_server_does_not_have(
    rank: dict[str, int], info: dict[str, Any], says: str
) -> None:
    kept, why = chosen(report(rank=rank, hooks={}), info=info)
    assert kept == ([] if says else ["report.json"])
    assert says in (why[0] if why else "")


def test_one_process_is_not_two_ranks() -> None:
    copy = report("r1.json", rank=1)
    kept, why = chosen(report("r0.json"), copy, live=(report(LIVE),), info=TP2)
    assert kept == ["r0.json"]
    assert "one process is said to be two ranks, here and in" in why[0]
    assert chosen(report("r0.json"), copy)[0] == []
    # One number on two hosts is two processes.
    assert chosen(report("r0.json"), report("r1.json", rank=1, time=START + 1))[0] == [
        "r0.json", "r1.json",
    ]  # fmt: skip
    here, there = begun("r0.json"), begun("r1.json", rank=1, start={"host": "bb"})
    assert chosen(here, there)[0] == ["r0.json", "r1.json"]
    assert chosen(here, begun("r1.json", rank=1, time=START + 1))[0] == []
    both = (report(LIVE), report("server_info.json#/internal_states/1", rank=1))
    assert chosen(live=both)[0] == []


@pytest.mark.parametrize(
    ("requested", "drawn"),
    [
        ({"model_path": "m"}, True),
        ({"model_path": "m", "random_seed": "42"}, False),
        ({"model_path": "m", "random_s": "42"}, False),
        ({"model_path": "m", "config": "a.yaml"}, False),
        ({}, False),
    ],
)
def test_a_seed_is_drawn_where_the_command_gives_none(
    requested: dict[str, Any], drawn: bool
) -> None:
    assert is_drawn(requested) is drawn


def answering(**info: Any) -> Replica:
    return Replica(0, ServerState("ready"), server_info=info)


SIGNED = {"schema": "configurator/report/1", "rank": {"tp_rank": 0}}
OURS = SIGNED | {"process": {"pid": 7, "time": START}}
COMMAND = {"random_seed": 77, "port": 30000, "launch_command": "python -m sglang.launch_server"}
TOOK = {"internal_states": [{"startup_time": {"scheduler_e2e": 2.846}}]}


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ({"configurator_probe": OURS}, {"configurator_probe": OURS}, "report of one process"),
        ({"configurator_probe": OURS} | COMMAND,
         {"configurator_probe": OURS | {"process": {"pid": 8, "time": START}}} | COMMAND, ""),
        (TOOK, TOOK, "same times of a start"),
        (TOOK | COMMAND,
         COMMAND | {"internal_states": [{"startup_time": {"scheduler_e2e": 2.847}}]}, ""),
        (COMMAND, COMMAND, "seed 77, port 30000 and one launch command"),
        (COMMAND, COMMAND | {"random_seed": 78}, ""),
        (COMMAND, COMMAND | {"port": 30001}, ""),
        (COMMAND, COMMAND | {"launch_command": "another"}, ""),
        ({}, {}, ""),
        ({"random_seed": None, "port": None}, {"random_seed": None, "port": None}, ""),
    ],
)  # fmt: skip
def test_one_server_that_was_asked_twice(
    one: dict[str, Any], other: dict[str, Any], says: str
) -> None:
    why = one_server(answering(**one), answering(**other))
    assert (says in why) if says else why == ""
