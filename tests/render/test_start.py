"""START.md of the targets for hosts: nothing is left for the reader to find out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from render.deployments import CLEAN
from stand_in import LIBRARY
from test_packaging import build

from configurator.content import ROOT, Library
from configurator.render import TARGETS, RenderedFile
from configurator.resolve import resolve

TARGETS_HERE = ("bash", "docker", "compose", "slurm")


def rendered(target: str, name: str, folder: Path | None = None, more: str = "") -> dict[str, str]:
    if folder is not None:
        path = folder / "p.yaml"
        path.write_text(
            f"apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: {name}\n{more}"
        )
        name = str(path)
    files: tuple[RenderedFile, ...] = TARGETS[target](resolve(*LIBRARY.profile(name), LIBRARY))
    return {file.path: file.text for file in files}


def start(target: str, name: str, folder: Path | None = None, more: str = "") -> str:
    files = rendered(target, name, folder, more)
    return files.get("START.md") or files["host0/START.md"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CLEAN)
def test_engine_plugins_and_weights_are_said_the_same_everywhere(target: str, name: str) -> None:
    text = start(target, name)
    deployment = resolve(*LIBRARY.profile(name), LIBRARY)
    assert "Before you start" in text
    assert "- The engine: " in text
    assert deployment.model.repository in text
    assert f"({deployment.model.weights_gb:g} GB)" in text
    assert f"hf download {deployment.model.repository}" in text
    assert "HF_TOKEN" in text
    for mechanism in deployment.mechanisms.values():
        for needed in (*mechanism.kernel.needs.plugins, *mechanism.kernel.needs.packages):
            assert f"`{needed}`" in text
    if not deployment.engine.released:
        assert "It is not released, so build it" in text
        assert str(deployment.engine.base.commit) in text


@pytest.mark.parametrize("target", TARGETS)
def test_content_of_ones_own_is_named_where_there_is_any(tmp_path: Path, target: str) -> None:
    name = "ling-3.0-flash-spark"
    own = Library((tmp_path,))
    files = {f.path: f.text for f in TARGETS[target](resolve(*own.profile(name), own))}
    said = "- The content of your own that this was rendered with (`--content`)"
    assert said in files["START.md"]
    assert "CONFIGURATOR_CONTENT" in files["START.md"]
    assert said not in start(target, name)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_the_way_back_is_said(target: str) -> None:
    assert "## Change and roll back" in start(target, "ling-3.0-flash-spark")


@pytest.mark.parametrize("target", TARGETS)
def test_weights_are_fetched_at_the_revision_that_is_launched(tmp_path: Path, target: str) -> None:
    more = "model: {revision: 0a1b2c}\ncontainer: {cache: /var/cache/engine}\n"
    text = start(target, "muse-spark-open-gb300x8", tmp_path, more)
    into = (
        "" if target in ("bash", "slurm", "systemd") else "HF_HOME=/var/cache/engine/huggingface "
    )
    target_model, draft = (
        "meta-models/Muse-Spark-Open-816B-A42B-NVFP4",
        "RadixArk/Muse-Spark-Open-DFlash2",
    )
    assert (
        f"`{into}hf download {target_model} --revision 0a1b2c`; `{into}hf download {draft}`" in text
    )


@pytest.mark.parametrize("target", ["bash", "docker", "k8s"])
def test_a_plugin_without_an_entry_point_of_its_own_is_said(tmp_path: Path, target: str) -> None:
    """Its entry names none that preflight could look for."""
    more = "optimizations: {fp8-lm-head: {provider: plugin}}\n"
    text = start(target, "ling-3.0-flash-spark", tmp_path, more)
    (line,) = [line for line in text.splitlines() if line.startswith("- The plugin ")]
    assert "which is not part of SGLang" in line
    assert line.endswith(", for fp8-lm-head.")


@pytest.mark.parametrize("target", ["bash", "docker"])
@pytest.mark.parametrize("name", CLEAN)
def test_every_script_has_its_whole_line(target: str, name: str) -> None:
    files = rendered(target, name)
    text = files["START.md"]
    for path, script in files.items():
        if path.endswith(".sh") and path != "entry.sh":
            (line,) = re.findall(rf"^(.*\./{re.escape(path)})   #", text, flags=re.MULTILINE)
            wanted = re.findall(r'^: "\$\{(\w+):\?', script, flags=re.MULTILINE)
            given = [word.partition("=") for word in shlex.split(line)[:-1]]
            assert sorted(name for name, _, _ in given) == sorted(wanted)
            assert all(value.startswith("192.0.2.") for _, _, value in given)
            for key in re.findall(r"CONFIGURATOR_SECRET_\d+=\$\{(\w+):-\}", script):
                assert f"export {key}`" in text


def test_a_checkpoint_on_the_disk_is_no_download(tmp_path: Path) -> None:
    text = start("docker", "ling-3.0-flash-spark", tmp_path, "model: {path: /models/ling}\n")
    assert "Weights: a whole checkpoint in `/models/ling`." in text
    assert "hf download" not in text


def test_a_download_that_nobody_keeps_is_said(tmp_path: Path) -> None:
    more = "container: {cache: null}\n"
    text = start("compose", "muse-spark-open-gb300x8", tmp_path, more)
    assert "Nothing is kept of a download" in text


def test_compose_names_the_services_and_the_file_with_addresses() -> None:
    text = start("compose", "muse-spark-open-gb300x8")
    assert "docker compose logs --follow preflight replica0 replica0-check router\n" in text
    assert text.count("cp .env.example .env") == 1
    assert "docker compose ps --all" in text
    assert "`up --detach` on host 0 waits until the replicas" in text


def test_slurm_says_that_a_file_wants_another_rendering() -> None:
    text = " ".join(start("slurm", "ling-3.0-flash-spark").split())
    assert "set `serving.api_key: {file: PATH}` in the profile" in text
    assert "and render again" in text


def test_what_is_installed_exists() -> None:
    """No command takes the project from a package index, where it is not."""
    texts = {path: path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    for target in TARGETS:
        files = rendered(target, "muse-spark-open-gb300x8")
        texts |= {Path(f"{target}/{path}"): text for path, text in files.items()}
    for path, text in texts.items():
        assert not re.search(r"pip install (-\S+ )*serving-configurator\b", text), path
        for file in re.findall(r"--file (?:CHECKOUT/)?(\S+)", text):
            assert (ROOT / file).is_file(), f"{path}: {file}"


def test_the_image_of_the_checks_has_what_a_wheel_is_made_of(tmp_path: Path) -> None:
    dockerfile = (ROOT / "examples/checker/Dockerfile").read_text()
    source = tmp_path / "src"
    source.mkdir()
    for line in re.findall(r"^COPY (.*)$", dockerfile, flags=re.MULTILINE):
        *names, target = line.split()
        for name in names:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, source / target, ignore=ignored)
            else:
                shutil.copy(ROOT / name, source / target / name)
    assert build("wheel", source, tmp_path / "out").stat().st_size > 500_000
    from configurator import __version__

    assert f"--tag serving-configurator:{__version__} " in dockerfile
    assert f"serving-configurator:{__version__} " in (ROOT / "docs/render.md").read_text()
