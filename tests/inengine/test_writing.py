"""How the probe writes its files: no link that somebody left leads it elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from configurator.inengine.configurator_probe.writing import write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONFIGURATOR_PROBE_DIR", str(tmp_path / "reports"))
    (tmp_path / "reports").mkdir()
    return tmp_path / "reports"


def fresh(folder: Path) -> Path:
    return folder / f"a.json.{os.getpid()}.tmp"


def test_a_file_is_written_whole_and_replaces_the_one_before(folder: Path) -> None:
    for number in (1, 2):
        write("a.json", {"n": number})
        assert json.loads((folder / "a.json").read_text()) == {"n": number}
    assert [path.name for path in folder.iterdir()] == ["a.json"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_in_its_way_is_not_followed(folder: Path, tmp_path: Path, there: bool) -> None:
    victim = tmp_path / "victim"
    if there:
        victim.write_text("precious")
    fresh(folder).symlink_to(victim)
    write("a.json", {})
    assert victim.exists() == there
    assert not there or victim.read_text() == "precious"
    assert not (folder / "a.json").is_symlink()


def test_what_an_earlier_process_of_the_same_id_left_is_removed(folder: Path) -> None:
    fresh(folder).write_text("half of a rep")
    write("a.json", {"n": 1})
    assert json.loads((folder / "a.json").read_text()) == {"n": 1}


def test_a_link_that_comes_between_is_an_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh(folder).symlink_to(tmp_path / "victim")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    with pytest.raises(FileExistsError):
        write("a.json", {})
    assert not (tmp_path / "victim").exists()


def test_the_mode_is_what_the_engine_gives_its_files(folder: Path) -> None:
    before = os.umask(0o027)
    try:
        write("a.json", dict[str, Any]())
    finally:
        os.umask(before)
    assert (folder / "a.json").stat().st_mode & 0o777 == 0o640
