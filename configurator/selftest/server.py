"""A server of the self-test that was started: look at it, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from configurator.collector.collecting import collect
from configurator.evidence.model import Evidence
from configurator.evidence.read import read_evidence
from configurator.selftest.matrix import Start, View

MARK = "CONFIGURATOR_SELFTEST_RUN"
"""Variable that every process of a server of ours has, to find those that outlive it."""
_KEPT_LOG_LINES = 12
_CALL_S = 60.0
"""Limit of one call over HTTP, in seconds."""
_GRACE_S = 3.0
"""How long a server may take to end by itself."""


@dataclass(eq=False)
class Server:
    """A server that was started."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    start: Start
    mark: str
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """The other nodes, where there are several."""
    began: float = field(default_factory=time.monotonic)
    views: int = 0

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / "server.log"

    def look(self, view: View) -> Evidence:
        """Collect evidence as the view says, and read it back."""
        self.views += 1
        kept = self.folder / f"evidence-{self.views}"
        left = self.start.limit_s - (time.monotonic() - self.began)
        if self.start.until:
            self._wait_for(self.start.until, left)
            left = _GRACE_S
        collect(
            {0: f"http://127.0.0.1:{self.port}"},
            kept,
            level=view.level,
            passive=view.passive,
            concurrency=view.concurrency,
            logs={} if view.log == "missing" else {0: self._log_as(view)},
            reports={0: self.folder / "reports"},
            pids={0: self.process.pid},
            timeout_s=_CALL_S,
            wait_s=max(left, 0.0),
        )
        return read_evidence(kept)

    def _wait_for(self, words: str, limit_s: float) -> None:
        """Until the log holds some words, the server is gone, or the time is over."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and self.process.poll() is None:
            if words in self.log.read_text(encoding="utf-8", errors="replace"):
                return
            time.sleep(0.2)

    def _log_as(self, view: View) -> Path:
        """The log, or what is left of it after it was rotated: its last lines."""
        if view.log == "whole":
            return self.log
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        rotated = self.folder / f"rotated-{self.views}.log"
        rotated.write_text("".join(lines[-_KEPT_LOG_LINES:]), encoding="utf-8")
        return rotated

    def stop(self) -> None:
        """End every process of the server; those that left its group are found by their mark."""
        everything = (self.process, *self.others)
        for process in everything:
            _signal(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and _marked(self.mark):
            for process in everything:
                process.poll()
            time.sleep(0.1)
        for process in everything:
            _signal(process.pid, signal.SIGKILL)
        for _ in range(50):
            left = _marked(self.mark)
            for process in everything:
                process.poll()
            if not left:
                break
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        for process in everything:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def _marked(mark: str) -> list[int]:
    """Processes that were started with the mark in their environment and still run."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


class RunIsOverError(Exception):
    """A server was to be started although the run was ended."""


class Running:
    """The servers of a run, which another thread than those that start them may end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: list[Server] = []
        self._over = False

    @contextlib.contextmanager
    def starting(self) -> Iterator[list[Server]]:
        """While a server is started, which must be added; nothing is ended meanwhile.

        Raises:
            RunIsOverError: everything was ended.
        """
        with self._lock:
            if self._over:
                raise RunIsOverError
            yield self._servers

    def stop(self, server: Server) -> None:
        """Stop a server that has done its work."""
        server.stop()
        with self._lock:
            self._servers.remove(server)

    def end(self) -> None:
        """End every server, and let none start any more."""
        with self._lock:
            self._over = True
            for server in self._servers:
                server.stop()
