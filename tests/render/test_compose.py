"""Rendered compose files: what compose reads in them is what every target launches."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from compose_tool import configured
from render.deployments import SHIPPED, address, every, shipped, surroundings
from render.entering import enter
from render.generated import KEY, Started, generated, started
from render.test_docker_words import reads
from tools import need

from configurator.content import ROOT
from configurator.deployment import Deployment
from configurator.render import TARGETS, write
from configurator.render.compose import project_of
from configurator.render.containers import FOLDERS
from configurator.render.launches import EngineLaunch, launches

VALID = jsonschema.Draft7Validator(
    json.loads((ROOT / "tests/fixtures/schemas/compose-spec.json").read_text())
)
_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<kind>:?[-?])(?P<text>[^}]*))?\}|)"
)


def interpolated(data: Any, values: dict[str, str]) -> Any:
    """As compose replaces variables in every value; a lone `$` it refuses."""
    if isinstance(data, dict):
        return {key: interpolated(value, values) for key, value in data.items()}
    if isinstance(data, list):
        return [interpolated(value, values) for value in data]
    return _VARIABLE.sub(lambda m: _value(m, values), data) if isinstance(data, str) else data


def _value(match: re.Match[str], values: dict[str, str]) -> str:
    if match["dollar"]:
        return "$"
    name = match["name"] or match["plain"]
    assert name, f"invalid interpolation in {match.string!r}"
    if values.get(name):
        return values[name]
    assert "?" not in (match["kind"] or ""), match["text"]
    return match["text"] or ""


def read(path: Path, values: dict[str, str]) -> dict[str, Any]:
    """A compose file as the schema and compose's rules have it."""
    text = path.read_text()
    raw = yaml.safe_load(text)
    VALID.validate(raw)
    found: dict[str, Any] = interpolated(raw, values)
    return found


def services_of(
    deployment: Deployment, out: Path
) -> Iterator[tuple[EngineLaunch, dict[str, Any], dict[str, Any], Path]]:
    """Every launch with its service, the file of its host, and the folder of that."""
    values = surroundings(deployment)
    for launch in launches(deployment, FOLDERS):
        process = launch.process
        folder = out / f"host{process.host}" if deployment.hosts > 1 else out
        file = read(folder / "compose.yaml", values)
        name = f"replica{process.replica}" + (f"-host{process.rank}" if process.rank else "")
        yield launch, file["services"]["router" if process.role == "router" else name], file, folder


def received(
    service: dict[str, Any],
    file: dict[str, Any],
    bundle: Path,
    folder: Path,
    values: dict[str, str],
) -> Started:
    """What the process of a service gets, once the entry script has run."""
    env = {
        name: values.get(name) if value is None else value
        for name, value in service["environment"].items()
    }
    assert None not in env.values()
    keys = folder / "secrets"
    keys.mkdir(exist_ok=True)
    for name in service.get("secrets", []):
        shutil.copy(file["secrets"][name]["file"], keys / name)
    given = {name: str(value).replace("/run/secrets", str(keys)) for name, value in env.items()}
    return enter(bundle, [*service["entrypoint"], *service["command"]], given, folder)


def arrives(deployment: Deployment, folder: Path) -> None:
    out = folder / "out"
    write(TARGETS["compose"](deployment), out)
    for launch, service, file, bundle in services_of(deployment, out):
        got = received(service, file, bundle, folder, surroundings(deployment))
        assert got == started(launch, address, lambda reference: KEY)
    for path in out.rglob("*"):
        assert not path.is_file() or KEY not in path.read_text()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_deployments_arrive(name: str, tmp_path: Path) -> None:
    arrives(shipped(name), tmp_path)


def test_generated_deployments_arrive(tmp_path: Path) -> None:
    for number, deployment in enumerate(generated(tmp_path)):
        folder = tmp_path / f"deployment-{number}"
        folder.mkdir()
        arrives(deployment, folder)


