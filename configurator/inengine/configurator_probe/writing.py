"""Files of the report directory."""

from __future__ import annotations

import json
import os
from typing import Any

from .origin import RANKS


def required() -> bool:
    """Whether the engine must stop if no report can be made."""
    return os.environ.get("CONFIGURATOR_PROBE_REQUIRED") == "1"


def write(name: str, data: dict[str, Any]) -> None:
    """Write one file of the report directory at once or not at all; nothing without one."""
    directory = os.environ.get("CONFIGURATOR_PROBE_DIR")
    if not directory:
        return
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    fresh = f"{path}.{os.getpid()}.tmp"
    if os.path.lexists(fresh):
        os.unlink(fresh)  # of an earlier process of this id, or a link that somebody left
    with open(fresh, "x", encoding="utf-8") as file:  # never through a link
        json.dump(data, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def file_name(report: dict[str, Any]) -> str:
    """The report's file; ranks that are not known keep apart by their process."""
    rank = report.get("rank")
    places = [rank.get(name) if isinstance(rank, dict) else None for name in RANKS]
    if places[0] is None:
        return f"report-pid{os.getpid()}.json"
    return "report-tp{}-pp{}-dp{}.json".format(*(place or 0 for place in places))
