"""Headers of safetensors files: names, dtypes and shapes of tensors, and no weight.

A file starts with the length of its header, 8 bytes little-endian, then the header as JSON, then
the weights. Source: the format description of huggingface/safetensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from configurator.errors import ConfiguratorError

LIMIT = 100_000_000
"""Bytes; the library's own limit for a header."""

_POINTER = b"version https://git-lfs"
_WIDTHS = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2,
    "U16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of an element; other types, such as those of 4 bits, are not held to one."""
_LARGEST = 1 << 63
_MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a safetensors header says of one tensor."""

    name: str
    dtype: str
    """As in the header: `BF16`, `F8_E4M3`, `U8`, ...; empty when only the index names it."""
    shape: tuple[int, ...] = ()
    size: int = 0
    """Bytes; 0 when only the index names it."""


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name.

    Raises:
        ConfiguratorError: CKPT002 when this is no whole safetensors file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if _POINTER.startswith(start) and len(start) == 8:
                raise _unreadable(path, "is a Git LFS pointer, not the weights", "run git lfs pull")
            if not 2 <= length <= min(LIMIT, size - 8):
                raise _unreadable(path, f"claims a header of {length} bytes and has {size} bytes")
            header = json.loads(file.read(length))
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, "has a header that is no JSON") from error
    tensors = _tensors(path, header)
    whole = 8 + length + sum(tensor.size for tensor in tensors.values())
    if size < whole:
        raise _unreadable(path, f"has {size} bytes of the {whole} that its header names")
    return tensors


def _tensors(path: Path, header: Any) -> dict[str, Tensor]:
    if not isinstance(header, dict):
        raise _unreadable(path, "has a header that is no mapping")
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            tensor = _tensor(name, entry)
            if tensor is None:
                raise _unreadable(path, f"has a header without a proper entry for {name[:80]!r}")
            tensors[name] = tensor
    return tensors


def _tensor(name: str, entry: Any) -> Tensor | None:
    if not isinstance(entry, dict):
        return None
    dtype = entry.get("dtype")
    shape, offsets = _naturals(entry.get("shape")), _naturals(entry.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        return None
    start, end = offsets
    tensor = Tensor(name, dtype, shape, end - start)
    return tensor if start <= end and _fits(tensor) else None


def _fits(tensor: Tensor) -> bool:
    """The bytes are as many as the shape takes, or for a type of any width not too few."""
    count, width = prod(tensor.shape), _WIDTHS.get(tensor.dtype)
    return count <= 8 * tensor.size if width is None else count * width == tensor.size


def _naturals(value: Any) -> tuple[int, ...] | None:
    fits = (
        isinstance(value, list)
        and len(value) <= _MOST_DIMENSIONS
        and all(type(item) is int and 0 <= item < _LARGEST for item in value)
    )
    return tuple(value) if fits else None


def _unreadable(path: Path, fact: str, remedy: str = "fetch the file again") -> ConfiguratorError:
    return ConfiguratorError.single("CKPT002", f"{path.name} {fact}", remedy)
