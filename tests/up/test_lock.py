"""The lock and its record: who runs, what was left behind, and whom never to kill."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError
from configurator.up import proc
from configurator.up.lock import (
    MARK,
    Group,
    Record,
    RunLock,
    kill_strays,
    left_behind,
    lock_path,
    members,
    stop_left_behind,
    strays,
)

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


# Of this process alone: other tests that run at the same time look for strays too.
RUN = secrets.token_hex(8)
MARKED = {**os.environ, MARK: RUN}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, env=MARKED, start_new_session=True) as process:
        wait_for_mark(process)
        yield process
        process.kill()


def wait_for_mark(process: subprocess.Popen[bytes]) -> None:
    """A program that has just begun shows an empty environment for a moment."""
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start_of(process: subprocess.Popen[bytes]) -> int:
    stat = proc.read_stat(process.pid)
    assert stat is not None
    return stat.start


def record(*groups: Group, boot: str | None = None, report: str = "/report") -> Record:
    return Record(1, "now", report, proc.boot_id() if boot is None else boot, groups)


def test_the_second_to_lock_hears_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "up.lock"
    with RunLock(path) as first:
        first.describe(Path("/some/report"))
        with pytest.raises(ConfiguratorError) as caught, RunLock(path):
            pass
        assert caught.value.problems[0].code == "RUN001"
        assert f"process {os.getpid()}" in str(caught.value)
        assert "/some/report" in str(caught.value)
    with RunLock(path) as second:
        assert second.before is not None
        assert second.before.report == "/some/report"
        assert second.before.groups == ()


def test_groups_are_on_record_until_they_are_cleared(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    group = Group(41, 4711, "replica0-host0", RUN, 99)
    with RunLock(path) as lock:
        lock.describe(Path("/r"))
        lock.add(group)
    with RunLock(path) as lock:
        assert lock.before is not None
        assert lock.before.groups == (group,)
        lock.describe(Path("/longer/than/before"), lock.before.groups)
        lock.clear()
    with RunLock(path) as lock:
        assert lock.before is not None
        assert lock.before.groups == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "groups": 3}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "up.lock"
    path.write_text(text)
    with RunLock(path) as lock:
        assert lock.before is None


def test_one_place_for_every_start_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONFIGURATOR_LOCK_DIR", raising=False)
    for variable in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR", "USER"):
        monkeypatch.setenv(variable, str(tmp_path))
        assert lock_path("a", 1) == Path(f"/tmp/configurator-{os.getuid()}/up-a-host1.lock")
        monkeypatch.delenv(variable)
        assert lock_path("a", 1) == Path(f"/tmp/configurator-{os.getuid()}/up-a-host1.lock")
    monkeypatch.setenv("CONFIGURATOR_LOCK_DIR", str(tmp_path))
    assert lock_path("a", 0) == tmp_path / "up-a-host0.lock"


def refusal(path: Path) -> str:
    with pytest.raises(ConfiguratorError) as caught, RunLock(path):
        pass
    assert caught.value.problems[0].code == "RUN001"
    assert "CONFIGURATOR_LOCK_DIR" in str(caught.value)
    return str(caught.value)


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with RunLock(tmp_path / "locks" / "up.lock") as lock:
            assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o700
            assert stat.S_IMODE(lock.path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    for mode in (0o755, 0o711, 0o1777):
        folder.mkdir()
        folder.chmod(mode)
        assert f"mode {mode:o}: make it 700" in refusal(folder / "up.lock")
        assert list(folder.iterdir()) == []
        folder.rmdir()


def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "locks"
    folder.mkdir(0o700)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert f"belongs to user {owner}, not to {owner + 1}" in refusal(folder / "up.lock")
    assert list(folder.iterdir()) == []


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(0o700)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "file").write_text("precious")
    assert "is a link or no directory" in refusal(tmp_path / "link" / "up.lock")
    assert "is a link or no directory" in refusal(tmp_path / "file" / "up.lock")
    assert (tmp_path / "file").read_text() == "precious"


def test_cleaners_find_the_folder_locked(tmp_path: Path) -> None:
    """systemd-tmpfiles leaves alone what it cannot lock."""
    with RunLock(tmp_path / "locks" / "one.lock"), RunLock(tmp_path / "locks" / "two.lock"):
        folder = os.open(tmp_path / "locks", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
    before = len(os.listdir("/proc/self/fd"))
    with RunLock(tmp_path / "locks" / "one.lock"):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_group_is_found_by_its_id_and_start(sleeper: subprocess.Popen[bytes]) -> None:
    group = Group(sleeper.pid, start_of(sleeper), "x", RUN)
    assert [stat.pid for stat in members(group)] == [sleeper.pid]
    assert left_behind(record(group)) == [group]
    stop_left_behind(group, 5.0)
    assert sleeper.wait(5) == -15


def test_a_reused_id_is_never_touched(sleeper: subprocess.Popen[bytes]) -> None:
    reused = Group(sleeper.pid, start_of(sleeper) - 1, "x", RUN)
    assert members(reused) == []
    assert left_behind(record(reused)) == []
    stop_left_behind(reused, 0.1)
    assert sleeper.poll() is None


def test_another_boot_has_other_processes(sleeper: subprocess.Popen[bytes]) -> None:
    group = Group(sleeper.pid, start_of(sleeper), "x", RUN)
    assert left_behind(record(group, boot="another")) == []
    assert left_behind(None) == []


def test_a_group_outlives_its_leader() -> None:
    leader = subprocess.Popen(
        ["/bin/sh", "-c", '"$@" & exec sleep 0.2', "sh", *SLEEP],
        env=MARKED,
        start_new_session=True,
    )
    group = Group(leader.pid, start_of(leader), "x", RUN)
    leader.wait(5)
    (member,) = members(group)
    assert member.pid != leader.pid
    stop_left_behind(group, 5.0)
    assert members(group) == []


def test_one_that_ignores_sigterm_is_killed() -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)"],
        env=MARKED, start_new_session=True, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        stop_left_behind(Group(process.pid, start_of(process), "x", RUN), 0.3)
        assert process.wait(5) == -9


def test_strays_are_known_by_the_mark_of_their_run() -> None:
    with subprocess.Popen(SLEEP, env=MARKED) as process:
        wait_for_mark(process)
        gone = Group(2**22 + 1, 1, "x", RUN)
        assert strays(record()) == []
        assert strays(record(Group(2**22 + 1, 1, "x", RUN[:-1]))) == []
        assert strays(record(Group(2**22 + 1, 1, "x", ""))) == []
        assert strays(record(gone)) == [process.pid]
        assert kill_strays(record(gone)) == 1
        assert process.wait(5) == -9


def test_one_that_hides_its_environment_is_known_by_its_pipe() -> None:
    reading, writing = os.pipe()
    pipe = os.fstat(writing).st_ino
    with subprocess.Popen(SLEEP, env={}, stdout=writing, start_new_session=True) as process:
        group = Group(process.pid, start_of(process), "x", RUN, pipe)
        assert [stat.pid for stat in members(group)] == [process.pid]
        assert strays(record(Group(2**22 + 1, 1, "x", RUN, pipe))) == [process.pid]
        assert strays(record(Group(2**22 + 1, 1, "x", RUN, pipe + 1))) == []
        stop_left_behind(group, 5.0)
        assert process.wait(5) == -15
    os.close(reading)
    os.close(writing)


def test_a_forged_record_signals_nobody() -> None:
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        right, pid = start_of(process), process.pid
        for run, pipe in (("", 0), (RUN, 0), (RUN, 1), ("", -1)):
            forged = Group(pid, right, "x", run, pipe)
            assert members(forged) == []
            assert strays(record(forged)) == []
            stop_left_behind(forged, 0.1)
        for odd in (0, 1, -1, os.getpid(), os.getsid(0)):
            assert members(Group(odd, 0, "x", RUN)) == []
        assert process.poll() is None
        process.kill()


def test_a_lock_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "up.lock").symlink_to("/dev/full")
    with RunLock(tmp_path / "up.lock") as lock:
        with pytest.raises(ConfiguratorError, match=r"RUN001.*cannot be written: No space left"):
            lock.describe(Path("/r"))
        lock.clear()


def test_members_without_a_mark_end_with_the_one_that_has_it() -> None:
    code = f"import subprocess, time; subprocess.Popen({SLEEP!r}, env={{}}); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=MARKED, start_new_session=True
    ) as process:
        group = Group(process.pid, start_of(process), "x", RUN)
        while len(members(group)) < 2:
            assert process.poll() is None
        stop_left_behind(group, 5.0)
        assert proc.of_session(process.pid) == []
