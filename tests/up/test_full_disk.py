"""A disk that is full: files that may not grow stand in for it."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from up.starts import Start, wait_until


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made = Start(tmp_path)
    yield made
    made.clean()


def fill_disk(pid: int) -> None:
    """From now on no file that the process writes may have a single byte."""
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))


def test_a_disk_that_fills_while_serving_is_said_and_no_failure(start: Start) -> None:
    process = start.up("healthy,talks")
    start.wait_phase("serving")
    fill_disk(process.pid)
    (start.folder / "go").touch()  # the engine says more than a pipe holds
    wait_until((start.folder / "said").exists, "an engine that is not held up")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    assert "stopped by SIGTERM, as asked" in output
    assert output.count("log/replica0-host0.log of the report is not whole: File too large") == 1
    assert output.count("timeline.json of the report is not whole: File too large") == 1
    assert output.count("result.json of the report is not whole: File too large") == 1
    assert start.json("verdicts.json")["server"]
    assert start.alive() == []


def test_a_disk_that_is_full_at_the_self_check_stops_it(start: Start) -> None:
    process = start.up("waits")
    start.wait_phase("capturing graphs", "replica0-host0")
    fill_disk(process.pid)
    (start.folder / "go").touch()
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 1, output
    assert "nothing is proven, the self-check could not be made" in output
    assert "File too large" in output
    assert "a fault of configurator" not in output
    assert start.alive() == []
