"""The engine's internals that the FP8 head's plugin touches, by name, and as much of torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PACKAGE = "configurator_fp8_head"
ARGUMENTS: dict[str, Any] = {
    "enable_fp32_lm_head": False, "speculative_token_map": None, "enable_dp_lm_head": False,
    "enable_memory_saver": False, "enable_torch_compile": False, "pp_size": 1,
    "enable_deterministic_inference": False,
    "lora_target_modules": None, "enable_multi_layer_eagle": False, "device": "cpu",
    "remote_instance_weight_loader_start_seed_via_transfer_engine": False,
}  # fmt: skip


class Parameter:
    """A tensor of some bytes; what aliases it has the same storage."""

    is_cuda = False
    shape: tuple[Any, ...]
    dtype: str
    storage: object
    device = SimpleNamespace(type="cpu")

    def __init__(
        self, *shape: Any, dtype: str = "bfloat16", of: Parameter | None = None,
        requires_grad: bool = False, start: int = 0,
    ) -> None:  # fmt: skip
        if shape and isinstance(shape[0], Parameter):
            (of,) = shape
            shape, dtype = of.shape, of.dtype
        self.shape, self.dtype = shape, dtype
        self.storage = of.storage if of else object()
        self.start = start

    def detach(self) -> Parameter:
        return Parameter(*self.shape, dtype=self.dtype, of=self)

    def untyped_storage(self) -> SimpleNamespace:
        return SimpleNamespace(data_ptr=lambda: id(self.storage))

    def storage_offset(self) -> int:
        return self.start

    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def element_size(self) -> int:
        return {"bfloat16": 2, "float32": 4}.get(self.dtype, 1)


class Module:
    """A module with parameters and children as its attributes."""

    def __init__(self, **members: Any) -> None:
        for name, member in members.items():
            setattr(self, name, member)

    def register_parameter(self, name: str, parameter: Parameter) -> None:
        setattr(self, name, parameter)

    def children(self) -> dict[str, Module]:
        return {name: m for name, m in vars(self).items() if isinstance(m, Module)}

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for module in self.modules() if recurse else (self,):
            yield from (m for m in vars(module).values() if isinstance(m, Parameter))

    def buffers(self, recurse: bool = True) -> Iterator[Parameter]:
        yield from ()

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in self.children().items():
            yield from child.named_modules(f"{prefix}.{name}".strip("."), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        yield from (module for _, module in self.named_modules())

    def get_submodule(self, path: str) -> Module:
        module = self
        for name in filter(None, path.split(".")):
            module = getattr(module, name)
        return module


class ParallelLMHead(Module):
    """The engine's head, by name and by its parameters."""

    def __init__(self, num_embeddings: int = 64, embedding_dim: int = 16, **members: Any) -> None:
        weight = members.pop("weight", None) or Parameter(num_embeddings, embedding_dim)
        super().__init__(weight=weight, **members)


class UnquantizedEmbeddingMethod:
    """The method of a head in BF16, by name."""


class QuantizeMethodBase:
    """The base of every method."""

    def apply(self, layer: Any, *arguments: Any) -> Any:
        """Never called here."""


class LogitsProcessor(Module):
    """What computes logits, by name and by its parameters."""

    def _compute_lm_head(self, hidden_states: Any, lm_head: Any, embedding_bias: Any = None) -> Any:
        """Never called here."""

    def _get_logits(self, hidden_states: Any, lm_head: Any, metadata: Any) -> Any:
        """Never called here."""


def should_apply(lm_head: Any, quant_method: Any) -> bool:
    """As the engine decides, for what is tested here."""
    plain = type(quant_method).__name__ == "UnquantizedEmbeddingMethod"
    return not plain and hasattr(lm_head, "weight")


def modules() -> dict[str, ModuleType]:
    """The stand-ins by the names of what they stand for."""
    torch = ModuleType("torch")
    gpu = SimpleNamespace(is_available=lambda: False, get_device_capability=lambda: (9, 0))
    numbers = {name: name for name in ("bfloat16", "float16", "float32", "float8_e4m3fn")}
    parts = {"nn": SimpleNamespace(Parameter=Parameter), "cuda": gpu, "__version__": "2.11.0"}
    parts |= {"version": SimpleNamespace(hip=None), "_scaled_mm": print}
    vars(torch).update({**numbers, **parts})
    made = {"torch": torch}
    context = SimpleNamespace(resolved_server_args_dict=dict)
    layers = "sglang.srt.layers"
    everything: dict[str, dict[str, Any]] = {
        f"{layers}.logits_processor": {
            "should_apply_lm_head_quant_method": should_apply, "LogitsProcessor": LogitsProcessor,
        },
        f"{layers}.quantization.base_config": {"QuantizeMethodBase": QuantizeMethodBase},
        f"{layers}.vocab_parallel_embedding": {"ParallelLMHead": ParallelLMHead},
        "sglang.srt.runtime_context": {
            "get_context": lambda: context,
            "get_parallel": lambda: SimpleNamespace(tp_rank=1),
        },
        "sglang.srt.plugins.hook_registry": {
            "HookRegistry": type("HookRegistry", (), {"_hooks": {}, "_patched": set()}),
            "HookType": SimpleNamespace(AROUND="around"),
        },
    }  # fmt: skip
    for name, members in everything.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(members)
    for name in list(made):
        for parent in (name.rsplit(".", n)[0] for n in range(1, name.count(".") + 1)):
            made.setdefault(parent, ModuleType(parent))
    return made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """The stand-ins in the place of the modules; the plugin is imported anew."""
    made = modules()
    # What was imported with another test's stand-ins holds on to them.
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def scheduler(algorithm: str = "EAGLE", config: Any = None, **arguments: Any) -> Any:
    """The engine's scheduler before weights load."""
    config = config or SimpleNamespace(
        hf_config=SimpleNamespace(tie_word_embeddings=False), quantization=None
    )
    return SimpleNamespace(
        server_args=SimpleNamespace(**{**ARGUMENTS, **arguments}),
        spec_algorithm=SimpleNamespace(name=algorithm),
        model_config=config,
    )
