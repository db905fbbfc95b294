"""Facts of a tensor, and of the storage that it lies in."""

from __future__ import annotations

from typing import Any

from .run import Run


def value_of(tensor: Any) -> str:
    """The one number that the tensor holds."""
    return repr(float(tensor.detach().float()))


def bytes_of(tensor: Any) -> int:
    """Bytes of its elements."""
    return int(tensor.numel() * tensor.element_size())


def is_tensor(thing: Any) -> bool:
    """Whether it is one, parameter or not."""
    return callable(getattr(thing, "untyped_storage", None)) and hasattr(thing, "dtype")


def tensor_facts(run: Run, tensor: Any) -> dict[str, Any]:
    """dtype, shape, bytes and storage of a tensor, and its value if it is one number."""
    facts = {
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": [int(size) for size in tensor.shape],
        "nbytes": bytes_of(tensor),
        "device": str(tensor.device),
        "storage": run.label(tensor),
        "storage_offset": int(tensor.storage_offset()),
    }
    if tensor.numel() == 1:
        facts["value"] = value_of(tensor)
    return facts
