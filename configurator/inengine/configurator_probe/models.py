"""One model runner, of the target or of a draft, with all that it built."""

from __future__ import annotations

import os
from typing import Any

from .graphs import graph_facts, megakernel_facts
from .heads import head_facts
from .layers import method_counts, moe_facts, weight_bytes
from .run import Run
from .values import class_of, get, is_a, text_of


def pool_facts(runner: Any) -> dict[str, Any] | None:
    """The KV pool that was allocated."""
    pool = getattr(runner, "token_to_kv_pool", None)
    if pool is None:
        return None
    types = {key: text_of(getattr(pool, key, None)) for key in ("dtype", "store_dtype")}
    return {"class": type(pool).__name__, **types}


def decode_backend(runner: Any) -> Any:
    """The attention backend of decode steps, or of verify steps, inside what may wrap it."""
    backend = get(runner, "decode_attn_backend") or get(runner, "attn_backend")
    drafts = get(runner, "spec_algorithm.name", "NONE") != "NONE"
    for _ in range(4):
        # A hybrid verifies with its prefill backend unless it is told otherwise.
        by_prefill = drafts and get(backend, "spec_attn_is_decode") is False
        own = "prefill_backend" if by_prefill else "decode_backend"
        parts = [get(backend, name) for name in (own, "full_attn_backend", "primary", "dense")]
        # A backend may also keep the name of a kernel under one of these.
        inner = [part for part in parts if type(part).__name__.endswith("Backend")]
        if not inner:
            break
        backend = inner[0]
    return backend


def model_facts(run: Run, part: str, runner: Any) -> dict[str, Any]:
    """One model runner, target or draft."""
    model = runner.model
    modules = run.part(f"{part}.modules", lambda: list(model.named_modules()))
    modules = modules if isinstance(modules, list) else []
    experts = [(name, module) for name, module in modules if is_a(module, "FusedMoE")]
    graphs = get(runner, "decode_cuda_graph_runner") or get(runner, "graph_runner")
    config = getattr(runner, "model_config", None)
    decode = run.part(f"{part}.graphs", graph_facts, graphs)
    return {
        "model_class": type(model).__name__,
        "model_path": os.path.basename(str(getattr(config, "model_path", "")).rstrip("/")),
        "is_draft": bool(getattr(runner, "is_draft_worker", False)),
        "quantization": text_of(getattr(config, "quantization", None)),
        "dtype": text_of(getattr(runner, "dtype", None)),
        "kv_cache_dtype": text_of(getattr(runner, "kv_cache_dtype", None)),
        "kv_pool": run.part(f"{part}.kv_pool", pool_facts, runner),
        "prefill_attention": text_of(getattr(runner, "prefill_attention_backend_str", None)),
        "decode_attention": text_of(getattr(runner, "decode_attention_backend_str", None)),
        "attention_class": class_of(getattr(runner, "attn_backend", None)),
        "decode_attention_class": class_of(decode_backend(runner)),
        "attention_layers": sum(is_a(module, "RadixAttention") for _, module in modules),
        "moe_layers": [run.part(f"{part}.{name}", moe_facts, name, m) for name, m in experts],
        "quant_methods": run.part(f"{part}.quant_methods", method_counts, modules),
        "lm_head": run.part(f"{part}.lm_head", head_facts, run, f"{part}.lm_head", model),
        "graphs": {"decode": decode},
        "megakernel": run.part(f"{part}.megakernel", megakernel_facts, model, runner),
        "weight_bytes": run.part(f"{part}.weight_bytes", weight_bytes, run, model, modules),
    }


def target_runner(scheduler: Any) -> Any:
    """The target's model runner."""
    for path in ("tp_worker.model_runner", "tp_worker.worker.model_runner"):
        runner = get(scheduler, path)
        if runner is not None:
            return runner
    raise AttributeError("the scheduler has no tp_worker.model_runner")
