"""What comes of a matrix: detected or missed, clean or an alarm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event
from types import SimpleNamespace
from typing import Any

import pytest
from fake_engine import fake_engine

from configurator.cli import run
from configurator.demo.server import recording
from configurator.evidence.model import Evidence
from configurator.evidence.read import read_evidence
from configurator.loader import Validators
from configurator.selftest.engine import Engine, Launcher
from configurator.selftest.matrix import Expected, Matrix, Start, Trial
from configurator.selftest.report import as_json, print_table
from configurator.selftest.runner import Result, Table, judge_test, run_matrix
from configurator.selftest.server import RunIsOverError, Running

HEALTHY = read_evidence(recording("healthy"))
SABOTAGED = read_evidence(recording("sabotaged"))
ASK = ("fp8-lm-head", "lm-head-shared", "speculative-acceptance=2.0")
REFUTED, PROVEN = Expected(answer="REFUTED"), Expected(answer="PROVEN")
SPOILT = {"lm-head-shared": REFUTED, "speculative-acceptance": REFUTED}


def twin(**fields: Any) -> Trial:
    base = {"name": "twin", "about": "", "start": Start(model="good"), "ask": ASK}
    return Trial(**{**base, "expect": dict.fromkeys(("lm-head-shared",), PROVEN), **fields})


def case(**fields: Any) -> Trial:
    return twin(**{"name": "case", "twin": "twin", "start": Start(model="wrong"),
                   "expect": SPOILT, **fields})  # fmt: skip


def judged(test: Trial, evidence: Evidence, validators: Validators) -> Result:
    return judge_test(test, evidence, validators)


def test_a_healthy_server_is_clean(validators: Validators) -> None:
    result = judged(twin(), HEALTHY, validators)
    assert (result.outcome, result.faults) == ("clean", ())


def test_a_wrong_verdict_on_a_healthy_server_is_an_alarm(validators: Validators) -> None:
    result = judged(twin(expect={}), SABOTAGED, validators)
    assert result.outcome == "alarm"
    assert [fault for fault in result.faults if "wrongly refuted: lm-head-shared" in fault]
    assert "exit code 1 for a healthy server" in result.faults


def test_a_proof_that_is_missing_is_an_alarm(validators: Validators) -> None:
    open_ = twin(ask=(*ASK, "moe-runner=triton"), expect={"moe-runner": PROVEN})
    bare = Evidence(HEALTHY.directory, tuple(_without_reports(HEALTHY)))
    result = judged(open_, bare, validators)
    assert result.outcome == "alarm"
    assert [fault for fault in result.faults if fault.startswith("not PROVEN: moe-runner")]


def _without_reports(evidence: Evidence) -> list[Any]:
    import dataclasses

    return [dataclasses.replace(replica, reports=()) for replica in evidence.replicas]


def test_sabotage_is_detected(validators: Validators) -> None:
    result = judged(case(), SABOTAGED, validators)
    assert (result.outcome, result.faults) == ("detected", ())
    assert any(said.startswith("lm-head-shared REFUTED (built)") for said in result.seen)


def test_sabotage_that_nobody_sees_is_missed(validators: Validators) -> None:
    result = judged(case(), HEALTHY, validators)
    assert result.outcome == "missed"
    assert "exit code 0 all the same" in result.faults


def test_a_verdict_beside_the_expected_ones_is_missed(validators: Validators) -> None:
    result = judged(case(expect={"lm-head-shared": REFUTED}), SABOTAGED, validators)
    assert result.outcome == "missed"
    assert len(result.faults) == 1
    assert result.faults[0].startswith("wrongly refuted: speculative-acceptance")


@pytest.mark.parametrize(
    ("expected", "fault"),
    [
        (Expected(answer="REFUTED", rung="effective"), "below effective"),
        (Expected(answer="REFUTED", says="a full moon"), "does not say 'a full moon'"),
        (Expected(answer="REFUTED", lacks=("a full moon", "aliased")), "says 'aliased'"),
        (Expected(answer="INCONCLUSIVE"), "not INCONCLUSIVE"),
    ],
)
def test_rung_and_words_count(expected: Expected, fault: str, validators: Validators) -> None:
    result = judged(
        case(expect={**SPOILT, "lm-head-shared": expected}), SABOTAGED, validators
    )  # fmt: skip
    assert result.outcome == "missed"
    assert any(fault in text for text in result.faults)


def test_the_state_of_the_server_counts(validators: Validators) -> None:
    result = judged(case(server="failed", reason="broken"), SABOTAGED, validators)
    assert result.outcome == "missed"
    assert any(text.startswith("the server is ready, not failed") for text in result.faults)
    assert any("does not say 'broken'" in text for text in result.faults)


def test_words_that_must_be_lacking_are(validators: Validators) -> None:
    lacking = Expected(answer="REFUTED", lacks=("a full moon",))
    result = judged(case(expect={**SPOILT, "lm-head-shared": lacking}), SABOTAGED, validators)
    assert (result.outcome, result.faults) == ("detected", ())


def test_what_is_no_run_on_a_gpu_is_shown_apart(capsys: pytest.CaptureFixture[str]) -> None:
    label = "contract in-process, pretended platform"
    pretended = Result(case(name="pretended", label=label), "detected", state="ready")
    table = Table((Result(twin(), "clean"), pretended, Result(case(), "detected", state="ready")))
    print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "healthy servers", "  clean    twin (0 s): ",
        f"sabotaged servers ({label})", f"  detected pretended (0 s) [{label}]: ",
        "sabotaged servers", "  detected case (0 s): ",
    ]  # fmt: skip
    said = Result(twin(label=label), "clean", state="ready", seen=("it PROVEN: 2 of 4",))
    print_table(Table((said, Result(twin(), "clean", seen=("another",)))))
    shown = capsys.readouterr().out
    assert "           it PROVEN: 2 of 4\n" in shown
    assert "another" not in shown
    assert f"1 of them are no run on a GPU: {label}" in lines
    assert lines[-1] == "detected 2/2, false alarms 0/1"
    data = json.loads(as_json(table))
    assert [test["label"] for test in data["tests"]] == [None, label, None]
    print_table(Table((Result(twin(), "clean"),)))
    assert "run on a GPU" not in capsys.readouterr().out


def test_the_last_line_and_the_exit_code() -> None:
    good = Table((Result(twin(), "clean"), Result(case(), "detected")))
    assert (good.last_line, good.exit_code) == ("detected 1/1, false alarms 0/1", 0)
    missed = Table((*good.results, Result(case(), "missed")))
    assert (missed.last_line, missed.exit_code) == ("detected 1/2, false alarms 0/1", 1)
    alarm = Table((Result(twin(), "alarm"), *good.results))
    assert (alarm.last_line, alarm.exit_code) == ("detected 1/1, false alarms 1/2", 1)
    assert Table().exit_code == 1


def test_a_matrix_is_run_on_servers(tmp_path: Path, validators: Validators) -> None:
    engine = Engine(fake_engine(tmp_path), "0.5.23")
    launcher = Launcher.prepare(engine, tmp_path / "models", tmp_path / "runs")
    dies = Start(model="good", sabotage="dies", limit_s=20)
    unproven = {"lm-head-shared": Expected(answer="INCONCLUSIVE")}
    tests = (
        twin(),
        twin(name="again"),
        case(),
        case(name="dies", start=dies, server="failed", reason="weights are broken",
             expect=unproven),
    )  # fmt: skip
    seen: list[str] = []
    table = run_matrix(
        Matrix(tests=tests), launcher, validators, lambda result: seen.append(result.test.name)
    )
    assert seen == ["twin", "again", "case", "dies"]
    assert [result.faults for result in table.results] == [(), (), (), ()]
    assert table.last_line == "detected 2/2, false alarms 0/2"
    folders = {path.name for path in (tmp_path / "runs").iterdir()}
    assert folders == {"plugins", "twin", "case", "dies"}
    assert table.seconds > 0


class Side:
    """Starts servers that are none: each does something before it is looked at."""

    def __init__(self, look: Callable[[str], Evidence]) -> None:
        self.running = Running()
        self._look = look

    @contextmanager
    def server(self, name: str, start: Start) -> Iterator[Any]:
        yield SimpleNamespace(look=lambda view: self._look(name), stop=lambda: None)


def side_by_side(count: int) -> Matrix:
    tests = [twin(name=f"twin-{n}", start=Start(model=f"{n}")) for n in range(count)]
    return Matrix(tests=tuple(tests))


def test_servers_run_side_by_side_and_the_table_is_in_order(validators: Validators) -> None:
    together, last = Barrier(2), Event()

    def look(name: str) -> Evidence:
        # Nobody passes before two are here, and the first goes on after all others.
        if name in ("twin-0", "twin-1"):
            together.wait(20)
        if name == "twin-0":
            assert last.wait(20)
        return HEALTHY

    def told(result: Result) -> None:
        seen.append(result.test.name)
        if len(seen) == 3:
            last.set()

    seen: list[str] = []
    side: Any = Side(look)
    table = run_matrix(side_by_side(4), side, validators, told, jobs=2)
    assert seen == ["twin-1", "twin-2", "twin-3", "twin-0"]
    assert [result.test.name for result in table.results] == [f"twin-{n}" for n in range(4)]
    assert table.last_line == "detected 0/0, false alarms 0/4"


def test_an_error_of_one_ends_the_others(validators: Validators) -> None:
    ended, started = Event(), []

    def look(name: str) -> Evidence:
        started.append(name)
        if name == "twin-1":
            raise RuntimeError("our own fault")
        assert ended.wait(20)
        return HEALTHY

    side: Any = Side(look)
    side.running = SimpleNamespace(end=ended.set)
    with pytest.raises(RuntimeError, match="our own fault"):
        run_matrix(side_by_side(9), side, validators, jobs=2)
    assert ended.is_set()
    assert len(started) < 9


def test_after_the_end_nothing_starts(tmp_path: Path) -> None:
    engine = Engine(fake_engine(tmp_path), "0.5.23")
    launcher = Launcher.prepare(engine, tmp_path / "models", tmp_path / "runs")
    with launcher.server("first", Start(model="good")) as server:
        launcher.running.end()
        assert server.process.poll() is not None
        with pytest.raises(RunIsOverError), launcher.server("second", Start(model="good")):
            pass
    assert not (tmp_path / "runs" / "second" / "server.log").exists()


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["selftest", "--list", "--only", "head-copied"]) == 0
    out = capsys.readouterr().out
    assert "mtp  [healthy]" in out
    assert "head-copied  [twin mtp]" in out
    assert out.endswith("2 tests on 2 servers\n")
    assert run(["selftest", "--list", "--only", "megakernel-not-allowed"]) == 0
    out = capsys.readouterr().out
    label = "[contract in-process, pretended platform]"
    assert f"megakernel  [healthy]  {label}\n" in out
    assert f"megakernel-not-allowed  [twin megakernel]  {label}\n" in out
    assert run(["selftest", "--engine", str(tmp_path / "none")]) == 2
    assert "configurator.selftest.install" in capsys.readouterr().err
    assert run(["selftest", "--only", "nothing"]) == 2
    assert run(["selftest", "--jobs", "0"]) == 2
    assert run(["selftest", "--keep", str(tmp_path.parent)]) == 2
    assert "give a new or empty directory" in capsys.readouterr().err


def test_the_command_ends_with_the_result(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small = Matrix(tests=(twin(), case()))
    monkeypatch.setattr("configurator.selftest.matrix.load_matrix", lambda: small)
    python = str(fake_engine(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(["selftest", "--engine", python, "--keep", "kept", "--jobs", "1"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "detected 1/1, false alarms 0/1"
    assert "[ 2/2] case" in printed.err
    assert "not exercised: CUDA kernels" in printed.out
    assert (tmp_path / "kept" / "case" / "evidence-1" / "manifest.json").is_file()
    assert run(["selftest", "--engine", python, "--only", "case", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["detected"], data["cases"], data["false_alarms"], data["twins"]) == (1, 1, 0, 1)
    assert data["tests"][1]["outcome"] == "detected"
