"""Rendered docker scripts under real bash with a stand-in for docker: start, check, every end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from render.generated import KEY
from stand_in import (
    LIBRARY,
    SIGNALS,
    alive,
    interrupted_twice,
    launch,
    seen,
    signalled,
    wait_for,
)
from stand_in_docker import boxes, with_docker
from strangers import another_server

from configurator.render import TARGETS, write
from configurator.resolve import resolve


def rendered(tmp_path: Path, extra: str = "", replicas: str = "") -> Path:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        f"hardware: {{name: cpu, gpus: 1}}\nmodel: {{name: qwen3-8b}}\n{replicas}{extra}"
    )
    out = tmp_path / "out"
    write(TARGETS["docker"](resolve(*LIBRARY.profile(str(profile)), LIBRARY)), out)
    return out


def run(out: Path, env: dict[str, str]) -> tuple[int, str]:
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    return process.returncode, printed


def asked(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text().splitlines()]


def got(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    data: Any = seen(tmp_path)
    return data["argv"], data["env"]


def test_a_good_launch_is_checked_proven_and_ends_as_the_engine(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    code, printed = run(out, with_docker(tmp_path, STUB_MODE="end"))
    assert code == 5, printed
    assert "preflight engine: sglang 0.5.23" in printed
    assert "self-check: good" in printed
    assert f"serving on http://127.0.0.1:{free_port}" in printed
    state = out / "run" / "state" / "replica-0"
    assert (state / "proven").read_text() == (state / "start").read_text()
    assert "Load weight begin" in (out / "run" / "log" / "replica0-host0.log").read_text()
    checked = json.loads((tmp_path / "checked.json").read_text())
    assert checked[:4] == [
        "check", str(out / "profile.yaml"), "--url", f"0=http://127.0.0.1:{free_port}",
    ]  # fmt: skip
    # The container's own process, not the client of docker.
    assert checked[checked.index("--pid") + 1] == f"0={seen(tmp_path)['pid']}"
    assert "cannot be told" not in printed
    assert checked[checked.index("--reports") + 1] == f"0={out}/run/reports/replica-0"
    assert boxes(tmp_path) == []


def test_hostile_values_arrive(tmp_path: Path, free_port: int, hostile: list[str]) -> None:
    env = ", ".join(f"V{i}: {json.dumps(value)}" for i, value in enumerate(hostile))
    out = rendered(
        tmp_path,
        f"serving: {{port: {free_port}}}\n"
        f"extra: {{args: {{words: {json.dumps(hostile)}}}, env: {{{env}}}}}\n",
    )
    run(out, with_docker(tmp_path, STUB_MODE="die"))
    argv, found = got(tmp_path)
    place = argv.index("--words") + 1
    assert argv[place : place + len(hostile)] == hostile
    assert [found[f"V{i}"] for i in range(len(hostile))] == hostile
    assert not list(tmp_path.rglob("pwned"))


def test_a_key_is_on_no_command_line_of_docker_and_in_no_file(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}, api_key: {{env: THE_KEY}}}}\n")
    code, printed = run(out, with_docker(tmp_path, STUB_MODE="end", THE_KEY=KEY))
    assert code == 5, printed
    argv, env = got(tmp_path)
    assert argv[argv.index("--api-key") + 1] == KEY
    assert not {"THE_KEY", "CONFIGURATOR_SECRET_1"} & env.keys()
    assert KEY not in str(asked(tmp_path)) + printed
    for path in out.rglob("*"):
        assert not path.is_file() or "k-$HOME" not in path.read_text()


def test_without_its_key_nothing_starts(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}, api_key: {{env: THE_KEY}}}}\n")
    code, printed = run(out, with_docker(tmp_path))
    assert code == 1
    assert "variable THE_KEY is empty" in printed
    assert not (tmp_path / "seen.json").exists()


def test_a_refutation_stops_the_container(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    code, printed = run(out, with_docker(tmp_path, STUB_CHECK="1"))
    assert code == 1
    assert "not in effect" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))
    assert boxes(tmp_path) == []
    assert not (out / "run" / "state" / "replica-0" / "proven").exists()


def test_another_server_on_the_port_is_not_this_engine(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    with another_server(free_port):
        env = with_docker(tmp_path, STUB_MODE="hang", CONFIGURATOR_SKIP="port")
        code, printed = run(out, env)
    assert code == 1
    assert f"listens on port {free_port}, not this engine" in printed
    assert not (tmp_path / "checked.json").exists()
    assert boxes(tmp_path) == []


def test_an_engine_that_dies_shows_its_last_lines(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    code, printed = run(out, with_docker(tmp_path, STUB_MODE="die"))
    assert code == 1
    assert "RuntimeError: out of memory" in printed
    assert boxes(tmp_path) == []


@pytest.mark.parametrize(("sent", "code"), SIGNALS)
def test_signals_stop_the_container(
    tmp_path: Path, free_port: int, sent: signal.Signals, code: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    assert signalled(launch(out, with_docker(tmp_path)), tmp_path, sent) == code
    assert boxes(tmp_path) == []
    # By the id of its own container, never by a name that somebody else may have taken.
    assert ["kill", "--signal", "TERM", "id-1"] in asked(tmp_path)


def test_a_second_interrupt_removes_a_container_that_does_not_end(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, with_docker(tmp_path, STUB_MODE="stubborn"))
    interrupted_twice(process, tmp_path)
    assert ["rm", "--force", "id-1"] in asked(tmp_path)
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_a_signal_before_the_container_is_there_ends_the_client(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = with_docker(tmp_path, STUB_SLOW="30", CONFIGURATOR_SKIP="all")
    process = launch(out, env)
    wait_for(tmp_path / "asked.jsonl")
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert boxes(tmp_path) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"STUB_DAEMON": "1"}, "docker does not answer"),
        ({"CONFIGURATOR_SKIP": "none"}, "CONFIGURATOR_SKIP names 'none'"),
    ],
)
def test_preflight_stops_what_cannot_start(
    tmp_path: Path, free_port: int, more: dict[str, str], said: str
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    code, printed = run(out, with_docker(tmp_path, **more))
    assert code == 1
    assert said in printed
    assert not (tmp_path / "seen.json").exists()


def test_another_container_of_the_name_is_left_alone(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    other = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "boxes").mkdir()
        (tmp_path / "boxes" / "stub-replica0-host0").write_text(str(other.pid))
        code, printed = run(out, with_docker(tmp_path))
        assert code == 1
        assert "there is a container stub-replica0-host0 already" in printed
        run(out, with_docker(tmp_path, CONFIGURATOR_SKIP="container"))
        assert boxes(tmp_path) == ["stub-replica0-host0"]
        assert alive(other.pid)
    finally:
        other.kill()
        other.wait()


def test_an_image_that_is_not_there_is_pulled(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    code, printed = run(
        out, with_docker(tmp_path, STUB_NO_IMAGE="1", CONFIGURATOR_PREFLIGHT="only")
    )
    assert code == 0, printed
    assert "pulling lmsysorg/sglang:v0.5.23" in printed
    assert (tmp_path / "pulled").read_text() == "lmsysorg/sglang:v0.5.23"


def test_variables_of_this_host_are_passed_on_by_name(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = with_docker(
        tmp_path, STUB_MODE="die", SGLANG_HOST_IP="10.0.0.7", NOT_NAMED="1",
        CONFIGURATOR_PASS="SGLANG_HOST_IP,NOT_SET",
    )  # fmt: skip
    run(out, env)
    _, found = got(tmp_path)
    assert found["SGLANG_HOST_IP"] == "10.0.0.7"
    assert not {"NOT_NAMED", "NOT_SET"} & found.keys()


def test_what_the_image_has_is_joined(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    image = {"PYTHONPATH": "/image", "SGLANG_PLUGINS": "megakernel"}
    env = with_docker(tmp_path, STUB_MODE="die", STUB_IMAGE_ENV=json.dumps(image))
    run(out, env)
    _, found = got(tmp_path)
    assert found["PYTHONPATH"] == f"{out}/probe:/image"
    assert found["SGLANG_PLUGINS"] == "megakernel,configurator_probe"


def test_the_cache_is_made_where_it_is_missing(tmp_path: Path, free_port: int) -> None:
    """`docker run --mount` refuses a folder that is not there."""
    cache = tmp_path / "new" / "cache"
    extra = f"serving: {{port: {free_port}}}\ncontainer: {{cache: {cache}}}\n"
    code, printed = run(rendered(tmp_path, extra), with_docker(tmp_path, STUB_MODE="end"))
    assert code == 5, printed
    assert f"preflight cache: {cache}" in printed
    assert cache.is_dir()


def test_a_cache_that_cannot_be_made_is_said_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = rendered(tmp_path, f"container: {{cache: {tmp_path}/file/cache}}\n")
    code, printed = run(out, with_docker(tmp_path, CONFIGURATOR_SKIP="port"))
    assert code == 1
    assert f"once, as root: mkdir -p '{tmp_path}/file/cache'" in printed
