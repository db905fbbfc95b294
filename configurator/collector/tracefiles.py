"""Where the engine writes its traces, and bringing them from there."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import time
import urllib.parse
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host import LOOPBACK
from .inputs import CollectError
from .replica import Replica

VARIABLE, DEFAULT = "SGLANG_TORCH_PROFILER_DIR", "/tmp"
"""The engine's variable for the folder of its traces, and what it takes without."""
OTHER_PROFILER = "SGLANG_PROFILE_V2"
"""Switches to a profiler that cannot be stopped: asked to, the scheduler ends."""
MOST_FILES, MOST_BYTES, FREE = 64, 512 << 20, 1 << 30
"""Files of one profile, bytes of a packed one, and what must be free where they are written."""
_QUIET_S = 3.0
"""After the first whole file: how long further ranks may take, in seconds."""


@dataclass(frozen=True)
class Place:
    """A folder of the engine."""

    folder: str
    """As the engine names it."""
    root: Path
    """Where the engine's own file system is seen from here."""

    @property
    def here(self) -> Path:
        """The folder as it is seen from here."""
        return self.root / self.folder.lstrip("/")


def place_of(replica: Replica) -> Place | str:
    """Where a profile can be written without harm; why nowhere, in words.

    A profile that cannot be written ends the engine, so nothing is left to luck: a folder of an
    engine on another host is taken only where it is named.
    """
    known = replica.environment() or {}
    if known.get(OTHER_PROFILER, "").lower() in ("1", "true", "yes", "y"):
        return f"{OTHER_PROFILER} is set, and that profiler cannot be stopped"
    local = urllib.parse.urlsplit(replica.client.url).hostname in LOOPBACK
    if replica.trace_dir is None and not local and replica.process is None:
        return "the engine runs on another host: collect there, or name a shared --trace-dir"
    folder = replica.trace_dir or known.get(VARIABLE) or DEFAULT
    if not folder.startswith("/"):
        return f"the folder {folder} of traces is no absolute path; name one by --trace-dir"
    root = Path("/") if replica.process is None else Path(f"/proc/{replica.process}/root")
    place = Place(folder, root if os.access(root / "tmp", os.X_OK) else Path("/"))
    for name in (folder, known.get("TMPDIR", DEFAULT)):
        why = _unfit(Place(name, place.root).here, replica.process)
        if why:
            return f"{name} {why}, and a profile that cannot be written ends the engine"
    return place


def _unfit(path: Path, process: int | None) -> str:
    """Why the engine could not write a trace there; empty: it can, or that cannot be seen."""
    try:
        found = path.stat()
        if not path.is_dir():
            return "is no directory"
        space = os.statvfs(path)
    except FileNotFoundError:
        return "does not exist"
    except OSError:
        return "cannot be looked at"
    if space.f_bavail * space.f_frsize < FREE:
        return f"has less than {FREE >> 20} MiB free"
    if space.f_flag & os.ST_RDONLY:
        return "is read-only"
    user = _user_of(process)
    if user in (None, 0) or found.st_mode & 0o002 or (found.st_uid == user):
        return ""
    return "" if found.st_mode & 0o020 else f"cannot be written by the engine's user, {user}"


def _user_of(process: int | None) -> int | None:
    """The user that a process acts as; None: not known."""
    if process is None:
        return None
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", text, re.M)
    return int(found[1]) if found else None


def fetch_traces(replica: Replica, place: Place, mark: str, limit_s: float) -> list[str]:
    """Copy the whole files of a profile as soon as they are there; their names in the evidence.

    The originals are removed where that is allowed: nobody else knows of them.
    """
    deadline = time.monotonic() + limit_s
    expected = _expected(replica.info)
    first = None
    whole: dict[Path, None] = {}
    while time.monotonic() < deadline:
        found = sorted(place.here.glob(f"{mark}-*.trace.json.gz"))[:MOST_FILES]
        whole.update((path, None) for path in found if path not in whole and _is_whole(path))
        first = first or (time.monotonic() if whole else None)
        late = first is not None and time.monotonic() - first > _QUIET_S * expected
        if len(whole) >= expected or (late and len(whole) == len(found)):
            break
        time.sleep(0.2)
    kept = []
    for path in whole:
        name = f"trace/{path.name}"
        if keep_trace(replica, path, name):
            kept.append(name)
            try:
                path.unlink()
            except OSError:
                replica.note(f"{place.folder}/{path.name} is left on the engine's host")
    return kept


def _expected(info: dict[str, Any]) -> int:
    """How many ranks of the engine run on its first host."""
    sizes = [info.get("tp_size"), info.get("pp_size")]
    if not info.get("enable_dp_attention"):
        sizes.append(info.get("dp_size"))
    number = 1
    for size in sizes:
        number *= size if isinstance(size, int) and 0 < size <= MOST_FILES else 1
    nodes = info.get("nnodes")
    return max(1, number // (nodes if isinstance(nodes, int) and nodes > 0 else 1))


def _is_whole(path: Path) -> bool:
    """Whether the engine has written a file to its end."""
    try:
        with gzip.open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error):
        return False
    return True


def keep_trace(replica: Replica, path: Path, name: str) -> bool:
    """Copy a trace into the evidence, unless it holds a secret or is too large."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            replica.note(f"trace {path.name} left out: over {MOST_BYTES >> 20} MiB")
            return False
        if _holds_secret(path, replica.secrets):
            replica.note(f"trace {path.name} left out: a secret stands in it")
            return False
        target = replica.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.tmp")
        shutil.copyfile(path, partial)
        os.replace(partial, target)
    except (OSError, EOFError, zlib.error) as error:
        replica.note(f"trace {path.name} left out: {error}")
        return False
    replica.files.append(name)
    return True


def _holds_secret(path: Path, secrets: set[str]) -> bool:
    """Whether a secret stands in a trace; it is too large to be written anew."""
    wanted = [secret.encode() for secret in secrets if len(secret) > 3]
    longest = max(map(len, wanted), default=0)
    if not wanted:
        return False
    with path.open("rb") as head:
        packed = head.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        left = b""
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return False
            text = left + piece
            if any(secret in text for secret in wanted):
                return True
            left = text[-longest:]


def copy_traces(replica: Replica) -> None:
    """The traces that were given."""
    for path in replica.traces:
        keep_trace(replica, path, f"trace/{path.name}")


def given_traces(paths: Any) -> tuple[Path, ...]:
    """Trace files that a caller names; `CollectError` when one is none or two have one name."""
    found = tuple(Path(path) for path in paths or ())
    for path in found:
        if not path.is_file():
            raise CollectError(f"trace {path} is not a file; give an existing one or leave it out")
        if not path.name.endswith((".json", ".json.gz")):
            raise CollectError(f"trace {path}: a name that ends in .json or .json.gz is wanted")
    if len({path.name for path in found}) < len(found):
        raise CollectError("two traces have one name; rename one of them")
    return found
