"""Rendered scripts go on only with the server that they started, whoever else answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from stand_in import alive, environment, launch, rendered, seen, shellcheck, wait_for
from strangers import another_server


def wait_for_line(log: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if log.exists() and text in log.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never came")


def test_another_server_on_the_port_is_not_this_engine(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    shellcheck(out / "replica0-host0.sh")
    process = launch(out, environment(tmp_path, STUB_MODE="hang"))
    wait_for_line(out / "log/replica0-host0.log", "Capture target")
    with another_server(free_port):
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"FAILED: process {os.getpid()} (" in printed
    assert f"listens on port {free_port}, not this engine" in printed
    assert "ready after" not in printed
    assert not (tmp_path / "checked.json").exists()
    assert not alive(int(str(seen(tmp_path)["pid"])))


def test_a_port_that_is_lost_during_the_self_check_is_not_good(
    tmp_path: Path, free_port: int
) -> None:
    """The checker kills the listening child of the engine, and another server takes the port."""
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path)
    tools = tmp_path / "tools"
    (tools / "python3").rename(tools / "real")
    (tools / "python3").write_text(
        f'#!/bin/sh\n[ "$1" = -m ] || exec {tools}/real "$@"\n{tools}/real "$@" &\nsleep 600\n'
    )
    (tools / "python3").chmod(0o755)
    (tools / "configurator").write_text(
        f"#!/bin/sh\ntouch {tmp_path}/checking\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.1; done\n"
    )
    process = launch(out, env)
    wait_for(tmp_path / "checking")
    pid = int(str(seen(tmp_path)["pid"]))
    os.kill(pid, 9)
    while alive(pid):
        time.sleep(0.05)
    with another_server(free_port):
        (tmp_path / "go").touch()
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1, printed
    assert "ready after" in printed
    assert f"process {os.getpid()} (" in printed
    assert "self-check: good" not in printed


@pytest.mark.parametrize("wrapper", ['{real} "$@"', 'setsid -w {real} "$@"', 'exec {real} "$@"'])
def test_an_engine_behind_a_wrapper_is_this_engine(
    tmp_path: Path, free_port: int, wrapper: str
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_MODE="end")
    tools = tmp_path / "tools"
    (tools / "python3").rename(tools / "real")
    (tools / "python3").write_text(f"#!/bin/sh\n{wrapper.format(real=tools / 'real')}\n")
    (tools / "python3").chmod(0o755)
    printed, _ = launch(out, env).communicate(timeout=60)
    assert "self-check: good" in printed
    assert "cannot be told" not in printed


def test_where_the_system_does_not_tell_the_script_says_so_and_goes_on(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    env = environment(tmp_path, STUB_MODE="end")
    cat = tmp_path / "tools" / "cat"
    cat.write_text('#!/bin/sh\ncase "$*" in */net/tcp*) exit 1 ;; esac\nexec /bin/cat "$@"\n')
    cat.chmod(0o755)
    process = launch(out, env)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 5, printed
    assert "whether it is this engine that answers on" in printed
    assert "self-check: good" in printed
