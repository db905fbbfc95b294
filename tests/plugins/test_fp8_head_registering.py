"""The FP8 head's plugin as an entry point: hooks where it knows the engine, an end where not."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from plugins.stand_in_engine import PACKAGE, engine

__all__ = ["engine"]
Engine = dict[str, ModuleType]
SCHEDULER = "sglang.srt.managers.scheduler"
TEXT = """class Scheduler:
    def init_tp_model_worker(self):
        pass

    def init_memory_pools(self):
        pass
"""


@pytest.fixture
def hooks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[tuple[str, str, str]]:
    """Hooks that the engine was given: target, function and kind."""
    given: list[tuple[str, str, str]] = []

    class HookRegistry:
        """The engine's, by name."""

        @staticmethod
        def register(target: str, function: Any, kind: str) -> None:
            given.append((target, function.__name__, kind))

    registry = ModuleType("sglang.srt.plugins.hook_registry")
    kinds = type("HookType", (), {"AROUND": "around"})
    vars(registry).update(HookRegistry=HookRegistry, HookType=kinds)
    monkeypatch.setitem(sys.modules, registry.__name__, registry)
    write(monkeypatch, tmp_path, TEXT)
    monkeypatch.setattr(metadata, "version", lambda name: "0.5.23")
    return given


def write(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """A scheduler of this text, which is found and not imported."""
    path = folder / "scheduler.py"
    path.write_text(text)
    spec = type("Spec", (), {"origin": str(path)})
    registering = import_module(f"{PACKAGE}.registering")
    monkeypatch.setattr(registering, "find_spec", lambda name: spec)


def register() -> None:
    import_module(PACKAGE).register()


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23"])
def test_both_places_are_hooked(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    register()
    assert hooks == [
        (f"{SCHEDULER}.Scheduler.init_tp_model_worker", "around_loading", "around"),
        (f"{SCHEDULER}.Scheduler.init_memory_pools", "around_dividing", "around"),
    ]


def test_an_unknown_release_ends_the_process(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Exception would be swallowed, and the engine would go on with a BF16 head."""
    monkeypatch.setattr(metadata, "version", lambda name: "0.5.24")
    with pytest.raises(SystemExit) as caught:
        register()
    assert "SGLang 0.5.24 is unknown to it: run 0.5.17 or 0.5.23" in str(caught.value)
    assert hooks == []


def test_an_engine_without_the_places_is_refused_with_the_rest(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.6.0")
    write(monkeypatch, tmp_path, TEXT.replace("init_memory_pools(self)", "init_pools(self)"))
    with pytest.raises(SystemExit) as caught:
        register()
    assert str(caught.value).splitlines() == [
        "configurator_fp8_head refuses this launch:",
        "  - SGLang 0.6.0 is unknown to it: run 0.5.17 or 0.5.23",
        "  - the engine's Scheduler has no init_memory_pools(self), which configurator_fp8_head "
        "hooks",
    ]


def test_a_granularity_that_there_is_not_is_refused(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFIGURATOR_FP8_HEAD_GRANULARITY", "per-block")
    with pytest.raises(SystemExit) as caught:
        register()
    assert "is 'per-block': set it to per-tensor or per-row" in str(caught.value)


def test_where_no_scheduler_runs_nothing_is_hooked(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "sglang.srt.managers.detokenizer_manager"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    register()
    assert hooks == []
