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

    def evidence(self) -> list[str]:
        """Where the evidence of every check goes, in order."""
        checked = [self.folder / f"checked-{number}" for number in range(self.checks())]
        return [json.loads(path.read_text())[0][7] for path in checked]

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
    deadline = time.monotonic() + 60
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
        time.sleep(0.3)
        # Between what is removed of the first and the second's name the first may be checked anew.
        *before, last = [folder.rpartition("-")[2] for folder in found.evidence()]
        assert (set(before), last) == ({"aaaa"}, "bbbb")
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


def ended(found: Checker) -> str:
    """What it printed until it is stopped now."""
    assert found.process.poll() is None
    found.process.terminate()
    printed, _ = found.process.communicate(timeout=20)
    return printed


def test_enforce_never_lets_a_start_through_that_is_refuted(tmp_path: Path) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=1) as found:
        printed, _ = found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert "(exit code 1): it does not become ready" in printed
        assert found.read("proven") == ""
    # Started again, it does not ask the same engine again, and is there for the next start.
    with checker(tmp_path) as again:
        time.sleep(0.5)
        assert again.checks() == 1
        start_engine(tmp_path, "b")
        until(lambda: again.read("proven") == "b\n")
        assert ended(again).count("was refuted already") == 1


@pytest.mark.parametrize("mode", ["enforce", "hold"])
@pytest.mark.parametrize("code", [2, 3, 137])
def test_what_could_not_be_judged_is_not_refuted(tmp_path: Path, code: int, mode: str) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=code, CONFIGURATOR_CHECK=mode) as found:
        until(lambda: found.checks() >= 3)
        assert found.read("refuted") == found.read("proven") == ""
        (tmp_path / "code").write_text("0")
        until(lambda: found.read("proven") == "a\n")
        time.sleep(0.3)
        printed = ended(found)
    assert f"could not judge (exit code {code}): start a is not proven" in printed
    assert "not what the profile asks for" not in printed
    pauses = [line.split()[-2] for line in printed.splitlines() if "tried again in" in line]
    assert pauses[:3] == ["10", "20", "40"][: len(pauses)]


def test_pauses_have_an_end_and_a_new_start_does_not_wait(tmp_path: Path) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=2) as found:
        until(lambda: found.checks() >= 6)
        time.sleep(0.5)
        (tmp_path / "code").write_text("0")
        start_engine(tmp_path, "b")
        began = time.monotonic()
        until(lambda: found.read("proven") == "b\n")
        assert time.monotonic() - began < 4  # the pause of the sixth is 150 looks
        time.sleep(0.2)
        assert "tried again in 300 s" in ended(found)


def test_what_could_not_be_judged_may_yet_be_refuted(tmp_path: Path) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=2) as found:
        until(lambda: found.checks() >= 2)
        (tmp_path / "code").write_text("1")
        found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert found.read("refuted") == "a\n"


def test_warn_lets_through_what_could_not_be_judged_and_tries_again(tmp_path: Path) -> None:
    start_engine(tmp_path, "a")
    with checker(tmp_path, code=3, CONFIGURATOR_CHECK="warn") as found:
        until(lambda: found.read("proven") == "a\n")
        until(lambda: found.checks() >= 2)
        (tmp_path / "code").write_text("0")
        checks = found.checks()
        until(lambda: found.checks() > checks)
        time.sleep(0.5)
        checks = found.checks()
        time.sleep(0.5)
        assert found.checks() == checks  # judged
        printed = ended(found)
    assert "could not judge (exit code 3): start a is NOT proven, and let through" in printed
    assert "proven: start a" in printed


@pytest.mark.parametrize("fault", ["unreadable", "empty", "evidence", "state"])
def test_hold_survives_what_may_pass(tmp_path: Path, fault: str) -> None:
    key, evidence = tmp_path / "key", tmp_path / "evidence"
    if fault != "unreadable":
        key.write_text("" if fault == "empty" else f"{KEY}\n")
    if fault == "evidence":
        evidence.write_text("in the way")
    if fault == "state":
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools" / "mv").write_text(
            '#!/bin/bash\n[[ -e $STUB/mended ]] || exit 1\nexec /bin/mv "$@"\n'
        )
        (tmp_path / "tools" / "mv").chmod(0o755)
    start_engine(tmp_path, "a")
    place = f"file:{key}"
    with checker(tmp_path, CONFIGURATOR_CHECK="hold", CONFIGURATOR_KEY=place) as found:
        time.sleep(1)
        assert found.process.poll() is None
        assert found.read("proven") == ""
        (tmp_path / "mended").write_text("")
        key.write_text(f"{KEY}\n")
        if fault == "evidence":
            evidence.unlink()
        until(lambda: found.read("proven") == "a\n")
        time.sleep(0.2)
        printed = ended(found)
    said = {
        "unreadable": f"the key file {key} cannot be read",
        "empty": f"the key file {key} is empty; it must hold the key",
        "evidence": f"the folder of the evidence, {evidence}, cannot be made",
        "state": f"{tmp_path}/state/proven cannot be written",
    }  # fmt: skip
    assert f"FAILED, and tried again: {said[fault]}" in printed
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"start", "proven"}


def test_enforce_ends_on_a_folder_that_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("in the way")
    with checker(tmp_path) as found:
        printed, _ = found.process.communicate(timeout=20)
        assert found.process.returncode == 1
        assert "cannot be made" in printed


def test_two_checkers_do_not_take_each_others_partial_file(tmp_path: Path) -> None:
    """The other's `mv` comes between this one's writing and moving."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mv").write_text(
        '#!/bin/bash\n/bin/rm -f -- "$STUB/state/proven.partial"\nexec /bin/mv "$@"\n'
    )
    (tmp_path / "tools" / "mv").chmod(0o755)
    start_engine(tmp_path, "a")
    with checker(tmp_path, CONFIGURATOR_CHECK="hold") as found:
        until(lambda: found.read("proven") == "a\n")
        assert "cannot" not in ended(found)


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
        assert "variable NONE is empty; it must hold the key" in printed


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
