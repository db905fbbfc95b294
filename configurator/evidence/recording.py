"""Recordings in the layout of the capture rigs: one folder a server, responses only.

`case.json` holds the command and the environment; `generate_*.json` one response or a list of
them, without the requests; reports lie beside or under `plugin/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from configurator.evidence.files import find, load, read_text
from configurator.evidence.model import Exchange, Json


def case_of(folder: Path) -> dict[str, Any]:
    """What `case.json` says."""
    data = load(folder / "case.json")
    return data if isinstance(data, dict) else {}


def ready_of(case: dict[str, Any]) -> bool:
    """Whether the rig saw the server ready; early cases hold only the time it took."""
    ready = case.get("ready")
    return ready if isinstance(ready, bool) else case.get("ready_s") is not None


def exchanges_of(folder: Path) -> tuple[Exchange, ...]:
    """Every response to /generate; the profiled ones last, as they were sent."""
    found = []
    for path in find(folder, "generate_*.json"):
        data: Json = load(path)
        responses = data if isinstance(data, list) else [data]
        for index, response in enumerate(_flatten(responses)):
            name = path.name if len(responses) == 1 else f"{path.name}#/{index}"
            found.append(Exchange(name, "/generate", 200, None, response))
    return tuple(found)


def _flatten(responses: list[Json]) -> list[dict[str, Any]]:
    flat: list[dict[str, Any]] = []
    for response in responses:
        if isinstance(response, list):
            flat += _flatten(response)
        elif isinstance(response, dict) and "meta_info" in response:
            flat.append(response)
    return flat


def report_paths(folder: Path) -> list[Path]:
    """In-engine reports, in the order in which they were written."""
    return [*find(folder, "probe-*.json"), *find(folder, "plugin/*.json")]


def log_of(folder: Path) -> str | None:
    """The log, or what was kept of the start."""
    whole = read_text(folder / "server.log")
    return whole if whole is not None else read_text(folder / "startup.log")


def environment_of(case: dict[str, Any]) -> dict[str, str] | None:
    """The variables that the rig set beyond its own."""
    env = case.get("env")
    if isinstance(env, str):
        try:
            env = json.loads(env)
        except ValueError:
            return None
    return {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else None
