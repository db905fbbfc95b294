"""The quantization method that the engine's logits path calls."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .internals import BASE
from .numbers import logits

_Base: Any = import_module(BASE).QuantizeMethodBase


class Fp8HeadMethod(_Base):  # type: ignore[misc]
    """FP8 weight, and the input quantized anew at every call."""

    def __init__(self, granularity: str) -> None:
        self.granularity = granularity

    def create_weights(self, *_arguments: Any, **_options: Any) -> None:
        """A head of this method is made of a loaded one, never created."""
        raise NotImplementedError

    def process_weights_after_loading(self, layer: Any) -> None:
        """Nothing is left to do."""

    def embedding(self, *_arguments: Any) -> Any:
        """A head embeds nothing."""
        raise NotImplementedError

    def apply(self, layer: Any, x: Any, bias: Any = None) -> Any:
        """Logits [tokens, rows of this rank] of `x` [tokens, width], in the type of `x`."""
        found = logits(x, layer.weight, layer.weight_scale)
        return found if bias is None else found + bias
