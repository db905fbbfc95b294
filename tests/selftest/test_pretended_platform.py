"""What is pretended to the megakernel's contract, on an engine of which only the names are real."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from configurator.selftest.engine import RIG

BINDING = "sglang.srt.kernel_plugins.nvidia.binding"
SPEC = "sglang.kernels.plugin_kernels.nvidia.spec"
CONTEXT = "sglang.srt.model_executor.forward_context"
MODES = "sglang.srt.model_executor.forward_batch_info"
SETUP = "sglang.srt.model_executor.model_runner_components.cuda_graph_setup"
HOOKS = "sglang.srt.plugins.hook_registry"
RANKS = "sglang.srt.runtime_context"


class Record(SimpleNamespace):
    """Whatever it is given; stands for the contract's records."""


class Mode:
    """A forward mode of the engine."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_decode(self) -> bool:
        return self.name == "decode"

    def is_target_verify(self) -> bool:
        return self.name == "verify"


@contextmanager
def forward_context(*_arguments: Any, **_options: Any) -> Iterator[None]:
    yield


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of the engine with the names that the rig takes from them."""
    registered: dict[str, Any] = {"hooks": {}, "specs": {}}
    registry = SimpleNamespace(
        register=lambda target, function, kind: registered["hooks"].update(
            {target: (function, kind)}
        )
    )
    names: dict[str, dict[str, Any]] = {
        BINDING: {"torch": SimpleNamespace(cuda="real", Tensor=int)},
        SPEC: {
            "MEGAKERNEL_API_VERSION": 1,
            "Feature": SimpleNamespace(SPECULATIVE_DECODING=1, RAGGED_VERIFY=2, TORCH_COMPILE=3),
            "NumericsKind": SimpleNamespace(BITWISE="bitwise"),
            "register": lambda *, architecture, path: registered["specs"].update(
                {architecture: path}
            ),
            **dict.fromkeys(("MegakernelSpec", "Numerics", "Requirements", "Step"), Record),
        },
        CONTEXT: {"ForwardContext": Record, "forward_context": forward_context},
        MODES: {"ForwardMode": SimpleNamespace(TARGET_VERIFY=Mode("verify"))},
        SETUP: {"GraphCapture": Record},
        HOOKS: {"HookRegistry": registry, "HookType": SimpleNamespace(AROUND="A", AFTER="B")},
        RANKS: {"get_parallel": lambda: SimpleNamespace(tp_rank=1, dp_rank=0)},
    }
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts)):
            parent = ".".join(parts[:length])
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    for name, held in names.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        setattr(sys.modules[parent], last, module)
    return registered


