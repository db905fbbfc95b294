"""Drafts: which modules the engine gave the head's weight, and the head itself in their place."""

from __future__ import annotations

from typing import Any

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
        RefusedError: part of the draft still has the weight, or FP8 numbers, without the head.
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
    return "module" if any(module is head for module in draft.modules()) else "none"


def _reads(module: Any, head: Any) -> bool:
    """Whether a module that is not the head holds a tensor of the head, or a part of it."""
    held = {tensor.untyped_storage().data_ptr() for tensor in head.parameters(recurse=False)}
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return any(tensor.numel() and tensor.untyped_storage().data_ptr() in held for tensor in own)
