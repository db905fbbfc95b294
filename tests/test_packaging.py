"""What is built is what runs: content inside the wheel, read from there and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from configurator.content import ROOT

CONTENT = ("profiles", "kernels", "validators")


def build(kind: str, source: Path, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", out, source],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sdist, as an index would."""
    folder = tmp_path_factory.mktemp("dist")
    archive = build("sdist", ROOT, folder)
    unpacked = tmp_path_factory.mktemp("sdist")
    subprocess.run(["tar", "-xzf", archive, "-C", unpacked], check=True)
    (source,) = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


def test_all_content_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in CONTENT:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"configurator/{path.relative_to(ROOT)}" in names
    for path in (ROOT / "configurator").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"configurator"}


def test_the_installed_wheel_reads_its_own_content(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--target", site, wheel],
        check=True,
        capture_output=True,
        timeout=300,
    )
    # Decoys with the names of other projects' packages, where a wrong look-up would find them.
    (site / "validators").mkdir()
    (site / "validators" / "card.py").write_text("raise SystemExit('executed a stranger')")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    code = "import configurator.content as c; print(c.ROOT)"
    run = [sys.executable, "-P", "-c", code]
    found = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert Path(found.stdout.strip()) == site / "configurator"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "configurator", "validate", "ling-3.0-flash-spark"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ling-3.0-flash-spark: clean" in done.stdout
