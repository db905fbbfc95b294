"""Waiting: signs of life of a silent process, and what ends it."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in import free_port
from up.test_preflight import deployment

from configurator.signals import Stop
from configurator.up.console import Console
from configurator.up.launching import Command, Running, commands_of, start
from configurator.up.lock import RunLock
from configurator.up.stopping import Patience, stop_all
from configurator.up.waiting import Ended, Life, raise_if_over, wait_ready


class Starts:
    """Starts programs in place of the engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Running] = []

    def __call__(self, code: str) -> Running:
        made = deployment(self.folder, serving={"port": free_port()})
        (command,) = commands_of(made, 0, {}, None, {})
        argv = (sys.executable, "-c", code)
        program = Command(command.process, argv, command.env, argv, {}, frozenset())
        with RunLock(self.folder / "lock") as lock:
            lock.describe(self.folder)
            self.running.append(start(program, self.folder / "x.log", lock))
        return self.running[-1]


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    made = Starts(tmp_path)
    yield made
    stop_all(made.running, Stop(), Patience(1.0, 0.1), lambda text: None)


def test_a_busy_silent_process_gives_a_sign_of_life(starts: Starts) -> None:
    running = starts("print('Entering DeepGEMM JIT Pre-Compile', flush=True)\nwhile True: pass")
    stop, life = Stop(), Life(1.0)
    signs = []
    for _ in range(20):
        stop.sleep(0.1)
        signs += [sign for sign in [life.sign(running)] if sign]
    assert len(signs) in (1, 2)
    assert "in the phase DeepGEMM pre-compile, the process is alive, CPU" in signs[0]
    assert "10 to 20 minutes" in signs[0]
    assert int(signs[0].split("CPU ")[1].split(" %")[0]) > 5


def test_a_talking_process_gives_none(starts: Starts) -> None:
    running = starts("import time\nwhile True: print('x', flush=True); time.sleep(0.05)")
    stop, life = Stop(), Life(0.5)
    for _ in range(12):
        stop.sleep(0.1)
        assert life.sign(running) == ""


def test_an_end_while_waiting_tells_the_cause(starts: Starts) -> None:
    code = (
        "import sys; print('Load weight begin'); print('Traceback (most recent call last):')\n"
        "print('RuntimeError: CUDA out of memory'); sys.exit(3)"
    )
    running = starts(code)
    with pytest.raises(Ended, match=r"ended with exit code 3 .*in the phase loading") as caught:
        wait_ready([running], [running], 20, Stop(), Console(io.StringIO()))
    assert caught.value.code == 1
    assert caught.value.lines[-2] == "cause: RuntimeError: CUDA out of memory"
    assert caught.value.lines[-1].startswith("remedy: lower memory.mem_fraction_static")


def test_a_death_by_signal_is_named(starts: Starts) -> None:
    running = starts("import os; os.kill(os.getpid(), 9)")
    running.popen.wait(10)
    with pytest.raises(Ended, match="replica0-host0 ended by signal 9 while serving"):
        raise_if_over([running], Stop(), "while serving")


def test_the_time_is_over(starts: Starts) -> None:
    running = starts("print('Running FlashInfer autotune', flush=True); import time; time.sleep(9)")
    with pytest.raises(Ended, match=r"not ready after 1 s .*it was at: FlashInfer autotune"):
        wait_ready([running], [running], 1.0, Stop(), Console(io.StringIO()))


def test_where_nobody_listens_nothing_is_waited_for(starts: Starts) -> None:
    running = starts("import time; time.sleep(9)")
    assert wait_ready([], [running], 1.0, Stop(), Console(io.StringIO())) < 1


def test_a_request_to_stop_comes_first() -> None:
    stop = Stop()
    stop.signal = signal.SIGHUP
    with pytest.raises(Ended, match="stopped by SIGHUP during preflight"):
        raise_if_over((), stop, "during preflight")
