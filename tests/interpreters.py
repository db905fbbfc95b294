"""Pythons of several versions, as engine images have them."""

from __future__ import annotations

import subprocess
import sys

import pytest


def engine_python(name: str) -> str:
    """An interpreter as engine images have one; the test is skipped where there is none."""
    if name == "this one":
        return sys.executable
    code = "import sys; print(sys.executable)"
    try:
        done = subprocess.run([name, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no {name} on this machine")
    return done.stdout.strip()
