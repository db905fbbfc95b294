"""Deployment -> files. A target is one module with `render(deployment)`, and its templates."""

from __future__ import annotations

import dataclasses

from configurator.deployment import Deployment
from configurator.render import bash, compose, docker, dynamo, k8s, lws, slurm, systemd
from configurator.render.drift import drift, left_over
from configurator.render.files import RenderedFile, Target, fingerprint, write
from configurator.render.launches import Folders, listing

TARGETS: dict[str, Target] = {
    "bash": bash.render,
    "docker": docker.render,
    "compose": compose.render,
    "systemd": systemd.render,
    "k8s": k8s.render,
    "lws": lws.render,
    "dynamo": dynamo.render,
    "slurm": slurm.render,
}
"""Every target by the name that `--target` takes."""


def render_all(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """Every target, each in a folder of its own that is whole by itself."""
    return tuple(
        dataclasses.replace(file, path=f"{name}/{file.path}")
        for name, target in TARGETS.items()
        for file in target(deployment)
    )


__all__ = [
    "TARGETS",
    "Folders",
    "RenderedFile",
    "Target",
    "drift",
    "fingerprint",
    "left_over",
    "listing",
    "render_all",
    "write",
]
