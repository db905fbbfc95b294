"""The entry point: hooks around loading the weights and around dividing the memory."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from .settings import NAME, RELEASES, RefusedError, granularity

SCHEDULER = "sglang.srt.managers.scheduler"
DETOKENIZER = "sglang.srt.managers.detokenizer_manager"
# Between the two the drafts are built; both come before any graph.
LOADING = "init_tp_model_worker"
DIVIDING = "init_memory_pools"


def register() -> None:
    """Entry point: hook the scheduler, or end the process.

    Raises:
        SystemExit: this engine is unknown or lacks a place to hook. The engine swallows any
            Exception of a plugin and would go on with a BF16 head.
    """
    try:
        granularity()
        reasons = [*unknown_release(), *lacking()]
        if reasons:
            raise RefusedError(reasons)
    except RefusedError as refusal:
        sys.stderr.write(f"{refusal}\n")
        raise SystemExit(str(refusal)) from None
    if DETOKENIZER in sys.modules and SCHEDULER not in sys.modules:
        return  # No scheduler runs here; a hook on it would import it, with all that it loads.
    hooking: Any = import_module("sglang.srt.plugins.hook_registry")
    # These import nothing of the engine before it calls them.
    from .hooked import around_dividing, around_loading

    for method, hook in ((LOADING, around_loading), (DIVIDING, around_dividing)):
        target = f"{SCHEDULER}.Scheduler.{method}"
        hooking.HookRegistry.register(target, hook, hooking.HookType.AROUND)


def unknown_release() -> list[str]:
    """Why this release is refused; [] for one that was read."""
    try:
        version = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        version = str(getattr(import_module("sglang"), "__version__", "without a version"))
    if version in RELEASES:
        return []
    return [f"SGLang {version} is unknown to it: run {' or '.join(RELEASES)}"]


def lacking() -> list[str]:
    """Methods of the scheduler that the plugin hooks and this engine has not.

    The text is searched: to import the scheduler here would be before other plugins have run.
    """
    try:
        spec = find_spec(SCHEDULER)
        if spec is None or not spec.origin:
            return [f"the engine has no {SCHEDULER}"]
        with open(spec.origin, encoding="utf-8") as file:
            text = file.read()
    except (ImportError, OSError, UnicodeDecodeError) as error:
        return [f"{SCHEDULER} cannot be read: {error}"]
    return [
        f"the engine's Scheduler has no {method}(self), which {NAME} hooks"
        for method in (LOADING, DIVIDING)
        if not re.search(rf"^    def {method}\(self\)", text, re.MULTILINE)
    ]
