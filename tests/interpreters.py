"""Pythons of several versions, as engine images have them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest


def engine_python(name: str) -> str:
    """An interpreter as engine images have one; the test is skipped where there is none."""
    if name == "this one":
        return sys.executable
    command = [name, "-c", "import sys; print(sys.executable)"]
    # pyenv has a command for every version, which works where that version is asked for.
    for more in ({}, {"PYENV_VERSION": name.removeprefix("python")}):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=os.environ | more
            )
            return done.stdout.strip()
    # No package of Debian has one, so it is not required where everything else is.
    pytest.skip(f"no {name} on this machine")
