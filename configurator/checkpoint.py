"""Facts of a checkpoint on this machine: config.json, index and safetensors headers alone.

No weight is read, nothing of the checkpoint is executed, and the network is never used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a safetensors header says of one tensor."""

    name: str
    dtype: str
    """As in the header: `BF16`, `F8_E4M3`, `U8`, ...; empty when only the index names it."""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint directory."""

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    """config.json as it is; empty when there is none."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """By name; empty when neither an index nor a safetensors file is there."""


def read_checkpoint(path: Path) -> Checkpoint:
    """The facts of the checkpoint in a directory."""
    raise NotImplementedError
