"""The probe bundle: found as a plugin, the same every time, and never over other files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from configurator.cli import run
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import bundle_files, write_bundle

NAMES = [
    "configurator_probe-1.dist-info/METADATA",
    "configurator_probe-1.dist-info/entry_points.txt",
    "configurator_probe.py",
]


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def test_the_bundle_is_the_same_every_time(tmp_path: Path) -> None:
    write_bundle(tmp_path / "one")
    write_bundle(tmp_path / "two" / "deep")
    first = files(tmp_path / "one")
    assert sorted(first) == NAMES
    assert first == files(tmp_path / "two" / "deep")


def test_a_bundle_is_refreshed_in_place(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    (tmp_path / "configurator_probe.py").write_text("# Reports from inside SGLang, cut short\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "configurator_probe.cpython-311.pyc").write_bytes(b"x")
    write_bundle(tmp_path)
    text = (tmp_path / "configurator_probe.py").read_text()
    assert text == bundle_files()["configurator_probe.py"]


@pytest.mark.parametrize("name", ["other.py", "torch/__init__.py"])
def test_a_directory_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("theirs")
    with pytest.raises(ConfiguratorError, match=f"RND002.*{name}"):
        write_bundle(tmp_path)
    assert list(files(tmp_path)) == [name]


def test_a_file_of_another_under_our_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "configurator_probe.py").write_text("theirs")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write_bundle(tmp_path)
    assert (tmp_path / "configurator_probe.py").read_text() == "theirs"


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write_bundle(tmp_path / "file")
    with pytest.raises(ConfiguratorError, match="RND003"):
        write_bundle(tmp_path / "file" / "below")


def test_python_finds_the_entry_point(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    code = (
        "from importlib.metadata import entry_points\n"
        "(one,) = entry_points(group='sglang.srt.plugins')\n"
        "print(one.name, one.value, one.dist.name, one.load().__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, text=True,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [
        "configurator_probe", "configurator_probe:register", "configurator-probe", "register",
    ]  # fmt: skip


def test_the_probe_needs_the_standard_library_alone() -> None:
    tree = ast.parse(bundle_files()["configurator_probe.py"])
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    assert names
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_without_an_engine_the_probe_says_so_and_goes_on(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    code = "import configurator_probe; configurator_probe.register(); print('went on')"
    environment = {"PYTHONPATH": str(tmp_path), "CONFIGURATOR_PROBE_DIR": str(tmp_path / "out")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "went on\n"
    assert "No module named 'sglang'" in done.stderr
    (path,) = (tmp_path / "out").iterdir()
    assert "No module named 'sglang'" in path.read_text()


def test_the_verb_lists_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe-bundle", "-o", str(tmp_path / "probe")]) == 0
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [str(tmp_path / "probe" / name) for name in NAMES]
    assert f"PYTHONPATH={tmp_path / 'probe'}" in err


def test_the_verb_refuses_other_files_with_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("theirs")
    assert run(["probe-bundle", "-o", str(tmp_path)]) == 2


def test_nothing_is_left_where_a_bundle_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ConfiguratorError, match=r"RND003.*No space left"):
        write_bundle(tmp_path / "bundle")
    assert files(tmp_path) == {}


def test_a_directory_that_pythonpath_would_split_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe-bundle", "-o", str(tmp_path / "a:b")]) == 0
    assert "warning" in (said := capsys.readouterr().err)
    assert "has a ':'" in said
    assert run(["probe-bundle", "-o", str(tmp_path / "ab")]) == 0
    assert "warning" not in capsys.readouterr().err
