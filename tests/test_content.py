"""Finding entries: names, overlays, overrides, `extends`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from configurator.content import FOLDERS, ROOT, Library
from configurator.errors import ConfiguratorError

PROFILE = """\
apiVersion: configurator/v1
kind: Deployment
name: mine
engine: {version: 0.5.23}
hardware: {name: h200, gpus: 1}
model: {name: qwen3-8b}
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_content_directories_are_no_packages() -> None:
    # HF kernels and PyPI's validators are real packages; an __init__.py here would shadow them.
    # Plugins are packages of their own, of which only the engine's path has the folder.
    for folder in ("profiles", "kernels", "validators"):
        found = {
            path.relative_to(ROOT / folder).parts for path in (ROOT / folder).rglob("__init__.py")
        }
        plugins = {parts for parts in found if len(parts) == 3 and parts[0] == "plugins"}
        assert found == (plugins if folder == "kernels" else set())


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        ConfiguratorError, match=r"no hardware is named 'gb300-nvl7'.*'gb300-nvl72'"
    ):
        Library().hardware("gb300-nvl7")


def test_a_user_directory_lies_over_ours(tmp_path: Path) -> None:
    ours = (ROOT / "profiles/hardware/h200.yaml").read_text()
    write(
        tmp_path / "profiles/hardware/h200.yaml",
        ours.replace("gpus_per_host: 8", "gpus_per_host: 4"),
    )
    write(
        tmp_path / "profiles/hardware/h200-slow.yaml", ours.replace("name: h200", "name: h200-slow")
    )
    library = Library([tmp_path])
    assert Library().hardware("h200").gpus_per_host == 8
    assert library.hardware("h200").gpus_per_host == 4
    assert library.hardware("h200-slow").name == "h200-slow"
    assert "gb300-nvl72" in library.names("hardware")


def test_a_content_directory_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="REF002"):
        Library([tmp_path / "absent"])
    file = write(tmp_path / "file", "")
    with pytest.raises(ConfiguratorError, match=r"REF002 content directory .*/file is not a dir"):
        Library([file])


@pytest.mark.parametrize("kind", ["hardware", "kernel"])
def test_an_entry_that_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / FOLDERS[kind]
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    library = Library([tmp_path])
    read = library.hardware if kind == "hardware" else library.kernel
    for name, fact in (("pipe", "is a pipe"), ("zero", "is a device")):
        with pytest.raises(ConfiguratorError, match=rf"SCH001 .*/{name}\.yaml {fact}, not a file"):
            read(name)


def test_an_entry_is_named_as_its_file(tmp_path: Path) -> None:
    ours = (ROOT / "profiles/hardware/h200.yaml").read_text()
    write(tmp_path / "profiles/hardware/other.yaml", ours)
    with pytest.raises(
        ConfiguratorError,
        match=r"REF004 .*'h200' in file 'other\.yaml'; name one as the other: other here",
    ):
        Library([tmp_path]).hardware("other")


def test_a_broken_entry_is_reported_in_its_own_file(tmp_path: Path) -> None:
    ours = (ROOT / "profiles/hardware/h200.yaml").read_text()
    write(tmp_path / "profiles/hardware/h200.yaml", ours + "gpus_per_hots: 3\n")
    with pytest.raises(
        ConfiguratorError, match=r"h200\.yaml:\d+:1: SCH005 unknown key 'gpus_per_hots'"
    ):
        Library([tmp_path]).hardware("h200")


def test_overrides_replace_values_of_an_entry(tmp_path: Path) -> None:
    text = PROFILE.replace("gpus: 1}", "gpus: 1, overrides: {memory_gb: 99}}")
    path = write(tmp_path / "p.yaml", text)
    library = Library()
    profile, layers = library.profile(str(path))
    before = library.hardware("h200")
    after = library.override(before, profile.hardware.overrides, layers, ("hardware", "overrides"))
    assert (before.memory_gb, after.memory_gb) == (141, 99)


def test_a_wrong_override_is_placed_in_the_profile(tmp_path: Path) -> None:
    text = PROFILE.replace("gpus: 1}", "gpus: 1, overrides: {memory_bg: 99}}")
    path = write(tmp_path / "p.yaml", text)
    library = Library()
    profile, layers = library.profile(str(path))
    with pytest.raises(ConfiguratorError, match=r"p\.yaml:5:45: SCH005 unknown key 'memory_bg'"):
        library.override(
            library.hardware("h200"), profile.hardware.overrides, layers, ("hardware", "overrides")
        )


def test_extends_a_file_beside(tmp_path: Path) -> None:
    write(tmp_path / "base.yaml", PROFILE)
    path = write(
        tmp_path / "sub" / "child.yaml",
        "apiVersion: configurator/v1\nkind: Deployment\nname: child\nextends: ../base.yaml\n"
        "topology: {tensor: 2}\n",
    )
    profile, layers = Library().profile(str(path))
    assert (profile.name, profile.topology.tensor, profile.hardware.name) == ("child", 2, "h200")
    assert layers.locate(("hardware", "name")).file.endswith("base.yaml")


def test_extends_in_a_circle_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", PROFILE + "extends: ./b.yaml\n")
    write(tmp_path / "b.yaml", PROFILE + "extends: ./a.yaml\n")
    with pytest.raises(ConfiguratorError, match=r"b\.yaml:7:10: REF003"):
        Library().profile(str(tmp_path / "a.yaml"))


def test_extends_something_absent_is_placed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", PROFILE + "extends: no-such\n")
    with pytest.raises(ConfiguratorError, match=r"a\.yaml:7:10: REF001 no deployment is named"):
        Library().profile(str(path))


@pytest.mark.parametrize("text", ["", "- a\n", "42\n", "null\n"])
def test_a_document_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "a.yaml", text)
    with pytest.raises(ConfiguratorError, match="SCH008"):
        Library().profile(str(path))
