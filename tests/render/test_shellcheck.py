"""ShellCheck on every script of every target, rendered from every deployment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from render.cluster_rules import of_kind, rendered
from render.deployments import SHIPPED, every
from stand_in import shellcheck

from configurator.deployment import Deployment
from configurator.render import TARGETS

CLUSTER = ("k8s", "lws", "dynamo")
WHOLE = len(SHIPPED) + 25
"""How many deployments are followed through their data; of more only words and values differ."""
_HEAD = re.compile(r"(?:#.*\n)+")
_LAUNCH = re.compile(r"\blaunch [0-9a-f]{16}\b")


def scripts(deployment: Deployment, target: str) -> Iterator[tuple[str, str]]:
    """Name and text of every script, for manifests those in their ConfigMaps."""
    if target not in CLUSTER:
        for file in TARGETS[target](deployment):
            if file.path.endswith((".sh", ".sbatch")):
                yield file.path, file.text
        return
    for one in of_kind(rendered(deployment, target).objects, "ConfigMap"):
        for name, text in one["data"].items():
            if name.endswith(".sh"):
                yield name, text


def as_read(text: str) -> str:
    """What ShellCheck judges: not the comment at the top, and no digest of the launch.

    Most scripts of a container are the same but for these, and each takes it a tenth of a second.
    """
    head = _HEAD.match(text)
    assert head
    assert "shellcheck" not in head[0]
    return _LAUNCH.sub("launch 0", f"{text.splitlines()[0]}\n{text[head.end() :]}")


@pytest.mark.parametrize("target", TARGETS)
def test_shellcheck_has_nothing_to_say(target: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    found: dict[str, Path] = {}
    whole: list[Path] = []
    engines = 0
    for number, deployment in enumerate(every(tmp_path / "keys")):
        engines += sum(process.role == "engine" for process in deployment.processes)
        mine = dict(scripts(deployment, target))
        assert mine
        for name, text in mine.items():
            read = as_read(text)
            if read not in found:
                found[read] = tmp_path / f"{deployment.name}-{name.replace('/', '-')}"
                found[read].write_text(read, newline="")
                whole += [found[read]] if number < WHOLE else []
    assert len(set(found.values())) == len(found)
    shellcheck(*whole)
    shellcheck(*(path for path in found.values() if path not in whole), dataflow=False)
    if target in ("bash", "docker", "slurm", "systemd"):
        assert len(found) >= engines > 190  # each has a script of its own