def test_compose_itself_reads_the_same(tmp_path: Path) -> None:
    """Every file of every deployment, all in one start of the program."""
    program = need("docker-compose")
    files = []
    for number, deployment in enumerate(every(tmp_path)):
        out = tmp_path / f"out-{number}"
        write(TARGETS["compose"](deployment), out)
        files += [(path, surroundings(deployment)) for path in sorted(out.rglob("compose.yaml"))]
    told = configured(program, [(for_old(path), values) for path, values in files])
    assert len(told) > 150
    for (path, values), text in zip(files, told, strict=True):
        # It writes every $ doubled, so that what it prints is a compose file again.
        services = interpolated(yaml.load(text, yaml.CSafeLoader), {})["services"]
        ours = read(path, values)["services"]
        assert services.keys() == ours.keys()
        for name, service in ours.items():
            assert services[name]["entrypoint"] == service["entrypoint"]
            assert services[name].get("command") == service.get("command"), name
            wanted = {
                key: values.get(key) if value is None else value
                for key, value in service["environment"].items()
            }
            assert {k: str(v) for k, v in services[name]["environment"].items()} == wanted


def test_what_compose_refuses_is_a_failure(tmp_path: Path) -> None:
    program = need("docker-compose")
    good, bad, unset = (tmp_path / name for name in ("good.yaml", "bad.yaml", "unset.yaml"))
    good.write_text("services: {a: {image: b, command: ['$X']}}\n")
    bad.write_text("services: {a: {image: b, no_such_key: 1}}\n")
    unset.write_text("services: {a: {image: '${X:?set it}'}}\n")
    assert yaml.safe_load(configured(program, [(good, {"X": "y"})])[0])["services"]["a"][
        "command"
    ] == ["y"]
    with pytest.raises(AssertionError, match="no_such_key"):
        configured(program, [(good, {"X": "y"}), (bad, {})])
    # No file is given the environment of another.
    with pytest.raises(AssertionError, match="set it"):
        configured(program, [(good, {"X": "y"}), (unset, {})])


def for_old(path: Path) -> Path:
    """The file without two keys that we write and releases before 2 lack."""
    text = path.read_text()
    plain = path.with_name("old.yaml")
    plain.write_text(re.sub(r"(?m)^name: .*\n|, bind: \{create_host_path: \w+\}", "", text))
    return plain


def named(name: str) -> Deployment:
    base = shipped("ling-3.0-flash-spark")
    return dataclasses.replace(base, profile=base.profile.model_copy(update={"name": name}))


@pytest.mark.parametrize(
    "name", ["123", "no", "null", "2026-01-01", "1e3", "x-y", "x.y", "X-Y", "x_y", "-x", "_", "é"]
)
def test_the_project_is_a_text_that_compose_takes(name: str, tmp_path: Path) -> None:
    deployment = named(name)
    write(TARGETS["compose"](deployment), tmp_path)
    project = read(tmp_path / "compose.yaml", {})["name"]
    assert isinstance(project, str)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", project)
    # Where it is a name for compose already, it stays.
    assert (project == name) == bool(re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name))


def test_no_two_deployments_have_one_project() -> None:
    names = ["x-y", "x.y", "X-Y", "x y", "X.Y", "-x-y", "x_y", "_", "-", ".", "--"]
    projects = {project_of(named(name)) for name in names}
    assert len(projects) == len(names)


