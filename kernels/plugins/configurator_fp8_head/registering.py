"""Hooks: around loading the weights, dividing the memory, and every later update of weights."""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from .settings import NAME, RELEASES, RefusedError, granularity

SCHEDULER = "sglang.srt.managers.scheduler"
DETOKENIZER = "sglang.srt.managers.detokenizer_manager"
UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater"
# Between the two the drafts are built; both come before any graph.
LOADING = "init_tp_model_worker"
DIVIDING = "init_memory_pools"
UPDATES = (
    ("update_weights_from_disk",),
    ("update_weights_from_tensor",),
    # To 0.5.20, and from 0.5.21 on.
    ("update_weights_from_distributed", "load_weights_from_distributed"),
    ("update_weights_from_ipc",),
)
"""Ways to new weights, each by the names that releases have for it. Every one of them ends in a
method that returns whether it succeeded, and why not."""


def hook() -> None:
    """Hook the scheduler and what updates weights.

    Raises:
        RefusedError: this engine is unknown, lacks a place to hook, or is asked for a granularity
            that there is not.
    """
    granularity()
    reasons = [*unknown_release(), *lacking()]
    if reasons:
        raise RefusedError(reasons)
    if DETOKENIZER in sys.modules and SCHEDULER not in sys.modules:
        return  # No scheduler runs here; a hook on it would import it, with all that it loads.
    hooking: Any = import_module("sglang.srt.plugins.hook_registry")
    # These import nothing of the engine before it calls them.
    from .hooked import around_dividing, around_loading, around_updating

    places = {
        f"{SCHEDULER}.Scheduler.{LOADING}": around_loading,
        f"{SCHEDULER}.Scheduler.{DIVIDING}": around_dividing,
        **{f"{UPDATER}.WeightUpdater.{name}": around_updating for name in updates()},
    }
    for target, function in places.items():
        hooking.HookRegistry.register(target, function, hooking.HookType.AROUND)


def updates() -> list[str]:
    """Methods of this engine that update weights."""
    text = text_of(UPDATER)
    return [name for names in UPDATES for name in names if _has(text, name)]


def not_hooked() -> list[str]:
    """Hooks that the engine did not put into their place: it only logs that, and goes on."""
    registry: Any = import_module("sglang.srt.plugins.hook_registry").HookRegistry
    return [
        f"the engine did not hook {target}: its log says why ('Failed to apply hooks')"
        for target, hooks in registry._hooks.items()
        if target not in registry._patched
        and any(getattr(each[1], "__module__", "").startswith(NAME) for each in hooks)
    ]


def unknown_release() -> list[str]:
    """Why this release is refused; [] for one that was read."""
    try:
        version = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        version = str(getattr(import_module("sglang"), "__version__", "without a version"))
    if version in RELEASES:
        return []
    return [f"SGLang {version} is unknown to it: run one of {', '.join(RELEASES)}"]


def lacking() -> list[str]:
    """Methods that the plugin hooks and this engine has not.

    The text is searched: to import the scheduler here would be before other plugins have run.
    """
    try:
        scheduler, updater = text_of(SCHEDULER), text_of(UPDATER)
    except (ImportError, OSError, UnicodeDecodeError) as error:
        return [f"the engine cannot be read: {error}"]
    missing = [
        f"Scheduler has no {method}(self)"
        for method in (LOADING, DIVIDING)
        if not _has(scheduler, method, r"self\)")
    ]
    missing += [
        f"WeightUpdater has no {' or '.join(names)}"
        for names in UPDATES
        if not any(_has(updater, name) for name in names)
    ]
    return [f"the engine's {what}, which {NAME} hooks" for what in missing]


def text_of(module: str) -> str:
    """The source of a module of the engine.

    Raises:
        ImportError: there is none.
    """
    spec = find_spec(module)
    if spec is None or not spec.origin:
        raise ImportError(f"there is no {module}")
    with open(spec.origin, encoding="utf-8") as file:
        return file.read()


def _has(text: str, method: str, parameters: str = r"\s*self\b") -> bool:
    return re.search(rf"^    def {method}\({parameters}", text, re.MULTILINE) is not None
