"""One start of a profile on a host at a time, and what an earlier one left behind.

The lock is the kernel's, so it ends with the process that holds it, however it ends. The file
says who holds it and which process groups it started: after a SIGKILL the next start finds them.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import DIRECTORY
from configurator.up import proc


@dataclass(frozen=True, slots=True)
class Group:
    """A process group and session that was started; both have the id of their leader."""

    pid: int
    start: int
    """Start time of the leader in clock ticks, so that a reused id is never mistaken for it."""
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """What the lock file says of the start that holds it, or held it last."""

    pid: int
    since: str
    report: str
    boot: str
    groups: tuple[Group, ...]


def lock_path(name: str, host: int) -> Path:
    """The lock file of a deployment on one of its hosts."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime) if runtime and os.access(runtime, os.W_OK) else Path.home() / ".cache"
    return folder / "configurator" / f"up-{name}-host{host}.lock"


class RunLock:
    """Holds the lock of a deployment and host, and keeps its record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1
        self._about: dict[str, Any] = {}
        self._groups: list[Group] = []
        self.before: Record | None = None
        """What the last start left in the file; None when it left nothing."""

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfiguratorError.single(
                "RUN001", f"the lock {self.path} cannot be opened: {error.strerror or error}",
                "set XDG_RUNTIME_DIR to a directory that can be written",
            ) from error  # fmt: skip
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            record = self._read()
            os.close(self._file)
            raise _taken(record, self.path) from None
        self.before = self._read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Removing the file would let a third start lock a new one beside the second's.
        os.close(self._file)

    def describe(self, report: Path, groups: Sequence[Group] = ()) -> None:
        """Write down who holds the lock now, and which groups are still to be stopped."""
        self._about = {
            "pid": os.getpid(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
            "report": str(report),
            "boot": proc.boot_id(),
        }
        self._groups = list(groups)
        self._write()

    def add(self, group: Group) -> None:
        """Write down a group, before what it is to run begins to run."""
        self._groups.append(group)
        self._write()

    def clear(self) -> None:
        """Every group is gone."""
        self._groups = []
        self._write()

    def _write(self) -> None:
        groups = [{"pid": g.pid, "start": g.start, "name": g.name} for g in self._groups]
        data = json.dumps({**self._about, "groups": groups}).encode()
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))
        os.fsync(self._file)

    def _read(self) -> Record | None:
        """The record; None when the file is new, or its writer died while writing."""
        try:
            data = json.loads(os.pread(self._file, 1 << 20, 0))
            groups = tuple(
                Group(int(g["pid"]), int(g["start"]), str(g["name"])) for g in data["groups"]
            )
            return Record(
                int(data["pid"]), str(data["since"]), str(data["report"]), str(data["boot"]), groups
            )
        except (ValueError, KeyError, TypeError):
            return None


def _taken(record: Record | None, path: Path) -> ConfiguratorError:
    who = (
        f"it runs already: process {record.pid}, since {record.since}, report in {record.report}"
        if record
        else f"another start holds {path}"
    )
    stop = f"; stop it first: kill {record.pid}" if record else ""
    return ConfiguratorError.single("RUN001", who, f"use the one that runs{stop}")


def left_behind(record: Record | None) -> list[Group]:
    """The groups of a record of which processes still run."""
    if record is None or record.boot != proc.boot_id():
        return []
    return [group for group in record.groups if members(group)]


def members(group: Group) -> list[proc.Stat]:
    """The living processes of a group; none when another process has its id by now.

    Without its leader a group is known by its session: the kernel gives the id to nobody else
    as long as a member lives.
    """
    leader = proc.read_stat(group.pid)
    if leader is not None and leader.start != group.start:
        return []
    return [stat for stat in proc.of_session(group.pid) if stat.start >= group.start]


def strays(record: Record | None) -> list[int]:
    """Processes that left their session, known by the report directory in their environment.

    A run that ended in order has no groups in its record, and leaves no strays.
    """
    if record is None or record.boot != proc.boot_id() or not record.groups:
        return []
    mark = f"{DIRECTORY}={record.report}{os.sep}".encode()
    return [stat.pid for stat in proc.processes() if stat.alive and proc.has_set(stat.pid, mark)]


def kill_strays(record: Record | None) -> int:
    """Kill what `strays` finds; how many there were."""
    found = strays(record)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def stop_left_behind(
    group: Group, grace_s: float, cancelled: Callable[[], bool] = lambda: False
) -> None:
    """Ask a group to end, and kill it when it has not ended `grace_s` seconds later."""
    _send(group, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while members(group) and time.monotonic() < deadline and not cancelled():
        time.sleep(0.1)
    _send(group, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.05)


def _send(group: Group, signum: signal.Signals) -> None:
    for stat in members(group):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(stat.pid, signum)
