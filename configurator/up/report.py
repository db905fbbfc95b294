"""The report directory: what was asked for, what ran, what was proven, and when."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from configurator import __version__
from configurator.collector.redaction import find_secrets, redact_json
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.source import dump
from configurator.up.launching import Command
from configurator.up.phases import Step

_OF_ONE_ATTEMPT = (
    "profile.yaml", "commands.json", "log", "evidence", "evidence-reports", "verdicts.json",
    "report.html",
)  # fmt: skip


class Report:
    """Writes the files of one run; what is open to the group or others holds no secrets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._began = time.monotonic()
        self._timeline: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.unwritten: dict[str, str] = {}
        """Files that could not be written, and why; a full disk stops nobody."""

    def create(self, *, searched: bool = False) -> None:
        """Make the directory.

        Args:
            searched: a folder in it is to stand on the engine's search path.

        Raises:
            ConfiguratorError: it holds something already, cannot be made, or cannot be searched
                (RUN005).
        """
        if searched and os.pathsep in str(self.directory):
            raise ConfiguratorError.single(
                "RUN005", f"{self.directory} has {os.pathsep!r} in its name, where PYTHONPATH "
                "ends, so the engine would not find the probe",
                "give a directory without it: --report DIR",
            )  # fmt: skip
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            used = any(self.directory.iterdir())
        except OSError as error:
            raise ConfiguratorError.single(
                "RUN005", f"{self.directory} cannot be used: {error.strerror or error}",
                "give another directory: --report DIR",
            ) from error  # fmt: skip
        if used:
            raise ConfiguratorError.single(
                "RUN005", f"{self.directory} is not empty, and reports are not mixed",
                "give a new directory: --report DIR",
            )  # fmt: skip

    @property
    def evidence(self) -> Path:
        """Where the self-check collects to."""
        return self.directory / "evidence"

    @property
    def bundle(self) -> Path:
        """The in-engine probe, as the engine imports it."""
        return self.directory / "probe-bundle"

    def log(self, command: Command) -> Path:
        """The log of a process."""
        return self.directory / "log" / f"{command.name}.log"

    def reports(self, replica: int) -> Path:
        """Where the ranks of a replica leave their in-engine reports."""
        return self.directory / "evidence-reports" / f"replica-{replica}"

    def profile(self, deployment: Deployment, note: str = "") -> None:
        """The whole profile in one layer."""
        data = {key: value for key, value in deployment.layers.data.items() if key != "extends"}
        # Keys of serving are references to secrets; only what is passed through can hold one.
        extra = data.get("extra")
        if extra is not None:
            data = {**data, "extra": redact_json(extra, find_secrets(extra))}
        head = f"# configurator {__version__}: the profile with everything it extends merged.\n"
        text = head + "".join(f"# {line}\n" for line in note.splitlines()) + dump(data)
        self.write("profile.yaml", text)

    def commands(self, commands: tuple[Command, ...]) -> None:
        """The command lines and what was set in their environment, without secrets."""
        entries = [
            {"name": command.name, "argv": list(command.shown), "env": command.added}
            for command in commands
        ]
        self.write_json("commands.json", entries)

    def phase(self, process: str, step: Step) -> None:
        """A phase began; a change within one is not written. Any thread may say so."""
        with self._lock:
            last = next((e for e in reversed(self._timeline) if e["process"] == process), None)
            if last is not None and last["phase"] == step.phase:
                return
            self._timeline.append({
                "process": process, "phase": step.phase, "at_s": round(self.elapsed, 3),
                "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            })  # fmt: skip
            self.write_json("timeline.json", self._timeline)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def set_aside(self, folder: str) -> None:
        """Move what an attempt left into `folder`, to make room for the next."""
        target = self.directory / folder
        target.mkdir()
        for name in _OF_ONE_ATTEMPT:
            path = self.directory / name
            if path.exists():
                os.rename(path, target / name)

    def write_json(self, name: str, value: Any) -> None:
        """One JSON file."""
        self.write(name, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")

    def write(self, name: str, text: str) -> None:
        """One file in one step: no reader sees half of it. What fails stands in `unwritten`."""
        path = self.directory / name
        partial = path.with_name(f"{name}.tmp")
        try:
            partial.write_text(text, encoding="utf-8", errors="replace")
            os.replace(partial, path)
        except OSError as error:
            self.unwritten.setdefault(name, error.strerror or str(error))
            with suppress(OSError):
                partial.unlink(missing_ok=True)
