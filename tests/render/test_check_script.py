"""check.sh under real bash: which start it proves, and what follows when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from render.generated import KEY
from stand_in import LIBRARY, as_from_a_terminal, shellcheck

from configurator.render.containers import check_file
from configurator.resolve import resolve

# The stand-in of configurator: it notes its words, and waits for leave to end where it is told to.
CHECKER = r"""
import json, os, pathlib, sys, time
folder = pathlib.Path(os.environ["STUB"])
number = len(list(folder.glob("checked-*")))
(folder / f"checked-{number}").write_text(json.dumps(
    [sys.argv[1:], os.environ.get("CONFIGURATOR_API_KEY")]))
while (folder / "wait").exists():
    time.sleep(0.02)
sys.exit(int((folder / "code").read_text()))
"""


class Checker:
    """A check.sh that runs, with the folder of its state."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self.process = folder, process

    def read(self, name: str) -> str:
        try:
            return (self.folder / "state" / name).read_text()
        except OSError:
            return ""

    def checks(self) -> int:
        return len(list(self.folder.glob("checked-*")))


def start_engine(folder: Path, name: str) -> None:
    """As the entry script names a start."""
    state = folder / "state"
    state.mkdir(exist_ok=True)
    (state / "proven").unlink(missing_ok=True)
    (state / "refuted").unlink(missing_ok=True)
    (state / "partial").write_text(f"{name}\n")
    (state / "partial").replace(state / "start")


@contextmanager
def checker(
    folder: Path, code: int = 0, profile: str = "ling-3.0-flash-spark-upstream", **env: str
) -> Iterator[Checker]:
    deployment = resolve(*LIBRARY.profile(profile), LIBRARY)
    script = folder / "check.sh"
    script.write_text(check_file(deployment).text)
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "configurator").write_text(f"#!{sys.executable}\n{CHECKER}")
    (tools / "configurator").chmod(0o755)
    # Two seconds between looks are long for a test.
    (tools / "sleep").write_text("#!/bin/bash\nexec /bin/sleep 0.05\n")
    (tools / "sleep").chmod(0o755)
    (folder / "code").write_text(str(code))
    reports = folder / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "report-tp0.json").write_text("{}")
    process = subprocess.Popen(
        ["bash", str(script), "--url", "0=http://127.0.0.1:1", "--wait", "9"],
        env={
            "PATH": f"{tools}:/usr/bin:/bin",
            "STUB": str(folder),
            "CONFIGURATOR_STATE": str(folder / "state"),
            "CONFIGURATOR_EVIDENCE": str(folder / "evidence"),
            "CONFIGURATOR_PROBE_DIR": str(reports),
            **env,
        },
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=as_from_a_terminal,
    )  # fmt: skip
    try:
        yield Checker(folder, process)
    finally:
        (folder / "wait").unlink(missing_ok=True)
        process.kill()
        process.communicate()


def until(held: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not held() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert held()


def test_it_is_clean(tmp_path: Path) -> None:
    with checker(tmp_path):
        shellcheck(tmp_path / "check.sh")


def test_a_start_is_proven_once_and_the_next_anew(tmp_path: Path) -> None:
    with checker(tmp_path) as found:
        time.sleep(0.3)
        assert found.checks() == 0  # nothing has started
        start_engine(tmp_path, "aaaa-1")
        until(lambda: found.read("proven") == "aaaa-1\n")
        time.sleep(0.3)
        assert found.checks() == 1
        start_engine(tmp_path, "bbbb-2")
        until(lambda: found.read("proven") == "bbbb-2\n")
        assert found.checks() == 2
    words, _ = json.loads((tmp_path / "checked-0").read_text())
    assert words[:6] == [
        "check", f"{tmp_path}/profile.yaml", "--url", "0=http://127.0.0.1:1", "--wait", "9",
    ]  # fmt: skip
    assert words[6] == "--out"
    assert words[7].startswith(f"{tmp_path}/evidence/")
    assert words[7].endswith("-aaaa")


def test_an_old_check_never_proves_a_new_start(tmp_path: Path) -> None:
    (tmp_path / "wait").write_text("")
    start_engine(tmp_path, "old")
    with checker(tmp_path) as found:
        until(lambda: found.checks() == 1)
        start_engine(tmp_path, "new")
        (tmp_path / "code").write_text("0")
        os.rename(tmp_path / "wait", tmp_path / "later")
        until(lambda: found.checks() >= 2)
        until(lambda: found.read("proven") == "new\n")
        assert found.checks() == 2


def test_an_old_refutation_is_not_of_the_new_start(tmp_path: Path) -> None:
    (tmp_path / "wait").write_text("")
    start_engine(tmp_path, "old")
    with checker(tmp_path, code=1) as found:
        until(lambda: found.checks() == 1)
        start_engine(tmp_path, "new")
        os.rename(tmp_path / "wait", tmp_path / "later")
        until(lambda: found.checks() >= 2)
        assert found.read("refuted") != "old\n"


@pytest.mark.parametrize("code", [1, 2, 3])
def test_enforce_never_lets_a_start_through_that_is_not_proven(tmp_path: Path, code: int) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=code) as found:
        printed, _ = found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert f"(exit code {code}): it does not become ready" in printed
        assert found.read("proven") == ""
    with checker(tmp_path) as again:  # started again, it does not ask the same engine again
        printed, _ = again.process.communicate(timeout=20)
        assert again.process.returncode == 1
        assert "was refuted already" in printed
        assert again.checks() == 1
        start_engine(tmp_path, "b")
    with checker(tmp_path) as later:
        until(lambda: later.read("proven") == "b\n")


