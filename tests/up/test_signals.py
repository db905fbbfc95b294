"""Signals at every phase with real processes: the engine and all its children are gone after."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from up.starts import Start, wait_until

PHASES = {
    "preflight": ("slow-preflight", 1, "during preflight"),
    "loading": ("hangs,family", 1, "before it was ready"),
    "checking": ("slow-check,family", 1, "during the self-check"),
    "serving": ("healthy,family", 0, "as asked"),
}
"""Phase -> mode of the engine, exit code of a run that is stopped there, what is said."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    made.clean()


def reach(start: Start, phase: str, report: str = "report") -> None:
    """Wait until the start is in the phase, with all the processes that it is to have."""
    if phase == "preflight":
        wait_until((start.folder / "preflight").exists, "preflight")
    elif phase == "loading":
        start.wait_phase("capturing graphs", "replica0-host0", report)
    else:
        start.wait_phase({"checking": "self-check"}.get(phase, phase), report=report)
    if phase == "checking":
        time.sleep(0.3)  # until the first request hangs


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_in_any_phase(tmp_path: Path, signum: signal.Signals) -> None:
    starts = {phase: Start(folder_of(tmp_path, phase)) for phase in PHASES}
    try:
        running = {phase: start.up(PHASES[phase][0]) for phase, start in starts.items()}
        for phase, start in starts.items():
            reach(start, phase)
            alive = start.alive(frozenset({running[phase].pid}))
            # `-c` of preflight; or the engine, its child, and its grandchild that left the session.
            assert len(alive) == (1 if phase == "preflight" else 3), (phase, alive)
            running[phase].send_signal(signum)
        for phase, start in starts.items():
            _, code, said = PHASES[phase]
            output, _ = running[phase].communicate(timeout=20)
            assert running[phase].returncode == code, output
            assert f"stopped by {signum.name}" in output
            assert said in output
            assert start.alive() == []
            result = start.json("result.json")
            assert (result["exit_code"], result["signal"]) == (code, signum.name)
    finally:
        for start in starts.values():
            start.clean()


def folder_of(tmp_path: Path, phase: str) -> Path:
    folder = tmp_path / phase
    folder.mkdir()
    return folder


def test_an_engine_that_ignores_sigterm_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    start = Start(tmp_path, term_s=1.5)
    try:
        process = start.up("hangs,ignores-term,family")
        reach(start, "loading")
        began = time.monotonic()
        process.terminate()
        output, _ = process.communicate(timeout=15)
        assert 1.4 < time.monotonic() - began < 8
        assert "killing" in output
        assert "they have not ended" in output
        assert process.returncode == 1
        assert start.alive() == []
    finally:
        start.clean()


def test_a_second_interrupt_kills_at_once(start: Start) -> None:
    process = start.up("hangs,ignores-term,family")
    reach(start, "loading")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=15)
    assert time.monotonic() - began < 5
    assert "at once, as asked" in output
    assert process.returncode == 130
    assert start.alive() == []


def test_a_reader_that_went_away_does_not_keep_the_engine_alive(start: Start) -> None:
    process = start.up("healthy,family")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    reach(start, "serving")
    process.send_signal(signal.SIGHUP)
    assert process.wait(15) == 0
    assert start.alive() == []


@pytest.mark.parametrize("phase", ["loading", "serving"])
def test_after_sigkill_the_next_start_cleans_up(start: Start, phase: str) -> None:
    mode = PHASES[phase][0]
    first = start.up(mode)
    reach(start, phase)
    engine = start.seen()["pid"]
    os.kill(first.pid, signal.SIGKILL)
    first.wait(10)
    assert any(line.startswith(f"{engine}:") for line in start.alive())
    code, output = start.run("healthy", "--once", report="second")
    assert code == 0, output
    assert f"of an earlier start still ran (process group {engine})" in output
    assert "killed 1 more process(es) of the earlier start" in output
    assert start.alive() == []
