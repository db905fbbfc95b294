"""A megakernel plugin without a kernel: a plugin of the self-test, never of a server that serves.

Registered as `nvidia_megakernel` through the engine's real `register`, built by the engine's real
`install_megakernel`. A covered step runs the model's own forward, so no output changes; what the
contract decides, checks and logs of it is the engine's own doing.

CONFIGURATOR_MEGAKERNEL      how it covers, or how it is spoilt: a name of `VARIANTS`
CONFIGURATOR_SABOTAGE_RANK   spoilt only there, `tp1`; everywhere else it covers all
"""

# ruff: noqa: INP001
# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pretended_platform
from sglang.kernels.plugin_kernels.nvidia.spec import (
    MEGAKERNEL_API_VERSION,
    Feature,
    MegakernelSpec,
    Numerics,
    NumericsKind,
    Requirements,
    Step,
    register,
)

MODULE = "configurator_megakernel"
ISA = "sm_103"
TARGETS = ("LlamaForCausalLM", "Glm4MoeForCausalLM")
DRAFT = "Glm4MoeForCausalLMNextN"
LARGEST = 4
"""The largest batch size that is captured."""
MAX_ROWS = 16
"""The widest step: four requests with four tokens each."""
RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner.initialize"


@dataclass(frozen=True, slots=True)
class Variant:
    """What the plugin covers, or what is wrong with it."""

    covers: frozenset[int] = frozenset(range(1, LARGEST + 1))
    """Batch sizes of the steps that it takes over."""
    isa: str = ISA
    """The GPU that is pretended."""
    targets: tuple[str, ...] = TARGETS
    draft: str = ""
    """What the draft's spec offers, `steps` or `nothing`; empty: the draft has no spec."""
    max_rows: int = MAX_ROWS
    """Of the target's spec; 0: it covers no step."""
    widths: int | None = None
    """How many widths the build makes; None: all that are asked for."""
    around: int = 0
    """A batch size whose graph is captured with the model's own forward."""
    removed: bool = False
    """Whether something takes the installed forward away again."""


VARIANTS: dict[str, Variant] = {
    "covers-all": Variant(),
    "covers-some": Variant(frozenset({1, 2})),
    "covers-none": Variant(frozenset()),
    "covers-no-step": Variant(max_rows=0),
    "covers-draft": Variant(draft="steps"),
    "draft-spec-empty": Variant(draft="nothing"),
    "registers-nothing": Variant(targets=()),
    "other-model": Variant(targets=("DeepseekV4ForCausalLM",)),
    "other-gpu": Variant(isa="sm_90"),
    "one-graph-around": Variant(around=LARGEST),
    "removed": Variant(removed=True),
    "builds-fewer": Variant(widths=2),
}


def chosen() -> Variant:
    """The variant of this server."""
    return VARIANTS[os.environ["CONFIGURATOR_MEGAKERNEL"]]


def of_this_rank() -> Variant:
    """The variant of this rank; callable once the ranks are known."""
    wanted = os.environ.get("CONFIGURATOR_SABOTAGE_RANK", "")
    if not wanted:
        return chosen()
    from sglang.srt.runtime_context import get_parallel

    here = getattr(get_parallel(), f"{wanted[:2]}_rank") == int(wanted[2:])
    return chosen() if here else Variant()


class Built:
    """What the spec's build returns."""

    draft_sampler = None

    def __init__(self, widths: tuple[int, ...], tokens: int) -> None:
        self.widths, self.tokens = widths, tokens
        self.covers = of_this_rank().covers

    def summary(self) -> str:
        """For the line of the log."""
        return "no kernel, the model's own forward"

    def plan(self, _input_ids: Any, batch: Any, *_arguments: Any, **_options: Any) -> Any:
        """A step for the batch sizes that are covered; extending is never covered."""
        mode = batch.forward_mode
        name = "decode" if mode.is_decode() else "target_verify" if mode.is_target_verify() else ""
        size = int(batch.batch_size)
        if not name or size not in self.covers:
            return None
        return Step(mode=name, rows=size * self.tokens)

    def forward(self, _step: Any, original: Any, *arguments: Any, **options: Any) -> Any:
        """The model's own forward; where a verify step is captured there is nothing to compute."""
        if isinstance(arguments[2], SimpleNamespace):
            return None
        return original(*arguments, **options)


def build_target(_model: Any, _config: Any, context: Any) -> Built:
    """What the target's spec builds."""
    return Built(context.widths[: of_this_rank().widths], context.tokens_per_request)


def build_draft(_model: Any, _config: Any, context: Any) -> Built:
    """What the draft's spec builds."""
    return Built(context.widths, context.tokens_per_request)


def spec(name: str, max_rows: int, build: Callable[..., Built]) -> Any:
    """A spec that accepts what the self-test's servers use, and refuses the rest."""
    return MegakernelSpec(
        name=name,
        requires=Requirements(isas=frozenset({ISA}), tp_sizes=frozenset({1, 2})),
        # The runner on a CPU is there with --enable-torch-compile only.
        features=frozenset(
            {Feature.SPECULATIVE_DECODING, Feature.RAGGED_VERIFY, Feature.TORCH_COMPILE}
        ),
        numerics=Numerics(kind=NumericsKind.BITWISE),
        max_rows=max_rows,
        build=build,
        api_version=MEGAKERNEL_API_VERSION,
    )


TARGET_SPEC = spec("tiny", chosen().max_rows, build_target)
DRAFT_SPEC = spec("tiny-draft", MAX_ROWS if chosen().draft == "steps" else 0, build_draft)


def around_capture(runner: Any, size: int, forward: Any) -> Any:
    """The forward to capture; `functools.wraps` keeps the model's own one."""
    if size != of_this_rank().around:
        return forward
    return runner.model_runner.model.forward.__wrapped__


def take_away(result: Any, runner: Any, *_arguments: Any, **_options: Any) -> Any:
    """Undo the installation, as whatever replaces a model's forward later would."""
    if of_this_rank().removed and not runner.is_draft_worker:
        del runner.model.__dict__["forward"]
    return result


def register_specs() -> None:
    """Entry point `nvidia_megakernel`."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    variant = chosen()
    pretended_platform.pretend(variant.isa, around_capture)
    if variant.removed:
        HookRegistry.register(RUNNER, take_away, HookType.AFTER)
    for architecture in variant.targets:
        register(architecture=architecture, path=f"{MODULE}:TARGET_SPEC")
    if variant.draft:
        register(architecture=DRAFT, path=f"{MODULE}:DRAFT_SPEC")
