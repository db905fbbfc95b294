"""Requests that generate, and what came back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from .client import Reply
from .plan import ENOUGH_ALONE, ENOUGH_VERIFY_STEPS, LEVEL1_REQUESTS, Sent
from .readiness import check
from .replica import Replica


def send(replica: Replica) -> None:
    """Bounded requests: alone, then as many at a time as the plan says, then to compare."""
    tokenizer = not replica.info.get("skip_tokenizer_init")
    plan = replica.plan
    again = str(replica.info.get("speculative_algorithm")).upper() != "NGRAM"
    together = plan.together(tokenizer, again)
    enough = ENOUGH_ALONE if together else ENOUGH_VERIFY_STEPS
    alone = send_waves(replica, [[sent] for sent in plan.alone(tokenizer)], enough)
    steps = None if alone is None else send_waves(replica, together, ENOUGH_VERIFY_STEPS)
    if alone is None or steps is None:
        return
    last = steps if together else alone
    if plan.level > 1 and last < ENOUGH_VERIFY_STEPS:
        done = f"{last} verify steps after {len(replica.requests)} requests"
        replica.notes.append(f"replica {replica.index}: {done}, {ENOUGH_VERIFY_STEPS} were wanted")
    compared = [sent for sent in plan.compared(tokenizer) if sent[1] not in replica.alone]
    send_waves(replica, [[sent] for sent in compared], None)


def send_waves(replica: Replica, waves: list[list[Sent]], enough: int | None) -> int | None:
    """Verify steps of the waves that were sent; None: the server answers no more.

    Without verify steps there is nothing to count, and a few requests tell the rest.
    """
    steps = sent = 0
    for wave in waves:
        replica.plan.progress(
            f"replica {replica.index}: {len(wave)} request(s), {steps} verify steps so far"
        )
        with ThreadPoolExecutor(max_workers=len(wave)) as pool:
            replies = list(pool.map(partial(timed, replica), [body for _, body in wave]))
        for (kind, body), (reply, timing) in zip(wave, replies):  # noqa: B905  (Python 3.9)
            steps += exchange(replica, kind, body, reply, {"together": len(wave), **timing})
            if len(wave) == 1:
                replica.alone.append(body)
        sent += len(wave)
        if not any(reply.status == 200 for reply, _ in replies):
            why = check(replica)
            refused = replies[0][0].status >= 500 and not why
            if refused and len(replica.requests) < LEVEL1_REQUESTS:
                continue  # one text alone may be at fault
            replica.errors += [f"/generate: {replies[0][0].error}", *([why] if why else [])]
            return None
        if enough is not None and (steps >= enough or (not steps and sent >= LEVEL1_REQUESTS)):
            break
    return steps


def timed(replica: Replica, body: dict[str, Any]) -> tuple[Reply, dict[str, float]]:
    """The reply, when it was asked for since collecting began, and how long it took."""
    start = time.monotonic()
    reply = replica.client.call("/generate", body)
    took = time.monotonic() - start
    return reply, {"started_s": round(start - replica.began, 3), "took_s": round(took, 3)}


def exchange(replica: Replica, kind: str, body: Any, reply: Reply, how: Mapping[str, Any]) -> int:
    """Write one request with its response; the verify steps it took."""
    name = f"requests/{len(replica.requests) + 1:03d}.json"
    found = reply.json() if reply.status else None
    response = found if found is not None else (reply.text[:65536] or reply.error)
    about = {"path": "/generate", "kind": kind, "status": reply.status, **how}
    replica.write(name, {**about, "request": body, "response": response})
    file = f"{replica.folder.name}/{name}"
    replica.requests.append({"replica": replica.index, "file": file, **about})
    meta = found.get("meta_info") if isinstance(found, dict) else None
    steps = meta.get("spec_verify_ct") if isinstance(meta, dict) else None
    return steps if isinstance(steps, int) else 0