def test_ready_means_proven_and_a_cold_cache_has_time(tmp_path: Path) -> None:
    deployment = shipped("muse-spark-open-gb300x8")
    write(TARGETS["compose"](deployment), tmp_path)
    file = read(tmp_path / "host0" / "compose.yaml", surroundings(deployment))
    services = file["services"]
    assert list(services) == ["preflight", "replica0", "replica0-check", "router"]
    health = services["replica0"]["healthcheck"]
    state = "/var/configurator/state/replica-0"
    assert health["test"] == [
        "CMD", "bash", "-p", "-c",
        f"cmp -s {state}/start {state}/proven && exec 3<>/dev/tcp/127.0.0.1/30000",
    ]  # fmt: skip
    assert health["start_period"] == "3900s"
    assert services["router"]["depends_on"] == {"replica0": {"condition": "service_healthy"}}
    wanted = {"preflight": {"condition": "service_completed_successfully"}}
    assert services["replica0"]["depends_on"] == wanted
    # The checker is there when a refuted engine is started again.
    assert {name: service["restart"] for name, service in services.items()} == {
        "preflight": "no", "replica0": "no", "replica0-check": "on-failure", "router": "no",
    }  # fmt: skip
    check = services["replica0-check"]
    assert check["environment"]["CONFIGURATOR_STATE"] == state
    assert check["environment"]["CONFIGURATOR_KEY"] == "env:MUSE_API_KEY"
    assert check["command"][:2] == ["--url", "0=http://127.0.0.1:30000"]
    other = read(tmp_path / "host1" / "compose.yaml", {"MUSE_API_KEY": "k"})
    assert list(other["services"]) == ["preflight", "replica1", "replica1-check"]


def test_a_rank_over_hosts_has_the_fabric_and_only_the_first_is_checked(tmp_path: Path) -> None:
    deployment = shipped("muse-spark-open-gb300x8-tp8")
    write(TARGETS["compose"](deployment), tmp_path)
    values = surroundings(deployment)
    first = read(tmp_path / "host0" / "compose.yaml", values)["services"]
    other = read(tmp_path / "host1" / "compose.yaml", values)["services"]
    assert list(first) == ["preflight", "replica0", "replica0-check"]
    assert list(other) == ["preflight", "replica0-host1"]
    for service in (first["replica0"], other["replica0-host1"]):
        assert service["devices"] == ["/dev/nvidia-caps-imex-channels/channel0"]
        assert service["cap_add"] == ["IPC_LOCK"]
        assert service["network_mode"] == "host"
        assert service["shm_size"] == "32g"
    assert "healthcheck" not in other["replica0-host1"]
    with pytest.raises(AssertionError, match="set it to the address of host 0 of replica 0"):
        read(tmp_path / "host1" / "compose.yaml", {})


def test_every_folder_is_whole_by_itself(tmp_path: Path) -> None:
    deployment = shipped("muse-spark-open-gb300x8")
    write(TARGETS["compose"](deployment), tmp_path)
    for host in ("host0", "host1"):
        names = {path.name for path in (tmp_path / host).iterdir()}
        assert names == {
            "compose.yaml", "preflight.sh", "keys.env.example", "entry.sh", "check.sh",
            "profile.yaml", "probe", *([".env.example"] if host == "host0" else []),
        }  # fmt: skip
    assert "MUSE_API_KEY=''" in (tmp_path / "host0" / "keys.env.example").read_text()
    assert "Start host 0, which has the router, last" in (tmp_path / "START.md").read_text()


def test_unified_memory_gets_no_limit_that_would_not_hold(tmp_path: Path) -> None:
    write(TARGETS["compose"](shipped("ling-3.0-flash-spark")), tmp_path)
    text = (tmp_path / "compose.yaml").read_text()
    assert "sglang #35860" in text
    assert all("mem_limit" not in service for service in yaml.safe_load(text)["services"].values())
    assert "check_memory" in (tmp_path / "preflight.sh").read_text()


def test_our_own_reader_reads_the_same(tmp_path: Path) -> None:
    for number, deployment in enumerate(every(tmp_path)):
        out = tmp_path / f"out-{number}"
        write(TARGETS["compose"](deployment), out)
        for launch in launches(deployment, FOLDERS):
            if launch.process.role == "engine":
                host = f"host{launch.process.host}" if deployment.hosts > 1 else "."
                assert reads(out / host / "compose.yaml", launch), launch.name
