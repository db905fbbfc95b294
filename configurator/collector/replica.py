"""One server, and what is known of it so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .client import Client
from .nesting import MOST_NESTED, is_nested_deep
from .plan import Plan
from .redaction import find_secrets
from .writing import write


@dataclass
class Replica:
    """One server and the folder its evidence goes to."""

    index: int
    client: Client
    folder: Path
    plan: Plan
    log: Path | None
    reports: Path | None
    pid: int | None
    secrets: set[str]
    ready: bool = False
    reachable: bool = False
    errors: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    process: int | None = None
    """The process that listens at the URL, where `pid` led to it."""
    own: dict[str, str] | None = None
    """Environment of that process, where it could be read."""
    began: float = field(default_factory=time.monotonic)
    alone: list[Any] = field(default_factory=list)
    """Bodies of the requests that were sent alone."""
    trace_dir: str | None = None
    """Folder that the engine is to write traces to, as it names it."""
    traces: tuple[Path, ...] = ()
    """Traces that were given."""
    profile: dict[str, Any] | None = None
    """What was done with the engine's profiler; None: nothing."""
    kept: frozenset[str] = frozenset()
    """Variables of the engine whose values are secrets, whatever they are called."""

    def page(self, name: str, *paths: str) -> None:
        """Write what the first of `paths` that exists answers."""
        for path in paths:
            reply = self.client.call(path)
            if reply.status != 404:
                break
        if reply.status != 200:
            hint = "; give the server's key" if reply.status in (401, 403) else ""
            self.errors.append(f"{paths[0]}: {reply.error}{hint}")
        elif name.endswith(".txt"):
            self.write(name, reply.text)
        elif isinstance(value := reply.json(), dict):
            self.secrets |= find_secrets(value, self.kept)
            if name.startswith("server_info"):
                self.info = value
            self.write(name, value)
        else:
            self.errors.append(f"{path}: HTTP 200 but the body is not a JSON object")

    def note(self, text: str) -> None:
        """Write something down for whoever reads the manifest."""
        self.notes.append(f"replica {self.index}: {text}")

    def write(self, name: str, value: Any) -> None:
        """Redact, then write."""
        if is_nested_deep(value):
            self.notes.append(f"replica {self.index}: {name} is nested deeper than {MOST_NESTED} "
                              "levels; what is below is kept as text")  # fmt: skip
        write(self.folder / name, value, self.secrets)
        if name not in self.files:
            self.files.append(name)

    def environment(self) -> dict[str, str] | None:
        """What the process and the engine itself say of the environment; None: nothing."""
        states = self.info.get("internal_states")
        first = states[0] if isinstance(states, list) and states else None
        exposed = first.get("env_vars") if isinstance(first, dict) else None
        if not isinstance(exposed, dict):
            return self.own
        return {**(self.own or {}), **{str(k): str(v) for k, v in exposed.items()}}

    def summary(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        return {
            "index": self.index, "url": self.client.url, "reachable": self.reachable,
            "ready": self.ready, "error": self.errors[0] if self.errors else "",
            "errors": self.errors, "environment": self.environment(), "files": self.files,
            "profile": self.profile,
        }  # fmt: skip
