"""Rendered scripts under real bash: launch, wait, self-check, and every way it ends."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
from stand_in import (
    SIGNALS,
    alive,
    environment,
    interrupted_twice,
    launch,
    rendered,
    seen,
    shellcheck,
    signalled,
    wait_until_gone,
)


def test_hostile_values_arrive_unchanged_and_shellcheck_is_silent(
    tmp_path: Path, free_port: int, hostile: list[str]
) -> None:
    values = json.dumps(hostile)  # JSON strings are YAML flow strings
    wild = json.dumps(" ".join(hostile))
    checkpoint = tmp_path / "$(touch pwned) `touch pwned` it's * \u4f60"
    checkpoint.mkdir()
    out = rendered(
        tmp_path,
        f"serving: {{port: {free_port}, served_model_name: {json.dumps(hostile[3])}}}\n"
        f"model: {{name: qwen3-8b, path: {json.dumps(str(checkpoint))}}}\n"
        f"deviations: [{{published: {wild}, here: {wild}, reason: {wild}}}]\n"
        f"description: {json.dumps(' '.join(hostile))}\n"
        f"extra: {{args: {{words: {values}}}, env: {{"
        + ", ".join(f"V{i}: {json.dumps(value)}" for i, value in enumerate(hostile))
        + "}}\n",
    )
    script = out / "replica0-host0.sh"
    shellcheck(script)
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    process.communicate(timeout=60)
    data = seen(tmp_path)
    argv, env = data["argv"], data["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    place = argv.index("--words") + 1
    assert argv[place : place + len(hostile)] == hostile
    assert argv[argv.index("--served-model-name") + 1] == hostile[3]
    assert argv[argv.index("--model-path") + 1] == str(checkpoint)
    assert [env[f"V{i}"] for i in range(len(hostile))] == hostile
    assert not (tmp_path / "pwned").exists()
    assert not (out / "pwned").exists()


def test_a_good_launch_checks_serves_and_passes_the_exit_code_on(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="end"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 5, printed
    assert "self-check: good" in printed
    checked = json.loads((tmp_path / "checked.json").read_text())
    assert checked[:4] == ["check", str(out / "profile.yaml"), "--url",
                           f"0=http://127.0.0.1:{free_port}"]  # fmt: skip
    assert checked[checked.index("--log") + 1] == f"0={out}/log/replica0-host0.log"


def test_a_refutation_stops_the_engine(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_CHECK="1"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not in effect" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))


@pytest.mark.parametrize(("mode", "code"), [("warn", 5), ("skip", 5)])
def test_check_modes_that_keep_it_running(
    tmp_path: Path, free_port: int, mode: str, code: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_CHECK="1", STUB_MODE="end", CONFIGURATOR_CHECK=mode)
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == code, printed
    assert ("NOTHING is proven" in printed) is (mode == "skip")


def test_without_the_checker_nothing_is_proven(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, CONFIGURATOR="no-such-command"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "NOTHING is proven" in printed


def test_an_engine_that_dies_shows_its_last_lines_and_no_key(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "RuntimeError: out of memory" in printed
    assert "top-secret" not in printed


def test_an_engine_that_hangs_is_stopped_at_its_phase(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\nstartup: {{timeout_s: 3}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="hang"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not ready after" in printed
    assert "Capture target decode CUDA graph begin" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))


@pytest.mark.parametrize(("sent", "code"), SIGNALS)
def test_signals_stop_the_engine(
    tmp_path: Path, free_port: int, sent: signal.Signals, code: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    assert signalled(launch(out, environment(tmp_path)), tmp_path, sent) == code


def test_a_second_interrupt_kills_an_engine_that_does_not_end(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="stubborn"))
    interrupted_twice(process, tmp_path)
    assert wait_until_gone(int(str(seen(tmp_path)["pid"])))


def test_the_engine_is_stopped_though_nobody_reads_the_output(
    tmp_path: Path, free_port: int
) -> None:
    """The message of stopping has no reader: the signal is still what ended the script."""
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path))
    assert process.stdout is not None
    assert any("serving on" in line for line in process.stdout)
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_a_start_whose_reader_leaves_is_ended_as_by_a_broken_pipe(
    tmp_path: Path, free_port: int
) -> None:
    """As with `| head`: nobody would read that the launch is not what was asked for."""
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path))
    assert process.stdout is not None
    assert any("launched" in line for line in process.stdout)
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_variables_of_the_engine_do_not_reach_the_script(tmp_path: Path, free_port: int) -> None:
    """These are names the script or bash itself uses; UID cannot even be exported."""
    wanted = {"LOG": "/no/such/dir/log", "UID": "7", "HERE": "x", "URL": "y", "SECONDS": "99",
              "RANDOM": "4", "IFS": ":", "ENGINE_PID": "1", "LOG_DIR": "/no/such"}  # fmt: skip
    extra = f"serving: {{port: {free_port}}}\nextra: {{env: {json.dumps(wanted)}}}\n"
    process = launch(rendered(tmp_path, extra), environment(tmp_path, STUB_MODE="end"))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 5, printed
    env = seen(tmp_path)["env"]
    assert isinstance(env, dict)
    assert {name: env[name] for name in wanted} == wanted


def test_the_log_of_the_last_run_is_kept(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    logs = out / "log"
    logs.mkdir()
    (logs / "replica0-host0.log").write_text("why it failed\n")
    launch(out, environment(tmp_path, STUB_MODE="die")).communicate(timeout=60)
    assert (logs / "replica0-host0.log.previous").read_text() == "why it failed\n"
    assert "why it failed" not in (logs / "replica0-host0.log").read_text()


def test_the_log_can_be_followed(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_MODE="end", CONFIGURATOR_FOLLOW="1")
    printed, _ = launch(out, env).communicate(timeout=60)
    assert "\nLoad weight begin. avail mem=1 GB\n" in printed


def test_the_checker_may_be_a_command_with_arguments_or_have_spaces(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_MODE="end")
    spaced = tmp_path / "my tools" / "configurator"
    spaced.parent.mkdir()
    shutil.copy(tmp_path / "tools" / "configurator", spaced)
    for command in (str(spaced), f"nice -n 0 {tmp_path}/tools/configurator"):
        process = launch(out, {**env, "CONFIGURATOR": command})
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 5, printed
        assert "self-check: good" in printed


def test_the_real_checker_stops_a_server_that_was_started_otherwise(
    tmp_path: Path, free_port: int
) -> None:
    """Replica 1 of 2, and behind its port a recording of another model's server."""
    extra = f"serving: {{port: {free_port}}}\ntopology: {{replicas: 2}}\n"
    out = rendered(tmp_path, extra, gpus=2)
    checker = f"{sys.executable} -m configurator"
    env = environment(tmp_path, STUB_MODE="recorded", CONFIGURATOR=checker, LC_ALL="C.UTF-8")
    printed, _ = launch(out, env, "replica1-host0.sh").communicate(timeout=120)
    assert "REFUTED        requested-equals-resolved" in printed
    assert "model_path: asked Qwen/Qwen3-8B, resolved models/" in printed
    assert "stopped: the launch is not what the profile asks for" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))
    (evidence,) = (out / "log").glob("evidence-*")
    assert (evidence / "replica-1" / "server_info.json").is_file()


