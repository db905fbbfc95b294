"""The engine's output on its way into the log: without secrets, and watched for phases."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from configurator.collector.redaction import redact_text
from configurator.up.phases import STARTING, Step, step_of

_END = re.compile(rb"[\r\n]")
_LONGEST = 1 << 20
_KEPT_LINES = 400


class Log:
    """Copies a pipe into a file, line by line; `step` and `last` say what was seen.

    Progress bars end their lines with a carriage return; they come as they were.
    """

    def __init__(
        self,
        pipe: int,
        path: Path,
        secrets: frozenset[str],
        on_step: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self.path = path
        self.step = Step(STARTING)
        self.last = ""
        self.changed = time.monotonic()
        """When the last line came."""
        self.error = ""
        """Why the log could no longer be written; the engine goes on."""
        self._pipe = pipe
        self._secrets = secrets.union(*(secret.splitlines() for secret in secrets))
        self._on_step = on_step
        self._tail: deque[str] = deque(maxlen=_KEPT_LINES)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Wait until the other end is closed: its last words are in the file then."""
        self._thread.join(timeout_s)

    def tail(self, count: int) -> list[str]:
        """The last lines, without progress bars and without those that hold arguments."""
        shown = [line for line in self._tail if "server_args=" not in line and line.strip()]
        return [line for line in shown if not re.search(r"\d+%\|", line)][-count:]

    def _copy(self) -> None:
        rest = b""
        while True:
            try:
                chunk = os.read(self._pipe, 1 << 16)
            except OSError:
                chunk = b""
            rest = self._take(rest + chunk)
            if not chunk:
                break
        if rest:
            self._line(rest, b"\n")
        os.close(self._pipe)
        os.close(self._file)

    def _take(self, data: bytes) -> bytes:
        """Pass on the whole lines of `data`; what is left of it."""
        start = 0
        for end in _END.finditer(data):
            self._line(data[start : end.start()], end[0])
            start = end.end()
        rest = data[start:]
        if len(rest) > _LONGEST:
            self._line(rest, b"\n")
            return b""
        return rest

    def _line(self, raw: bytes, end: bytes) -> None:
        """Pass a line on; whatever fails, the engine waits for us to read on."""
        try:
            self._pass_on(raw, end)
        except Exception as error:
            self.error = self.error or f"{type(error).__name__}: {error}"

    def _pass_on(self, raw: bytes, end: bytes) -> None:
        text = redact_text(raw.decode("utf-8", "replace"), self._secrets)
        self._keep(text.encode("utf-8", "replace") + end)
        self.changed = time.monotonic()
        if not text.strip():
            return
        self.last = text.strip()
        self._tail.append(text)
        step = step_of(text, self.step)
        if step != self.step:
            self.step = step
            try:
                self._on_step(step)
            except OSError as error:
                self.error = self.error or error.strerror or str(error)

    def _keep(self, line: bytes) -> None:
        """Write a line, if there is room: what it says is watched all the same."""
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self.error = self.error or error.strerror or str(error)
