"""Whether what answers is the engine that was started: another one may have taken its port.

The port was free in preflight, and an engine binds it only after minutes of loading. A server that
answers in between is healthy, and everything it says is of another launch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configurator.collector.listeners import name_of, told
from configurator.deployment import Deployment
from configurator.inengine.bundle import MODULE
from configurator.up import proc
from configurator.up.launching import Running
from configurator.up.waiting import Ended


def raise_if_another_answers(each: Running, running: Sequence[Running]) -> str:
    """End the run when what answers at the address of `each` did not come of it.

    Args:
        each: what is to answer there.
        running: everything that was started.

    Returns:
        That it cannot be told who answers, and why; empty when it is `each`.

    Raises:
        Ended: with the last lines of the one that was started.
    """
    host = urlsplit(each.command.url).hostname or ""
    found = told(host, each.command.port, _family(each, running))
    if found.theirs is False:
        raise Ended(1, f"{each.command.name}: {found.why}, not this engine", each.log.tail(10))
    return "" if found.theirs else f"; whether it is this engine cannot be told: {found.why}"


def raise_if_another_reports(
    each: Running, running: Sequence[Running], evidence: Path, deployment: Deployment
) -> None:
    """End the run when a process that came not of `each` made an in-engine report of its server.

    Raises:
        Ended: it names the process.
    """
    replica = each.command.process.replica
    hosts = [p for p in deployment.processes if (p.role, p.replica) == ("engine", replica)]
    ours = _family(each, running)
    # Processes of another host, or of another namespace, have ids that mean nothing here.
    if not each.command.is_engine or len(hosts) > 1 or not ours or not all(map(_same_ids, ours)):
        return
    for pid in _reporting(evidence / f"replica-{replica}" / "server_info.json"):
        if pid not in ours:
            who = f"process {pid} ({name_of(pid)})"
            where = f"{each.command.name}: the in-engine report on {each.command.url}"
            raise Ended(1, f"{where} is by {who}, not by this engine", each.log.tail(10))


def _family(each: Running, running: Sequence[Running]) -> set[int]:
    """Every process that came of one that was started."""
    leaders = {other.popen.pid for other in running}
    return proc.family(each.popen.pid, leaders - {each.popen.pid})


def _reporting(path: Path) -> Iterator[int]:
    """Ids of the processes whose reports stand in what a server says of itself."""
    try:
        info: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    states = _of(info, "internal_states")
    for holder in (info, *(states if isinstance(states, list) else ())):
        pid = _of(_of(_of(holder, MODULE), "process"), "pid")
        if isinstance(pid, int):
            yield pid


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _same_ids(pid: int) -> bool:
    try:
        ours, theirs = (os.readlink(proc.PROC / who / "ns/pid") for who in ("self", str(pid)))
    except OSError:
        return False
    return ours == theirs
