"""Hooks of the probe: which are registered, what they write, and when they stop the engine."""

from __future__ import annotations

import json
import os
import sys
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from inengine import engine_fakes as fakes

from configurator.inengine.configurator_probe import gathering, hooked, hooks, register

CONTROLLER, STATE = hooks.STATE_HOOKS


class HookType(Enum):
    AFTER = "after"


class Registry:
    """As much of the engine's registry as the probe uses."""

    def __init__(self) -> None:
        self.hooks: dict[str, Any] = {}
        self._patched: set[str] = set()

    def register(self, target: str, hook: Any, kind: HookType) -> None:
        self.hooks[target] = hook


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fakes.install(monkeypatch)
    monkeypatch.setattr(hooks, "_hooks", {"registered": [], "missing": {}})
    monkeypatch.setattr(hooked, "_last", None)
    monkeypatch.setenv("CONFIGURATOR_PROBE_DIR", str(tmp_path / "reports"))
    monkeypatch.delenv("CONFIGURATOR_PROBE_REQUIRED", raising=False)
    return tmp_path / "reports"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()
    name = "sglang.srt.plugins.hook_registry"
    module = SimpleNamespace(HookRegistry=made, HookType=HookType)
    monkeypatch.setitem(sys.modules, name, module)
    return made


def imported(monkeypatch: pytest.MonkeyPatch, name: str, holder: str, *methods: str) -> None:
    """A module of the engine that is imported already, with one class."""
    made = ModuleType(name)
    kind = type(holder, (), {method: lambda self: None for method in methods})
    setattr(made, holder, kind)
    monkeypatch.setitem(sys.modules, name, made)


def newest(monkeypatch: pytest.MonkeyPatch) -> None:
    methods = ("get_init_info", "init_all_attention_backends", "get_internal_state")
    imported(monkeypatch, "sglang.srt.managers.scheduler", "Scheduler", *methods)
    imported(
        monkeypatch, "sglang.srt.managers.scheduler_components.internal_state",
        "SchedulerInternalStateController", "get_internal_state",
    )  # fmt: skip


def hooks_file(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / f"hooks-{os.getpid()}.json").read_text())
    return data


def test_the_newest_engine_gets_its_three_hooks(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(monkeypatch)
    register()
    assert list(registry.hooks) == [hooks.READY_HOOK, hooks.LOADED_HOOK, CONTROLLER]
    written = hooks_file(folder)
    assert written["registered"] == [hooks.READY_HOOK, hooks.LOADED_HOOK, CONTROLLER]
    assert (written["schema"], written["missing"]) == ("configurator/hooks/1", {})
    assert written["error"] is None


def test_where_no_scheduler_runs_none_is_imported(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler", raising=False)
    imported(monkeypatch, "sglang.srt.managers.detokenizer_manager", "DetokenizerManager")
    monkeypatch.setenv("CONFIGURATOR_PROBE_REQUIRED", "1")
    register()
    assert registry.hooks == {}
    assert (hooks_file(folder)["registered"], hooks_file(folder)["error"]) == ([], None)


def test_an_older_engine_answers_from_its_scheduler(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("get_init_info", "get_internal_state")
    imported(monkeypatch, "sglang.srt.managers.scheduler", "Scheduler", *methods)
    monkeypatch.setattr(hooks, "find_spec", lambda name: None)
    register()
    assert list(registry.hooks) == [hooks.READY_HOOK, STATE]
    assert hooks_file(folder)["missing"] == {
        hooks.LOADED_HOOK: "sglang.srt.managers.scheduler has no "
        "Scheduler.init_all_attention_backends"
    }


SOURCE = "class Scheduler:\n    def get_init_info(self):\n        pass\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SOURCE, None),
        ("class Scheduler:\n    async def get_init_info(self):\n        pass\n", None),
        (
            "class Other:\n    def get_init_info(self):\n        pass\n",
            "the text of sglang.srt.managers.scheduler has no Scheduler.get_init_info",
        ),
        (
            "class Scheduler:\n    pass\n",
            "the text of sglang.srt.managers.scheduler has no Scheduler.get_init_info",
        ),
    ],
)
def test_a_module_that_is_not_imported_is_read_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str | None
) -> None:
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler", raising=False)
    path = tmp_path / "scheduler.py"
    path.write_text(text)
    monkeypatch.setattr(hooks, "find_spec", lambda name: SimpleNamespace(origin=str(path)))
    assert hooks.missing_reason(hooks.READY_HOOK) == reason
    assert "sglang.srt.managers.scheduler" not in sys.modules


def test_a_module_without_text_is_taken_on_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "find_spec", lambda name: SimpleNamespace(origin="scheduler.pyc"))
    assert hooks.missing_reason(hooks.READY_HOOK) is None


def test_an_engine_without_the_method_is_noticed_and_goes_on(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, "sglang.srt.managers.scheduler", "Scheduler")
    register()
    assert registry.hooks == {}
    problem = "sglang.srt.managers.scheduler has no Scheduler.get_init_info"
    assert hooks_file(folder)["error"] == problem


