"""What the real docker client reads in the rendered scripts: the same launch as everywhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from docker_daemon import Created, recording_daemon
from render.deployments import SHIPPED, address, shipped, surroundings
from render.entering import enter
from render.generated import KEY, generated, started
from stand_in import LIBRARY
from tools import need

from configurator.deployment import Deployment
from configurator.readers.files import read_commands
from configurator.render import TARGETS, write
from configurator.render.containers import FOLDERS
from configurator.render.launches import EngineLaunch, launches
from configurator.resolve import resolve


def asked(deployment: Deployment, folder: Path) -> list[tuple[EngineLaunch, Created]]:
    """Run every script with the real client and a daemon that notes what it is asked for."""
    docker = need("docker")
    out = folder / "out"
    write(TARGETS["docker"](deployment), out)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    # Nothing answers, and nobody waits for it.
    for name, text in {"python3": "exit 1", "sleep": "exit 0"}.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    (tools / "docker").unlink(missing_ok=True)
    (tools / "docker").symlink_to(docker)
    found = []
    with recording_daemon() as daemon:
        env = {
            **surroundings(deployment),
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(folder),
            "DOCKER_HOST": daemon.address,
            "CONFIGURATOR_SKIP": "all",
            "RUN_DIR": str(folder / "run"),
        }
        for launch in launches(deployment, FOLDERS):
            before = len(daemon.created)
            done = subprocess.run(
                ["bash", str(out / f"{launch.name}.sh")],
                env=env, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert len(daemon.created) == before + 1, done.stderr + done.stdout
            found.append((launch, daemon.created[-1]))
    return found


def arrives(deployment: Deployment, folder: Path) -> None:
    """Every process gets exactly the words and variables of its launch."""
    for launch, created in asked(deployment, folder):
        assert KEY not in str({**created.config, "Env": []})
        got = enter(folder / "out", created.command, created.env, folder)
        assert got == started(launch, address, lambda reference: KEY)
        # What the image has is joined, as far as the profile leaves it to the image.
        image = {"PYTHONPATH": "/of/the/image", "IMAGE_ONLY": "1"}
        again = enter(folder / "out", created.command, {**image, **created.env}, folder)
        wanted = started(launch, address, lambda reference: KEY)
        if "PYTHONPATH" not in dict(launch.declared):
            own = wanted.env.get("PYTHONPATH")
            wanted.env["PYTHONPATH"] = f"{own}:/of/the/image" if own else "/of/the/image"
        assert again.env == {"IMAGE_ONLY": "1", **wanted.env}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_deployments_arrive(name: str, tmp_path: Path) -> None:
    arrives(shipped(name), tmp_path)


def test_generated_deployments_arrive(tmp_path: Path) -> None:
    for number, deployment in enumerate(generated(tmp_path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        arrives(deployment, folder)


def test_what_a_container_is_given_of_the_host(tmp_path: Path) -> None:
    deployment = shipped("muse-spark-open-gb300x8-tp8")
    (_, first), (_, other) = asked(deployment, tmp_path)
    assert (first.name, other.name) == (
        "muse-spark-open-gb300x8-tp8-replica0-host0", "muse-spark-open-gb300x8-tp8-replica0-host1",
    )  # fmt: skip
    host = first.host
    assert (host["NetworkMode"], host["Init"], host["AutoRemove"]) == ("host", True, True)
    assert host["ShmSize"] == 32 << 30
    assert {u["Name"]: u["Hard"] for u in host["Ulimits"]} == {"memlock": -1, "stack": 67108864}
    assert host["DeviceRequests"][0]["Count"] == -1
    assert host["CapAdd"] == ["CAP_IPC_LOCK"] or host["CapAdd"] == ["IPC_LOCK"]
    assert [d["PathOnHost"] for d in host["Devices"]] == ["/dev/nvidia-caps-imex-channels/channel0"]
    mounts = {m["Target"]: (m["Source"], m.get("ReadOnly", False)) for m in host["Mounts"]}
    assert mounts == {
        "/configurator": (str(tmp_path / "out"), True),
        "/var/configurator": (str(tmp_path / "run"), False),
        "/root/.cache": ("/var/cache/sglang", False),
    }
    (state,) = {first.env["CONFIGURATOR_STATE"]}
    assert state == "/var/configurator/state/replica-0"
    health = first.config["Healthcheck"]["Test"]
    assert health[0] == "CMD-SHELL"
    assert f"cmp -s {state}/start {state}/proven && exec 3<>/dev/tcp/127.0.0.1/30000" in health[1]
    assert "Healthcheck" not in other.config or not other.config["Healthcheck"].get("Test")
    assert "CONFIGURATOR_STATE" not in other.env


def test_folders_and_checkpoints_with_any_name(tmp_path: Path) -> None:
    home = tmp_path / 'a "home", it\'s $x'
    home.mkdir()
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "extends: ling-3.0-flash-spark\napiVersion: configurator/v1\nkind: Deployment\nname: x\n"
        "model: {path: '/models/\"q\", it''s $x,y'}\ncontainer: {cache: '/c/a,b'}\n"
    )
    deployment = resolve(*LIBRARY.profile(str(profile)), LIBRARY)
    ((_, created),) = asked(deployment, home)
    sources = {m["Target"]: m["Source"] for m in created.host["Mounts"]}
    assert sources["/configurator"] == str(home / "out")
    assert sources['/models/"q", it\'s $x,y'] == '/models/"q", it\'s $x,y'
    assert sources["/root/.cache"] == "/c/a,b"


def reads(script: Path, launch: EngineLaunch) -> bool:
    """Whether our own reader finds this launch among those of a file.

    Keys and addresses are others there; a value with `{{` it takes for a template's, and leaves.
    """
    literal = [word for word in launch.argv if isinstance(word, str)]
    for command in read_commands(script).commands:
        words = [word.text for word in command.argv if word.text in literal]
        env = {item.name: item.value for item in command.env.values()}
        same = all(env.get(name) == value or "{{" in value for name, value in launch.declared)
        if words == literal[3:] and same and command.image:
            return True
    return False


def test_our_own_reader_reads_the_same(tmp_path: Path) -> None:
    made = [*map(shipped, SHIPPED), *generated(tmp_path, 30)]
    for number, deployment in enumerate(made):
        out = tmp_path / f"out-{number}"
        write(TARGETS["docker"](deployment), out)
        for launch in launches(deployment, FOLDERS):
            if launch.process.role == "engine":
                assert reads(out / f"{launch.name}.sh", launch), f"{deployment.name} {launch.name}"
