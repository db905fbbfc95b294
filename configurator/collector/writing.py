"""Files of the evidence, redacted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .redaction import redact_json, redact_text


def write(path: Path, value: Any, secrets: Iterable[str]) -> None:
    """Write redacted text or JSON in one step: no reader sees half a file."""
    if isinstance(value, str):
        text = redact_text(value, secrets)
    else:
        text = json.dumps(redact_json(value, secrets), indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    partial.write_text(text, encoding="utf-8", errors="replace")
    os.replace(partial, path)
