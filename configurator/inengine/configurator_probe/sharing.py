"""The LM head of a draft held against the target's: shared, equal or another."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from .heads import head_of, head_tensors
from .run import Run
from .tensors import bytes_of, value_of
from .values import class_of

_COMPARED_BYTES = 4 << 30
_BLOCK_BYTES = 16 << 20
_BLOCKS = 32


def same_bytes(run: Run, ours: Any, theirs: Any) -> tuple[bool | None, str]:
    """Whether two tensors hold the same bytes, and how much of them was compared."""
    torch = import_module("torch")
    if ours.dtype != theirs.dtype or tuple(ours.shape) != tuple(theirs.shape):
        return False, "dtype or shape differ"
    if ours.device != theirs.device or not ours.numel() or not ours.dim():
        return None, "not compared"
    rows = int(ours.shape[0])
    size = bytes_of(ours)
    block = max(1, _BLOCK_BYTES * rows // size)
    starts = list(range(0, rows, block))
    sampled = size > _COMPARED_BYTES
    if sampled:
        starts = starts[:: max(1, len(starts) // _BLOCKS)]
    for count, start in enumerate(starts):
        if count and time.perf_counter() - run.start > run.comparing_seconds:
            return True, f"sample of {count * block} of {rows} rows"
        pair = [tensor.detach()[start : start + block].contiguous() for tensor in (ours, theirs)]
        if not torch.equal(pair[0].view(torch.uint8), pair[1].view(torch.uint8)):
            return False, "all" if not sampled else "sample"
    return True, f"sample of {len(starts) * block} of {rows} rows" if sampled else "all"


def sharing_facts(run: Run, target: Any, draft: Any) -> dict[str, Any] | None:
    """How the LM head of a draft relates to the target's; None where one has no head."""
    ours, theirs = head_of(target)[1], head_of(draft)[1]
    if ours is None or theirs is None:
        return None
    one, other = (class_of(getattr(head, "quant_method", None)) for head in (ours, theirs))
    facts: dict[str, Any] = {"same_module": ours is theirs, "same_quant_method": one == other}
    first, second = head_tensors(ours), head_tensors(theirs)
    for name in sorted(set(first) | set(second)):
        if name in first and name in second:
            arguments = (run, first[name], second[name], name == "weight")
            facts[name] = run.part(f"sharing.{name}", _pair, *arguments)
        else:
            facts[name] = {"only_in": "target" if name in first else "draft"}
    return facts


def _pair(run: Run, ours: Any, theirs: Any, is_weight: bool) -> dict[str, Any]:
    """One tensor of the target's head and the draft's of the same name."""
    places = [(run.label(t), int(t.storage_offset()), tuple(t.shape)) for t in (ours, theirs)]
    facts: dict[str, Any] = {
        "same_parameter": ours is theirs,
        "same_storage": places[0] == places[1] and places[0][0] != "empty",
        "same_dtype_shape": ours.dtype == theirs.dtype and places[0][2] == places[1][2],
    }
    if ours.numel() == theirs.numel() == 1:
        facts["values"] = [value_of(ours), value_of(theirs)]
    if is_weight and not facts["same_storage"]:
        facts["same_content"], facts["compared"] = same_bytes(run, ours, theirs)
    return facts