@pytest.mark.parametrize(
    ("mode", "checks", "said"), [("warn", 1, "NOT proven"), ("skip", 0, "NOTHING is proven")]
)
def test_other_modes_let_it_through_and_say_so(
    tmp_path: Path, mode: str, checks: int, said: str
) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=1, CONFIGURATOR_CHECK=mode) as found:
        until(lambda: found.read("proven") == "a\n")
        assert found.checks() == checks
        time.sleep(0.3)  # it says so after it has done so
        found.process.terminate()
        printed, _ = found.process.communicate(timeout=20)
    assert said in printed


def test_what_the_operator_sets_lets_a_refuted_start_through_without_a_restart(
    tmp_path: Path,
) -> None:
    """As a ConfigMap that is made, changed and deleted while the checker runs."""
    settings = tmp_path / "settings"
    settings.mkdir()
    start_engine(tmp_path, "a")
    env = {"CONFIGURATOR_CHECK": "hold", "CONFIGURATOR_SETTINGS": str(settings)}
    with checker(tmp_path, code=1, **env) as found:
        until(lambda: found.read("refuted") == "a\n")
        (settings / "CONFIGURATOR_CHECK").write_text("nonsense")
        time.sleep(0.3)
        assert not found.read("proven")
        (settings / "CONFIGURATOR_CHECK").write_text("warn")
        until(lambda: found.read("proven") == "a\n")
        assert found.checks() == 2
        (settings / "CONFIGURATOR_CHECK").unlink()
        time.sleep(0.3)
        start_engine(tmp_path, "b")
        until(lambda: found.read("refuted") == "b\n")
        assert not found.read("proven")
        found.process.terminate()
        printed, _ = found.process.communicate(timeout=20)
    assert printed.count("CONFIGURATOR_CHECK is 'nonsense'; set it to hold, warn or skip") == 1
    assert "NOT proven (exit code 1), and let through" in printed


def test_a_mode_that_is_none_is_refused(tmp_path: Path) -> None:
    with checker(tmp_path, CONFIGURATOR_CHECK="never") as found:
        printed, _ = found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert "set it to enforce, hold, warn or skip" in printed


@pytest.mark.parametrize("way", ["env", "file"])
def test_the_key_reaches_the_check_and_is_not_shown(tmp_path: Path, way: str) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    place = f"file:{tmp_path}/key" if way == "file" else "env:K"
    start_engine(tmp_path, "a")
    with checker(tmp_path, CONFIGURATOR_KEY=place, K=KEY) as found:
        until(lambda: found.read("proven") == "a\n")
        words, key = json.loads((tmp_path / "checked-0").read_text())
        found.process.terminate()
        printed, _ = found.process.communicate(timeout=20)
    assert key == KEY
    assert words[words.index("--api-key-env") + 1] == "CONFIGURATOR_API_KEY"
    assert KEY not in printed + str(words)


def test_a_key_that_is_not_there_is_said(tmp_path: Path) -> None:
    with checker(tmp_path, CONFIGURATOR_KEY="env:NONE") as found:
        printed, _ = found.process.communicate(timeout=20)
        assert "the key of env:NONE is empty" in printed


def test_a_report_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    start_engine(tmp_path, "a")
    empty = tmp_path / "empty"
    empty.mkdir()
    with checker(tmp_path, CONFIGURATOR_PROBE_DIR=str(empty)) as found:
        printed, _ = found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert "evidence.require_report asks for" in printed
        assert found.read("proven") == ""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_it_and_its_check(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    (tmp_path / "wait").write_text("")
    start_engine(tmp_path, "a")
    with checker(tmp_path) as found:
        until(lambda: found.checks() == 1)
        found.process.send_signal(sent)
        assert found.process.wait(timeout=10) == code
        assert found.read("proven") == ""
