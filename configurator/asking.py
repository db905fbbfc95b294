"""A short program that is asked something: it ends in time, whatever it does."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from configurator.signals import POLL_S, Stop

MOST_BYTES = 1 << 20
"""More than any answer; who prints for ever is not listened to for ever."""
_AFTER_END_S = 1.0
"""Children that are left hold the output open, so its end is not waited for."""


def ask(
    argv: Sequence[str], env: Mapping[str, str] | None, stop: Stop, timeout_s: float
) -> tuple[int, str, str]:
    """Exit code, output and errors of a short program; 127 when it does not exist.

    It and its group are killed when the time is over, when it prints without end, when somebody
    asks for the end, and when it has ended and left somebody behind; 124 says that it was cut off.
    """
    try:
        popen = subprocess.Popen(
            argv, env=dict(env) if env is not None else None, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return 127, "", error.strerror or str(error)
    assert popen.stdout is not None
    assert popen.stderr is not None
    heard = {popen.stdout.fileno(): bytearray(), popen.stderr.fileno(): bytearray()}
    try:
        why = _listen(popen.pid, heard, stop, timeout_s)
        out, err = (bytes(part).decode("utf-8", "replace") for part in heard.values())
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.stdout.close()
        popen.stderr.close()
        with suppress(subprocess.TimeoutExpired):
            popen.wait(5)
    return (124, "", why) if why else (popen.returncode, out, err)


def _listen(pid: int, heard: dict[int, bytearray], stop: Stop, timeout_s: float) -> str:
    """Read until the program has ended; why it is cut off, empty when it is not."""
    deadline = time.monotonic() + timeout_s
    ended = False
    with selectors.DefaultSelector() as pipes:
        for number in heard:
            pipes.register(number, selectors.EVENT_READ)
        while pipes.get_map() or not ended:
            for key, _ in pipes.select(POLL_S) if pipes.get_map() else ():
                chunk = os.read(key.fd, 1 << 16)
                heard[key.fd] += chunk
                if not chunk:
                    pipes.unregister(key.fd)
            if stop.asked:
                return "stopped"
            if any(len(part) > MOST_BYTES for part in heard.values()):
                return f"it printed more than {MOST_BYTES >> 20} MiB"
            if not ended and _has_ended(pid):
                ended, deadline = True, time.monotonic() + _AFTER_END_S
            if time.monotonic() >= deadline:
                return "" if ended else f"no answer within {timeout_s:g} s"
            if not pipes.get_map() and not ended:
                stop.sleep(0.02)
    return ""


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; its exit code is not taken, so that nobody gets its id."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
