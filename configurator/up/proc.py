"""What /proc says: who runs, since when, whose child, who listens.

A process is named by its id and its start time: ids are used again, the pair is not.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from configurator.collector import listeners

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Stat:
    """One process as /proc/PID/stat has it."""

    pid: int
    state: str
    """One letter; Z and X are dead."""
    parent: int
    group: int
    session: int
    ticks: int
    """CPU time of it and of the children it waited for, in clock ticks."""
    start: int
    """Clock ticks from boot to its start."""

    @property
    def alive(self) -> bool:
        """Neither a zombie nor gone."""
        return self.state not in "ZX"


def read_stat(pid: int) -> Stat | None:
    """The process `pid`; None when there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None
    # The name in parentheses may hold anything, also spaces and parentheses.
    parts = text.rpartition(")")[2].split()
    if len(parts) < 20:
        return None
    ticks = sum(int(part) for part in parts[11:15])
    return Stat(pid, parts[0], int(parts[1]), int(parts[2]), int(parts[3]), ticks, int(parts[19]))


def processes() -> Iterator[Stat]:
    """Every process that can be seen."""
    for entry in os.scandir(PROC):
        if entry.name.isdigit() and (stat := read_stat(int(entry.name))) is not None:
            yield stat


def of_session(session: int) -> list[Stat]:
    """The living processes of a session."""
    return [stat for stat in processes() if stat.session == session and stat.alive]


def descendants(pid: int) -> list[Stat]:
    """The living children of `pid`, their children, and so on."""
    by_parent: dict[int, list[Stat]] = {}
    for stat in processes():
        by_parent.setdefault(stat.parent, []).append(stat)
    found: list[Stat] = []
    pending = [pid]
    while pending:
        children = by_parent.pop(pending.pop(), [])
        found += [child for child in children if child.alive]
        pending += [child.pid for child in children]
    return found


def family(leader: int, strangers: Collection[int] = ()) -> set[int]:
    """The living processes of a session, all that descend from them, and orphans.

    An orphan is a descendant of this process that descends from none of the `strangers`, which are
    the leaders of other sessions.
    """
    stats = {stat.pid: stat for stat in processes() if stat.alive}

    def belongs(pid: int) -> bool:
        for _ in range(len(stats)):
            stat = stats.get(pid)
            if stat is None:
                return False
            if leader in (stat.pid, stat.session):
                return True
            if stat.pid in strangers or stat.session in strangers:
                return False
            if stat.parent == os.getpid():
                return True
            pid = stat.parent
        return False

    return {pid for pid in stats if belongs(pid)}


def boot_id() -> str:
    """Tells this start of the machine from the others; empty where it is not known."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def available_gib() -> float | None:
    """MemAvailable: what can be taken without swapping. On unified memory the GPU's too."""
    try:
        text = (PROC / "meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / (1 << 20)
    return None


def holders(port: int) -> list[str]:
    """Who listens on a TCP port, as `1234 (python3)`; other users' processes stay unnamed."""
    found = listeners.holders(listeners.sockets_on(port))
    return [f"{pid} ({listeners.name_of(pid)})" for pid in found]


def has_set(pid: int, assignment: bytes) -> bool:
    """A process was started with a variable, `NAME=VALUE`."""
    try:
        return assignment in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def writes_to(pid: int, pipe: int) -> bool:
    """The standard output or the standard error of a process is a pipe, by its inode."""
    for number in (1, 2):
        try:
            if os.readlink(PROC / str(pid) / "fd" / str(number)) == f"pipe:[{pipe}]":
                return True
        except OSError:
            continue
    return False
