"""The FP8 head's plugin as an entry point: hooks where it knows the engine, an end where not."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from plugins.stand_in_engine import PACKAGE, engine

from configurator.content import Library

__all__ = ["engine"]
Engine = dict[str, ModuleType]
SCHEDULER = "sglang.srt.managers.scheduler"
UPDATER = "sglang.srt.model_executor.model_runner_components.weight_updater"
UPDATES = """class WeightUpdater:
    def update_weights_from_disk(
        self: WeightUpdater,
    ):
        pass

    def update_weights_from_tensor(self):
        pass

    def update_weights_from_distributed(self, names):
        pass

    def update_weights_from_ipc(self: WeightUpdater, recv_req):
        pass
"""
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

        _hooks: ClassVar[dict[str, Any]] = {}
        _patched: ClassVar[set[str]] = set()

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


def write(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, updates: str = UPDATES) -> None:
    """A scheduler and an updater of these texts, which are found and not imported."""
    specs = {}
    for module, source in ((SCHEDULER, text), (UPDATER, updates)):
        path = folder / f"{module.rpartition('.')[2]}.py"
        path.write_text(source)
        specs[module] = type("Spec", (), {"origin": str(path)})
    registering = import_module(f"{PACKAGE}.registering")
    monkeypatch.setattr(registering, "find_spec", specs.get)


def register() -> None:
    import_module(PACKAGE).register()


RELEASES = ["0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"]
KNOWN = "0.5.17, 0.5.18, 0.5.19, 0.5.20, 0.5.21, 0.5.22, 0.5.23"


def test_the_entry_and_its_plugin_name_the_same_releases(engine: Engine) -> None:
    """The plugin travels without its entry, so both have the list."""
    plugin = Library().kernel("fp8-lm-head").plugin
    assert plugin is not None
    own = import_module(f"{PACKAGE}.settings").RELEASES
    assert [list(own), plugin.releases] == [RELEASES, RELEASES]


@pytest.mark.parametrize(
    ("version", "received"),
    # The name changed with 0.5.21.
    [(version, "update_weights_from_distributed") for version in RELEASES[:4]]
    + [(version, "load_weights_from_distributed") for version in RELEASES[4:]],
)
def test_every_place_is_hooked(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    version: str, received: str,
) -> None:  # fmt: skip
    updates = UPDATES.replace("update_weights_from_distributed", received)
    write(monkeypatch, tmp_path, TEXT, updates)
    monkeypatch.setattr(metadata, "version", lambda name: version)
    register()
    names = ("update_weights_from_disk", "update_weights_from_tensor", received,
             "update_weights_from_ipc")  # fmt: skip
    assert hooks == [
        (f"{SCHEDULER}.Scheduler.init_tp_model_worker", "around_loading", "around"),
        (f"{SCHEDULER}.Scheduler.init_memory_pools", "around_dividing", "around"),
        *((f"{UPDATER}.WeightUpdater.{name}", "around_updating", "around") for name in names),
    ]


@pytest.mark.parametrize("version", ["0.5.16", "0.5.22.post1", "0.5.24"])
def test_an_unknown_release_ends_the_process(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """An Exception would be swallowed, and the engine would go on with a BF16 head."""
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(SystemExit) as caught:
        register()
    assert f"SGLang {version} is unknown to it: run one of {KNOWN}" in str(caught.value)
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
        f"  - SGLang 0.6.0 is unknown to it: run one of {KNOWN}",
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


def test_a_way_to_new_weights_that_is_not_known_is_refused(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    updates = UPDATES.replace("_from_tensor", "_from_tensors").replace("_from_ipc", "_by_ipc")
    write(monkeypatch, tmp_path, TEXT, updates.replace("(self, names)", "(other, names)"))
    with pytest.raises(SystemExit) as caught:
        register()
    lacks = [line.split(", which")[0] for line in str(caught.value).splitlines()[1:]]
    assert lacks == [
        "  - the engine's WeightUpdater has no update_weights_from_tensor",
        "  - the engine's WeightUpdater has no update_weights_from_distributed or "
        "load_weights_from_distributed",
        "  - the engine's WeightUpdater has no update_weights_from_ipc",
    ]
    assert hooks == []


@pytest.mark.parametrize("missing", ["sglang.srt.plugins.hook_registry", f"{PACKAGE}.hooked"])
def test_whatever_fails_while_hooking_ends_the_process(
    hooks: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The engine swallows every Exception of a plugin, and would go on with a BF16 head."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as caught:
        register()
    said = str(caught.value)
    assert said.startswith("configurator_fp8_head cannot hook this engine: ModuleNotFoundError: ")
    assert missing in said


def test_a_module_that_did_not_travel_ends_the_process(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.settings", None)
    with pytest.raises(SystemExit, match=r"cannot hook this engine: .*settings"):
        register()
