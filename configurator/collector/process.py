"""What the system says of an engine's process."""

from __future__ import annotations

import re
from pathlib import Path

from .redaction import find_secrets
from .replica import Replica

ENGINE_VARIABLES = re.compile(
    r"(?:SGLANG|SGL|CUDA|NCCL|NVSHMEM|NVIDIA|GLOO|TORCH\w*|PYTORCH|TRITON|FLASHINFER|HUMMING|DG"
    r"|DEEP\w*|VLLM|HF|HUGGING\w*|TRANSFORMERS|SAFETENSORS|OMP|MKL|UCX|MC|MOONCAKE)_\w+"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH"
)
"""What an engine reads; the rest of a process's environment is nobody's business here."""


def process_environment(replica: Replica) -> dict[str, str] | None:
    """What the engine reads of its process's environment; None: not known."""
    if replica.pid is None:
        return None
    try:
        raw = Path(f"/proc/{replica.pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError as error:
        why = f"environment of {replica.pid}: {error.strerror}"
        replica.notes.append(f"replica {replica.index}: {why}")
        return None
    whole = {n: v for n, _, v in (entry.partition("=") for entry in raw.split("\0"))}
    replica.secrets |= find_secrets(whole)
    return {name: value for name, value in whole.items() if ENGINE_VARIABLES.fullmatch(name)}
