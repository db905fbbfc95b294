"""Who answers: the engine that was started, or another one that took its port meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from strangers import another_server
from up.starts import Start, wait_until

from configurator.demo.server import RecordedServer, _handler, recording


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    made.clean()


@contextmanager
def another_engine(port: int) -> Iterator[None]:
    """A healthy server of this very process on a port, with all that an engine answers."""
    recorded = RecordedServer(recording("healthy"))
    recorded._server.server_close()
    with another_server(port, _handler(recorded)):
        yield


def test_another_start_that_takes_the_port_is_not_this_engine(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    late = Start(tmp_path / "second", name="second")
    early = Start(tmp_path / "first", name="first", port=late.port)
    try:
        hanging = late.up("hangs", "--once")
        late.wait_phase("capturing graphs", "replica0-host0")
        healthy = early.up("healthy")
        early.wait_phase("serving")
        output, _ = hanging.communicate(timeout=50)
        assert hanging.returncode == 1, output
        pid = early.seen()["pid"]
        assert f"replica0-host0: process {pid} (" in output
        assert f"listens on port {late.port}, not this engine" in output
        assert "ready on" not in output
        assert "Capture target decode CUDA graph begin" in output
        assert late.json("result.json")["self_check"] == "not reached"
        assert late.alive() == []
        assert healthy.poll() is None
        healthy.terminate()
        assert healthy.wait(15) == 0
    finally:
        late.clean()
        early.clean()


def test_a_port_that_is_lost_during_the_self_check_proves_nothing(start: Start) -> None:
    process = start.up("loses-port", "--once")
    wait_until((start.folder / "lost").exists, "the port")
    with another_engine(start.port):
        (start.folder / "go").touch()
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 1, output
    assert f"process {os.getpid()} (" in output
    assert f"listens on port {start.port}, not this engine" in output
    assert not (start.folder / "report" / "verdicts.json").exists()
    assert start.json("result.json")["self_check"] == "not reached"


@pytest.mark.parametrize(
    ("mode", "code", "said"),
    [
        ("reports", 0, "the self-check is good"),
        ("reports,family", 0, "the self-check is good"),
        ("other-reports", 1, ", not by this engine"),
    ],
)
def test_a_report_is_by_a_process_of_this_start(
    start: Start, mode: str, code: int, said: str
) -> None:
    process = start.up(f"healthy,{mode}", "--once")
    output, _ = process.communicate(timeout=50)
    assert process.returncode == code, output
    assert said in output
    info = json.loads((start.folder / "report/evidence/replica-0/server_info.json").read_text())
    shown = info["internal_states"][0]["configurator_probe"]["process"]["pid"]
    assert shown == (process.pid if code else start.seen()["pid"])
    assert (f"is by process {process.pid} (" in output) == (code == 1)


def test_an_engine_behind_a_wrapper_that_stays_is_this_engine(start: Start) -> None:
    python = start.folder / "python3"
    python.rename(start.folder / "real")
    python.write_text(f'#!/bin/sh\nsetsid -w {start.folder}/real "$@"\n')
    python.chmod(0o755)
    code, output = start.run("healthy,reports", "--once")
    assert code == 0, output
    assert f"ready on http://127.0.0.1:{start.port}" in output
