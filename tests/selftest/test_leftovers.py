"""A self-test that was killed: the next one ends its servers and removes its scratch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from configurator.selftest.leftovers import end_leftovers, noted, runs_folder


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def sleeper(folder: Path, **more: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "CONFIGURATOR_PROBE_DIR": f"{folder}/one/reports", **more}
    # The line shows that the environment is the program's own by now.
    code = "import time; print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout as lines:
        lines.readline()
    return process


def note(folder: Path, pid: int, started: str) -> Path:
    runs_folder().mkdir(parents=True, exist_ok=True)
    path = runs_folder() / f"{pid}.json"
    path.write_text(json.dumps({"pid": pid, "started": started, "folder": str(folder)}))
    return path


def test_the_servers_and_the_scratch_of_a_killed_run_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "configurator-selftest-abc"
    folder.mkdir()
    mine = sleeper(folder, CONFIGURATOR_SELFTEST_RUN="x")
    strangers = [
        sleeper(tmp_path / "other", CONFIGURATOR_SELFTEST_RUN="x"),
        sleeper(folder),
    ]
    kept = note(folder, os.getpid(), "0")
    try:
        (said,) = end_leftovers()
        assert said == f"a self-test in {folder} was killed; 1 of its processes ended"
        assert mine.wait(10) == -9
        assert [stranger.poll() for stranger in strangers] == [None, None]
        assert not folder.exists()
        assert not kept.exists()
    finally:
        for process in (mine, *strangers):
            process.kill()
            process.wait(10)


def test_a_folder_that_was_to_be_kept_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    note(tmp_path / "mine", 4_000_000_000, "1")
    assert len(end_leftovers()) == 1
    assert (tmp_path / "mine").is_dir()


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "configurator-selftest-abc"
    folder.mkdir()
    with noted(folder):
        assert end_leftovers() == []
        assert folder.is_dir()
        assert len(list(runs_folder().iterdir())) == 1
    assert list(runs_folder().iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "started": 1, "folder": 2}'])
def test_a_broken_note_is_removed(text: str) -> None:
    runs_folder().mkdir(parents=True)
    (runs_folder() / "1.json").write_text(text)
    assert end_leftovers() == []
    assert list(runs_folder().iterdir()) == []


def test_nothing_to_clean_up() -> None:
    assert end_leftovers() == []
