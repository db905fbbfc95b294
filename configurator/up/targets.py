"""What the self-check is given of every server, and what of it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configurator.up.launching import Running
from configurator.up.report import Report


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is ready, and where its traces are."""

    replica: int
    url: str
    log: Path | None
    """None: somebody has removed it."""
    reports: Path | None
    pid: int


def targets_of(running: Sequence[Running], report: Report) -> list[Target]:
    """The engines of this host that answer, with those of their traces that are there."""
    found = []
    for each in running:
        if each.command.is_engine and each.command.answers:
            replica = each.command.process.replica
            log, reports = each.log.path, report.reports(replica)
            there = (log if log.is_file() else None, reports if reports.is_dir() else None)
            found.append(Target(replica, each.command.url, *there, each.popen.pid))
    return found


def lost_logs(running: Sequence[Running]) -> str:
    """That logs were removed while they were written; empty when all are there."""
    lost = [str(each.log.path) for each in running if not each.log.path.is_file()]
    if not lost:
        return ""
    return f"the log {lost[0]} is gone" if len(lost) == 1 else f"logs are gone: {', '.join(lost)}"
