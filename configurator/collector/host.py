"""What this host says of itself."""

from __future__ import annotations

import re
import subprocess
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version",
              "--format=csv,noheader")  # fmt: skip


def host_facts(targets: Iterable[str], pids: Iterable[int]) -> dict[str, Any]:
    """What this host is, as it says so, where an engine of `targets` runs on it; else empty."""
    local = any(urllib.parse.urlsplit(url).hostname in LOOPBACK for url in targets)
    process = any(Path(f"/proc/{pid}").is_dir() for pid in pids)
    if not local and not process:
        return {}
    # A port of the loopback may be forwarded to another host; a process may not.
    facts: dict[str, Any] = {"engine_seen": process}
    try:
        done = subprocess.run(NVIDIA_SMI, capture_output=True, timeout=20, check=False,
                              stdin=subprocess.DEVNULL)  # fmt: skip
        if done.returncode == 0:
            facts["gpus"] = done.stdout[:65536].decode("utf-8", "replace").strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        memory = Path("/proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return facts
    for key, name in (("MemTotal", "memory_kib"), ("MemAvailable", "memory_available_kib")):
        found = re.search(rf"^{key}:\s*(\d+) kB$", memory, re.M)
        if found:
            facts[name] = int(found[1])
    return facts
