"""Spoils an engine on purpose: a plugin of the self-test, never of a server that serves.

CONFIGURATOR_SABOTAGE        what to spoil: a name of `SABOTAGES`, or nothing
CONFIGURATOR_SABOTAGE_RANK   only there: `tp1` or `dp1`

Released engines have no FP8 LM head on a CPU, so the sabotages of one bring their own: the weight
is quantized after loading and a method of ours multiplies with it. What a draft then shares of it
is the engine's own doing, or spoilt here.
"""

# ruff: noqa: INP001
# mypy: disable-error-code="import-not-found,import-untyped"
from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner.load_model"
LOADER = "sglang.srt.model_loader.loader.DefaultModelLoader.load_model"
TAKE_OVER = "sglang.srt.models.glm4_moe.Glm4MoeForCausalLM.set_embed_and_head"
SHARE = "sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.init_lm_head"
BACKENDS = "sglang.srt.managers.scheduler.Scheduler.init_all_attention_backends"
GRAPHS = "sglang.srt.model_executor.cpu_graph_runner.register_fake_ops"
PROBE = "configurator_probe"
LARGEST_FP8 = 448.0


def here() -> bool:
    """Whether this rank is the one to spoil."""
    wanted = os.environ.get("CONFIGURATOR_SABOTAGE_RANK", "")
    if not wanted:
        return True
    from sglang.srt.runtime_context import get_parallel

    rank = getattr(get_parallel(), f"{wanted[:2]}_rank", None)
    return rank is not None and int(rank) == int(wanted[2:])


def hook(target: str, function: Callable[..., Any], kind: str) -> None:
    """Register a hook of the engine: `AFTER`, `AROUND` or `REPLACE`."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(target, function, HookType[kind])


# ------------------------------------------------------------------ heads


def spoil_head(change: Callable[[Any], Any]) -> None:
    """Give the draft another head than the target's when it takes it over; None: none at all."""

    def around(original: Any, model: Any, embedding: Any, head: Any) -> Any:
        if not here():
            return original(model, embedding, head)
        import torch

        changed = change(head.detach())
        if changed is None:
            return None
        return original(model, embedding, torch.nn.Parameter(changed, requires_grad=False))

    hook(TAKE_OVER, around, "AROUND")


class Float8HeadMethod:
    """Multiplies with an FP8 head: float32 on a CPU, and the scale."""

    @staticmethod
    def apply(layer: Any, hidden: Any, _bias: Any = None, **_options: Any) -> Any:
        """Logits of `hidden` [tokens, width]."""
        weight = layer.weight.float() * layer.weight_scale
        return (hidden.float() @ weight.T).to(hidden.dtype)

    def embedding(self, *_arguments: Any) -> Any:
        """A head embeds nothing."""
        raise NotImplementedError


def set_parameter(module: Any, name: str, tensor: Any) -> None:
    """Put a tensor or parameter in the place of the one by that name."""
    import torch

    if name in module._parameters:
        del module._parameters[name]
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    parameter = tensor if is_parameter else torch.nn.Parameter(tensor, requires_grad=False)
    module.register_parameter(name, parameter)


def quantize(head: Any, method: bool = True) -> None:
    """An FP8 weight with one scale in the place of the weight, and the method that knows it."""
    import torch

    weight = head.weight.detach()
    scale = weight.float().abs().amax() / LARGEST_FP8
    set_parameter(head, "weight", (weight.float() / scale).to(torch.float8_e4m3fn))
    set_parameter(head, "weight_scale", scale.float())
    if method:
        head.quant_method = Float8HeadMethod()


def fp8_head(method: bool = True) -> None:
    """Quantize the target's head once its weights are loaded."""

    def after(result: Any, runner: Any, *_arguments: Any, **_options: Any) -> Any:
        if here() and not getattr(runner, "is_draft_worker", False):
            quantize(runner.model.lm_head, method)
        return result

    hook(RUNNER, after, "AFTER")


def then_share(change: Callable[[Any, Any], None]) -> None:
    """Change the draft's model, given the target's, after the engine shared their heads."""

    def after(result: Any, worker: Any, *_arguments: Any, **_options: Any) -> Any:
        if here():
            change(worker.target_worker.model_runner.model, worker.draft_runner.model)
        return result

    hook(SHARE, after, "AFTER")


def share_module(target: Any, draft: Any) -> None:
    """The healthy way: one module for both."""
    draft.lm_head = target.lm_head


def alias_all(target: Any, draft: Any, factor: float | None = None) -> None:
    """Two modules with one weight; also one scale, or a scale of the draft's own."""
    set_parameter(draft.lm_head, "weight", target.lm_head.weight)
    scale = target.lm_head.weight_scale
    own = scale if factor is None else scale.detach().clone() * factor
    set_parameter(draft.lm_head, "weight_scale", own)
    draft.lm_head.quant_method = Float8HeadMethod()


def own_scale(target: Any, draft: Any) -> None:
    """The scale of the draft's own head, which was never loaded and is all zeros."""
    alias_all(target, draft, 0.0)


