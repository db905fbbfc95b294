"""Reports that the probe wrote inside the engine."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from .redaction import find_secrets
from .replica import Replica

MAX_REPORTS, MAX_REPORT = 512, 8 << 20


def copy_reports(replica: Replica) -> None:
    """The in-engine reports, with the time they were written."""
    if replica.reports is None:
        return
    found = sorted(replica.reports.glob("*.json"))
    for path in found[:MAX_REPORTS]:
        try:
            body, stamp = read_report(path)
            value = json.loads(body)
        except (OSError, ValueError) as error:
            replica.notes.append(f"report {path.name} left out: {error}")
        except RecursionError:
            replica.notes.append(f"report {path.name} left out: nested too deep to be read")
        else:
            replica.secrets |= find_secrets(value, replica.kept)
            replica.write(f"reports/{path.name}", value)
            os.utime(replica.folder / "reports" / path.name, (stamp, stamp))
    if len(found) > MAX_REPORTS:
        more = len(found) - MAX_REPORTS
        replica.notes.append(f"replica {replica.index}: {more} reports left out")
    if not found:
        replica.notes.append(f"replica {replica.index}: no report in {replica.reports}")


def read_report(path: Path) -> tuple[bytes, float]:
    """A regular file of the folder, with the time it was written; `ValueError` for all else.

    The folder is written from inside a container: a link may lead anywhere on this host.
    """
    target = Path(os.path.realpath(path))
    if Path(os.path.realpath(path.parent)) not in target.parents:
        raise ValueError("it is a link to a place outside of the folder")
    # Opening a pipe would wait for somebody who writes.
    with open(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("it is no regular file")
        body = file.read(MAX_REPORT + 1)
    if len(body) > MAX_REPORT:
        raise ValueError(f"over {MAX_REPORT >> 20} MiB")
    return body, state.st_mtime
