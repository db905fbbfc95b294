"""The engine's internals that the plugin stands on: they exist, and do what it counts on."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

LOGITS = "sglang.srt.layers.logits_processor"
BASE = "sglang.srt.layers.quantization.base_config"
HEADS = "sglang.srt.layers.vocab_parallel_embedding"
SIGNATURES = (
    (LOGITS, "should_apply_lm_head_quant_method", ("lm_head", "quant_method")),
    (LOGITS, "LogitsProcessor._compute_lm_head", ("self", "hidden_states", "lm_head")),
    (LOGITS, "LogitsProcessor._get_logits", ("self", "hidden_states", "lm_head")),
    (BASE, "QuantizeMethodBase.apply", ("self", "layer")),
    (HEADS, "ParallelLMHead.__init__", ("self", "num_embeddings", "embedding_dim")),
)
"""Module, function in it, and its first parameters, which are given by place."""


def missing_internals() -> Iterator[str]:
    """What is missing or has other parameters, each in words."""
    found = True
    for module, path, parameters in SIGNATURES:
        reason = _differs(module, path, parameters)
        if reason:
            found = False
            yield reason
    if found:
        yield from _not_applied()


def _differs(module: str, path: str, parameters: tuple[str, ...]) -> str:
    try:
        thing: Any = import_module(module)
        for name in path.split("."):
            thing = getattr(thing, name)
    except (ImportError, AttributeError) as error:
        return f"the engine has no {module}.{path}: {error}"
    try:
        names = tuple(inspect.signature(thing).parameters)
    except (TypeError, ValueError) as error:
        return f"{module}.{path} cannot be looked at: {error}"
    if names[: len(parameters)] == parameters:
        return ""
    return f"{module}.{path} takes ({', '.join(names)}), not ({', '.join(parameters)}, ...)"


def _not_applied() -> Iterator[str]:
    """Asked for a head of ours, the engine must say that it would call its method."""

    class Fp8HeadMethod:
        """As the plugin's own, by name and by what it can do."""

        def apply(self, layer: Any, x: Any, bias: Any = None) -> Any:
            """Never called here."""

    class Head:
        """A head with a weight."""

        weight = None
        quant_method = Fp8HeadMethod()

    if not import_module(LOGITS).should_apply_lm_head_quant_method(Head, Head.quant_method):
        yield f"{LOGITS} would not apply the method of an FP8 head"
