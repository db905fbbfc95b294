"""`evidence.require_report`: every rank of this host must have left an in-engine report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from configurator.deployment import Deployment
from configurator.evidence.model import Evidence, Replica, Report
from configurator.probes import why_no_report
from configurator.render.instrument import instrumented

_NO_PLUGINS = "use an engine that loads plugins, or leave evidence.require_report out"
_LOADED = (
    "let every process of the engine load the plugin configurator_probe, see the engine's log and "
    "the check `plugins`"
)


def missing_reports(
    deployment: Deployment, evidence: Evidence, replicas: Sequence[int]
) -> list[str]:
    """A sentence for every replica with ranks that left no report, if the profile needs them.

    Args:
        deployment: what was launched; the ranks are those of a replica's first host.
        evidence: what was collected.
        replicas: those whose rank 0 runs on this host.
    """
    if not deployment.profile.evidence.require_report:
        return []
    found = {each.index: each for each in evidence.replicas}
    texts = (_missing(deployment, found.get(index), index) for index in replicas)
    return [text for text in texts if text]


def _missing(deployment: Deployment, replica: Replica | None, index: int) -> str:
    usable = (r for r in (replica.reports if replica else ()) if r.target or not r.errors)
    left = set(map(_place, usable))
    ranks = list(_ranks(deployment))
    lacking = [rank for rank in ranks if rank not in left]
    if not lacking:
        return ""
    pipeline = deployment.profile.topology.pipeline > 1
    names = [f"{tensor} of pipeline rank {stage}" if pipeline else f"{tensor}"
             for tensor, stage in lacking]  # fmt: skip
    where = f" of replica {index}" if deployment.profile.topology.replicas > 1 else ""
    why, remedy = _why(deployment, replica)
    return f"no in-engine report of rank {', '.join(names)}{where}{why}; {remedy}"


def _why(deployment: Deployment, replica: Replica | None) -> tuple[str, str]:
    if not instrumented(deployment):
        fact, remedy = why_not_instrumented(deployment)
        return f": {fact}", remedy
    if replica is None:
        return ": nothing was collected of it", _LOADED
    why = why_no_report(replica)
    if not why and not replica.reports:
        why = ": the plugin gave no sign in the engine, so it was not loaded"
    return why, _LOADED


def why_not_instrumented(deployment: Deployment) -> tuple[str, str]:
    """Why a launch does not bring the probe along, and what to do about it."""
    setting, entry = deployment.profile.evidence.instrument, deployment.engine
    if setting != "standard":
        fact = f"evidence.instrument is {setting}"
        return fact, "set it to standard, or leave evidence.require_report out"
    return f"{entry.engine} {entry.version} loads no plugins", _NO_PLUGINS


def _place(report: Report) -> tuple[int, int]:
    """Tensor and pipeline rank; a report that does not know its rank is the only one there is."""
    return report.ranks.get("tp_rank", report.rank or 0), report.ranks.get("pp_rank", 0)


def _ranks(deployment: Deployment) -> Iterator[tuple[int, int]]:
    """Tensor and pipeline ranks of the first host of a replica, as the engine divides them."""
    topology = deployment.profile.topology
    hosts = max((p.rank for p in deployment.processes if p.role == "engine"), default=0) + 1
    stages = max(topology.pipeline // hosts, 1)
    tensors = topology.tensor // max(hosts // topology.pipeline, 1)
    for stage, tensor in product(range(stages), range(tensors)):
        yield tensor, stage
