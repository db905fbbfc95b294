"""The collector where nothing else of ours is, under another name."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from collector.stub import KEY, Stub, everything

from configurator import collector

SOURCE = Path(str(collector.__file__)).parent
NAME = "under_another_name"


def alone(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Python with the standard library and `folder`: no site-packages, no other variable."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-S", *words], env={"PYTHONPATH": str(folder), **env},
        cwd=folder / "elsewhere", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a copy of the package and no more."""
    shutil.copytree(SOURCE, tmp_path / NAME, ignore=shutil.ignore_patterns("__pycache__"))
    assert "No module named 'configurator'" in alone(tmp_path, "-c", "import configurator").stderr
    return tmp_path


def test_it_runs_isolated_from_everything_of_ours(stub: Stub, folder: Path) -> None:
    stub.key = KEY
    done = alone(
        folder, "-m", NAME, "--url", stub.url, "--out", str(folder / "out"),
        "--api-key-env", "THE_KEY", "--level", "1", THE_KEY=KEY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "replica 0: ready, 9 files\n"
    assert KEY not in done.stderr + everything(folder / "out")


def test_it_speaks_under_the_name_it_has(folder: Path) -> None:
    assert f"python -m {NAME} --url http" in alone(folder, "-m", NAME, "--help").stdout
    done = alone(folder, "-m", NAME, "--url", "nonsense", "--out", str(folder / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{NAME}: 'nonsense' is not a server's URL; ")


def test_only_the_standard_library_is_imported() -> None:
    found = {
        name.split(".")[0]
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [(node.module or "nothing") if node.level == 0 else "ours"]
        )
    }
    assert "urllib" in found
    assert found <= {*sys.stdlib_module_names, "ours"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_python_3_9_can_read_it(path: Path) -> None:
    """Engine images are older than what configurator itself needs."""
    ast.parse(path.read_text(), feature_version=(3, 9))
