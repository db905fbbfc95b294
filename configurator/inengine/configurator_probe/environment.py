"""Variables of the engine that are set, without their secrets."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any

from .values import text_of

# Read by the engine without being declared in its registry.
_READ_ELSEWHERE = ("SGLANG_RUN_ID", "SGLANG_USE_CPU_ENGINE", "SGLANG_CPU_OMP_THREADS_BIND")
SECRET = re.compile(  # as the collector has it
    r"(?!(?:\w+_)?(?:bos|eos|pad|unk|cls|sep|mask|image|audio|video|stop)_token(?![\w.-]))[\w.-]*?(?:"
    r"(?i:(?:api|access|private|admin|secret|signing|watermark)[-_ ]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization|(?<![a-z])(?:cookies?|creds|jwt)"
    r"|(?<!per[-_])(?<!first[-_])token|(?<=[a-z0-9][-_.])(?:auth|pwd|pat))|[a-z]Cookie"
    r"|[A-Z0-9]_(?:(?<!GRAPH_)(?<!CACHE_)KEY|(?<!PER_)(?<!FIRST_)TOKEN|PAT|PWD|AUTH)(?:_?\d+)?"
    r"|(?:SECRET|PASSWO?R?D|PASSPHRASE|CREDENTIALS?|API_?KEY|AUTH|COOKIE)(?:_[A-Z0-9]{1,32}){1,4})"
)
_IN_ADDRESS = re.compile(r"://[^/@\s]+@")


def _shown(name: str, value: str, is_secret: bool = False) -> str:
    if is_secret or SECRET.fullmatch(name):
        return "(redacted)"
    return _IN_ADDRESS.sub("://(redacted)@", value)[:300]


def environment_facts() -> dict[str, Any]:
    """Variables of the engine that are set: declared in its registry, read elsewhere, neither."""
    module = import_module("sglang.srt.environ")
    registry = vars(module.Envs)
    outdated = getattr(module, "_DEPRECATED_ENVS", {})
    kinds = ("registered", "read_elsewhere", "unregistered", "renamed", "simulated_acceptance")
    facts: dict[str, Any] = {kind: {} for kind in kinds}
    for name, value in sorted(os.environ.items()):
        ours = name.startswith(("SGLANG_", "SGL_"))
        if name.startswith("_") or not (ours or name in registry):
            continue
        if name.startswith("SGL_SIMULATE_ACC"):
            facts["simulated_acceptance"][name] = _shown(name, value)
        if name in outdated:
            facts["renamed"][name] = text_of(getattr(outdated[name], "replacement", None))
        elif name.startswith("SGL_"):
            # The engine gives the variable its present name and prefix itself.
            facts["renamed"][name] = f"SGLANG_{name[4:]}"
        else:
            shown = _shown(name, value, bool(getattr(registry.get(name), "secret", False)))
            kind = "read_elsewhere" if name in _READ_ELSEWHERE else "unregistered"
            facts["registered" if name in registry else kind][name] = shown
            if name.startswith("SGLANG_SIMULATE_ACC"):
                facts["simulated_acceptance"][name] = shown
    return facts
