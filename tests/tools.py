"""Real programs that tests run: skipped where they are missing, unless all must run.

`./check --engine` installs them and sets CONFIGURATOR_REQUIRE_TOOLS=1, so that nothing is skipped
there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def need(program: str) -> str:
    """The path of a program; without it the test is skipped, or fails where all must run."""
    found = shutil.which(program)
    if found is None:
        missing(f"{program} is not installed")
    return found


def need_root(what: str) -> None:
    """Daemons and namespaces are made by root; another user's test is skipped, or fails."""
    if os.geteuid() == 0:
        return
    missing(f"{what} need root")


def need_engine() -> Path:
    """A Python that has the real engine, SGLang 0.5.23."""
    name = os.environ.get("CONFIGURATOR_ENGINE_PYTHON")
    if not name or not Path(name).is_file():
        missing("CONFIGURATOR_ENGINE_PYTHON names no Python with sglang 0.5.23")
    return Path(name)


def missing(what: str) -> NoReturn:
    """End the test: skipped, or failed where nothing may be missing."""
    if os.environ.get("CONFIGURATOR_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{what}, and CONFIGURATOR_REQUIRE_TOOLS is 1")
    pytest.skip(what)
