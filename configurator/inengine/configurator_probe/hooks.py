"""Where the engine is hooked, by version, and which of the hooks it took."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .values import get

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_DETOKENIZER = "sglang.srt.managers.detokenizer_manager"
READY_HOOK = f"{_SCHEDULER}.get_init_info"
LOADED_HOOK = f"{_SCHEDULER}.init_all_attention_backends"
# Newer engines answer from a part of their own; the scheduler's method hands on to it.
STATE_HOOKS = (
    "sglang.srt.managers.scheduler_components.internal_state"
    ".SchedulerInternalStateController.get_internal_state",
    f"{_SCHEDULER}.get_internal_state",
)

_hooks: dict[str, Any] = {"registered": [], "missing": {}}


def known() -> dict[str, Any]:
    """Hooks that this engine can take, and why it cannot take the others."""
    return _hooks


def hook_facts() -> dict[str, Any]:
    """Hooks of ours that the engine applied, and those that it did not."""
    registry = sys.modules.get("sglang.srt.plugins.hook_registry")
    patched = get(registry, "HookRegistry._patched")
    names = list(_hooks["registered"])
    missing = dict(_hooks["missing"])
    if isinstance(patched, set):
        missing.update({name: "not applied" for name in names if name not in patched})
    return {"applied": [name for name in names if name not in missing], "missing": missing}


def missing_reason(target: str) -> str | None:
    """Why a hook on `target` could not be applied; None when it can.

    A module that is not imported yet is searched as text: importing the scheduler here would
    import it before other plugins have run.
    """
    module, holder, method = target.rsplit(".", 2)
    loaded = sys.modules.get(module)
    if loaded is not None:
        known = callable(getattr(getattr(loaded, holder, None), method, None))
        return None if known else f"{module} has no {holder}.{method}"
    try:
        spec = find_spec(module)
    except Exception as error:
        return f"{module} cannot be found: {error}"
    if spec is None or not spec.origin:
        return f"there is no {module}"
    if not spec.origin.endswith(".py"):
        return None
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    lines = rf"^class {holder}\b", rf"^\s+(async )?def {method}\b"
    if all(re.search(line, text, re.MULTILINE) for line in lines):
        return None
    return f"the text of {module} has no {holder}.{method}"


def take(groups: Iterable[tuple[tuple[str, ...], Any]]) -> None:
    """Hook each function to the first of its targets that this engine has."""
    if _DETOKENIZER in sys.modules and _SCHEDULER.rpartition(".")[0] not in sys.modules:
        return  # No scheduler runs here; a hook on it would import it, with all that it loads.
    module = import_module("sglang.srt.plugins.hook_registry")
    for targets, hook in groups:
        reasons = {target: missing_reason(target) for target in targets}
        target = next((name for name in targets if reasons[name] is None), None)
        if target is None:
            _hooks["missing"].update(reasons)
            continue
        module.HookRegistry.register(target, hook, module.HookType.AFTER)
        _hooks["registered"].append(target)
