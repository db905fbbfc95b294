"""Rendered scripts as text: golden files, ShellCheck, and the profile beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from render.deployments import CLEAN, REFUSED
from stand_in import LIBRARY, rendered

from configurator.content import ROOT
from configurator.inengine.bundle import bundle_files
from configurator.render import TARGETS, RenderedFile, write
from configurator.resolve import resolve

GOLDEN = ROOT / "tests" / "golden" / "render"


@pytest.mark.parametrize("name", CLEAN)
def test_golden_scripts(name: str, update_golden: bool) -> None:
    deployment = resolve(*LIBRARY.profile(name), LIBRARY)
    files = TARGETS["bash"](deployment)
    folder = GOLDEN / name
    if update_golden:
        shutil.rmtree(folder, ignore_errors=True)
        write([file for file in files if not _of_the_probe(file)], folder)
    probe = {file.path: file.text for file in files if _of_the_probe(file)}
    assert probe == {
        f"probe/{path}": text for path, text in bundle_files(deployment.plugins).items()
    }
    others = [file for file in files if not _of_the_probe(file)]
    assert {file.path for file in others} == {path.name for path in folder.iterdir()}
    for file in others:
        assert file.text == (folder / file.path).read_text(), "run: pytest --update-golden"


def _of_the_probe(file: RenderedFile) -> bool:
    """The probe is no golden file: it is the same in every folder, and has tests of its own."""
    return file.path.startswith("probe/")


def test_every_deployment_that_can_be_rendered_has_golden_scripts() -> None:
    """The others are refused by validation, and their findings are golden instead."""
    assert {*CLEAN, *REFUSED} == set(LIBRARY.names("deployment"))


def test_the_profile_beside_the_scripts_launches_the_same(tmp_path: Path) -> None:
    for name in CLEAN:
        deployment = resolve(*LIBRARY.profile(name), LIBRARY)
        out = tmp_path / name
        write(TARGETS["bash"](deployment), out)
        again = resolve(*LIBRARY.profile(str(out / "profile.yaml")), LIBRARY)
        assert again.processes == deployment.processes
        assert again.expectations == deployment.expectations


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:30000"),
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("::", "http://127.0.0.1:30000"),
        ("192.0.2.7", "http://192.0.2.7:30000"),
        ("fd00::7", "http://'[fd00::7]':30000"),
        ("[fd00::7]", "http://'[fd00::7]':30000"),
    ],
)
def test_the_script_asks_where_the_server_listens(tmp_path: Path, host: str, url: str) -> None:
    text = (rendered(tmp_path, f"serving: {{host: '{host}'}}\n") / "replica0-host0.sh").read_text()
    assert f"\nURL={url}\n" in text


def test_only_scripts_that_need_an_address_are_said_to(tmp_path: Path) -> None:
    apart = rendered(tmp_path, "topology: {replicas: 2}\n", gpus=2) / "START.md"
    assert "ADDR" not in apart.read_text()
    router = (GOLDEN / "muse-spark-open-gb300x8" / "START.md").read_text()
    assert "REPLICA0_HOST0_ADDR=192.0.2.10 REPLICA1_HOST0_ADDR=192.0.2.11 ./router.sh" in router
    assert "`replica0-host0.sh`: `" not in router
