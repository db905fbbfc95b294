"""What real bash starts from the rendered scripts: the same launch as everywhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from render.deployments import SHIPPED, address, shipped, surroundings
from render.generated import KEY, generated, started
from render.recording import OF_BASH, recorded, recorder

from configurator.deployment import Deployment
from configurator.render import TARGETS, write
from configurator.render.launches import Folders, launches


def arrives(deployment: Deployment, folder: Path) -> None:
    """Every process gets exactly the words and variables of its launch."""
    out, tools = folder / "out", folder / "tools"
    write(TARGETS["bash"](deployment), out)
    # Nothing answers, and the engine ends as soon as it has noted its launch.
    recorder(tools, "$STUB/seen", before="[[ $1 != -c ]] || exit 1")
    given = {
        **surroundings(deployment),
        "PATH": f"{tools}:/usr/bin:/bin",
        "STUB": str(folder),
        "CONFIGURATOR_SKIP": "all",
    }
    for launch in launches(deployment, Folders(f"{out}/probe", f"{out}/reports")):
        (folder / "seen.env").unlink(missing_ok=True)
        done = subprocess.run(
            ["bash", str(out / f"{launch.name}.sh")],
            env=given, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (folder / "seen.env").exists(), done.stdout + done.stderr
        got = recorded(folder / "seen")
        wanted = started(launch, address, lambda reference: KEY)
        assert got.argv == wanted.argv
        own = {name: got.env[name] for name in got.env.keys() - given.keys() - OF_BASH}
        assert own == wanted.env
    assert not list(folder.rglob("pwned"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_deployments_arrive(name: str, tmp_path: Path) -> None:
    arrives(shipped(name), tmp_path)


def test_generated_deployments_arrive(tmp_path: Path) -> None:
    for number, deployment in enumerate(generated(tmp_path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        arrives(deployment, folder)


@pytest.mark.parametrize("given", ["fd00::1", "[fd00::1]"])
def test_an_address_of_ipv6_stands_in_brackets(tmp_path: Path, given: str) -> None:
    deployment = shipped("muse-spark-open-gb300x8")
    out, tools = tmp_path / "out", tmp_path / "tools"
    write(TARGETS["bash"](deployment), out)
    recorder(tools, f"{tmp_path}/seen")
    env = {
        **surroundings(deployment),
        "PATH": f"{tools}:/usr/bin:/bin",
        "REPLICA0_HOST0_ADDR": given,
        "REPLICA1_HOST0_ADDR": "10.0.0.2",
    }
    subprocess.run(["bash", out / "router.sh"], env=env, check=True, capture_output=True)
    urls = [word for word in recorded(tmp_path / "seen").argv if word.startswith("http:")]
    assert urls == ["http://[fd00::1]:30000", "http://10.0.0.2:30000"]
