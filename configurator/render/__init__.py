"""Deployment -> files. A target is one module with `render(deployment)`, and its templates."""

from __future__ import annotations

from configurator.render import bash
from configurator.render.files import RenderedFile, Target, fingerprint, write

TARGETS: dict[str, Target] = {"bash": bash.render}
"""Every target by the name that `--target` takes."""

__all__ = ["TARGETS", "RenderedFile", "Target", "fingerprint", "write"]
