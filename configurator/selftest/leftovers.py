"""What a self-test that was killed left behind: its servers and its scratch, ended by the next."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from configurator.inengine.bundle import DIRECTORY
from configurator.selftest.engine import cache_folder
from configurator.selftest.server import MARK

SCRATCH = "configurator-selftest-"
"""How the name of a folder begins that is removed after the run."""


def runs_folder() -> Path:
    """Where every self-test that runs is noted."""
    return cache_folder().parent / "selftest-runs"


@contextlib.contextmanager
def noted(folder: Path) -> Iterator[None]:
    """Note that this process runs servers in a folder, for as long as the context lasts."""
    note = runs_folder() / f"{os.getpid()}.json"
    text = json.dumps(
        {"pid": os.getpid(), "started": _started(os.getpid()), "folder": str(folder)}
    )  # fmt: skip
    # Without a note everything works but the cleaning up after a kill.
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink()


def end_leftovers() -> list[str]:
    """End the servers of self-tests that are gone, and remove their scratch; a line for each."""
    said = []
    for note in sorted(runs_folder().glob("*.json")):
        try:
            held = json.loads(note.read_text(encoding="utf-8"))
            pid, started, folder = int(held["pid"]), str(held["started"]), str(held["folder"])
        except (OSError, ValueError, LookupError, TypeError):
            with contextlib.suppress(OSError):
                note.unlink()
            continue
        if started and _started(pid) == started:
            continue
        left = _servers_of(folder)
        for server in left:
            with contextlib.suppress(OSError):
                os.kill(server, signal.SIGKILL)
        if Path(folder).name.startswith(SCRATCH):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            note.unlink()
        said.append(f"a self-test in {folder} was killed; {len(left)} of its processes ended")
    return said


def _started(pid: int) -> str:
    """When a process began, as the kernel counts; empty: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _servers_of(folder: str) -> list[int]:
    """Processes of servers that a self-test started in a folder."""
    mark, place = f"{MARK}=".encode(), f"{DIRECTORY}={folder}/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                values = (entry / "environ").read_bytes().split(b"\0")
                if any(v.startswith(mark) for v in values) and any(
                    v.startswith(place) for v in values
                ):
                    found.append(int(entry.name))
    return found
