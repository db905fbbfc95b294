"""Where predictions and figures of hosts are kept; apart, so that whoever has none pays nothing for
reading them."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def default_store() -> Path:
    """Where predictions are kept: below XDG_STATE_HOME, else ~/.local/state."""
    return _state() / "predictions.jsonl"


def default_figures() -> Path:
    """Where the figures of this host's self-tests are kept, in the same folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", platform.node()).lstrip(".") or "host"
    return _state() / "hosts" / f"{name}.json"


def _state() -> Path:
    """The folder of both; by its specification a relative XDG_STATE_HOME does not count."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "configurator"
