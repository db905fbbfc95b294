"""Deployments for the tests of plans, and checkpoints whose weights are holes in files."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.resolve import resolve

LIBRARY = Library()
_HEAD = """\
apiVersion: configurator/v1
kind: Deployment
name: mine
"""
_SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E8M0": 1, "U8": 1, "I32": 4}


def shipped(name: str) -> Deployment:
    """A deployment that comes with the project."""
    return resolve(*LIBRARY.profile(name), LIBRARY)


def deployment(
    folder: Path,
    text: str = "",
    *,
    base: str | None = None,
    model: str = "{name: qwen3-8b}",
    hardware: str = "{name: h200, gpus: 1}",
) -> Deployment:
    """The deployment of a profile.

    Args:
        folder: where the profile is written.
        text: more of the profile.
        base: what it extends; else it is whole with the two that follow.
        model: `model:` of a whole profile.
        hardware: `hardware:` of a whole profile.
    """
    head = _HEAD + (
        f"extends: {base}\n"
        if base
        else f"engine: {{version: 0.5.23}}\nhardware: {hardware}\nmodel: {model}\n"
    )
    path = folder / "profile.yaml"
    path.write_text(head + text)
    return shipped(str(path))


def served(folder: Path, checkpoint: Path, text: str = "", **more: str) -> Deployment:
    """The deployment of a checkpoint on disk, of which no entry says anything."""
    model = f"{{name: unspecified, path: {checkpoint}}}"
    return deployment(folder, text, model=model, **more)


def checkpoint(
    folder: Path, config: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...]]]
) -> Path:
    """A checkpoint with these headers; its weights are a hole, so that size costs nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + prod(shape) * _SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    if header:
        data = json.dumps(header).encode()
        with (folder / "model.safetensors").open("wb") as file:
            file.write(len(data).to_bytes(8, "little") + data)
            file.truncate(8 + len(data) + end)
    return folder
