"""Drafts: where a version of the engine keeps them, and what is theirs alone."""

from __future__ import annotations

from typing import Any

from .graphs import graph_facts
from .models import model_facts
from .run import Run
from .sharing import sharing_facts
from .values import class_of, get


def draft_runners(worker: Any) -> list[tuple[str, Any]]:
    """Role and model runner of every draft; [] where the draft has no weights (n-gram)."""
    listing = getattr(worker, "weight_update_runners", None)
    if callable(listing):
        return [(str(role), runner) for role, runner in listing()]
    inner = getattr(worker, "draft_worker", None)
    for holder in (inner, worker):
        for name in ("draft_runner_list", "draft_runners"):
            many = get(holder, name)
            if many:
                roles = [f"draft_step_{n}" for n in range(len(many))]
                return [(roles[n] if len(many) > 1 else "draft", r) for n, r in enumerate(many)]
        for name in ("draft_runner", "draft_model_runner", "model_runner"):
            one = get(holder, name)
            if one is not None and one is not get(worker, "target_worker.model_runner"):
                return [("draft", one)]
    return []


def draft_facts(run: Run, part: str, target: Any, worker: Any, pair: Any) -> dict[str, Any]:
    """One draft: its model, its graphs and attention, and its head against the target's."""
    role, runner = pair
    facts = {"role": role, **model_facts(run, part, runner)}
    inner = getattr(worker, "draft_worker", None) or worker
    graphs = facts["graphs"]
    shared = run.part(f"{part}.graphs", graph_facts, get(inner, "cuda_graph_runner"))
    graphs["decode"] = shared or graphs["decode"]
    extend = get(inner, "cuda_graph_runner_for_draft_extend")
    graphs["extend"] = run.part(f"{part}.graphs", graph_facts, extend)
    facts["draft_attention"] = {
        "decode": class_of(get(inner, "draft_attn_backend")),
        "extend": class_of(get(inner, "draft_extend_attn_backend")),
    }
    sharing = run.part(f"{part}.sharing", sharing_facts, run, target.model, runner.model)
    facts["sharing_with_target"] = sharing
    return facts
