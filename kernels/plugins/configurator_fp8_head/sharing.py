"""Drafts: which modules the engine gave the head's weight, and the head itself in their place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .internals import LOGITS
from .quantizing import heads_of, memory_of, of_logits, tensors_of
from .settings import RefusedError


def draft_models(worker: Any) -> list[Any]:
    """The model of every draft; [] where drafts come from no model.

    Raises:
        RefusedError: a draft worker keeps its models where no known release does.
    """
    if worker is None:
        return []
    listing = getattr(worker, "weight_update_runners", None)
    if callable(listing):
        return [runner.model for _, runner in listing()]
    inner = getattr(worker, "draft_worker", None)
    for holder in (inner, worker):
        for name in ("draft_runner_list", "draft_runners"):
            many = getattr(holder, name, None)
            if many:
                return [runner.model for runner in many]
        one = getattr(holder, "draft_runner", None)
        if one is not None:
            return [one.model]
    if type(worker).__name__.upper().startswith("NGRAM"):
        return []
    raise RefusedError([f"{type(worker).__name__} keeps its draft where the plugin does not look"])


def share(head: Any, draft: Any) -> str:
    """Put the head in the place of every module of a draft that has its weight.

    Whatever the draft's architecture calls it, the engine's own sharing has put the very same
    parameter there. Alone it would be read without its scale.

    Returns:
        `module`, or `none`: the draft has a head of its own.

    Raises:
        RefusedError: part of the draft still has the weight, or FP8 numbers, without the head; or
            the draft computes logits past the method of the head that it shares.
    """
    for path, module in list(draft.named_modules(remove_duplicate=False)):
        if module is not head and getattr(module, "weight", None) is head.weight:
            parent, _, name = path.rpartition(".")
            setattr(draft.get_submodule(parent), name, head)
    left = [
        path
        for path, module in draft.named_modules(remove_duplicate=False)
        if module is not head and _reads(module, head)
    ]
    if left:
        raise RefusedError([f"{left[0]} of the draft still has the FP8 weight without its scale"])
    copies = [each for each in heads_of(draft) if each is not head and _copied(each, head)]
    if copies:
        raise RefusedError(["an LM head of the draft has FP8 numbers that no method scales"])
    if all(module is not head for module in draft.modules()):
        return "none"
    reasons = list(of_logits(draft))
    if reasons:
        raise RefusedError([f"of the draft: {reason}" for reason in reasons])
    return "module"


def _reads(module: Any, head: Any) -> bool:
    """Whether a module that is not the head holds a tensor of the head, or a part of it."""
    held = {memory_of(tensor) for tensor in tensors_of(head)} - {0}
    return any(memory_of(tensor) in held for tensor in tensors_of(module))


def _copied(other: Any, head: Any) -> bool:
    """Whether another head holds numbers as the head does, and is multiplied as if plain."""
    rule = import_module(LOGITS).should_apply_lm_head_quant_method
    method = getattr(other, "quant_method", None)
    weight = getattr(other, "weight", None)
    return getattr(weight, "dtype", None) == head.weight.dtype and not rule(other, method)
