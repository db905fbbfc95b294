"""Every check of preflight: what it finds, and that it is silent where all is well."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.evidence.host import Gpu
from configurator.resolve import resolve
from configurator.source import dump
from configurator.up import preflight as checks
from configurator.up import proc
from configurator.up.engine_python import EnginePython
from configurator.up.launching import commands_of
from configurator.up.preflight import CHECKS, Finding, Host, preflight

ENGINE = EnginePython("3.12.3", "/venv/python", {"sglang": "0.5.23"}, ("configurator_probe",))
H200 = Gpu("NVIDIA H200", "143771 MiB", "sm_90", "570.1")
SPARK = Gpu("NVIDIA GB10", "[N/A]", "sm_121", "580.1")


def deployment(folder: Path, **extra: Any) -> Deployment:
    path = folder / "p.yaml"
    data = {
        "apiVersion": "configurator/v1",
        "kind": "Deployment",
        "name": "p",
        "engine": {"version": "0.5.23"},
        "hardware": {"name": "cpu", "gpus": 1},
        "model": {"name": "qwen3-8b"},
        **extra,
    }
    path.write_text(dump(data))
    library = Library()
    return resolve(*library.profile(str(path)), library)


def host(folder: Path, engine: EnginePython = ENGINE, gpus: Any = None, **extra: Any) -> Host:
    made = deployment(folder, **extra)
    commands = commands_of(made, 0, {}, None, {})
    return Host(made, commands, engine, gpus, folder, instrumented=True)


def found(name: str, on: Host) -> list[Finding]:
    return list(CHECKS[name](on))


def test_a_host_where_all_is_well(tmp_path: Path) -> None:
    assert preflight(host(tmp_path), frozenset({"port"})) == []


def test_a_port_that_is_taken_names_its_holder(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        (finding,) = found("port", host(tmp_path, serving={"port": port}))
        assert proc.holders(port)
    assert f"127.0.0.1:{port} (replica0-host0) is taken, held by process" in finding.fact
    assert "serving.port" in finding.remedy
    assert found("port", host(tmp_path, serving={"port": port})) == []
    assert proc.holders(port) == []


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    (finding,) = found("port", host(tmp_path, serving={"host": "192.0.2.1"}))
    assert "192.0.2.1:30000 (replica0-host0) cannot be listened on" in finding.fact
    assert "serving.host" in finding.remedy


def test_the_port_where_ranks_meet(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        where = f"127.0.0.1:{held.getsockname()[1]}"
        extra = {"args": {"dist-init-addr": where, "port": 1}}
        findings = found("port", host(tmp_path, extra=extra))
    assert f"{where} (replica0-host0, --dist-init-addr) is taken" in findings[-1].fact
    assert findings[-1].remedy == "stop what listens there, or change extra.args dist-init-addr"


@pytest.mark.parametrize(("available", "number"), [(63.9, 1), (64.0, 0), (None, 0)])
def test_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: float | None, number: int
) -> None:
    monkeypatch.setattr(proc, "available_gib", lambda: available)
    findings = found("memory", host(tmp_path, memory={"min_available_gib": 64}))
    assert len(findings) == number
    if findings:
        assert findings[0].fact == "63.9 GiB of memory are available, the profile needs 64"
    assert found("memory", host(tmp_path)) == []


def test_unified_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "available_gib", lambda: 10.0)
    spark: dict[str, Any] = {
        "hardware": {"name": "dgx-spark", "gpus": 1},
        "memory": {"min_available_gib": 100},
    }
    (finding,) = found("memory", host(tmp_path, **spark))
    assert "(host and GPU share it)" in finding.fact
    assert "drop_caches" in finding.remedy


@pytest.mark.parametrize(
    ("name", "gpus", "fact"),
    [
        ("h200", (H200,), None),
        ("dgx-spark", (SPARK,), None),
        ("h200", (), "this host has no GPU; the profile needs 1 NVIDIA H200"),
        ("h200", (SPARK,), "this host has 1 x NVIDIA GB10; the profile needs 1 NVIDIA H200"),
        ("h200", (dataclasses.replace(H200, arch="sm_80"),), "NVIDIA H200 is sm_80 here"),
        ("h200", (dataclasses.replace(H200, arch=""),), None),
        ("h200", None, "nvidia-smi does not answer"),
        ("cpu", None, None),
    ],
)
def test_gpus(tmp_path: Path, name: str, gpus: Any, fact: str | None) -> None:
    findings = found("gpu", host(tmp_path, gpus=gpus, hardware={"name": name, "gpus": 1}))
    assert [finding.fact.startswith(fact or "?") for finding in findings] == [True] * bool(fact)
    assert all(f.severity == ("warning" if gpus is None else "error") for f in findings)


@pytest.mark.parametrize(
    ("engine", "fact", "remedy"),
    [
        (EnginePython(error="No such file"), "does not answer: No such file", "--python PATH"),
        (EnginePython("3.12", "/p", {}), "sglang is not installed for /p", "--python PATH"),
        (
            EnginePython("3.12", "/p", {"sglang": "0.5.17"}),
            "sglang is 0.5.17, the profile is for 0.5.23",
            "install sglang==0.5.23",
        ),
    ],
)
def test_the_engine(tmp_path: Path, engine: EnginePython, fact: str, remedy: str) -> None:
    (finding,) = found("engine", host(tmp_path, engine))
    assert finding.severity == "error"
    assert fact in finding.fact
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("packages", "severity", "fact"),
    [
        ({"humming-kernels": "0.1.12"}, None, ""),
        ({"humming-kernels": "0.1.11"}, "warning", "is 0.1.11, the engine build has 0.1.12"),
        ({"sglang": "0.5.23"}, "error", "needs humming-kernels, which is not installed"),
    ],
)
def test_packages(tmp_path: Path, packages: dict[str, str], severity: str, fact: str) -> None:
    library = Library()
    name = next(
        name for name in library.names("kernel")
        if library.kernel(name).needs.packages == ["humming-kernels"]
    )  # fmt: skip
    engine = dataclasses.replace(ENGINE, packages=packages)
    findings = found("packages", host(tmp_path, engine, optimizations={name: {}}))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all(fact in finding.fact for finding in findings)


@pytest.mark.parametrize(("required", "severity"), [(False, "warning"), (True, "error")])
def test_plugins(tmp_path: Path, required: bool, severity: str) -> None:
    evidence: dict[str, Any] = {"evidence": {"require_report": required}}
    without = dataclasses.replace(ENGINE, plugins=())
    (finding,) = found("plugins", host(tmp_path, without, **evidence))
    assert (finding.severity, "does not see the entry point" in finding.fact) == (severity, True)
    extra: dict[str, Any] = {"extra": {"env": {"SGLANG_PLUGINS": "mine"}}}
    (finding,) = found("plugins", host(tmp_path, **evidence, **extra))
    assert finding.severity == severity
    assert "SGLANG_PLUGINS is 'mine'" in finding.fact
    assert finding.remedy == "set it to mine,configurator_probe"
    allowed: dict[str, Any] = {"extra": {"env": {"SGLANG_PLUGINS": "mine, configurator_probe"}}}
    assert found("plugins", host(tmp_path, **evidence, **allowed)) == []
    bare = dataclasses.replace(host(tmp_path, without, **evidence), instrumented=False)
    assert found("plugins", bare) == []


def test_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    model: dict[str, Any] = {"model": {"name": "qwen3-8b", "path": str(path)}}
    (finding,) = found("model", host(tmp_path, **model))
    assert finding.fact == f"there is no checkpoint at {path}"
    path.mkdir()
    (finding,) = found("model", host(tmp_path, **model))
    assert "has no config.json" in finding.fact
    (path / "config.json").write_text("{}")
    assert found("model", host(tmp_path, **model)) == []


def test_room_for_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_ROOM_GIB", 1e9)
    (finding,) = found("disk", host(tmp_path))
    assert finding.remedy == "give a --report directory with more room"


def test_a_skipped_check_is_not_made(tmp_path: Path) -> None:
    broken = host(tmp_path, EnginePython(error="gone"))
    assert [f.check for f in preflight(broken, frozenset({"port"}))] == ["engine"]
    assert preflight(broken, frozenset({"port", "engine"})) == []


def test_a_plugin_with_kernels_must_be_installed(tmp_path: Path) -> None:
    library = Library()
    made = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    on = dataclasses.replace(host(tmp_path), deployment=made)
    (finding,) = found("kernels", on)
    assert (finding.severity, finding.fact) == (
        "error", "nvidia-megakernel needs the plugin nvidia_megakernel, which is not installed",
    )  # fmt: skip
    assert finding.remedy == "install sgl-nvidia-mega for /venv/python"
    there = dataclasses.replace(ENGINE, plugins=("configurator_probe", "nvidia_megakernel"))
    assert found("kernels", dataclasses.replace(on, engine=there)) == []


@pytest.mark.parametrize("allowed", ["", "x, nvidia_megakernel"])
def test_a_plugin_with_kernels_may_be_loaded(tmp_path: Path, allowed: str) -> None:
    assert found("kernels", _with_megakernel(tmp_path, allowed)) == []


def test_a_list_of_plugins_without_that_of_the_kernels_is_refused(tmp_path: Path) -> None:
    (finding,) = found("kernels", _with_megakernel(tmp_path, "x, configurator_probe"))
    assert (finding.severity, finding.fact, finding.remedy) == (
        "error",
        "SGLANG_PLUGINS is 'x, configurator_probe', so nvidia_megakernel is not loaded, and with "
        "it the kernels of nvidia-megakernel",
        "set it to x, configurator_probe,nvidia_megakernel",
    )


@pytest.mark.parametrize("allowed", [" ", ",", " , "])
def test_a_list_of_nothing_lets_nothing_in(tmp_path: Path, allowed: str) -> None:
    (finding,) = found("kernels", _with_megakernel(tmp_path, allowed))
    assert "so nvidia_megakernel is not loaded" in finding.fact


def _with_megakernel(tmp_path: Path, allowed: str) -> Host:
    """A host that has the plugin, and a list of those that may be loaded."""
    library = Library()
    made = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    on = host(tmp_path)
    commands = tuple(
        dataclasses.replace(one, env={**one.env, "SGLANG_PLUGINS": allowed}) for one in on.commands
    )
    there = dataclasses.replace(ENGINE, plugins=("configurator_probe", "nvidia_megakernel"))
    return dataclasses.replace(on, deployment=made, commands=commands, engine=there)


def test_a_version_that_is_not_public_is_not_asked_for(tmp_path: Path) -> None:
    library = Library()
    made = resolve(*library.profile("ling-3.0-flash-spark"), library)
    on = dataclasses.replace(host(tmp_path), deployment=made)
    findings = found("packages", on)
    assert findings
    assert all("unknown" not in finding.remedy for finding in findings)
    assert "install humming-kernels for /venv/python" in [finding.remedy for finding in findings]
