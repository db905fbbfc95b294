"""The collector where nothing else of ours is, under another name."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from collector.stub import KEY, Stub, everything, late
from interpreters import engine_python

from configurator import collector
from configurator.cli import run
from configurator.commands.demo import EXPECTED
from configurator.demo.server import RecordedServer, recording

SOURCE = Path(str(collector.__file__)).parent
NAME = "under_another_name"


def alone(
    folder: Path, *words: str, python: str = sys.executable, **env: str
) -> subprocess.CompletedProcess[str]:
    """Python with the standard library and `folder`: no site-packages, no other variable."""
    return subprocess.run(
        [python, "-S", *words], env={"PYTHONPATH": str(folder), **env}, cwd="/",
        capture_output=True, text=True, timeout=60, check=False,
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


def test_to_redact_takes_no_http_client(folder: Path) -> None:
    """Most verbs redact and never collect."""
    code = f"import sys, {NAME}.redaction; print([*map(sys.modules.get, ('socket', 'subprocess'))])"
    assert alone(folder, "-c", code).stdout == "[None, None]\n"


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


@pytest.mark.parametrize("python", ["this one", "python3.9"])
@pytest.mark.parametrize(
    ("name", "code", "shared"), [("healthy", 0, "PROVEN"), ("sabotaged", 1, "REFUTED")]
)
def test_what_a_bundle_records_is_judged_elsewhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    code: int,
    shared: str,
    python: str,
) -> None:
    interpreter = engine_python(python)
    assert run(["probe-bundle", "-o", str(tmp_path / "bundle")]) == 0
    out = tmp_path / "evidence"
    with RecordedServer(recording(name)) as server:
        done = alone(
            tmp_path / "bundle", "-m", "configurator_collector", "--url", server.url,
            "--out", str(out), "--log", str(server.log), "--reports", str(server.reports),
            python=interpreter,
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert done.stdout == "replica 0: ready, 11 files\n"
    capsys.readouterr()
    asked = [word for text in EXPECTED for word in ("--expect", text)]
    assert run(["check", *asked, "--replay", str(out), "--format", "json"]) == code
    told = json.loads(capsys.readouterr().out)
    verdicts = {verdict["mechanism"]: verdict["verdict"] for verdict in told["verdicts"]}
    assert (verdicts["lm-head-shared"], verdicts["speculative-acceptance"]) == (shared, shared)
    assert verdicts["fp8-lm-head"] == "PROVEN"


@pytest.mark.parametrize("python", ["this one", "python3.9"])
def test_a_hanging_server_is_told_alike_in_every_python(
    stub: Stub, folder: Path, python: str
) -> None:
    stub.pages["/health"] = lambda: late(3)
    words = ("-m", NAME, "--url", stub.url, "--out", str(folder / "out"), "--timeout", "0.2")
    done = alone(folder, *words, python=engine_python(python))
    assert done.stdout == "replica 0: not ready, 0 files\n  /health: no answer within 0.2 s\n"
