"""The probe of the server's state."""

from __future__ import annotations

from configurator import (
    Check,
    Observation,
    Outcome,
    Rung,
    inconclusive,
    probe,
    proven,
    refuted,
)


@probe("server-ready", proof_rung="resolved")
def server_ready(check: Check) -> Outcome:
    """The server answers requests.

    Proven: it reported readiness and answered (executed when a request with output was recorded).
    Readiness says nothing of what was loaded: a server can be ready and die of its first request.

    Refuted: it died while starting; the last error of its log says why.

    Open: it is still starting, in the phase that is named, or it cannot be reached. A first start
    may compile kernels for many minutes; that is no failure.
    """
    state = check.replica.state
    seen = Observation(
        "log" if "log" in state.locator else "process",
        "server", state.state, Rung.RESOLVED, state.locator, state.reason[:300],
    )  # fmt: skip
    where = f" in phase {state.phase}" if state.phase else ""
    why = f": {state.reason}" if state.reason else ""
    if state.state == "ready":
        answered = [e for e in check.replica.exchanges if e.status == 200]
        if answered:
            text = f"the server is ready and answered {len(answered)} requests"
            return proven(Rung.EXECUTED, text, seen)
        return proven(Rung.RESOLVED, "the server is ready; no request was recorded", seen)
    if state.state == "failed":
        text = f"the server failed{where}{why}"
        return refuted(Rung.RESOLVED, text, seen, remedy=state.remedy or "mend the cause it names")
    text = f"the server is {state.state}{where}{why}"
    return inconclusive(None, text, seen, remedy=state.remedy or "wait longer (--wait)")
