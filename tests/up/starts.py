"""Real starts of `configurator up` with the stand-in engine, and what remains of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stand_in import as_from_a_terminal, free_port

FAKE = Path(__file__).with_name("fake_engine.py")
_DRIVER = """
import functools, configurator.up.session as session
from configurator.up.stopping import Patience
session.Plan = functools.partial(
    session.Plan, patience=Patience({term_s}, 0.5), silence_s={silence_s})
from configurator.cli import main
main()
"""
_MODEL = """\
apiVersion: configurator/v1
kind: Model
name: tiny
summary: A tiny mixture of experts with a draft layer
repository: models/glm4moe-mtp-good
architecture: Glm4MoeForCausalLM
layers: 3
nextn_layers: 1
weights_gb: 0.01
context: 4096
sources: [made for tests]
"""
_PROFILE = """\
apiVersion: configurator/v1
kind: Deployment
name: NAME
engine: {version: 0.5.23}
"""


@dataclass
class Start:
    """One deployment in a folder, started as often as a test wants."""

    folder: Path
    extra: str = ""
    name: str = "tiny"
    port: int = 0
    term_s: float = 20.0
    silence_s: float = 120.0
    env: dict[str, str] = field(default_factory=dict)
    wrapper: list[str] = field(default_factory=list)
    """Words before the command."""
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port = self.port or free_port()
        models = self.folder / "content" / "profiles" / "models"
        models.mkdir(parents=True)
        (models / "tiny.yaml").write_text(_MODEL)
        info = self.folder / "site" / "sglang-0.5.23.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\n")
        (self.folder / "run").mkdir(0o700)
        python = self.folder / "python3"
        python.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        python.chmod(0o755)
        self.profile = self.folder / "tiny.yaml"
        self.write("")

    def write(self, extra: str) -> None:
        """The profile, with `extra` instead of what it had."""
        text = self.extra or extra
        serving = f"port: {self.port}"
        if "SERVING" in text:
            serving += ", " + text.split("SERVING:")[1].split("\n")[0].strip()
            text = "\n".join(line for line in text.split("\n") if "SERVING" not in line)
        model = "" if "model:" in text else "model: {name: tiny}\n"
        model += "" if "hardware:" in text else "hardware: {name: cpu, gpus: 1}\n"
        head = _PROFILE.replace("NAME", self.name)
        self.profile.write_text(f"{head}{model}serving: {{{serving}}}\n{text}\n")

    def up(self, mode: str, *options: str, report: str = "report") -> subprocess.Popen[str]:
        """Start it."""
        process = subprocess.Popen(
            [*self.wrapper, sys.executable, "-c",
             _DRIVER.format(term_s=self.term_s, silence_s=self.silence_s),
             "up", str(self.profile), "--python", str(self.folder / "python3"),
             "--content", str(self.folder / "content"),
             "--report", str(self.folder / report), *options],
            preexec_fn=as_from_a_terminal,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.folder),
                "CONFIGURATOR_LOCK_DIR": str(self.folder / "run"),
                "FAKE_MARK": str(self.folder), "FAKE_MODE": mode, **self.env,
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, mode: str, *options: str, report: str = "report") -> tuple[int, str]:
        """Start it and wait for its end: exit code and output."""
        process = self.up(mode, *options, report=report)
        output, _ = process.communicate(timeout=50)
        return process.returncode, output

    def json(self, name: str, report: str = "report") -> Any:
        """A JSON file of the report."""
        return json.loads((self.folder / report / name).read_text())

    def seen(self, attempt: int = 0) -> dict[str, Any]:
        """Arguments and environment that the engine had."""
        found: dict[str, Any] = json.loads((self.folder / f"seen-{attempt}.json").read_text())
        return found

    def wait_phase(self, phase: str, process: str = "up", report: str = "report") -> None:
        """Until the timeline has a phase."""
        path = self.folder / report / "timeline.json"

        def there() -> bool:
            if not path.exists() and all(p.poll() is not None for p in self.processes):
                raise AssertionError(f"up has ended: {self.processes[-1].communicate()}")
            entries = json.loads(path.read_text()) if path.exists() else []
            return any((e["process"], e["phase"]) == (process, phase) for e in entries)

        wait_until(there, f"phase {phase} of {process}")

    def alive(self, but: frozenset[int] = frozenset()) -> list[str]:
        """Every living process of these starts but those in `but`, found by their mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in but:
                try:
                    marked = f"FAKE_MARK={self.folder}".encode() in (
                        entry / "environ"
                    ).read_bytes().split(b"\0")
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if marked:
                    found.append(f"{entry.name}: {command[:120]}")
        return found

    def clean(self) -> None:
        """Kill whatever a failed test left."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for line in self.alive():
            try:
                os.kill(int(line.partition(":")[0]), signal.SIGKILL)
            except ProcessLookupError:
                continue


def wait_until(true: Any, what: str, timeout_s: float = 60.0) -> None:
    """Wait until `true()` holds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s:g} s in vain for: {what}")
