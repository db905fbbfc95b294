"""Whether a server is ready, will be, or never will."""

from __future__ import annotations

import time

from .client import Client
from .listeners import has_exited
from .logfile import death_in
from .replica import Replica


def check(replica: Replica) -> str:
    """Ask once whether the server is ready; why not, when it is not."""
    probe = Client(replica.client.url, replica.client.api_key, min(replica.client.timeout_s, 20.0))
    # /health generates a token, which --passive forbids; old servers have no /ready.
    for path in ("/ready" if replica.plan.passive else "/health", "/model_info"):
        reply = probe.call(path)
        if reply.status != 404:
            break
    replica.reachable, replica.ready = reply.status != 0, reply.status == 200
    return "" if replica.ready else f"{path}: {reply.error or f'HTTP {reply.status}'}"


def wait(replica: Replica) -> None:
    """Until the server is ready, is dead, or the time is over."""
    start, told = time.monotonic(), ""
    while True:
        why = check(replica)
        waited = time.monotonic() - start
        dead = "" if replica.ready else death(replica)
        # A missing key does not come with time.
        refused = "HTTP 401" in why or "HTTP 403" in why
        if replica.ready or dead or refused or waited >= replica.plan.wait_s:
            break
        if why != told:
            told = why
            replica.plan.progress(f"replica {replica.index}: not ready after {waited:.0f} s: {why}")
        time.sleep(min(0.5, max(replica.plan.wait_s - waited, 0.0)))
    if not replica.ready:
        replica.errors.append(dead or why)
    elif waited > 1:
        replica.plan.progress(f"replica {replica.index}: ready after {waited:.0f} s")


def death(replica: Replica) -> str:
    """Why the server will never be ready: its process is gone, or its log says so."""
    if replica.pid is not None:
        return f"process {replica.pid} has exited" if has_exited(replica.pid) else ""
    if replica.reachable or replica.log is None:
        return ""
    found = death_in(replica.log)
    return f"the log says the server died: {found}" if found else ""


def judge_answers(replica: Replica) -> None:
    """A server that says it is ready and answers every request with an error is not."""
    statuses = [request["status"] for request in replica.requests]
    if statuses and all(status >= 500 for status in statuses):
        replica.ready = False
        codes = " and ".join(str(status) for status in sorted(set(statuses)))
        number = len(statuses)
        replica.errors.insert(0, f"answers {number} of {number} requests with HTTP {codes}")
