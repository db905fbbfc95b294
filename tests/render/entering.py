"""The entry script under real bash: what the engine in a container receives in the end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from render.generated import Started
from render.recording import OF_BASH, recorded, recorder


def enter(
    bundle: Path, command: list[str], env: Mapping[str, str], folder: Path, **image: str
) -> Started:
    """Run what a container is told to, with this environment and that of its image.

    The bundle stands for /configurator, a folder for /var/configurator, and `python3` writes down
    what it gets.
    """
    tools = folder / "image-tools"
    recorder(tools, f"{folder}/entered")
    (folder / "entered.env").unlink(missing_ok=True)
    assert command[:3] == ["bash", "-p", "/configurator/entry.sh"], command[:3]
    places = [("/var/configurator", str(folder / "var")), ("/configurator", str(bundle))]
    own = {name: _moved(name, value, places) for name, value in env.items()}
    done = subprocess.run(
        ["bash", "-p", str(bundle / "entry.sh"), *command[3:]],
        env={**image, **own, "PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    got = recorded(folder / "entered")
    back = [(mine, theirs) for theirs, mine in places]
    return Started(
        got.argv,
        {
            name: _moved(name, value, back)
            for name, value in got.env.items()
            if name not in OF_BASH and name not in image
        },
    )


def _moved(name: str, value: str, places: list[tuple[str, str]]) -> str:
    if name.startswith("CONFIGURATOR_") or name == "PYTHONPATH":
        for old, new in places:
            value = value.replace(old, new)
    return value
