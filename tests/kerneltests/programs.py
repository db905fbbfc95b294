"""Self-tests of every behaviour, as a user would put them beside a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIGURE = {"value": 1.9, "unit": "", "low": 1.8, "high": 2.0, "runs": 50}


def answer(verdict: str = "ok", reason: str = "", **figures: Any) -> dict[str, Any]:
    """What a self-test with one check prints."""
    check = {"name": "numbers", "verdict": verdict, "reason": reason}
    return {"checks": [check], "figures": figures, "machine": {"gpu": "NVIDIA H200", "gpus": 1}}


def printing(data: object) -> str:
    """A program that prints one object."""
    return f'"""Prints what it is told."""\nprint({json.dumps(data)!r})\n'


def content(folder: Path, **programs: str) -> Path:
    """A content directory with the self-tests `NAME_selftest.py`."""
    kernels = folder / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (kernels / f"{name}_selftest.py").write_text(text, encoding="utf-8")
    return folder


def kernel(folder: Path, name: str, selftests: str, packages: str = "[]") -> None:
    """An entry `kernels/NAME.yaml` that names self-tests."""
    text = f"""apiVersion: configurator/v1
kind: Kernel
name: {name}
summary: a kernel of mine
family: moe
status: released
needs: {{packages: {packages}}}
selftests: {selftests}
"""
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / f"{name}.yaml").write_text(text, encoding="utf-8")
