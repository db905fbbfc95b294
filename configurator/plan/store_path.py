"""Where predictions are kept; apart, so that whoever has none pays nothing for reading them."""

from __future__ import annotations

import os
from pathlib import Path


def default_store() -> Path:
    """Where predictions are kept: below XDG_STATE_HOME, else ~/.local/state."""
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "configurator" / "predictions.jsonl"