def rig(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the rig, which the package itself never imports."""
    spec = importlib.util.spec_from_file_location(name, RIG / "megakernel" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Any:
    return rig("pretended_platform", monkeypatch)


def plugin(variant: str, monkeypatch: pytest.MonkeyPatch, rank: str = "") -> Any:
    monkeypatch.setenv("CONFIGURATOR_MEGAKERNEL", variant)
    monkeypatch.setenv("CONFIGURATOR_SABOTAGE_RANK", rank)
    rig("pretended_platform", monkeypatch)
    return rig("configurator_megakernel", monkeypatch)


@pytest.mark.parametrize(
    ("isa", "major", "minor"), [("sm_103", 10, 3), ("sm_90", 9, 0), ("sm_121", 12, 1)]
)
def test_what_is_answered_for_cuda(platform: Any, isa: str, major: int, minor: int) -> None:
    cuda = platform.PretendedCuda(isa)
    properties = cuda.get_device_properties(cuda.current_device())
    assert (properties.major, properties.minor) == (major, minor)
    assert cuda.is_available() is True
    assert cuda.is_current_stream_capturing() is False
    assert cuda.mem_get_info() == cuda.mem_get_info()


def test_nothing_else_of_torch_is_another(platform: Any) -> None:
    torch = SimpleNamespace(cuda="real", Tensor=int)
    pretended = platform.PretendedTorch(torch, "pretended")
    assert (pretended.cuda, pretended.Tensor, torch.cuda) == ("pretended", int, "real")
    with pytest.raises(AttributeError):
        _ = pretended.no_such_name


def test_a_capture_calls_the_model_and_then_the_runners_hooks(platform: Any) -> None:
    cuda, seen = platform.PretendedCuda("sm_103"), []

    def forward(*given: Any) -> str:
        seen.append(("forward", cuda.capturing, given))
        return "out"

    def hook(*given: Any) -> None:
        seen.append(("hook", cuda.capturing, given))

    runner = SimpleNamespace(model_runner=SimpleNamespace(capture_tail_hooks=[hook]))
    run_once = platform.captured_forward(runner, cuda, forward, 8)
    assert run_once("ids", "positions", "batch") == "out"
    assert seen == [
        ("forward", True, ("ids", "positions", "batch")),
        ("hook", False, (runner, "out", "batch", 8)),
    ]


def test_a_capture_that_fails_ends_and_calls_no_hook(platform: Any) -> None:
    cuda = platform.PretendedCuda("sm_103")
    called: list[Any] = []

    def fails(*_given: Any) -> None:
        raise ValueError("no")

    runner = SimpleNamespace(model_runner=SimpleNamespace(capture_tail_hooks=[called.append]))
    with pytest.raises(ValueError, match="no"):
        platform.captured_forward(runner, cuda, fails, 1)(1, 2, 3)
    assert (cuda.capturing, called) == (False, [])


def target(forward: Any, hooks: list[Any], *, draft: bool = False, drafts: bool = True) -> Any:
    """A model runner with as much as a capture touches."""
    return SimpleNamespace(
        model=SimpleNamespace(forward=forward), capture_tail_hooks=hooks, attn_backend="a",
        decode_num_tokens_per_req=lambda: 4, is_draft_worker=draft,
        spec_algorithm=SimpleNamespace(is_speculative=lambda: drafts),
    )  # fmt: skip


def test_verify_steps_are_captured_once_a_size_and_never_replayed(
    engine: Any, platform: Any
) -> None:
    seen: list[Any] = []
    runner = platform.VerifyRunner(
        target(
            lambda ids, positions, batch: seen.append(batch),
            [lambda runner, out, batch, tokens: seen.append((runner.capture_bs, tokens))],
        ),
        platform.PretendedCuda("sm_103"),
    )
    assert [batch.batch_size for batch in seen[::2]] == [4, 3, 2, 1]
    assert all(batch.forward_mode.is_target_verify() for batch in seen[::2])
    assert seen[1::2] == [([1, 2, 3, 4], tokens) for tokens in (16, 12, 8, 4)]
    assert runner.can_run_graph(None) is False


def test_only_the_contract_is_pretended_to(engine: Any, platform: Any) -> None:
    cuda = platform.pretend("sm_90", lambda runner, size, forward: forward)
    binding = sys.modules[BINDING]
    assert binding.torch.cuda is cuda
    assert cuda.get_device_properties(0).major == 9
    assert {target: kind for target, (_, kind) in engine["hooks"].items()} == {
        platform.CPU_RUNNER: "A", platform.DECODE: "A",
    }  # fmt: skip


def test_the_cpus_runner_keeps_the_forward_that_it_had(engine: Any, platform: Any) -> None:
    calls: list[Any] = []

    def around_capture(_runner: Any, size: int, forward: Any) -> Any:
        calls.append(size)
        return forward

    cuda = platform.pretend("sm_103", around_capture)
    around, _ = engine["hooks"][platform.CPU_RUNNER]
    runner = SimpleNamespace(model_runner=target(None, [lambda *given: calls.append(given[1:])]))

    def original(self: Any, size: int, forward: Any, **options: Any) -> tuple[Any, Any]:
        return forward, forward("ids", "positions", size)

    def forward(*_given: Any) -> bool:
        return bool(cuda.capturing)

    kept, out = around(original, runner, 2, forward, skip_cross_attention=True)
    assert (kept, out) == (forward, True)
    assert calls == [2, (True, 2, 2)]


@pytest.mark.parametrize(
    ("draft", "drafts", "pretended"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_runner_is_put_in_for_the_target_of_drafts_alone(
    engine: Any, platform: Any, draft: bool, drafts: bool, pretended: bool
) -> None:
    platform.pretend("sm_103", lambda runner, size, forward: forward)
    around, _ = engine["hooks"][platform.DECODE]
    runner = target(lambda *given: None, [], draft=draft, drafts=drafts)
    found = around(lambda *, model_runner: "the engine's own", model_runner=runner)
    assert (found != "the engine's own") is pretended
    if pretended:
        assert found.runner.capture_bs == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("mode", "size", "rows"),
    [("decode", 2, 8), ("verify", 1, 4), ("extend", 1, None), ("decode", 3, None)],
)
def test_the_sizes_of_the_variant_are_planned(
    engine: Any, monkeypatch: pytest.MonkeyPatch, mode: str, size: int, rows: int | None
) -> None:
    module = plugin("covers-some", monkeypatch)
    built = module.build_target(None, None, Record(widths=(4, 8), tokens_per_request=4))
    step = built.plan(None, SimpleNamespace(forward_mode=Mode(mode), batch_size=size))
    assert (step.rows if step else None) == rows


def test_a_covered_step_runs_the_models_own_forward(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = plugin("covers-all", monkeypatch).Built((1,), 1)
    assert built.forward("step", lambda *given, more: (given, more), 1, 2, 3, more=4) == (
        (1, 2, 3),
        4,
    )
    assert built.forward("step", lambda *given: "run", 1, 2, SimpleNamespace()) is None


@pytest.mark.parametrize(("rank", "covers"), [("", {1, 2}), ("tp1", {1, 2}), ("tp0", {1, 2, 3, 4})])
def test_a_variant_of_one_rank_leaves_the_others_healthy(
    engine: Any, monkeypatch: pytest.MonkeyPatch, rank: str, covers: set[int]
) -> None:
    module = plugin("covers-some", monkeypatch, rank)
    assert module.Built((1,), 1).covers == covers


@pytest.mark.parametrize(
    ("variant", "specs"),
    [
        ("covers-all", {"LlamaForCausalLM": "TARGET_SPEC", "Glm4MoeForCausalLM": "TARGET_SPEC"}),
        ("registers-nothing", {}),
        ("other-model", {"DeepseekV4ForCausalLM": "TARGET_SPEC"}),
        ("covers-draft", {
            "LlamaForCausalLM": "TARGET_SPEC", "Glm4MoeForCausalLM": "TARGET_SPEC",
            "Glm4MoeForCausalLMNextN": "DRAFT_SPEC",
        }),
    ],
)  # fmt: skip
def test_what_a_variant_registers(
    engine: Any, monkeypatch: pytest.MonkeyPatch, variant: str, specs: dict[str, str]
) -> None:
    plugin(variant, monkeypatch).register_specs()
    expected = {name: f"configurator_megakernel:{spec}" for name, spec in specs.items()}
    assert engine["specs"] == expected


@pytest.mark.parametrize(
    ("variant", "rows", "widths", "draft_rows"),
    [
        ("covers-all", 16, (1, 2, 3), 0),
        ("covers-no-step", 0, (1, 2, 3), 0),
        ("builds-fewer", 16, (1, 2), 0),
        ("covers-draft", 16, (1, 2, 3), 16),
    ],
)
def test_what_a_variant_builds(
    engine: Any, monkeypatch: pytest.MonkeyPatch, variant: str, rows: int,
    widths: tuple[int, ...], draft_rows: int,
) -> None:  # fmt: skip
    module = plugin(variant, monkeypatch)
    context = Record(widths=(1, 2, 3), tokens_per_request=1)
    assert module.build_target(None, None, context).widths == widths
    assert module.build_draft(None, None, context).widths == (1, 2, 3)
    assert (module.TARGET_SPEC.max_rows, module.DRAFT_SPEC.max_rows) == (rows, draft_rows)


def test_one_graph_is_captured_around_the_installed_forward(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = plugin("one-graph-around", monkeypatch)

    def installed() -> None: ...

    installed.__wrapped__ = "the model's own"  # type: ignore[attr-defined]
    runner = SimpleNamespace(model_runner=target(installed, []))
    assert module.around_capture(runner, 4, installed) == "the model's own"
    assert module.around_capture(runner, 3, installed) is installed


@pytest.mark.parametrize(("draft", "left"), [(False, False), (True, True)])
def test_the_installed_forward_is_taken_away_from_the_target(
    engine: Any, monkeypatch: pytest.MonkeyPatch, draft: bool, left: bool
) -> None:
    module = plugin("removed", monkeypatch)
    module.register_specs()
    take_away, kind = engine["hooks"][module.RUNNER]
    runner = target("installed", [], draft=draft)
    assert (take_away("result", runner), kind) == ("result", "B")
    assert ("forward" in vars(runner.model)) is left


def test_without_a_variant_nothing_is_loaded(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    with pytest.raises(KeyError):
        plugin("no-such-variant", monkeypatch)
