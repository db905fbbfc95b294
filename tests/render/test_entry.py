"""The entry script under real bash: keys, probe, log, state, and that it becomes the engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stand_in import LIBRARY, as_from_a_terminal, shellcheck, wait_for, wait_until_gone

from configurator.render.containers import BASH, entry_file
from configurator.resolve import resolve

SEEN = (
    'import json,os,sys; json.dump([sys.argv[1:], dict(os.environ), os.getpid()], open("seen","w"))'
)


def entry(folder: Path) -> Path:
    file = entry_file(resolve(*LIBRARY.profile("ling-3.0-flash-spark"), LIBRARY))
    bundle = folder / "bundle"
    (bundle / "probe").mkdir(parents=True, exist_ok=True)
    path = bundle / "entry.sh"
    path.write_text(file.text)
    return path


def start(folder: Path, words: list[str], **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(entry(folder)), *words],
        env={"PATH": "/usr/bin:/bin", **env},
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=as_from_a_terminal,
    )  # fmt: skip


def run(folder: Path, words: list[str], **env: str) -> tuple[int, str, str]:
    process = start(folder, words, **env)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def engine(*words: str) -> list[str]:
    return [sys.executable, "-c", SEEN, *words]


def seen(folder: Path) -> tuple[list[str], dict[str, str], int]:
    argv, env, pid = json.loads((folder / "seen").read_text())
    return argv, env, pid


def test_it_is_clean(tmp_path: Path) -> None:
    shellcheck(entry(tmp_path))


def test_keys_take_their_places_and_hostile_words_arrive(
    tmp_path: Path, hostile: list[str]
) -> None:
    (tmp_path / "key").write_text("of-a-file-$x\n")
    words = engine("<key>", *hostile, "<key>", "<key>")
    last = len(words) - 1
    keys = f"3=env:K {last - 1}=file:{tmp_path}/key {last}=env:K"
    code, out, err = run(tmp_path, words, CONFIGURATOR_KEYS=keys, K='it\'s-`a`-"key"', OTHER="1")
    assert (code, out, err) == (0, "", "")
    argv, env, _ = seen(tmp_path)
    assert argv == ['it\'s-`a`-"key"', *hostile, "of-a-file-$x", 'it\'s-`a`-"key"']
    assert env["OTHER"] == "1"
    assert not {"K", "CONFIGURATOR_KEYS", "CONFIGURATOR_LOG", "CONFIGURATOR_STATE"} & env.keys()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("3=env:NONE", "variable NONE is empty; it must hold the key"),
        ("3=file:/none", "the key file /none cannot be read"),
        ("3=what:x", "'what:x' says of no key where it is; write env:NAME or file:PATH"),
        ("3=env:LINES", "variable LINES holds several lines; put the key alone there"),
        ("99=env:K", "there is no word 99"),
        ("x-y=env:K", "there is no word x-y"),
    ],
)
def test_a_key_that_is_not_there_stops_the_start(tmp_path: Path, keys: str, message: str) -> None:
    state = tmp_path / "state"
    words = engine("<key>")
    env = {"CONFIGURATOR_KEYS": keys, "K": "k", "LINES": "a\nb", "CONFIGURATOR_STATE": str(state)}
    code, _, err = run(tmp_path, words, **env)
    assert code == 1
    assert message in err
    assert not (tmp_path / "seen").exists()
    assert not (state / "start").exists()


def test_what_an_image_has_for_its_shells_reaches_the_engine_alone(tmp_path: Path) -> None:
    """An image may read settings for every bash; they must not change the script before it."""
    (tmp_path / "rc").write_text(f"echo read >>{tmp_path}/marker\nset -- other words\n")
    image = {
        "BASH_ENV": f"{tmp_path}/rc", "ENV": f"{tmp_path}/rc", "CDPATH": "/usr",
        "SHELLOPTS": "noglob:xtrace", "BASH_FUNC_mkdir%%": "() { echo function >&2; exit 9; }",
    }  # fmt: skip
    done = subprocess.run(
        [*BASH, str(entry(tmp_path)), *engine("one", "*")],
        env={"PATH": "/usr/bin:/bin", "CONFIGURATOR_STATE": f"{tmp_path}/state", **image},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    argv, env, _ = seen(tmp_path)
    assert argv == ["one", "*"]
    assert not (tmp_path / "marker").exists()
    # Options are those of the last shell, and no engine's.
    kept = {name: value for name, value in image.items() if name != "SHELLOPTS"}
    assert {name: env.get(name) for name in image} == {**kept, "SHELLOPTS": None}
    # Without the option all of it counts: this is what is kept away.
    plain = subprocess.run(
        ["bash", str(entry(tmp_path)), *engine()], env={"PATH": "/usr/bin:/bin", **image},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (tmp_path / "marker").read_text() == "read\n"
    assert "+ " in plain.stderr


def test_without_a_command_it_says_so(tmp_path: Path) -> None:
    assert run(tmp_path, [])[2] == "entry.sh: no command is given\n"


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({}, (None, None)),
        ({"PYTHONPATH": "/image"}, (":/image", None)),
        ({"SGLANG_PLUGINS": "a"}, (None, "a,configurator_probe")),
        ({"SGLANG_PLUGINS": "a, configurator_probe"}, (None, "a, configurator_probe")),
        ({"SGLANG_PLUGINS": ""}, (None, "")),
    ],
)
def test_the_probe_is_seen_beside_what_the_image_has(
    tmp_path: Path, held: dict[str, str], wanted: tuple[str | None, str | None]
) -> None:
    reports = tmp_path / "reports" / "replica-0"
    assert run(tmp_path, engine(), CONFIGURATOR_PROBE_DIR=str(reports), **held)[0] == 0
    _, env, _ = seen(tmp_path)
    assert env["PYTHONPATH"] == f"{tmp_path}/bundle/probe{wanted[0] or ''}"
    assert env.get("SGLANG_PLUGINS") == wanted[1]
    assert reports.is_dir()


def test_who_has_no_reports_gets_no_probe(tmp_path: Path) -> None:
    assert run(tmp_path, engine())[0] == 0
    assert "PYTHONPATH" not in seen(tmp_path)[1]


def test_the_log_is_kept_turned_over_and_without_keys(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "r.log"
    script = "print(\"server_args=ServerArgs(api_key='swordfish')\"); print('half', end='\\r')"
    words = [sys.executable, "-c", script]
    for _ in range(2):
        code, out, _ = run(tmp_path, words, CONFIGURATOR_LOG=str(log))
        assert code == 0
        assert out == "server_args=ServerArgs(api_key='<redacted>')\nhalf\n"
    assert log.read_text() == out
    assert Path(f"{log}.previous").read_text() == out
    assert log.stat().st_mode & 0o077 == 0


def test_every_start_has_a_name_of_its_own_and_nothing_proven(tmp_path: Path) -> None:
    state, reports = tmp_path / "state", tmp_path / "reports"
    reports.mkdir()
    env = {"CONFIGURATOR_STATE": str(state), "CONFIGURATOR_PROBE_DIR": str(reports)}
    names = set()
    for _ in range(3):
        for name in ("report-tp0.json", "hooks-7.json", "kept.txt"):
            (reports / name).write_text("of an earlier start")
        assert run(tmp_path, engine(), **env)[0] == 0
        names.add((state / "start").read_text())
        assert [path.name for path in reports.iterdir()] == ["kept.txt"]
        assert not (state / "proven").exists()
        assert [path.name for path in state.iterdir()] == ["start"]
        (state / "proven").write_text((state / "start").read_text())
    assert len(names) == 3
    assert all(len(name) == 37 for name in names)


def test_a_rank_without_state_leaves_the_reports_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "report-tp0.json").write_text("of rank 0")
    assert run(tmp_path, engine(), CONFIGURATOR_PROBE_DIR=str(tmp_path))[0] == 0
    assert (tmp_path / "report-tp0.json").exists()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_engine_and_its_end_is_the_scripts(
    tmp_path: Path, sent: signal.Signals
) -> None:
    script = (
        f"{SEEN}; import signal, sys, time\n"
        f"signal.signal({int(sent)}, lambda *_: sys.exit(7)); time.sleep(60)"
    )
    env = {"CONFIGURATOR_LOG": str(tmp_path / "log")}
    process = start(tmp_path, [sys.executable, "-c", script], **env)
    wait_for(tmp_path / "seen")
    time.sleep(0.3)
    pid = seen(tmp_path)[2]
    assert pid != process.pid
    os.kill(process.pid, sent)
    process.communicate(timeout=20)
    assert process.returncode == 7
    assert wait_until_gone(pid)


def test_an_engine_that_a_signal_ends(tmp_path: Path) -> None:
    script = f"{SEEN}; import time; time.sleep(60)"
    process = start(tmp_path, [sys.executable, "-c", script], CONFIGURATOR_LOG=str(tmp_path / "l"))
    wait_for(tmp_path / "seen")
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_interrupts_are_not_ignored_by_the_engine(tmp_path: Path) -> None:
    """A shell starts what runs beside it deaf to interrupts, unless it controls jobs."""
    script = (
        "import signal; open('seen', 'w').write(str(signal.getsignal(signal.SIGINT)"
        " is signal.default_int_handler))"
    )
    run(tmp_path, [sys.executable, "-c", script], CONFIGURATOR_LOG=str(tmp_path / "log"))
    assert (tmp_path / "seen").read_text() == "True"


def test_without_a_log_and_keys_the_script_becomes_the_engine(tmp_path: Path) -> None:
    process = start(tmp_path, [sys.executable, "-c", f"{SEEN}; import time; time.sleep(60)"])
    wait_for(tmp_path / "seen")
    time.sleep(0.2)
    assert seen(tmp_path)[2] == process.pid
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM


def test_what_an_engine_says_after_it_killed_its_children_is_kept(tmp_path: Path) -> None:
    """As SGLang does: it ends its process tree before Python prints the traceback."""
    killing = (
        "import os, signal, subprocess, sys\n"
        "print('x\\n' * 300, end='', flush=True)\n"
        "own = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(os.getpid())],"
        " capture_output=True, text=True).stdout.split()\n"
        "for pid in own:\n"
        "    try: os.kill(int(pid), signal.SIGKILL)\n"
        "    except OSError: pass\n"
        "raise RuntimeError('the cause')"
    )
    log = tmp_path / "log"
    words = [sys.executable, "-c", killing, "--api-key", "KEY"]
    env = {"CONFIGURATOR_LOG": str(log), "CONFIGURATOR_KEYS": "4=env:K", "K": "secret-key"}
    code, _, _ = run(tmp_path, words, **env)
    text = log.read_text()
    assert code == 1
    assert text.count("x\n") == 300
    assert text.rstrip().endswith("RuntimeError: the cause")


def test_variables_of_the_engine_are_not_those_of_the_script(tmp_path: Path) -> None:
    names = ("log", "state", "name", "value", "place", "from", "key", "here", "words", "keys",
             "NAME", "HERE", "code")  # fmt: skip
    held = {name: f"of the engine {name}" for name in names}
    key = tmp_path / "key"
    key.write_text("FILEKEY\n")
    env = {"CONFIGURATOR_KEYS": f"4=file:{key}", "CONFIGURATOR_LOG": str(tmp_path / "log")}
    script = str(entry(tmp_path))
    words = ["bash", script, *engine("--api-key", "<key>")]
    path = {"PATH": "/usr/bin:/bin"}
    subprocess.run(words, env={**path, **env, **held}, cwd=tmp_path, check=True, timeout=30)
    argv, seen_env, _ = seen(tmp_path)
    assert argv == ["--api-key", "FILEKEY"]
    assert {name: seen_env.get(name) for name in names} == held
    assert "FILEKEY" not in seen_env.values()
    assert not [name for name in seen_env if name.lower().startswith("configurator_")]


def test_the_last_words_of_an_engine_that_dies_are_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = [sys.executable, "-c", "raise SystemExit('out of memory')"]
    code, out, _ = run(tmp_path, words, CONFIGURATOR_LOG=str(log))
    assert code == 1
    assert out == log.read_text() == "out of memory\n"
