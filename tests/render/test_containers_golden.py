"""Rendered container targets as text: golden files, and the same at every time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.cli import run
from configurator.content import ROOT
from configurator.render import TARGETS, RenderedFile, drift, write
from configurator.resolve import resolve

GOLDEN = ROOT / "tests" / "golden" / "containers"
FLAGSHIPS = ["ling-3.0-flash-spark", "muse-spark-open-gb300x8"]
# The same in every folder, or golden already.
LEFT_OUT = ("probe/", "profile.yaml")
ONCE = ("entry.sh", "check.sh", "preflight.sh", "replica1-host0.sh", "keys.env.example")
"""Files of which one deployment is enough to read."""


def rendered(target: str, name: str) -> list[RenderedFile]:
    files = TARGETS[target](resolve(*LIBRARY.profile(name), LIBRARY))
    own = [file for file in files if not any(part in file.path for part in LEFT_OUT)]
    return [file for file in own if name == FLAGSHIPS[0] or not file.path.endswith(ONCE)]


@pytest.mark.parametrize("name", FLAGSHIPS)
@pytest.mark.parametrize("target", ["docker", "compose"])
def test_golden_files(target: str, name: str, update_golden: bool) -> None:
    files = rendered(target, name)
    folder = GOLDEN / target / name
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        write(files, folder)
    # Git keeps no file for its owner alone.
    found = [one for one in drift(files, folder) if one.how != "open to others, and for keys"]
    assert found == [], "run: pytest --update-golden"
    assert files == rendered(target, name)


@pytest.mark.parametrize("target", ["docker", "compose"])
def test_every_file_says_by_whom_and_of_which_launch(target: str) -> None:
    for file in rendered(target, "muse-spark-open-gb300x8"):
        head = "\n".join(file.text.splitlines()[:8])
        assert "Made by configurator 0.1.0, launch 4205034f34c34364" in head, file.path
        assert "UNVERIFIED" in head, file.path


@pytest.mark.parametrize(("target", "said"), [("docker", True), ("compose", True), ("bash", False)])
def test_a_tag_without_a_digest_is_said_where_it_is_started(
    target: str, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["render", "ling-3.0-flash-spark", "--target", target, "-o", str(tmp_path)]
    assert run(command) == 0
    assert ("ENG111: the image ling-v3-mxfp4-humming:079d40460" in capsys.readouterr().err) is said


def test_a_digest_is_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = tmp_path / "p.yaml"
    image = f"registry.example/sglang@sha256:{'0' * 64}"
    profile.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: ling-3.0-flash-spark\n"
        f"container: {{image: '{image}'}}\n"
    )
    out = tmp_path / "out"
    assert run(["render", str(profile), "--target", "compose", "-o", str(out)]) == 0
    assert "ENG111" not in capsys.readouterr().err
    assert f'image: "{image}"' in (out / "compose.yaml").read_text()
