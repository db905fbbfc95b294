"""What is read of an engine's process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from collector.stub import Stub, everything
from stand_in import wait_until_gone

from configurator.collector.collecting import collect
from configurator.collector.replica import Replica


def test_the_environment_of_the_process(stub: Stub, tmp_path: Path) -> None:
    env = {"SGLANG_Y": "2", "HF_TOKEN": "plain-but-secret", "MY_PASSWORD": "open-sesame-1"}
    log = tmp_path / "server.log"
    log.write_text("using open-sesame-1 for the store\n")
    child = subprocess.Popen(["sleep", "30"], env=env)
    try:
        # Between fork and exec the child still shows our own environment.
        while b"SGLANG_Y" not in Path(f"/proc/{child.pid}/environ").read_bytes():
            time.sleep(0.01)
        manifest = collect({0: stub.url}, tmp_path / "out", pids={0: child.pid}, logs={0: log})
    finally:
        child.kill()
        child.wait()
    assert manifest["environment"] == {
        "SGLANG_X": "1", "SGLANG_Y": "2", "HF_TOKEN": "<redacted>",
    }  # fmt: skip
    written = everything(tmp_path / "out")
    assert "open-sesame-1" not in written
    assert "plain-but-secret" not in written


SERVER = """
import os, sys, time
from configurator.demo.server import RecordedServer, recording
with RecordedServer(recording("healthy")) as server:
    print(server.url, os.getpid(), flush=True)
    if "wiped" in sys.argv:
        fields = open("/proc/self/stat").read().rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(bytes(end - start))
    time.sleep(60)
"""
ENV = {"PATH": os.environ["PATH"], "SGLANG_SIMULATE_ACC_LEN": "3.5"}


@contextmanager
def server(*words: str, before: tuple[str, ...] = (), **env: str) -> Iterator[tuple[str, int, int]]:
    """A server in another process: its URL, its process, and the one that started it."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", SERVER, *words],
        env={**ENV, **env}, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    url, pid = process.stdout.readline().split()
    try:
        yield url, int(pid), process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def collected(url: str, pid: int, out: Path) -> tuple[dict[str, str] | None, str, bool]:
    """The environment that is on record, what is noted, and whether the engine was seen here."""
    manifest = collect({0: url}, out, pids={0: pid}, passive=True)
    seen = manifest["host"]["engine_seen"]
    return manifest["replicas"][0]["environment"], "\n".join(manifest["notes"]), seen


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server itself says nothing of its environment."""
    monkeypatch.setattr(Replica, "environment", lambda self: self.own)


@pytest.mark.usefixtures("bare")
def test_the_process_that_listens_is_the_server(tmp_path: Path) -> None:
    with server() as (url, pid, _):
        found = collected(url, pid, tmp_path / "out")
    assert found == ({"SGLANG_SIMULATE_ACC_LEN": "3.5"}, "", True)


@pytest.mark.usefixtures("bare")
def test_of_a_shell_that_started_it_the_servers_own_environment_counts(tmp_path: Path) -> None:
    shell = ("/bin/sh", "-c", 'SGLANG_X=1 "$@"; true', "sh")
    with server(before=shell) as (url, pid, leader):
        assert pid != leader
        for given in (pid, leader, 1):
            environment, note, seen = collected(url, given, tmp_path / str(given))
            if given == 1 and environment is None:
                continue  # what the first process has open may be hidden
            assert environment == {"SGLANG_SIMULATE_ACC_LEN": "3.5", "SGLANG_X": "1"}
            assert (note, seen) == ("", True)


@pytest.mark.usefixtures("bare")
def test_another_process_says_nothing_of_the_server(tmp_path: Path) -> None:
    with server() as (url, pid, _), server() as (_, other, _):
        environment, note, seen = collected(url, other, tmp_path / "out")
    assert environment is None
    assert not seen
    assert f"process {other} is not known to be the server at {url}" in note
    assert f"its environment is left out: process {pid} (" in note


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("state", ["dead", "wiped"])
def test_an_environment_without_a_single_variable_is_not_known(tmp_path: Path, state: str) -> None:
    gone = subprocess.Popen(["true"])
    wait_until_gone(gone.pid)
    with server(state) as (url, pid, _):
        while state == "wiped" and Path(f"/proc/{pid}/environ").read_bytes().strip(b"\0"):
            time.sleep(0.01)
        given = gone.pid if state == "dead" else pid
        environment, note, _ = collected(url, given, tmp_path / "out")
    gone.wait()
    assert environment is None
    wanted = "listens on port" if state == "dead" else f"environment of {pid}: it holds no variable"
    assert wanted in note


@pytest.mark.usefixtures("bare")
def test_of_another_machine_nothing_can_be_told(tmp_path: Path) -> None:
    manifest = collect(
        {0: "http://192.0.2.1:9"}, tmp_path / "out", pids={0: os.getpid()}, timeout_s=0.2
    )
    assert manifest["replicas"][0]["environment"] is None
    assert manifest["host"] == {}
    assert any("192.0.2.1 is not this machine" in note for note in manifest["notes"])


def test_secrets_of_a_process_that_is_left_out_are_hidden_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("using open-sesame-1 for the store\n")
    with server() as (url, _, _), server(MY_PASSWORD="open-sesame-1") as (_, other, _):
        collect({0: url}, tmp_path / "out", pids={0: other}, logs={0: log}, passive=True)
    assert "open-sesame-1" not in everything(tmp_path / "out")
