"""What the engine's Python is: versions, packages and plugins, asked of it in its environment."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from configurator.asking import ask
from configurator.collector.host import NVIDIA_SMI
from configurator.evidence.host import Gpu, parse_gpus
from configurator.inengine.bundle import GROUP
from configurator.signals import Stop

_ASK = """
import importlib.metadata as metadata, json, platform, sys
packages = {}
for found in metadata.distributions():
    name = (found.metadata or {}).get("Name")
    if name: packages.setdefault(name, found.version)
plugins = sorted({point.name for point in metadata.entry_points(group=sys.argv[1])})
print("configurator:" + json.dumps({"python": platform.python_version(),
    "executable": sys.executable, "packages": packages, "plugins": plugins}))
"""


@dataclass(frozen=True, slots=True)
class EnginePython:
    """The interpreter that is to run the engine."""

    version: str = ""
    executable: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    """Name, normalized -> version."""
    plugins: tuple[str, ...] = ()
    """Entry points through which SGLang loads plugins."""
    error: str = ""
    """Why it did not answer; the rest is empty then."""


def normalized(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def ask_python(python: str, env: Mapping[str, str], stop: Stop) -> EnginePython:
    """What an interpreter says of itself in the environment `env`."""
    code, out, err = ask([python, "-c", _ASK, GROUP], env, stop, timeout_s=120)
    line = next((line for line in out.splitlines() if line.startswith("configurator:")), "")
    try:
        data = json.loads(line.removeprefix("configurator:"))
        packages = {normalized(str(k)): str(v) for k, v in data["packages"].items()}
        plugins = tuple(map(str, data["plugins"]))
        return EnginePython(str(data["python"]), str(data["executable"]), packages, plugins)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        unread = "; its answer cannot be read" if line else ""
        last = (err.strip().splitlines() or [f"exit code {code}{unread}"])[-1]
        return EnginePython(error=last[:300])


def ask_gpus(stop: Stop) -> tuple[Gpu, ...] | None:
    """The GPUs of this host; None where nvidia-smi is not there or does not answer."""
    code, out, _ = ask(NVIDIA_SMI, None, stop, timeout_s=60)
    return parse_gpus(out.splitlines()) if code == 0 else None


def versions(
    engine: EnginePython, gpus: tuple[Gpu, ...] | None, image: str | None, wanted: str
) -> dict[str, object]:
    """The lock of versions: enough to set up the same again."""
    return {
        "engine": {"wanted": wanted, "found": engine.packages.get("sglang")},
        "python": {"version": engine.version, "executable": engine.executable},
        "packages": dict(sorted(engine.packages.items())),
        "plugins": list(engine.plugins),
        "gpus": [gpu.product for gpu in gpus or ()],
        "driver": gpus[0].driver if gpus else None,
        "host": {
            "kernel": platform.release(),
            "machine": platform.machine(),
            "system": _system(),
        },
        "image": image,
    }


def _system() -> str:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return platform.system()
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.M)
    return found[1] if found else platform.system()
