"""Whether a model has experts: what reports and /server_info say, for probes."""

from __future__ import annotations

import re

from configurator.evidence.model import Replica
from configurator.verdicts import Observation, Rung

_EXPERTS = re.compile(r"moe|expert", re.IGNORECASE)


def has_no_experts(replica: Replica) -> bool:
    """A report lists the layers and has no experts among them; some reports list no layers.

    Experts of a class of their own are none of the engine's MoE layers, but are named for what they
    are; and an engine that was given a runner has a use for it.
    """
    models = [m for r in replica.reports for m in (r.target, *r.drafts) if m is not None]
    names = [name for m in models for name in (m.model_class, *m.linear_methods)]
    info = replica.server_info or replica.server_info_startup or {}
    runner = info.get("moe_runner_backend")
    given = isinstance(runner, str) and runner.lower() not in ("", "auto")
    if given or any(map(_EXPERTS.search, names)):
        return False
    return any(m.linear_methods for m in models) and not any(m.moe_layers for m in models)


def without_experts(replica: Replica) -> list[Observation]:
    """The reports that list the layers of a target and no MoE layer among them."""
    return [
        Observation("report", "MoE layers", 0, Rung.BUILT, report.file, rank=report.rank)
        for report in replica.reports
        if report.target is not None and report.target.linear_methods
        and not report.target.moe_layers
        and not any(map(_EXPERTS.search, report.target.linear_methods))
    ]  # fmt: skip
