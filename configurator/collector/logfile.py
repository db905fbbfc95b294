"""The log of a server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .logline import FATAL, MOST_CHARACTERS, START, taken_apart
from .replica import Replica

LOG_HEAD, LOG_TAIL = 2 << 20, 4 << 20

# Whoever asked for it, a server that is being stopped will not be ready.
_DEATH = re.compile(rf"{FATAL}|SIGQUIT received\.|Subprocess \S{{1,80}} .{{0,60}}crashed with exit")


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
    died = ""
    for line in tail.split("\n"):
        message, _ = taken_apart(line[:MOST_CHARACTERS])
        if message.startswith(START):
            died = ""  # An earlier start may have died in the same file.
        elif not died and _DEATH.match(message):
            died = line[:MOST_CHARACTERS].strip()
    return died


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
