"""The first page of an evidence directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .plan import Plan
from .replica import Replica

FORMAT = 1
VERSION = "1.0"


def manifest_of(
    plan: Plan, replicas: Sequence[Replica], notes: Sequence[str], host: dict[str, Any]
) -> dict[str, Any]:
    """What was collected, and how."""
    summaries = [replica.summary() for replica in replicas]
    versions = {str(r.info["version"]): None for r in replicas if r.info.get("version")}
    return {
        "format": FORMAT,
        "collector": VERSION,
        "collected_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "engine": {"name": "sglang", "version": next(iter(versions), None)},
        "level": plan.level,
        "passive": plan.passive,
        "concurrency": plan.concurrency,
        "host": host,
        "replicas": summaries,
        "environment": next((s["environment"] for s in summaries if s["environment"]), {}),
        "requests": [request for replica in replicas for request in replica.requests],
        "notes": [*notes, *(note for replica in replicas for note in replica.notes)],
    }
