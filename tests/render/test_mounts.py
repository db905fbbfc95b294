"""Checkpoints that lie where no container can have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.render import TARGETS
from configurator.resolve import resolve

IN_CONTAINERS = ("docker", "compose", "k8s", "lws", "dynamo")
HEAD = (
    "apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: ling-3.0-flash-spark-dspark\n"
)
OWN = "which the container has of its own"


def of(folder: Path, model: str, draft: str = "/models/draft") -> Deployment:
    path = folder / "p.yaml"
    path.write_text(
        f"{HEAD}model:\n  path: {json.dumps(model)}\n"
        f"optimizations: {{dspark: {{draft: {{path: {json.dumps(draft)}}}}}}}\n"
    )
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


@pytest.mark.parametrize("target", IN_CONTAINERS)
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/models/a:b", "Kubernetes mounts no path with a colon or '..'"),
        ("/models/../b", "Kubernetes mounts no path with a colon or '..'"),
        ("/configurator", f"it would hide /configurator, {OWN}"),
        ("/configurator//", f"it would hide /configurator, {OWN}"),
        ("/configurator/model", "/configurator is the container's own"),
        ("/var/configurator/model", "/var/configurator is the container's own"),
        ("/var", f"it would hide /var/configurator, {OWN}"),
        ("/", f"it would hide /configurator, {OWN}"),
        ("/dev/shm", f"it would hide /dev/shm, {OWN}"),
        ("/root", f"it would hide /root/.cache, {OWN}"),
    ],
)
def test_a_path_that_no_container_takes_is_refused(
    tmp_path: Path, target: str, path: str, why: str
) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        TARGETS[target](of(tmp_path, path))
    (problem,) = caught.value.problems
    assert problem.code == "RND009"
    assert problem.message == f"{path} cannot be mounted into a container: {why}"
    assert str(problem.position) == f"{tmp_path}/p.yaml:6:3"


def test_a_draft_is_looked_at_too(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"p\.yaml:7:\d+: RND009 /a:b cannot be mounted"):
        TARGETS["compose"](of(tmp_path, "/models/x", "/a:b"))


@pytest.mark.parametrize("path", ["/models/x", "/configurators", "/root/.cache/x", "/dev/shm/x"])
def test_other_paths_are_mounted(tmp_path: Path, path: str) -> None:
    for target in IN_CONTAINERS:
        assert any(path in file.text for file in TARGETS[target](of(tmp_path, path)))


@pytest.mark.parametrize("target", ["bash", "systemd", "slurm"])
def test_where_nothing_is_mounted_any_path_will_do(tmp_path: Path, target: str) -> None:
    TARGETS[target](of(tmp_path, "/models/a:b"))
