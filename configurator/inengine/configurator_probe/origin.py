"""Who speaks: which rank of which start, on what versions and device."""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from typing import Any

from .values import get, integer, text_of

PROBE = 1
RANKS = ("tp_rank", "pp_rank", "dp_rank")
_SIZES = ("tp_size", "pp_size", "dp_size", "ep_size")


def rank_facts(scheduler: Any) -> dict[str, int | None]:
    """Ranks and sizes, from where this version of the engine keeps them."""
    try:
        current = import_module("sglang.srt.runtime_context").get_parallel()
    except Exception:
        current = None
    holders = [get(scheduler, "ps"), current, scheduler, get(scheduler, "server_args")]
    facts: dict[str, int | None] = {}
    for name in (*RANKS, *_SIZES):
        values = (integer(get(holder, name)) for holder in holders if holder is not None)
        facts[name] = next((value for value in values if value is not None), None)
    return facts


def start_facts(scheduler: Any) -> dict[str, Any]:
    """Which start this is: its seed is drawn once, and is that of every rank on every host."""
    spaces, args = "/proc/self/ns/pid", get(scheduler, "server_args")
    space = os.readlink(spaces) if os.path.islink(spaces) else ""
    seed = get(scheduler, "tp_worker.random_seed", get(scheduler, "random_seed"))
    return {
        "random_seed": integer(seed),
        "port": integer(getattr(args, "port", None)),
        # Where a process number is of one process; the host's own name is nobody's business.
        "host": sha256(f"{os.uname().nodename} {space}".encode()).hexdigest()[:12],
        "model_path": os.path.basename(str(getattr(args, "model_path", "")).rstrip("/")),
    }


def version_facts() -> dict[str, Any]:
    """Versions of the engine, torch, Python and this probe."""
    engine = getattr(sys.modules.get("sglang"), "__version__", None)
    if engine is None:
        engine = version("sglang")
    torch = sys.modules.get("torch")
    return {
        "engine": text_of(engine),
        "torch": text_of(getattr(torch, "__version__", None)),
        "cuda": text_of(get(torch, "version.cuda")),
        "python": ".".join(map(str, sys.version_info[:3])),
        "probe": PROBE,
    }


def device_facts(scheduler: Any) -> dict[str, Any]:
    """The device of this rank."""
    kind = str(getattr(scheduler, "device", "") or "")
    facts: dict[str, Any] = {"type": kind or None}
    cuda = get(sys.modules.get("torch"), "cuda")
    if kind.startswith("cuda") and cuda is not None and cuda.is_initialized():
        facts["name"] = cuda.get_device_name()
        facts["capability"] = list(cuda.get_device_capability())
        facts["allocated_bytes"] = cuda.memory_allocated()
    return facts
