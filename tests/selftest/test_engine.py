"""Starting servers, looking at them, and leaving nothing behind, with an engine that is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_engine import fake_engine

from configurator.content import ROOT
from configurator.errors import ConfiguratorError
from configurator.selftest.engine import (
    ENVIRONMENT,
    Engine,
    Launcher,
    cache_folder,
    make_models,
    open_engine,
)
from configurator.selftest.matrix import Start, View
from configurator.selftest.ports import nodes_of


def launcher(folder: Path) -> Launcher:
    engine = Engine(fake_engine(folder), "0.5.23")
    return Launcher.prepare(engine, folder / "models", folder / "runs")


def code_of(error: pytest.ExceptionInfo[ConfiguratorError]) -> str:
    problem = error.value.problems[0]
    assert "configurator.selftest.install" in (problem.remedy or "")
    return problem.code


def test_an_engine_is_opened(tmp_path: Path) -> None:
    assert open_engine(fake_engine(tmp_path)).version == "0.5.23"


def test_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="cannot be run") as error:
        open_engine(tmp_path / "python")
    assert code_of(error) == "SLF001"


def test_no_engine(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="PackageNotFoundError") as error:
        open_engine(fake_engine(tmp_path, "none"))
    assert code_of(error) == "SLF002"


@pytest.mark.parametrize(("script", "says"), [("echo hello", "hello"), ("true", "nothing")])
def test_a_program_that_is_no_python(tmp_path: Path, script: str, says: str) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(ConfiguratorError, match=f"is no Python: .* it says '{says}'") as error:
        open_engine(program)
    assert code_of(error) == "SLF001"


def test_another_release(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"has SGLang 0\.5\.17") as error:
        open_engine(fake_engine(tmp_path, "0.5.17"))
    assert code_of(error) == "SLF003"


def test_models_are_made_once(tmp_path: Path) -> None:
    engine = Engine(fake_engine(tmp_path), "0.5.23")
    folder = make_models(engine, tmp_path / "cache" / "models")
    assert sorted(path.name for path in folder.iterdir()) == ["good", "made.json", "wrong"]
    (folder / "mark").touch()
    assert make_models(engine, folder) == folder
    assert (folder / "mark").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["models"]


@pytest.mark.parametrize("left", ["nothing", "no list", "a part", "a short list", "no JSON"])
def test_models_that_are_not_whole_are_made_again(tmp_path: Path, left: str) -> None:
    engine = Engine(fake_engine(tmp_path), "0.5.23")
    folder = tmp_path / "cache" / "models"
    if left == "nothing":
        folder.mkdir(parents=True)
    else:
        make_models(engine, folder)
        (folder / "good").rmdir()
        if left == "no list":
            (folder / "made.json").unlink()
        if left in ("a short list", "no JSON"):
            (folder / "made.json").write_text("{}" if left == "a short list" else "{")
    assert make_models(engine, folder) == folder
    assert sorted(path.name for path in folder.iterdir()) == ["good", "made.json", "wrong"]
    assert [path.name for path in folder.parent.iterdir()] == ["models"]


def test_models_that_cannot_be_made(tmp_path: Path) -> None:
    engine = Engine(fake_engine(tmp_path, "no-models"), "0.5.23")
    with pytest.raises(ConfiguratorError, match="ImportError: transformers"):
        make_models(engine, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache_folder()).startswith("/somewhere/configurator/selftest-models-")


def test_command_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    one = launcher(tmp_path)
    start = Start(model="good", flags=("--draft", "MODELS/wrong"), env=(("SGLANG_X", "1"),))
    words = one.command(start, 4321)
    assert words[1:3] == ["-m", "sglang.launch_server"]
    assert words[words.index("--port") + 1] == "4321"
    assert words[-1] == f"{tmp_path}/models/wrong"
    environment = one.environment(start, tmp_path / "reports", "mark")
    assert "SGLANG_SIMULATE_ACC_LEN" not in environment
    assert environment["SGLANG_X"] == "1"
    assert environment.items() >= ENVIRONMENT.items()
    path = [Path(part).name for part in environment["PYTHONPATH"].split(os.pathsep)]
    assert path == ["sabotage", "bundle", "site"]
    assert environment["CONFIGURATOR_MEGAKERNEL"] == ""
    without = one.environment(Start(model="good", probe=False), tmp_path, "mark")
    assert "bundle" not in without["PYTHONPATH"]


def test_the_megakernel_is_on_the_path_where_it_is_asked_for(tmp_path: Path) -> None:
    start = Start(model="good", megakernel="covers-some")
    environment = launcher(tmp_path).environment(start, tmp_path / "reports", "mark")
    path = [Path(part).name for part in environment["PYTHONPATH"].split(os.pathsep)]
    assert path == ["sabotage", "megakernel", "bundle", "site"]
    assert environment["CONFIGURATOR_MEGAKERNEL"] == "covers-some"


def test_plugins_can_be_found_as_distributions(tmp_path: Path) -> None:
    from importlib.metadata import distributions

    one = launcher(tmp_path)
    for folder, module, file in (
        (one.sabotage, "configurator_sabotage", "configurator_sabotage.py"),
        (one.bundle, "configurator_probe", "configurator_probe/__init__.py"),
    ):
        (found,) = distributions(path=[str(folder)])
        (entry,) = found.entry_points.select(group="sglang.srt.plugins")
        assert (entry.name, entry.value) == (module, f"{module}:register")
        assert (folder / file).is_file()


def test_the_megakernel_has_the_entry_point_that_the_contract_wants(tmp_path: Path) -> None:
    from importlib.metadata import distributions

    folder = launcher(tmp_path).megakernel
    (found,) = distributions(path=[str(folder)])
    (entry,) = found.entry_points.select(group="sglang.srt.plugins")
    assert (entry.name, entry.value) == (
        "nvidia_megakernel",
        "configurator_megakernel:register_specs",
    )
    names = {path.name for path in folder.glob("*.py")}
    assert names == {"configurator_megakernel.py", "pretended_platform.py"}


def test_a_server_is_looked_at_and_stopped(tmp_path: Path) -> None:
    with launcher(tmp_path).server("one", Start(model="good")) as server:
        evidence = server.look(View())
        again = server.look(View(passive=True, log="rotated"))
        missing = server.look(View(passive=True, log="missing"))
    replica = evidence.replicas[0]
    assert (replica.state.state, len(replica.exchanges)) == ("ready", 3)
    assert replica.reports
    assert again.replicas[0].exchanges == ()
    lines = again.replicas[0].log
    assert lines is not None
    assert replica.log is not None
    assert 0 < len(lines) <= 12 < len(replica.log)
    assert missing.replicas[0].log is None
    assert server.process.poll() is not None


def test_whatever_outlives_its_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("configurator.selftest.server._GRACE_S", 0.2)
    with launcher(tmp_path).server("one", Start(model="good", sabotage="stubborn")) as server:
        child = server.folder / "child"
        deadline = time.monotonic() + 15
        while not child.is_file() or not child.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pid = int(child.read_text())
    assert server.process.poll() == -9
    assert not Path(f"/proc/{pid}/cmdline").is_file() or not _runs(pid)


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_start_that_hangs_is_looked_at_at_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("configurator.selftest.server._GRACE_S", 0.2)
    start = Start(model="good", sabotage="hangs", until="Load weight begin")
    with launcher(tmp_path).server("one", start) as server:
        state = server.look(View()).replicas[0].state
    assert (state.state, state.phase) == ("starting", "loading weights")


def test_a_port_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configurator.selftest.server._CALL_S", 0.5)
    one = launcher(tmp_path)
    with one.server("one", Start(model="good", port="taken", limit_s=20)) as server:
        server.process.wait(20)
        state = server.look(View()).replicas[0].state
    assert state.state == "failed"
    assert "address already in use" in state.reason
    assert "another process listens on that port" in state.remedy


def test_a_signal_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    python = fake_engine(tmp_path)
    words = ["-m", "configurator", "selftest", "--only", "mtp", "--keep", str(tmp_path / "kept")]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CONFIGURATOR_SABOTAGE": "x"}
    process = subprocess.Popen(
        [sys.executable, *words, "--engine", str(python)], env=environment, cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log = tmp_path / "kept" / "mtp" / "server.log"
    deadline = time.monotonic() + 15
    while not log.is_file() or "Load weight begin" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 128 + signal.SIGTERM
    assert not [
        pid for pid in _processes() if str(log.parent) in _environment(pid)
    ]  # fmt: skip


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def test_nodes_of_one_server_differ_in_rank_and_port_alone() -> None:
    alone = Start(model="good")
    assert nodes_of(alone, 1234) == [("server.log", 1234, [])]
    first, second = nodes_of(alone.model_copy(update={"nodes": 2}), 1234)
    assert (first[0], first[1], second[0]) == ("server.log", 1234, "server-1.log")
    assert second[1] != 1234
    assert first[2][-2:] == ["--node-rank", "0"]
    assert second[2][-2:] == ["--node-rank", "1"]
    assert first[2][:-1] == second[2][:-1]
    assert first[2][:2] == ["--nnodes", "2"]