def double_scale(target: Any, draft: Any) -> None:
    """Twice the scale: no token changes, so no acceptance does."""
    alias_all(target, draft, 2.0)


def quantize_late(target: Any, _draft: Any) -> None:
    """The draft has taken over the BF16 weight and keeps it."""
    quantize(target.lm_head)


def fp8_and(change: Callable[[Any, Any], None], method: bool = True) -> Callable[[], None]:
    """An FP8 head of the target, and then what the draft gets of it."""

    def spoil() -> None:
        fp8_head(method)
        then_share(change)

    return spoil


def then_own_scale() -> None:
    """A draft that has the target's FP8 head gets one of its own: same weight and method, scale 0.

    Done when the memory is divided, after everything that shares heads.
    """

    def around(original: Any, scheduler: Any, *arguments: Any, **options: Any) -> Any:
        import copy

        import torch

        for _, runner in scheduler.draft_worker.weight_update_runners() if here() else ():
            head = copy.copy(runner.model.lm_head)
            head._parameters = dict(head._parameters)
            scale = torch.zeros_like(head.weight_scale)
            head._parameters["weight_scale"] = torch.nn.Parameter(scale, requires_grad=False)
            runner.model.lm_head = head
        return original(scheduler, *arguments, **options)

    hook(BACKENDS, around, "AROUND")


# ------------------------------------------------------------------ experts


def other_runner_in_one_layer() -> None:
    """The first MoE layer of the target is built with another runner than the rest.

    On a CPU the engine's experts are one loop whatever the runner, so the output stays the same.
    """

    def after(result: Any, runner: Any, *_arguments: Any, **_options: Any) -> Any:
        from sglang.srt.layers.moe.utils import MoeRunnerBackend

        if here() and not getattr(runner, "is_draft_worker", False):
            layers = (m for m in runner.model.modules() if type(m).__name__ == "FusedMoE")
            layer = next(layers)
            layer.runner_backend = MoeRunnerBackend.CUTLASS
            layer.quant_method.runner.runner_backend = MoeRunnerBackend.CUTLASS
            core = layer.quant_method.runner.runner_core
            core.__class__ = type("CutlassRunnerCore", (type(core),), {})
        return result

    hook(RUNNER, after, "AFTER")


# ------------------------------------------------------------------ our own probe


def report_fails() -> None:
    """The probe cannot describe what it finds."""
    from importlib import import_module

    # Where the hooks of the probe look it up.
    hooked: Any = import_module(f"{PROBE}.hooked")
    build = hooked.build

    def fails(scheduler: Any, stage: str) -> Any:
        if here():
            raise RuntimeError("sabotage: nothing can be reported")
        return build(scheduler, stage)

    hooked.build = fails


def hooks_renamed() -> None:
    """An engine in which everything that the probe hooks has another name."""
    from sglang.srt.plugins import hook_registry

    register = hook_registry.HookRegistry.register

    def renamed(target: str, function: Any, *arguments: Any, **options: Any) -> Any:
        ours = getattr(function, "__module__", "").split(".")[0] == PROBE
        return register(f"{target}_renamed" if ours else target, function, *arguments, **options)

    hook_registry.HookRegistry.register = staticmethod(renamed)


# ------------------------------------------------------------------ the start


def dies() -> None:
    """The weights cannot be loaded."""

    def fails(*_arguments: Any, **_options: Any) -> Any:
        raise RuntimeError("sabotage: the weights are broken")

    hook(LOADER, fails, "REPLACE")


def hangs() -> None:
    """Loading the weights never ends."""

    def waits(*_arguments: Any, **_options: Any) -> Any:
        time.sleep(3600)

    hook(LOADER, waits, "REPLACE")


SABOTAGES: dict[str, Callable[[], None]] = {
    "head-copied": lambda: spoil_head(lambda head: head.clone()),
    "head-unshared": lambda: spoil_head(lambda head: None),
    "head-rolled": lambda: spoil_head(lambda head: head.roll(7, 0)),
    "fp8-head": fp8_head,
    "fp8-head-method-not-applied": fp8_and(share_module, method=False),
    "fp8-head-module-shared": fp8_and(share_module),
    "fp8-head-all-aliased": fp8_and(alias_all),
    "fp8-head-own-scale": fp8_and(own_scale),
    "fp8-head-double-scale": fp8_and(double_scale),
    "fp8-head-after-sharing": lambda: then_share(quantize_late),
    "head-aliased-without-scale": then_own_scale,
    "other-runner-in-one-layer": other_runner_in_one_layer,
    "report-fails": report_fails,
    "hooks-renamed": hooks_renamed,
    "dies-in-load": dies,
    "hangs-in-load": hangs,
}


def register() -> None:
    """Entry point of the plugin."""
    # Not a sabotage: torch.compile is off here, and the ops that it would need do not exist.
    hook(GRAPHS, lambda *_arguments, **_options: None, "REPLACE")
    name = os.environ.get("CONFIGURATOR_SABOTAGE", "")
    if name:
        SABOTAGES[name]()
