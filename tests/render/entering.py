"""The entry script under real bash: what the engine in a container receives in the end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from render.generated import Started

_OF_BASH = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


def enter(
    bundle: Path, command: list[str], env: Mapping[str, str], folder: Path, **image: str
) -> Started:
    """Run what a container is told to, with this environment and that of its image.

    The bundle stands for /configurator, a folder for /var/configurator, and `python3` writes down
    what it gets.
    """
    tools = folder / "image-tools"
    tools.mkdir(exist_ok=True)
    seen = folder / "entered"
    (tools / "python3").write_text(
        f"#!/bin/bash\nprintf '%s\\0' python3 \"$@\" >'{seen}.argv'\nenv -0 >'{seen}.env'\n"
    )
    (tools / "python3").chmod(0o755)
    assert command[:3] == ["bash", "-p", "/configurator/entry.sh"], command[:3]
    places = [("/var/configurator", str(folder / "var")), ("/configurator", str(bundle))]
    own = {name: _moved(name, value, places) for name, value in env.items()}
    done = subprocess.run(
        ["bash", "-p", str(bundle / "entry.sh"), *command[3:]],
        env={**image, **own, "PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    argv = os.fsdecode(Path(f"{seen}.argv").read_bytes()).split("\0")[:-1]
    pairs = os.fsdecode(Path(f"{seen}.env").read_bytes()).split("\0")[:-1]
    got = dict(pair.split("=", 1) for pair in pairs)
    back = [(mine, theirs) for theirs, mine in places]
    return Started(
        argv,
        {
            name: _moved(name, value, back)
            for name, value in got.items()
            if name not in _OF_BASH and name not in image
        },
    )


def _moved(name: str, value: str, places: list[tuple[str, str]]) -> str:
    if name.startswith("CONFIGURATOR_") or name == "PYTHONPATH":
        for old, new in places:
            value = value.replace(old, new)
    return value