def test_a_required_report_stops_an_engine_without_the_method(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(monkeypatch, "sglang.srt.managers.scheduler", "Scheduler")
    monkeypatch.setenv("CONFIGURATOR_PROBE_REQUIRED", "1")
    with pytest.raises(SystemExit, match="has no Scheduler"):
        register()
    assert hooks_file(folder)["error"].endswith("has no Scheduler.get_init_info")


def test_the_report_is_a_file_and_goes_with_the_handshake(folder: Path) -> None:
    one = fakes.scheduler(fakes.LlamaForCausalLM(lm_head=fakes.head()))
    result = {"status": "ready"}
    assert hooked.after_ready(result, one) is result
    written = json.loads((folder / "report-tp0-pp0-dp0.json").read_text())
    assert result["configurator_probe"] == written
    assert written["stage"] == "ready"
    assert [path.name for path in folder.iterdir()] == ["report-tp0-pp0-dp0.json"]


def test_every_rank_has_its_file(folder: Path) -> None:
    for tensor, replica in ((0, 0), (1, 0), (0, 1)):
        ranks = SimpleNamespace(tp_rank=tensor, pp_rank=0, dp_rank=replica)
        hooked.after_ready({}, fakes.scheduler(fakes.LlamaForCausalLM(), ps=ranks))
    hooked.after_ready({}, fakes.scheduler(fakes.LlamaForCausalLM(), ps=None))
    assert sorted(path.name for path in folder.iterdir()) == [
        f"report-pid{os.getpid()}.json", "report-tp0-pp0-dp0.json", "report-tp0-pp0-dp1.json",
        "report-tp1-pp0-dp0.json",
    ]  # fmt: skip


def test_the_early_report_is_there_until_the_late_one_replaces_it(folder: Path) -> None:
    one = fakes.scheduler(fakes.LlamaForCausalLM(lm_head=fakes.head()))
    hooked.after_loaded(None, one)
    path = folder / "report-tp0-pp0-dp0.json"
    assert json.loads(path.read_text())["stage"] == "loaded"
    hooked.after_ready({}, one)
    assert json.loads(path.read_text())["stage"] == "ready"


def test_the_state_of_every_replica_has_the_report() -> None:
    result = SimpleNamespace(internal_state={"x": 1})
    hooked.after_ready({}, fakes.scheduler(fakes.LlamaForCausalLM()))
    assert hooked.after_state(result, None) is result
    assert result.internal_state["configurator_probe"]["schema"] == "configurator/report/1"
    assert hooked.after_state(None, None) is None


def test_hooks_that_the_engine_did_not_apply_are_missing(
    folder: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest(monkeypatch)
    register()
    registry._patched |= {hooks.READY_HOOK, CONTROLLER}
    assert hooks.hook_facts() == {
        "applied": [hooks.READY_HOOK, CONTROLLER],
        "missing": {hooks.LOADED_HOOK: "not applied"},
    }


def broken(*arguments: Any) -> None:
    raise ValueError("no such thing")


def test_a_report_that_cannot_be_built_says_why_and_the_engine_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked, "build", broken)
    result: dict[str, Any] = {}
    hooked.after_ready(result, object())
    (path,) = folder.iterdir()
    written = json.loads(path.read_text())
    assert written["errors"] == [{"part": "all", "error": "ValueError: no such thing"}]
    assert written["process"]["pid"] == os.getpid()
    assert result["configurator_probe"] == written


def test_a_report_that_cannot_be_built_still_says_of_which_rank(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked, "build", broken)
    place = SimpleNamespace(tp_rank=1, pp_rank=0, dp_rank=None, tp_size=2)
    one = fakes.scheduler(fakes.LlamaForCausalLM(), ps=place)
    hooked.after_ready({}, one)
    (path,) = folder.iterdir()
    assert path.name == "report-tp1-pp0-dp0.json"
    rank = json.loads(path.read_text())["rank"]
    assert (rank["tp_rank"], rank["tp_size"]) == (1, 2)


def test_a_required_report_stops_the_engine_after_the_error_is_on_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooked, "build", broken)
    monkeypatch.setenv("CONFIGURATOR_PROBE_REQUIRED", "1")
    hooked.after_loaded(None, object())
    with pytest.raises(RuntimeError, match="no such thing"):
        hooked.after_ready({}, object())
    (path,) = folder.iterdir()
    assert json.loads(path.read_text())["errors"][0]["error"] == "ValueError: no such thing"


@pytest.mark.parametrize("required", [True, False])
def test_a_directory_that_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, required: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder.write_text("a file is in the way")
    monkeypatch.setenv("CONFIGURATOR_PROBE_REQUIRED", "1" if required else "0")
    one, result = fakes.scheduler(fakes.LlamaForCausalLM()), dict[str, Any]()
    if required:
        with pytest.raises(RuntimeError, match="no report"):
            hooked.after_ready(result, one)
    else:
        hooked.after_ready(result, one)
        assert result["configurator_probe"]["stage"] == "ready"
    assert "the report cannot be written" in capsys.readouterr().err


