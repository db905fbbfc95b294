"""The end of what was started: asked first, killed later, reaped, and nothing left."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from configurator.signals import POLL_S, Stop
from configurator.up import proc
from configurator.up.launching import Running

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited before something is killed, in seconds."""

    term_s: float = 30.0
    """From SIGTERM to SIGKILL."""
    orphans_s: float = 3.0
    """From the end of a leader to the SIGKILL of those it left behind."""


def adopt_orphans() -> bool:
    """Become the parent of whoever loses its own, so that nobody is lost by forking twice."""
    try:
        result = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return bool(result == 0)


def stop_all(
    running: Sequence[Running],
    stop: Stop,
    patience: Patience,
    say: Callable[[str], None],
    *,
    adopted: bool = False,
) -> None:
    """End every process that was started, and all of its session.

    SIGTERM goes to the leaders, which end their own children in order; SIGKILL to everybody. With
    `adopted` every descendant of this process ends too, whatever session it made for itself.
    """
    _send(signal.SIGTERM, [each.popen.pid for each in running if each.ended is None])
    started = time.monotonic()
    orphaned: float | None = None
    while left := _left(running, adopted):
        now = time.monotonic()
        if orphaned is None and all(each.ended is not None for each in running):
            # Nobody is left to end them in order.
            orphaned = now
            _send(signal.SIGTERM, left)
        late = now - started >= patience.term_s
        if stop.impatient or late or (orphaned and now - orphaned >= patience.orphans_s):
            why = "at once, as asked" if stop.impatient else "they have not ended"
            say(f"killing {len(left)} process(es): {why}")
            break
        time.sleep(POLL_S)
    _kill_all(running, adopted)
    for each in running:
        each.log.close(2.0)


def _kill_all(running: Sequence[Running], adopted: bool) -> None:
    deadline = time.monotonic() + 10
    while (left := _left(running, adopted)) and time.monotonic() < deadline:
        _send(signal.SIGKILL, left)
        time.sleep(0.02)
    for each in running:
        if each.ended is None:
            each.popen.kill()
            each.popen.wait()
    reap(each.popen.pid for each in running)


def _left(running: Sequence[Running], adopted: bool) -> list[int]:
    """The living processes of the sessions; with `adopted` all that descend from us, too."""
    leaders = {each.popen.pid for each in running}
    for each in running:
        each.popen.poll()
    found = {stat.pid for stat in proc.processes() if stat.alive and stat.session in leaders}
    if adopted:
        found |= {stat.pid for stat in proc.descendants(os.getpid())}
    return sorted(found)


def _send(signum: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signum)
        except (ProcessLookupError, PermissionError):
            continue


def reap(managed: Iterable[int]) -> None:
    """Take the exit codes of adopted children that have ended; those in `managed` are not ours."""
    own, mine = set(managed), os.getpid()
    for stat in list(proc.processes()):
        if stat.parent == mine and not stat.alive and stat.pid not in own:
            try:
                os.waitpid(stat.pid, os.WNOHANG)
            except ChildProcessError:
                continue
