"""The store of predictions: one JSON line a run, only ever appended to."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from configurator.collector.host import host_facts
from configurator.errors import ConfiguratorError
from configurator.evidence.host import host_of
from configurator.plan.efficiency import Plain
from configurator.plan.observed import host_name
from configurator.plan.predictions import Record, own_steps, record_from
from configurator.regular import read_regular

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store holds."""

    records: tuple[Record, ...]
    """Oldest first."""
    broken: int
    """Lines that are no records: of a run that was cut off, or of a later version."""


def read_store(path: Path) -> Stored:
    """The records at `path`; none where there is no file.

    Raises:
        ConfiguratorError: PLN004, it cannot be read.
    """
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return Stored((), 0)
    except (OSError, ValueError) as error:
        raise _unusable(path, "read", error) from None
    lines = [line for line in text.split("\n") if line.strip()]
    found = [_record(line) for line in lines]
    records = tuple(record for record in found if record is not None)
    return Stored(records, len(found) - len(records))


def calibrating(path: Path, hardware: str, host: str | None = None) -> tuple[Plain, ...]:
    """Plain steps that were measured on one host; what `step_of` takes as `own`.

    Args:
        path: of a store, which need not exist.
        hardware: name of the hardware entry to plan for.
        host: name of the host; None: this machine, which is looked at only where the store has
            steps of such hardware.

    Raises:
        ConfiguratorError: PLN004, the store cannot be read.
    """
    records = [r for r in read_store(path).records if r.plain and r.plain.hardware == hardware]
    if not records:
        return ()
    return own_steps(records, this_host() if host is None else host)


def this_host() -> str:
    """What this machine is called where nobody names it."""
    return host_name(host_of(host_facts(("http://localhost",), ())))


def append(path: Path, record: Record) -> bool:
    """Add a record, unless the store has one of the same run; whether it was added.

    The file is the owner's alone. A line that was cut off is ended first, so that it spoils no
    other.

    Raises:
        ConfiguratorError: PLN004, it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is no regular file")
            fcntl.flock(file, fcntl.LOCK_EX)
            if any(_same_run(record, other) for other in read_store(path).records):
                return False
            line = json.dumps(record.to_json(), separators=(",", ":")).encode() + b"\n"
            size = os.fstat(file.fileno()).st_size
            torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            os.write(file.fileno(), b"\n" + line if torn else line)
    except (OSError, ValueError) as error:
        raise _unusable(path, "written", error) from None
    return True


def _same_run(one: Record, other: Record) -> bool:
    keys = ("date", "deployment", "launch", "evidence", "host")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def _record(line: str) -> Record | None:
    try:
        return record_from(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _unusable(path: Path, what: str, error: Exception) -> ConfiguratorError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ConfiguratorError.single(
        "PLN004", f"predictions at {path} cannot be {what}: {why}",
        "move it away, or give another place: `predictions --store PATH`, or XDG_STATE_HOME",
    )  # fmt: skip
