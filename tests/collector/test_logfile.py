"""What of a log is kept, and what it says of a death."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from collector.stub import Stub, closed_url

from configurator.collector import logfile
from configurator.collector.collecting import collect

STAMP = "[2026-01-01 00:00:01] "


def test_a_long_log_keeps_its_ends(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "LOG_HEAD", 100)
    monkeypatch.setattr(logfile, "LOG_TAIL", 200)
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {n:04d}\n" for n in range(1000)))
    manifest = collect({0: stub.url}, tmp_path / "out", logs={0: log})
    lines = (tmp_path / "out/replica-0/server.log").read_text().splitlines()
    assert (lines[0], lines[9]) == ("line 0000", "line 0009")
    assert lines[10] == "[collector: 9711 of 10000 bytes left out after byte 99]"
    assert (lines[11], lines[-1]) == ("line 0981", "line 0999")
    assert manifest["notes"] == [
        "replica 0: server.log: 9711 of 10000 bytes left out after byte 99"
    ]  # fmt: skip


def test_the_death_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        f"{STAMP}server_args={{1}}\n{STAMP}SIGQUIT received. signum=None\n"
        f"{STAMP}server_args={{2}}\n{STAMP}Load weight begin.\n"
    )
    manifest = collect({0: closed_url()}, tmp_path / "out", logs={0: log}, wait_s=0.2)
    assert manifest["replicas"][0]["error"] == "/health: Connection refused"


def test_the_code_of_a_traceback_is_no_new_start(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-01-01 00:00:01] server_args=ServerArgs(x=1)\n"
        f"{STAMP}Subprocess scheduler_0 (pid=7) crashed with exit code 1. Triggering SIGQUIT\n"
        "Traceback (most recent call last):\n    server_args=server_args,\n"
    )
    replica = collect({0: closed_url()}, tmp_path / "out", logs={0: log})["replicas"][0]
    assert "crashed with exit code 1" in replica["error"]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-01-01 00:00:02] Receive: obj=GenerateReqInput(text='Scheduler hit an exception')",
        '{"timestamp": "x", "event": "request.finished", "obj": "SIGQUIT received"}',
        f"{STAMP}Hit invalid json_schema: key_string='Scheduler hit an exception: x', e=x",
        f"{STAMP}Hit invalid ebnf: key_string='x'\nScheduler hit an exception: x",
        "ValueError: Received sigquit from a child process",
    ],
)
def test_what_a_person_sent_is_no_death(tmp_path: Path, line: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"[2026-01-01 00:00:01] server_args=ServerArgs(x=1)\n{line}\n")
    replica = collect({0: closed_url()}, tmp_path / "out", logs={0: log})["replicas"][0]
    assert "died" not in replica["error"]


@pytest.mark.parametrize(
    "message",
    [
        "Scheduler hit an exception: Traceback (most recent call last):",
        "Received sigquit from a child process. It usually means the child failed.",
        "SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "Subprocess scheduler_0 (pid=7) crashed with exit code -15. Triggering SIGQUIT",
    ],
)
@pytest.mark.parametrize("prefix", [STAMP, "[2026-01-01 00:00:01 DP0 TP1] ", f"llm-1  | {STAMP}"])
def test_a_death_is_a_message_of_the_engine(tmp_path: Path, prefix: str, message: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{STAMP}server_args=ServerArgs(x=1)\n{prefix}{message}\n{STAMP}more\n")
    replica = collect({0: closed_url()}, tmp_path / "out", logs={0: log})["replicas"][0]
    assert replica["error"] == f"the log says the server died: {prefix}{message}"


def test_one_endless_line_of_the_log_costs_no_time(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("x" * 1_000_000)
    began = time.monotonic()
    collect({0: closed_url()}, tmp_path / "out", logs={0: log})
    assert time.monotonic() - began < 5
