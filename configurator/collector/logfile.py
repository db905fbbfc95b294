"""The log of a server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .replica import Replica

LOG_HEAD, LOG_TAIL = 2 << 20, 4 << 20

# With --log-requests the log repeats what people sent, which may hold any words.
_DEATH = re.compile(
    r"^(?!.{0,200}?(?:(?:Receive(?: OpenAI)?|Finish): obj=|\"event\": \"request\.))"
    r".*(?:crashed with exit code|SIGQUIT received|Received sigquit from a child"
    r"|Scheduler hit an exception|exited with code -?[1-9]).*",
    re.M,
)
_START = re.compile(r"^(?:[^\s'\"({][^'\"({\n]{0,160}?\s)?server_args=", re.M)
"""The engine's line with its arguments; the code of a traceback, indented, has the words too."""


def ends(path: Path, head: int, tail: int) -> tuple[str, str]:
    """Text of a file, cut in the middle at line ends when it is long; a note of what was cut."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= head + tail:
            return file.read(head + tail).decode("utf-8", "replace"), ""
        first = file.read(head).rpartition(b"\n")[0]
        file.seek(size - tail)
        last = file.read(tail).partition(b"\n")[2]
    note = f"{size - len(first) - len(last)} of {size} bytes left out after byte {len(first)}"
    parts = (first, f"[collector: {note}]".encode(), last)
    return b"\n".join(part for part in parts if part).decode("utf-8", "replace"), note


def death_in(log: Path) -> str:
    """The line of a log that says that the server died; empty when none does."""
    try:
        tail = ends(log, 0, 1 << 18)[0]
    except OSError:
        return ""
    # An earlier start may have died in the same file: only what follows the last one counts.
    starts = [match.end() for match in _START.finditer(tail)]
    found = _DEATH.search(tail[starts[-1] :] if starts else tail)
    return found[0].strip() if found else ""


def copy_log(replica: Replica) -> None:
    """The log; of a long one the beginning and the end."""
    if replica.log is None:
        return
    try:
        text, note = ends(replica.log, LOG_HEAD, LOG_TAIL)
    except OSError as error:
        replica.errors.append(f"log {replica.log}: {error}")
        return
    replica.notes += [f"replica {replica.index}: server.log: {note}"] if note else []
    replica.write("server.log", text)
