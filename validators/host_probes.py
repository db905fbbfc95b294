"""Probes of the host, as its own tools describe it to a collector that runs beside the engine."""

from __future__ import annotations

import re
from collections import Counter

from configurator import (
    Check,
    Observation,
    Outcome,
    Rung,
    inconclusive,
    not_applicable,
    probe,
    proven,
    refuted,
)

_UNIFIED = re.compile(r"\bGB10\b")
_WHOLE_GIB = 115
"""Below this a GB10, which has 119.7 GiB, does not show all of its memory."""
_CAPPED_GIB = 64
"""What is above is above the cap that was seen, 62 GB."""
_AVAILABLE = re.compile(r"Load weight begin\. avail mem=(\d+(?:\.\d+)?) GB")
_NOT_LOOKED = "nobody looked at the host from beside the engine"
_NOT_SHOWN = "nothing shows that the engine runs on this host"


@probe("gpus-alike", kind="invariant", proof_rung="resolved")
def gpus_alike(check: Check) -> Outcome:
    """The GPUs of this host that the engine needs have one compute capability.

    Proven: nvidia-smi lists GPUs of one compute capability.

    Refuted: it lists several, and fewer of any one than ranks run here. A kernel that exists for
    one and not for the other ends the start while graphs are captured, where it looks like want of
    memory.

    Open: it lists several, and there are enough of one, or nothing shows that the engine runs
    there, for a port may be forwarded. Not applicable with one rank, or where the engine's host
    was not looked at.
    """
    host, ranks = check.replica.host, _ranks_here(check)
    gpus = [gpu for gpu in host.gpus if gpu.arch] if host else []
    if ranks == 1:
        return not_applicable("one rank runs on one GPU")
    if not gpus:
        return not_applicable("nvidia-smi knows no GPU here" if host else _NOT_LOOKED)
    counted = Counter(gpu.arch for gpu in gpus)
    seen = [
        Observation(
            "host", "GPUs", f"{number} x {arch}", Rung.RESOLVED, "manifest.json#/host/gpus",
            ", ".join(sorted({gpu.product for gpu in gpus if gpu.arch == arch})),
        )
        for arch, number in sorted(counted.items())
    ]  # fmt: skip
    shown = ", ".join(f"{observation.value} ({observation.excerpt})" for observation in seen)
    certain = _is_the_engines(check)
    if len(counted) == 1 and not certain:
        return not_applicable(f"{_NOT_SHOWN}: {shown}", *seen)
    if not certain:
        return inconclusive(
            Rung.RESOLVED, f"{_NOT_SHOWN}, but its GPUs are not alike: {shown}", *seen,
            remedy="check on the engine's host, with --pid",
        )  # fmt: skip
    if len(counted) == 1:
        return proven(Rung.RESOLVED, f"the GPUs are alike: {shown}", *seen)
    if ranks is None or max(counted.values()) >= ranks:
        return inconclusive(
            Rung.RESOLVED, f"the GPUs are not alike: {shown}", *seen,
            remedy="give the engine GPUs of one kind: CUDA_VISIBLE_DEVICES",
        )  # fmt: skip
    return refuted(
        Rung.RESOLVED, f"{ranks} ranks run here, and the GPUs are not alike: {shown}", *seen,
        remedy="use GPUs of one compute capability, or a tensor parallel size that those have",
    )  # fmt: skip


def _is_the_engines(check: Check) -> bool:
    """The host that was looked at is the engine's: its process was there, or its GPU is."""
    host = check.replica.host
    if host is None:
        return False
    names = {report.device.get("name") for report in check.replica.reports}
    return host.engine_seen or any(gpu.product in names for gpu in host.gpus)


def _ranks_here(check: Check) -> int | None:
    """GPUs that one engine takes on one host; None where that is not known."""
    info = check.replica.server_info or check.replica.server_info_startup
    if info is None:
        if check.deployment is None:
            return None
        return max(1, check.deployment.gpus_per_replica // check.deployment.hosts_per_replica)
    sizes = [info.get(name) for name in ("tp_size", "pp_size", "nnodes")]
    if not isinstance(sizes[0], int):
        return None
    tensor, pipeline, hosts = (size if isinstance(size, int) and size > 0 else 1 for size in sizes)
    return max(1, tensor * pipeline // hosts)


@probe("gpu-memory-whole", kind="invariant", proof_rung="resolved")
def gpu_memory_whole(check: Check) -> Outcome:
    """A GPU that shares the host's memory (GB10) sees all of it.

    Proven: it tells 115 GiB or more, or the log has more than 64 GB available before the weights.

    Open: less. A modprobe file that caps the GPU's memory at 62 GB is known to do that, and so
    does memory in use by others; neither is certain. Not applicable to other GPUs, or where the
    engine's host was not looked at.
    """
    host = check.replica.host
    if host is None:
        return not_applicable(_NOT_LOOKED)
    gpu = next((gpu for gpu in host.gpus if _UNIFIED.search(gpu.product)), None)
    if gpu is None:
        return not_applicable("no GPU here shares the host's memory")
    if not _is_the_engines(check):
        return not_applicable(f"{_NOT_SHOWN}, which has a {gpu.product}")
    told = gpu.memory_gib if gpu.memory_gib is not None else _small(host.memory_gib)
    if told is not None:
        seen = Observation(
            "host", "memory", f"{told:.1f} GiB", Rung.RESOLVED, "manifest.json#/host", gpu.product
        )
        if told >= _WHOLE_GIB:
            return proven(Rung.RESOLVED, f"{gpu.product} has {told:.1f} GiB", seen)
        text = f"{gpu.product} has {told:.1f} GiB, and 119.7 are built in"
        return inconclusive(Rung.RESOLVED, text, seen, remedy=_CAP)
    for line, found in check.replica.said(_AVAILABLE, while_starting=True):
        seen = Observation(
            "log", "available", f"{found[1]} GB", Rung.BUILT, f"server.log:{line.number}"
        )
        text = f"{found[1]} GB were available before the weights"
        if float(found[1]) > _CAPPED_GIB:
            return proven(Rung.BUILT, f"{text}: no cap of 62 GB", seen)
        return inconclusive(Rung.BUILT, text, seen, remedy=_CAP)
    text = f"{gpu.product}: nvidia-smi does not tell its memory"
    return inconclusive(None, text, remedy="keep the server's log from its start")


def _small(gib: float | None) -> float | None:
    """The host's memory where it is too small; a large one does not say what the GPU may take."""
    return gib if gib is not None and gib < _WHOLE_GIB else None


_CAP = (
    "look for /etc/modprobe.d/zz-nvidia-drm-override.conf, which is known to cap it (a hint, not a "
    "certain cause), and for other processes that hold memory"
)
