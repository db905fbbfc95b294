"""The host as its own tools describe it: GPUs of nvidia-smi, memory of the system."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_UNITS = {"MiB": 1 / 1024, "GiB": 1.0, "KiB": 1 / 1024**2}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi has it."""

    product: str
    memory: str
    """As written, `[N/A]` on unified memory."""
    arch: str
    """`sm_90`; empty where it is not told."""
    driver: str

    @property
    def memory_gib(self) -> float | None:
        """Its memory in GiB; None where it is not told."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?) (KiB|MiB|GiB)", self.memory)
        return float(found[1]) * _UNITS[found[2]] if found else None


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that an engine runs on."""

    gpus: tuple[Gpu, ...] = ()
    memory_gib: float | None = None
    """Of the system, in all; on unified memory the GPU's too."""
    available_gib: float | None = None
    engine_seen: bool = False
    """The engine's process was seen here; a port may be forwarded to another machine."""


def parse_gpus(lines: Iterable[str]) -> tuple[Gpu, ...]:
    """Lines of nvidia-smi's CSV (name, memory.total, compute_cap, driver_version).

    What it does not tell (`[N/A]`) is left empty; other lines are passed over.
    """
    found = []
    for line in lines:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4:
            major, dot, minor = parts[2].partition(".")
            known = dot and major.isdecimal() and minor.isdecimal()
            found.append(Gpu(parts[0], parts[1], f"sm_{major}{minor}" if known else "", parts[3]))
    return tuple(found)


def host_of(data: Any) -> Host | None:
    """The host as a manifest has it; None where nothing was recorded."""
    if not isinstance(data, dict):
        return None
    lines = data.get("gpus")
    gpus = parse_gpus(map(str, lines)) if isinstance(lines, list) else ()
    memory, available = _gib(data.get("memory_kib")), _gib(data.get("memory_available_kib"))
    seen = data.get("engine_seen") is True
    return Host(gpus, memory, available, seen) if gpus or memory else None


def _gib(kib: Any) -> float | None:
    return kib / 1024**2 if isinstance(kib, int) and not isinstance(kib, bool) else None
