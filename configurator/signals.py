"""Signals that ask for the end: remembered when they come, acted on where it is safe.

A handler that raised could strike between the start of a process and writing down that it was
started. So handlers only remember, and every loop looks several times a second.
"""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Self

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
POLL_S = 0.1


class Stop:
    """Whether somebody asked for the end, and how often."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The first signal that came."""
        self.impatient = False
        """A SIGINT came after the first signal: kill at once."""
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for signum in ASKING:
            # Under nohup the hang-up is ignored, and stays so.
            if signum == signal.SIGHUP and signal.getsignal(signum) is signal.SIG_IGN:
                continue
            self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *raised: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]  # what signal() gave us

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and self.asked:
            self.impatient = True
        self.signal = self.signal or signal.Signals(signum)

    @property
    def asked(self) -> bool:
        """Somebody asked for the end."""
        return self.signal is not None

    def sleep(self, seconds: float) -> bool:
        """Sleep, but not past a signal; whether one came."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left))
        return self.asked
