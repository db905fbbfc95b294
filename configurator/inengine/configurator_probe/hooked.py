"""What runs in the hooks: reports are made, kept and handed on."""

from __future__ import annotations

import sys
from typing import Any

from .building import build, opening
from .gathering import KEY, gather, publish
from .run import Run
from .writing import file_name, required, write

RANKS_KEY = "configurator_probe_ranks"
_last: dict[str, Any] | None = None


def make(scheduler: Any, stage: str) -> dict[str, Any]:
    """Build and write the report; what went wrong is in it, and raised if that is required."""
    failure: Exception | None = None
    try:
        report = build(scheduler, stage)
    except Exception as error:
        failure = error
        text = f"{type(error).__name__}: {error}"
        run = Run(stage)
        report = opening(run, scheduler, stage)
        report["errors"] = [{"part": "all", "error": text}, *run.errors]
    try:
        write(file_name(report), report)
    except Exception as error:
        failure = failure or error
        sys.stderr.write(f"configurator_probe: the report cannot be written: {error!r}\n")
    if failure is not None and required() and stage == "ready":
        raise RuntimeError(f"configurator_probe: no report: {failure!r}") from failure
    return report


def after_loaded(result: Any, *args: Any, **kwargs: Any) -> Any:
    """All that is left of a start that dies of its first graph: weights loaded, heads shared."""
    make(args[0], "loaded")
    return result


def after_ready(result: Any, *args: Any, **kwargs: Any) -> Any:
    """Everything is built."""
    global _last
    _last = make(args[0], "ready")
    if isinstance(result, dict):
        result[KEY] = _last
    publish(_last)
    return result


def after_state(result: Any, *args: Any, **kwargs: Any) -> Any:
    """The engine answers /server_info: the only way over HTTP with several replicas."""
    state = getattr(result, "internal_state", None)
    if isinstance(state, dict) and _last is not None:
        state[KEY] = _last
        try:
            state[RANKS_KEY] = gather()
        except Exception as error:
            sys.stderr.write(f"configurator_probe: no report of other ranks: {error!r}\n")
    return result
