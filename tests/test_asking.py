"""A short program that is asked something."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from configurator.asking import ask
from configurator.signals import Stop
from configurator.up import proc


def test_a_program_that_hangs_is_killed() -> None:
    began = time.monotonic()
    assert ask(["sleep", "30"], None, Stop(), 0.4) == (124, "", "no answer within 0.4 s")
    assert time.monotonic() - began < 5


def test_a_signal_ends_the_asking() -> None:
    with Stop() as stop:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        began = time.monotonic()
        assert ask(["sleep", "30"], None, stop, 20)[2] == "stopped"
        assert time.monotonic() - began < 5
    assert stop.signal is signal.SIGTERM


def test_who_holds_the_output_open_is_not_waited_for() -> None:
    left = [sys.executable, "-c", "import time; time.sleep(60)"]
    code = f"import subprocess; print(subprocess.Popen({left!r}, start_new_session=%s).pid)"
    for session in (False, True):
        began = time.monotonic()
        found, out, _ = ask([sys.executable, "-c", code % session], None, Stop(), 30)
        assert found == 0
        assert time.monotonic() - began < 5
        if session:
            os.kill(int(out), signal.SIGKILL)  # it left the group, so it is alive
        else:
            with pytest.raises(ProcessLookupError):
                wait_gone(int(out))


def wait_gone(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        stat = proc.read_stat(pid)
        if stat is None or not stat.alive:
            raise ProcessLookupError
        time.sleep(0.02)


def test_a_signal_is_heard_although_the_output_is_held_open() -> None:
    with Stop() as stop:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        began = time.monotonic()
        argv = ["/bin/sh", "-c", "setsid sleep 7 & sleep 30"]
        assert ask(argv, None, stop, 20)[2] == "stopped"
        assert time.monotonic() - began < 3


def test_one_that_prints_for_ever_is_cut_off() -> None:
    began = time.monotonic()
    assert ask(["yes"], None, Stop(), 30) == (124, "", "it printed more than 1 MiB")
    assert time.monotonic() - began < 5
