"""Waiting for readiness: asking, watching the log, and telling life from a hang."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from configurator.collector.client import Client
from configurator.evidence.serverlog import parse_log, server_state
from configurator.signals import Stop
from configurator.up import proc
from configurator.up.console import Console
from configurator.up.launching import Running
from configurator.up.phases import READY, Step, why_slow

SILENCE_S = 120.0
_READ_BACK = 4 << 20
_LAST_WORDS_S = 0.5
"""Children that are left hold the log open, so its end is not waited for."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Ended(Exception):  # noqa: N818  (an end is no error)
    """The run is over: its exit code, and what there is to say."""

    def __init__(self, code: int, reason: str, lines: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.lines = list(lines)
        """Last lines of a log that explain it."""


class Health:
    """Asks a server again and again whether it is ready, beside everything else."""

    def __init__(self, url: str, interval_s: float = 0.5) -> None:
        self._client = Client(url, None, 5.0)
        self._interval_s = interval_s
        self._over = threading.Event()
        self.ready = False
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        while not self._over.is_set():
            if self._client.call("/health").status == 200:
                self.ready = True
                return
            self._over.wait(self._interval_s)

    def end(self) -> None:
        """Ask no more."""
        self._over.set()


class Life:
    """What to say of a process whose log is silent: that it lives, and how busy it is."""

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._since = time.monotonic()
        self._ticks: int | None = None

    def sign(self, running: Running) -> str:
        """A sentence once in every `silence_s` of silence; else empty."""
        now = time.monotonic()
        if running.log.changed > self._since or self._ticks is None:
            self._since = max(running.log.changed, self._since)
            self._ticks = cpu_ticks(running)
        silent = now - self._since
        if silent < self._silence_s:
            return ""
        ticks = cpu_ticks(running)
        share = 100 * (ticks - self._ticks) / _TICKS_PER_S / silent
        whole = now - running.log.changed
        self._since, self._ticks = now, ticks
        slow = why_slow(running.log.step.phase)
        return (
            f"{running.command.name}: no new line for {whole:.0f} s in the phase "
            f"{running.log.step}, the process is alive, CPU {max(share, 0):.0f} %"
            + (f"; {slow}" if slow else "")
        )


def cpu_ticks(running: Running) -> int:
    """CPU time of the whole session of a process, in clock ticks."""
    return sum(stat.ticks for stat in proc.of_session(running.popen.pid))


def wait_ready(
    waiting: Sequence[Running],
    running: Sequence[Running],
    timeout_s: float,
    stop: Stop,
    console: Console,
    silence_s: float = SILENCE_S,
) -> float:
    """Wait until every process of `waiting` is ready; the seconds it took.

    All of `running` are watched: with one that dies, the others will never be ready.

    Raises:
        Ended: one ended, the time is over, or somebody asked for the end.
    """
    asked = {each.command.name: Health(each.command.url) for each in waiting}
    lives = {each.command.name: Life(silence_s) for each in waiting}
    began = time.monotonic()
    try:
        while True:
            elapsed = time.monotonic() - began
            steps = {
                each.command.name: _step(each, asked[each.command.name].ready) for each in waiting
            }
            console.progress(steps, elapsed, waiting[-1].log.last if waiting else "")
            raise_if_over(running, stop, "before it was ready")
            if all(health.ready for health in asked.values()):
                return elapsed
            if elapsed >= timeout_s:
                raise Ended(1, *_late(waiting, asked, timeout_s))
            for each in waiting:
                if sign := lives[each.command.name].sign(each):
                    console.say(sign)
            stop.sleep(0.25)
    finally:
        for health in asked.values():
            health.end()


def _step(running: Running, ready: bool) -> Step:
    return Step(READY) if ready else running.log.step


def _late(
    running: Sequence[Running], asked: dict[str, Health], timeout_s: float
) -> tuple[str, list[str]]:
    late = next(each for each in running if not asked[each.command.name].ready)
    where = f"{late.command.name} is not ready after {timeout_s:g} s (startup.timeout_s)"
    return f"{where}; it was at: {late.log.step}", late.log.tail(10)


def raise_if_over(running: Sequence[Running], stop: Stop, when: str) -> None:
    """End the run when a process has ended, or somebody asked for it.

    Raises:
        Ended: with the last lines of the process that ended.
    """
    if stop.signal is not None:
        raise Ended(1, f"stopped by {stop.signal.name} {when}")
    for each in running:
        code = each.ended
        if code is not None:
            each.log.close(_LAST_WORDS_S)
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            what = f"{each.command.name} ended {how} {when}, in the phase {each.log.step}"
            raise Ended(1, what, [*each.log.tail(20), *_cause(each.log.path)])


def _cause(log: Path) -> list[str]:
    """The root of the failure by the log, and what to do about it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BACK))
            text = file.read(_READ_BACK).decode("utf-8", "replace")
    except OSError:
        return []
    state = server_state(parse_log(text), answered=False, ready=False)
    if state.state != "failed":
        return []
    return [f"cause: {state.reason}", f"remedy: {state.remedy}"]
