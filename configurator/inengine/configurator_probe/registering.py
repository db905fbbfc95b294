"""The entry point: which function is hooked where, and word of what this engine lacks."""

from __future__ import annotations

import os
import sys

from .hooked import after_loaded, after_ready, after_state
from .hooks import LOADED_HOOK, READY_HOOK, STATE_HOOKS, known, take
from .origin import PROBE
from .writing import required, write

HOOKS_SCHEMA = "configurator/hooks/1"
_GROUPS = (((READY_HOOK,), after_ready), ((LOADED_HOOK,), after_loaded), (STATE_HOOKS, after_state))


def register() -> None:
    """Entry point: register the hooks, and leave word of those that this engine lacks."""
    problem = None
    try:
        take(_GROUPS)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    problem = problem or known()["missing"].get(READY_HOOK)
    facts = {"schema": HOOKS_SCHEMA, "pid": os.getpid(), "probe": PROBE, **known()}
    try:
        write(f"hooks-{os.getpid()}.json", {**facts, "error": problem})
    except Exception as error:
        problem = problem or f"the report directory cannot be written: {error}"
    if problem is not None:
        sys.stderr.write(f"configurator_probe: {problem}\n")
        if required():
            # The engine swallows an Exception of a plugin and goes on without it.
            raise SystemExit(f"configurator_probe: no report can be made: {problem}")
