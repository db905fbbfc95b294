"""One line a rank of what was built, read from what was built."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .internals import LOGITS
from .quantizing import MADE
from .settings import NAME


def line(scheduler: Any, head: Any, shared: list[str]) -> str:
    """The proof line.

    Args:
        scheduler: the engine's, for its rank.
        head: the target's LM head.
        shared: what each draft has of it, as `share` says.
    """
    made = getattr(head, MADE)
    method = head.quant_method
    rule = import_module(LOGITS).should_apply_lm_head_quant_method
    applied = "applied" if rule(head, method) else "NOT APPLIED"
    shape = " x ".join(map(str, head.weight.shape))
    dtype = str(head.weight.dtype).removeprefix("torch.")
    count = head.weight_scale.numel()
    scales = f"{count} scale{'' if count == 1 else 's'} ({made['granularity']})"
    freed = "freed" if made["freed"] else "STILL HELD"
    return (
        f"{NAME}: {rank_of(scheduler)}: lm_head {dtype} [{shape}], {scales}, method "
        f"{type(method).__name__} {applied}; bytes {made['bytes_before']} -> "
        f"{made['bytes_after']}, the former weight is {freed}; logits off by "
        f"{made['relative_error']}; shared with drafts: {', '.join(shared) or 'no draft'}"
    )


def rank_of(scheduler: Any) -> str:
    """`tp0`, from where the release keeps it."""
    holder = getattr(scheduler, "ps", None)
    if holder is None or not hasattr(holder, "tp_rank"):
        holder = import_module("sglang.srt.runtime_context").get_parallel()
    return f"tp{holder.tp_rank}"
