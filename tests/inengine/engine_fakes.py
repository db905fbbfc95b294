"""Objects with the attributes that the probe reads, by the names of several engine versions."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SIZES = {"bfloat16": 2, "float8_e4m3fn": 1, "float32": 4}


class Storage:
    """Where the numbers of tensors lie."""

    def __init__(self, numbers: tuple[float, ...]) -> None:
        self.numbers = numbers

    def data_ptr(self) -> int:
        return id(self)

    def nbytes(self) -> int:
        return len(self.numbers)


class Tensor:
    """As much of a tensor as the probe touches."""

    def __init__(
        self, *numbers: float, dtype: str = "bfloat16", shape: tuple[int, ...] | None = None,
        storage: Storage | None = None, offset: int = 0, device: str = "cpu",
    ) -> None:  # fmt: skip
        self.storage = storage or Storage(numbers)
        self.dtype = f"torch.{dtype}"
        self.shape = (len(self.storage.numbers), 1) if shape is None else shape
        self.device = device
        self.offset = offset

    def alias(self) -> Tensor:
        """Another tensor object in the same storage."""
        return Tensor(dtype=self.dtype[6:], shape=self.shape, storage=self.storage)

    def copy(self) -> Tensor:
        """The same numbers elsewhere."""
        return Tensor(*self.storage.numbers, dtype=self.dtype[6:], shape=self.shape)

    def untyped_storage(self) -> Storage:
        return self.storage

    def storage_offset(self) -> int:
        return self.offset

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        return SIZES[self.dtype[6:]]

    def dim(self) -> int:
        return len(self.shape)

    def detach(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return self

    def __float__(self) -> float:  # type: ignore[valid-type]
        return self.storage.numbers[0]

    def __getitem__(self, rows: slice) -> Tensor:
        return Tensor(*self.storage.numbers[rows], dtype=self.dtype[6:])

    def view(self, dtype: str) -> tuple[str, tuple[Any, ...]]:
        return dtype, self.storage.numbers


class Module:
    """A module of a model: parameters, children, and whatever else it is given."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def named_parameters(self, recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        own = ((name, value) for name, value in vars(self).items() if isinstance(value, Tensor))
        yield from ((name, value) for name, value in own if not name.startswith("plain_"))

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        yield from ()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield prefix, self
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield from value.named_modules(f"{prefix}.{name}".lstrip("."))


class ParallelLMHead(Module):
    weight: Tensor


class VocabParallelEmbedding(Module):
    pass


class FusedMoE(Module):
    pass


class DeepEPMoE(FusedMoE):
    pass


class LlamaForCausalLM(Module):
    lm_head: Any


class UnquantizedEmbeddingMethod:
    pass


class Fp8HeadMethod:
    pass


class Fp8MoEMethod:
    runner: Any = None


class TritonRunnerCore:
    pass


class DecodeCudaGraphRunner:
    def __init__(self, sizes: list[int], captured: list[Any] | None = None) -> None:
        self.capture_bs = sizes
        if captured is not None:
            self.backend = SimpleNamespace(_graphs=dict.fromkeys(captured))


class ShapeKey:
    def __init__(self, size: int) -> None:
        self.size = size


class EagerRunner:
    capture_bs = (1, 2)


def head(weight: Tensor | None = None, method: Any = None, **held: Any) -> ParallelLMHead:
    """An LM head; BF16 and unquantized unless said otherwise."""
    weight = weight or Tensor(1, 2, 3, 4)
    return ParallelLMHead(
        weight=weight, quant_method=method or UnquantizedEmbeddingMethod(), **held
    )


def runner(model: Module, **held: Any) -> SimpleNamespace:
    """A model runner."""
    config = SimpleNamespace(model_path="/somewhere/models/tiny/", quantization=None)
    return SimpleNamespace(
        model=model, model_config=config, dtype="torch.bfloat16", kv_cache_dtype="torch.bfloat16",
        decode_attention_backend_str="fa3", **held,
    )  # fmt: skip


def scheduler(model: Module, **held: Any) -> SimpleNamespace:
    """A scheduler of one rank without speculation."""
    held.setdefault("ps", SimpleNamespace(tp_rank=0, pp_rank=0, dp_rank=None, tp_size=1))
    worker = SimpleNamespace(model_runner=runner(model))
    return SimpleNamespace(**{"tp_worker": worker, "device": "cpu", "draft_worker": None, **held})


class EnvField:
    def __init__(self, secret: bool = False) -> None:
        self.secret = secret


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine and a torch that can be imported."""

    def module(name: str, **held: Any) -> None:
        made = ModuleType(name)
        vars(made).update(held)
        monkeypatch.setitem(sys.modules, name, made)

    def applies(head: Any, method: Any) -> bool:
        return type(method).__name__ != "UnquantizedEmbeddingMethod"

    envs = type("Envs", (), {"SGLANG_DECLARED": EnvField(), "SGLANG_HIDDEN": EnvField(True)})
    old = {"SGLANG_OLD": SimpleNamespace(replacement="SGLANG_DECLARED"), "SGLANG_GONE": object()}
    module("torch", equal=lambda ours, theirs: ours == theirs, uint8="uint8", __version__="2.0")
    for name in ("sglang", "sglang.srt", "sglang.srt.layers"):
        module(name, __version__="0.0.1")
    module("sglang.srt.layers.logits_processor", should_apply_lm_head_quant_method=applies)
    module("sglang.srt.environ", Envs=envs, _DEPRECATED_ENVS=old)
