"""A bounded trace by the engine's own profiler, which is off afterwards whatever happens.

What the engine does was read in SGLang 0.5.17 and 0.5.23, managers/scheduler_components/
profiler_manager.py, and seen on 0.5.23: a start with `start_step` is refused while a profile runs,
where one without takes the running one's profiler away for good; a profile ends by itself after
`num_steps`, but only at the next step; and what goes wrong while the file is written, a folder that
cannot be made or a full disk, ends the scheduler and with it the server. So the folder is looked
at before, and a start in a step that never comes tells afterwards that none runs.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .client import Client, Reply
from .readiness import check
from .replica import Replica
from .tracefiles import Place, fetch_traces, place_of

STEPS = 16
"""Forward passes that are recorded, the prefill among them; never more than 20."""
_NEVER = 1 << 53
"""A step that no server reaches."""
_MOST_TOKENS, _MOST_TOGETHER = 512, 16
_CALL_S, _FILES_S, _LATE_S = 30.0, 90.0, 5.0
"""Limits of a call, of waiting for the files and for those of an interrupted profile, in seconds;
writing them holds up the engine."""
_REMEDY = "record one yourself and give it by --trace"


def profile(replica: Replica) -> None:
    """Record a trace of a few steps, and keep it; what hinders that is noted.

    The request that makes the steps happen is not kept: it goes on after the text's end.
    """
    if not replica.ready or replica.plan.passive:
        why = "--passive sends no request" if replica.ready else "the server is not ready"
        replica.note(f"no trace: {why}; {_REMEDY}")
        return
    place = place_of(replica)
    if isinstance(place, str):
        replica.note(f"no trace: {place}; {_REMEDY}")
        return
    mark = f"configurator-{uuid.uuid4().hex[:12]}"
    marker: dict[str, Any] = {
        "id": mark, "folder": place.folder, "steps": STEPS, "files": [], "state": "started",
    }  # fmt: skip
    replica.profile = marker
    # Whoever finds the folder of a collector that was killed sees that a profile may run.
    replica.write("profile.json", marker)
    try:
        with _ending():
            _record(replica, place, mark, marker)
    finally:
        replica.write("profile.json", marker)


def _record(replica: Replica, place: Place, mark: str, marker: dict[str, Any]) -> None:
    client = Client(replica.client.url, replica.client.api_key, _CALL_S)
    replica.plan.progress(f"replica {replica.index}: tracing {STEPS} steps")
    try:
        started = client.call("/start_profile", _start(mark, place.folder))
        if started.status != 200:
            # Without an answer it may have begun.
            marker["state"] = "refused" if started.status else "not answered"
            replica.note(f"no trace: {_refused(started)}; {_REMEDY}")
            return
        answered = _work(replica)
        marker["answered"] = answered
        if answered:
            marker["files"] = fetch_traces(replica, place, mark, _FILES_S)
    finally:
        if marker["state"] != "refused":
            marker["state"] = _off(client)
            if marker["state"] != "off":
                _explain(replica, marker)
            elif not marker["files"]:
                # A profile that had not had its steps was written when it was stopped.
                marker["files"] = fetch_traces(replica, place, mark, _LATE_S)
    if not marker["files"]:
        why = "" if marker.get("answered") else "; no request was answered while it ran"
        where = f"{place.folder}/{mark}-*.trace.json.gz on the engine's host"
        replica.note(f"no trace was found{why}: look for {where}, and give it by --trace")


def _explain(replica: Replica, marker: dict[str, Any]) -> None:
    """The server ended, or the profiler may still run."""
    why = check(replica)
    if replica.ready:
        text = f"the profiler is not known to be off: {marker['state']}"
        replica.errors.append(f"{text}; POST /stop_profile")
    else:
        marker["state"] = "ended"
        replica.errors.insert(0, f"the server ended while it was traced: {why}")


def _start(mark: str, folder: str) -> dict[str, Any]:
    """A profile that begins at the next step and ends by itself."""
    return {
        "start_step": 1, "num_steps": STEPS, "activities": ["CPU", "GPU"], "with_stack": False,
        "record_shapes": False, "profile_id": mark, "output_dir": folder,
    }  # fmt: skip


def _refused(reply: Reply) -> str:
    if reply.status in (401, 403):
        return "/start_profile wants another key, for instance the server's --admin-api-key"
    if reply.status == 404:
        return "the server has no /start_profile"
    if reply.status == 500:
        return "/start_profile was refused: a profile runs already, or the log says why"
    return f"/start_profile: {reply.error or f'HTTP {reply.status}'}"


def _work(replica: Replica) -> bool:
    """Requests long enough for all the steps, one for each scheduler; whether one was answered."""
    info, plan = replica.info, replica.plan
    schedulers = min(_whole(info.get("dp_size")), _MOST_TOGETHER)
    # A verify step gives up to as many tokens as are drafted.
    tokens = min((STEPS + 4) * _whole(info.get("speculative_num_draft_tokens")), _MOST_TOKENS)
    ask = plan.of_ids if info.get("skip_tokenizer_init") else plan.easy
    bodies = []
    for index in range(schedulers):
        _, body = ask(1000 + index)
        wanted = {"max_new_tokens": tokens, "ignore_eos": True}
        bodies.append({**body, "sampling_params": {**body["sampling_params"], **wanted}})
    pool = ThreadPoolExecutor(max_workers=len(bodies))
    try:
        replies = list(pool.map(lambda body: replica.client.call("/generate", body), bodies))
    finally:
        # Whoever interrupts does not wait for the answers.
        pool.shutdown(wait=False)
    return any(reply.status == 200 for reply in replies)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _off(client: Client) -> str:
    """Make sure that no profile runs and none will begin; `off`, or what is not known.

    A start in a step that never comes is refused while one runs, and takes the place of one that
    waits for its first step.
    """
    never = {"start_step": _NEVER, "num_steps": 1, "profile_id": "configurator-off"}
    reply = client.call("/start_profile", never)
    if reply.status == 200:
        return "off"
    client.call("/stop_profile", {})
    reply = client.call("/start_profile", never)
    return "off" if reply.status == 200 else reply.error or f"HTTP {reply.status}"


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Signals that end a program unwind it here, so that what was started is stopped."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    # Whoever handles them already unwinds by himself.
    before = {n: signal.signal(n, end) for n in numbers if signal.getsignal(n) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
