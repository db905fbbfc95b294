"""One start of a profile on a host at a time, and what an earlier one left behind.

The lock is the kernel's, so it ends with the process that holds it, however it ends. The file
says who holds it and which process groups it started: after a SIGKILL the next start finds them.
It lies in one place for every start of a user, whether by cron, a service or at a login: what
differs between those (a runtime directory, HOME, TMPDIR) must not give a second lock.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_IMODE
from typing import Any, Self

from configurator.errors import ConfiguratorError
from configurator.up import proc

MARK = "CONFIGURATOR_UP_RUN"
"""Variable that every process of a run has, with a value that no other run has."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group and session that was started; both have the id of their leader."""

    pid: int
    start: int
    """Start time of the leader in clock ticks, so that a reused id is never mistaken for it."""
    name: str
    run: str = ""
    """Value of `MARK` in the environment of whoever was started with it."""
    pipe: int = 0
    """The pipe that it writes its log to; an engine may write over its own environment."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the lock file says of the start that holds it, or held it last."""

    pid: int
    since: str
    report: str
    boot: str
    groups: tuple[Group, ...]


FOLDER = "CONFIGURATOR_LOCK_DIR"
"""Variable that names another folder for the locks; who sets two has two locks."""


def lock_path(name: str, host: int) -> Path:
    """The lock file of a deployment on one of its hosts.

    It is on this host alone, as a home directory may not be, and can be written where that cannot.
    """
    folder = os.environ.get(FOLDER) or f"/tmp/configurator-{os.getuid()}"
    return Path(folder) / f"up-{name}-host{host}.lock"


class RunLock:
    """Holds the lock of a deployment and host, and keeps its record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = self._folder = -1
        self._about: dict[str, Any] = {}
        self._groups: list[Group] = []
        self.run = secrets.token_hex(16)
        """Marks what is started under this lock."""
        self.before: Record | None = None
        """What the last start left in the file; None when it left nothing."""

    def __enter__(self) -> Self:
        try:
            self._folder = _own_folder(self.path.parent)
            # Nobody else can put anything there, so a link is ours too.
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path.name, flags, 0o600, dir_fd=self._folder)
        except OSError as error:
            self._close()
            raise ConfiguratorError.single(
                "RUN001", f"the lock {self.path} cannot be opened: {error.strerror or error}",
                f"mend that, or set {FOLDER} to a directory that is yours alone",
            ) from error  # fmt: skip
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            record = self._read()
            self._close()
            raise _taken(record, self.path) from None
        self.before = self._read()
        return self

    def __exit__(self, *raised: object) -> None:
        # Removing the file would let a third start lock a new one beside the second's.
        self._close()

    def _close(self) -> None:
        for number in {self._file, self._folder} - {-1}:
            os.close(number)
        self._file = self._folder = -1

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
        """Every group is gone. A record that says otherwise does no harm: nobody has its marks."""
        self._groups = []
        with suppress(ConfiguratorError):
            self._write()

    def _write(self) -> None:
        groups = [asdict(group) for group in self._groups]
        data = json.dumps({**self._about, "groups": groups}).encode()
        try:
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))
            os.fsync(self._file)
        except OSError as error:
            raise ConfiguratorError.single(
                "RUN001", f"the lock {self.path} cannot be written: {error.strerror or error}",
                f"make room there, or set {FOLDER} to a directory that is yours alone",
            ) from error  # fmt: skip

    def _read(self) -> Record | None:
        """The record; None when the file is new, or its writer died while writing."""
        try:
            data = json.loads(os.pread(self._file, 1 << 20, 0))
            groups = tuple(
                Group(int(g["pid"]), int(g["start"]), str(g["name"]), str(g["run"]), int(g["pipe"]))
                for g in data["groups"]
            )
            return Record(
                int(data["pid"]), str(data["since"]), str(data["report"]), str(data["boot"]), groups
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


def _own_folder(path: Path) -> int:
    """The open folder of the locks: ours, and closed to everybody else.

    Anybody may make it where all may write. In theirs they could take the lock from us, or hand us
    a record that names processes to be stopped.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PermissionError(errno.EPERM, f"{path} is a link or no directory") from error
        raise
    state = os.fstat(folder)
    wrong = ""
    if state.st_uid != os.getuid():
        wrong = f"{path} belongs to user {state.st_uid}, not to {os.getuid()}"
    elif state.st_mode & 0o077:
        wrong = f"others may enter {path}, mode {S_IMODE(state.st_mode):o}: make it 700"
    if wrong:
        os.close(folder)
        raise PermissionError(errno.EPERM, wrong)
    with suppress(OSError):
        # Cleaners of /tmp leave alone what lies in a locked folder (systemd-tmpfiles).
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return folder


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
    """The living processes of a group; none when they are not provably those that were started.

    The leader must have the start time and a mark of the run. Without its leader a group is known
    by its session, which the kernel gives to nobody else as long as a member lives, and a mark.
    """
    found = _in_session(group)
    known = [stat for stat in found if stat.pid == group.pid] or found
    return found if any(_is_marked(stat.pid, group) for stat in known) else []


def _in_session(group: Group) -> list[proc.Stat]:
    leader = proc.read_stat(group.pid)
    if leader is not None and (leader.start != group.start or leader.session != group.pid):
        return []
    return [stat for stat in proc.of_session(group.pid) if stat.start >= group.start]


def _is_marked(pid: int, group: Group) -> bool:
    if pid <= 1 or pid == os.getpid():
        return False
    named = bool(group.run) and proc.has_set(pid, f"{MARK}={group.run}".encode())
    return named or (group.pipe > 0 and proc.writes_to(pid, group.pipe))


def strays(record: Record | None) -> list[int]:
    """Processes that left their session, known by the marks of the run.

    A run that ended in order has no groups in its record, and leaves no strays.
    """
    if record is None or record.boot != proc.boot_id():
        return []
    return [
        stat.pid for stat in proc.processes()
        if stat.alive and any(_is_marked(stat.pid, group) for group in record.groups)
    ]  # fmt: skip


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
    if not members(group):
        return
    # The session is ours from here on, also when those with a mark are the first to end.
    _send(group, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _in_session(group) and time.monotonic() < deadline and not cancelled():
        time.sleep(0.1)
    _send(group, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _in_session(group) and time.monotonic() < deadline:
        time.sleep(0.05)


def _send(group: Group, signum: signal.Signals) -> None:
    for stat in _in_session(group):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(stat.pid, signum)
