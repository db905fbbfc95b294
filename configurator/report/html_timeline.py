"""How the start went: the phases of the log with their times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from configurator.evidence.model import LogLine, Replica
from configurator.evidence.serverlog import last_start, server_state
from configurator.report.html_text import clean

_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_MOST_LINES = 20_000
_MOST_PHASES = 40


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the start and when it began."""

    name: str
    began: str
    """Time of day, or empty where the log has no time stamps."""
    after_s: int | None
    """Seconds since the first line with a time stamp."""
    took_s: int | None
    """Seconds until the next phase; None for the last one."""
    share: float
    """Of the whole time, 0 to 100."""
    offset: float
    """Where it begins in the whole time, 0 to 100."""
    locator: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The phases of one server's last start."""

    replica: int
    phases: tuple[Phase, ...]
    total_s: int | None


def timelines(replicas: Sequence[Replica]) -> list[Timeline]:
    """One for each replica whose log names phases."""
    found = [_timeline(replica) for replica in replicas]
    return [timeline for timeline in found if timeline.phases]


def _timeline(replica: Replica) -> Timeline:
    lines = last_start(replica.log or ())[:_MOST_LINES]
    begun: list[tuple[str, LogLine]] = []
    for line in lines:
        # A line judged alone gives the phase that it begins.
        phase = server_state((line,), answered=False, ready=False).phase
        if phase and (not begun or begun[-1][0] != phase):
            begun.append((phase, line))
    times = [time for line in lines if (time := _time(line)) is not None]
    if times and begun:
        first = next(line for line in lines if _time(line) is not None)
        begun.insert(0, ("starting", first))
    phases = _phases(begun[:_MOST_PHASES])
    total = phases[-1].after_s if phases else None
    return Timeline(replica.index, phases, total)


def _phases(begun: list[tuple[str, LogLine]]) -> tuple[Phase, ...]:
    times = [_time(line) for _, line in begun]
    known = [time for time in times if time is not None]
    whole = max(1.0, (known[-1] - known[0]).total_seconds()) if known else 1.0
    found = []
    for index, (name, line) in enumerate(begun):
        time = times[index]
        after = max(0, int((time - known[0]).total_seconds())) if time is not None else None
        later = next((t for t in times[index + 1 :] if t is not None), None)
        took = max(0, int((later - time).total_seconds())) if later and time else None
        found.append(
            Phase(
                clean(name),
                f"{time:%H:%M:%S}" if time else "",
                after,
                took,
                round(min(100.0, 100 * (took or 0) / whole), 1),
                round(min(100.0, 100 * (after or 0) / whole), 1),
                f"server.log:{line.number}",
            )
        )
    return tuple(found)


def _time(line: LogLine) -> datetime | None:
    found = _STAMP.search(line.text[:400])
    try:
        return datetime.fromisoformat(found[1]) if found else None
    except ValueError:
        return None