def test_without_a_directory_the_report_goes_over_http_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONFIGURATOR_PROBE_DIR")
    result: dict[str, Any] = {}
    hooked.after_ready(result, fakes.scheduler(fakes.LlamaForCausalLM()))
    assert result["configurator_probe"]["stage"] == "ready"
    assert not folder.exists()


class Store(dict[str, str]):
    """As much of torch's store as the probe uses; a get that would wait fails."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key].encode()


def of_rank(monkeypatch: pytest.MonkeyPatch, store: Store, rank: int, size: int) -> None:
    group = SimpleNamespace(
        is_initialized=lambda: True,
        get_rank=lambda: rank,
        get_world_size=lambda: size,
        distributed_c10d=SimpleNamespace(_get_default_store=lambda: store),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=group))
    monkeypatch.setattr(gathering, "_others", {})


def ready_on(monkeypatch: pytest.MonkeyPatch, store: Store, rank: int, size: int) -> None:
    of_rank(monkeypatch, store, rank, size)
    place = SimpleNamespace(tp_rank=rank, pp_rank=0, dp_rank=None, tp_size=size)
    hooked.after_ready({}, fakes.scheduler(fakes.LlamaForCausalLM(), ps=place))


def answered() -> dict[str, Any]:
    state: dict[str, Any] = {}
    hooked.after_state(SimpleNamespace(internal_state=state))
    return state


def test_the_first_rank_answers_for_ranks_on_other_hosts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    for rank in (2, 0):
        ready_on(monkeypatch, store, rank, 3)
    first = answered()["configurator_probe_ranks"]
    assert [report["rank"]["tp_rank"] for report in first] == [2]
    ready_on(monkeypatch, store, 1, 3)
    of_rank(monkeypatch, store, 0, 3)
    later = answered()["configurator_probe_ranks"]
    assert [report["rank"]["tp_rank"] for report in later] == [1, 2]
    assert later[1] == first[0]


def test_other_ranks_and_lone_ones_answer_for_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    ready_on(monkeypatch, store, 1, 2)
    assert answered()["configurator_probe_ranks"] == []
    ready_on(monkeypatch, store, 0, 1)
    assert "configurator_probe/0" not in store
    assert answered()["configurator_probe_ranks"] == []


def of_size(size: int) -> dict[str, Any]:
    """A report whose text has so many bytes."""
    report = {
        "schema": "configurator/report/1", "stage": "ready", "process": {"pid": 7, "time": 1.5},
        "start": {"random_seed": 3}, "rank": {"tp_rank": 1}, "versions": {"engine": "0.5.23"},
        "target": {"layers": ""}, "drafts": [], "errors": [],
    }  # fmt: skip
    return {**report, "target": {"layers": "x" * (size - len(json.dumps(report)))}}


def handed_on(monkeypatch: pytest.MonkeyPatch, report: dict[str, Any]) -> dict[str, Any]:
    """What the first rank has of a report that the second one published."""
    store = Store()
    of_rank(monkeypatch, store, 1, 2)
    gathering.publish(report)
    assert len(store["configurator_probe/1"]) <= 2**20
    of_rank(monkeypatch, store, 0, 2)
    (gathered,) = gathering.gather()
    return gathered


def test_a_report_that_would_break_the_engines_store_is_not_handed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = of_size(2**20 + 1)
    error = "the report of 1048577 bytes is too large to hand on to other hosts"
    kept = ("schema", "stage", "process", "start", "rank", "versions")
    assert handed_on(monkeypatch, report) == {
        **{name: report[name] for name in kept},
        "errors": [{"part": "all", "error": error}],
    }
    assert error in capsys.readouterr().err
    without = {name: value for name, value in report.items() if name not in ("start", "versions")}
    assert set(handed_on(monkeypatch, {**without, "target": "\u00e9" * 2**20})) == {
        "schema", "stage", "process", "rank", "errors",
    }  # fmt: skip


def test_the_largest_report_that_is_handed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = of_size(2**20)
    assert handed_on(monkeypatch, report) == report
    assert capsys.readouterr().err == ""


def test_a_store_that_fails_costs_the_other_reports_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store()
    monkeypatch.setattr(store, "set", broken)
    monkeypatch.setattr(store, "check", broken)
    monkeypatch.setenv("CONFIGURATOR_PROBE_REQUIRED", "1")
    ready_on(monkeypatch, store, 0, 2)
    state = answered()
    assert state["configurator_probe"]["rank"]["tp_rank"] == 0
    assert "configurator_probe_ranks" not in state
    said = capsys.readouterr().err
    assert "no other host gets this report: ValueError" in said
    assert "no report of other ranks: ValueError" in said
