"""What the system says of an engine's process."""

from __future__ import annotations

import re
from pathlib import Path

from .listeners import server_of
from .redaction import find_secrets
from .replica import Replica

ENGINE_VARIABLES = re.compile(
    r"(?:SGLANG|SGL|CUDA|NCCL|NVSHMEM|NVIDIA|GLOO|TORCH\w*|PYTORCH|TRITON|FLASHINFER|HUMMING|DG"
    r"|DEEP\w*|VLLM|HF|HUGGING\w*|TRANSFORMERS|SAFETENSORS|OMP|MKL|UCX|MC|MOONCAKE)_\w+"
    r"|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH"
)
"""What an engine reads; the rest of a process's environment is nobody's business here."""


def learn_secrets(replica: Replica) -> None:
    """What the process has in its environment must not stand in its log, whoever it is."""
    found = None if replica.pid is None else _environment(replica.pid)
    own = find_secrets(found, replica.kept) if isinstance(found, dict) else set()
    replica.secrets |= own


def find_process(replica: Replica) -> None:
    """Make sure that the process is the server, and read what the engine reads of its environment.

    An environment of another process proves nothing of this server, and so it is left out.
    """
    if replica.pid is None:
        return
    replica.process, why = server_of(replica.client.url, replica.pid)
    if replica.process is None:
        which = f"process {replica.pid} is not known to be the server at {replica.client.url}"
        replica.note(f"{which}, its environment is left out: {why}")
        return
    found = _environment(replica.process)
    if isinstance(found, str):
        replica.note(f"environment of {replica.process}: {found}")
        return
    replica.secrets |= find_secrets(found, replica.kept)
    replica.own = {n: value for n, value in found.items() if ENGINE_VARIABLES.fullmatch(n)}


def _environment(pid: int) -> dict[str, str] | str:
    """The variables that a process was started with; why they cannot be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError as error:
        return error.strerror or str(error)
    found = {name: value for name, sign, value in
             (entry.partition("=") for entry in raw.split("\0")) if name and sign}  # fmt: skip
    # A process that gives itself another title writes it over its environment.
    return found or "it holds no variable, as after the process has ended or named itself anew"