@pytest.mark.parametrize("code", ["2", "3"])
def test_a_check_that_could_not_judge_stops_the_engine(
    tmp_path: Path, free_port: int, code: str
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    process = launch(out, environment(tmp_path, STUB_CHECK=code))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"could not judge (exit code {code}); nothing is proven" in printed
    assert not alive(int(str(seen(tmp_path)["pid"])))


@pytest.mark.parametrize("key", ["swordfish-123", 'it\'s-"swordfish"\\n', "None"])
def test_keys_are_read_at_run_time_and_nowhere_written(
    tmp_path: Path, free_port: int, key: str
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    out = rendered(tmp_path, f"serving: {{port: {free_port}, api_key: {{file: '{file}'}}}}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="die"))
    printed, _ = process.communicate(timeout=60)
    argv = seen(tmp_path)["argv"]
    assert isinstance(argv, list)
    assert argv[argv.index("--api-key") + 1] == key
    log = out / "log" / "replica0-host0.log"
    text = log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert "'admin_api_key': None" in text
    assert text.count("<redacted>") == 6
    assert "top-secret" not in text
    assert "swordfish" not in printed + text
    assert "swordfish" not in "".join(p.read_text() for p in out.iterdir() if p.is_file())


def test_a_log_without_keys_grows_while_the_engine_runs(tmp_path: Path, free_port: int) -> None:
    file = tmp_path / "key"
    file.write_text("swordfish-123")
    extra = f"serving: {{port: {free_port}, api_key: {{file: '{file}'}}}}\n"
    out = rendered(tmp_path, extra + "startup: {timeout_s: 3}\n")
    process = launch(out, environment(tmp_path, STUB_MODE="hang"))
    printed, _ = process.communicate(timeout=60)
    assert "it was at: Capture target decode CUDA graph begin" in printed
    assert "loading 50%\n" in (out / "log" / "replica0-host0.log").read_text()
