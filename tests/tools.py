"""Real programs of the system that tests run: skipped where they are missing, unless all must run.

`./check --engine` installs them and sets CONFIGURATOR_REQUIRE_TOOLS=1, so that nothing is skipped
there.
"""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str) -> str:
    """The path of a program; without it the test is skipped, or fails where all must run."""
    found = shutil.which(program)
    if found is not None:
        return found
    if os.environ.get("CONFIGURATOR_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{program} is not installed, and CONFIGURATOR_REQUIRE_TOOLS is 1")
    pytest.skip(f"{program} is not installed")


def need_root(what: str) -> None:
    """Daemons and namespaces are made by root; another user's test is skipped, or fails."""
    if os.geteuid() == 0:
        return
    if os.environ.get("CONFIGURATOR_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{what} need root, and CONFIGURATOR_REQUIRE_TOOLS is 1")
    pytest.skip(f"{what} need root")
