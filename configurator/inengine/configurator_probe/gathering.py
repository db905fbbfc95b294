"""Reports of the other ranks, on whatever host they run."""

from __future__ import annotations

import json
import sys
from typing import Any

from .values import get

KEY = "configurator_probe"
LARGEST = 2**20
"""Bytes of a report that the store is given: one that it refuses breaks the engine's own use."""
_KEPT = ("schema", "stage", "process", "start", "rank", "versions")
_others: dict[int, dict[str, Any]] = {}


def _store() -> Any:
    """The store over which the ranks of this engine found each other; None: it has one rank."""
    group = get(sys.modules.get("torch"), "distributed")
    if group is None or not group.is_initialized() or group.get_world_size() < 2:
        return None
    return group.distributed_c10d._get_default_store()


def publish(report: dict[str, Any]) -> None:
    """Leave the report where the first rank finds it, on whatever host; nothing waits for it."""
    try:
        store = _store()
        if store is not None:
            rank = sys.modules["torch"].distributed.get_rank()
            store.set(f"{KEY}/{rank}", _text(report))
    except Exception as error:
        sys.stderr.write(f"configurator_probe: no other host gets this report: {error!r}\n")


def _text(report: dict[str, Any]) -> str:
    """The report, or who speaks and that the report is too large."""
    text = json.dumps(report)  # ASCII: as many bytes as characters
    if len(text) <= LARGEST:
        return text
    error = f"the report of {len(text)} bytes is too large to hand on to other hosts"
    sys.stderr.write(f"configurator_probe: {error}\n")
    small = {name: report[name] for name in _KEPT if name in report}
    return json.dumps({**small, "errors": [{"part": "all", "error": error}]})


def gather() -> list[dict[str, Any]]:
    """Reports that the other ranks have left by now; of the first rank alone."""
    store = _store()
    group = get(sys.modules.get("torch"), "distributed")
    if store is None or group.get_rank() != 0:
        return []
    for rank in range(1, group.get_world_size()):
        if rank not in _others and store.check([f"{KEY}/{rank}"]):
            _others[rank] = json.loads(store.get(f"{KEY}/{rank}"))
    return [_others[rank] for rank in sorted(_others)]
