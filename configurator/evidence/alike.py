"""Whether two runs are one: the same server, or two that were launched in the same way.

A run that is held against itself agrees with itself, whatever it is to prove.
"""

from __future__ import annotations

from typing import Any

from configurator.evidence.model import Evidence, Replica
from configurator.evidence.report_values import as_dict, as_dicts

_PLACES = {
    "host", "port", "nccl_port", "dist_init_addr", "base_gpu_id", "log_level", "log_level_http",
    "random_seed", "api_key", "admin_api_key", "served_model_name",
}  # fmt: skip
"""Arguments that say where a server listens and what it is called, not how it computes."""
_PLACE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "SGLANG_RUN_ID")


def why_alike(ours: Evidence, replica: Replica, theirs: Evidence, other: Replica) -> str:
    """Why the two runs are no two runs; empty: nothing shows that."""
    if _shared([_collection(ours, replica)], [_collection(theirs, other)]):
        return "the reference is the same evidence: collected from the same address in one moment"
    if _shared(_processes(replica), _processes(other)):
        return "the reference is of the same process of the engine"
    start = _same_start(replica, other)
    if start:
        return f"the reference is of the same start of the engine ({start})"
    if _launch(replica) and _launch(replica) == _launch(other) and _may_agree(replica, other):
        return "the reference was launched by the same command, so whatever is on is on in both"
    return ""


def _same_start(replica: Replica, other: Replica) -> str:
    """What shows that both are of one start of the engine; empty: nothing."""
    times, seeds = (
        [_info(one).get(key) for one in (replica, other)] for key in ("startup_time", "random_seed")
    )
    if all(isinstance(one, dict) and one for one in times):
        return "startup_time" if times[0] == times[1] else ""
    # The engine draws a seed by itself; one that was asked for may be that of many starts.
    chosen = any("random_seed" in one.requested for one in (replica, other))
    is_same = seeds[0] is not None and seeds[0] == seeds[1]
    return f"random_seed {seeds[0]}" if is_same and not chosen else ""


def _info(replica: Replica) -> dict[str, Any]:
    return replica.server_info or replica.server_info_startup or {}


def _shared(one: list[Any], other: list[Any]) -> bool:
    return any(fact is not None and fact in other for fact in one)


def _collection(evidence: Evidence, replica: Replica) -> tuple[Any, Any] | None:
    """When it was collected, to the second, and from which address."""
    entries = as_dicts(evidence.manifest.get("replicas"))
    url = next((each.get("url") for each in entries if each.get("index") == replica.index), None)
    when = evidence.manifest.get("collected_at")
    return (when, url) if when and url else None


def _processes(replica: Replica) -> list[Any]:
    """Process id and time of every report: a later start has others."""
    found = [as_dict(as_dict(report.raw).get("process")) for report in replica.reports]
    return [each for each in found if each.get("pid") is not None and each.get("time") is not None]


def _launch(replica: Replica) -> dict[str, Any]:
    return {name: value for name, value in replica.requested.items() if name not in _PLACES}


def _may_agree(replica: Replica, other: Replica) -> bool:
    """Neither the versions nor the environments show that the two are different engines."""
    if replica.version and other.version and replica.version != other.version:
        return False
    known = [_variables(each) for each in (replica, other)]
    return not all(known) or known[0] == known[1]


def _variables(replica: Replica) -> dict[str, str]:
    """The environment, without what only says where something lies."""
    return {
        name: value
        for name, value in (replica.environment or {}).items()
        if name not in _PLACE_VARIABLES and not name.endswith(("_DIR", "_PATH", "_PORT"))
    }
