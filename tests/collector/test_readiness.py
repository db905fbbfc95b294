"""Servers that are not ready, yet or any more."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from collector.stub import KEY, Answer, Stub, closed_url

from configurator.collector.collecting import collect
from configurator.collector.command import main
from configurator.evidence.read import read_evidence


def test_it_waits_while_the_server_starts(stub: Stub, tmp_path: Path) -> None:
    answers = iter([(503, b""), (503, b"")])
    stub.pages["/health"] = lambda: next(answers, (200, b""))
    told: list[str] = []
    manifest = collect({0: stub.url}, tmp_path / "out", wait_s=20, on_progress=told.append)
    assert manifest["replicas"][0]["ready"] is True
    assert told[0] == "replica 0: not ready after 0 s: /health: HTTP 503"


def test_still_starting_at_the_deadline(stub: Stub, tmp_path: Path) -> None:
    stub.answer("/health", 503, b"")
    manifest = collect({0: stub.url}, tmp_path / "out", wait_s=0.3)
    replica = manifest["replicas"][0]
    assert (replica["reachable"], replica["ready"]) == (True, False)
    assert replica["error"] == "/health: HTTP 503"
    assert stub.generated == []
    assert replica["files"] == [
        "server_info_startup.json",
        "model_info.json",
        "metrics_startup.txt",
    ]


def test_nobody_listens(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("RuntimeError: out of memory\n")
    manifest = collect({0: closed_url()}, tmp_path / "out", logs={0: log})
    replica = manifest["replicas"][0]
    assert (replica["reachable"], replica["ready"]) == (False, False)
    assert replica["error"] == "/health: Connection refused"
    assert (tmp_path / "out/replica-0/server.log").read_text() == "RuntimeError: out of memory\n"


def test_the_log_says_that_the_server_died(tmp_path: Path) -> None:
    log, stamp = tmp_path / "server.log", "[2026-01-01 00:00:01] "
    log.write_text(
        f"{stamp}server_args=x\n"
        f"{stamp}Subprocess scheduler_0 (pid=7) crashed with exit code -9. Cleanup\n"
    )
    start = time.monotonic()
    manifest = collect({0: closed_url()}, tmp_path / "out", logs={0: log}, wait_s=30)
    assert time.monotonic() - start < 5
    assert manifest["replicas"][0]["error"] == (
        "the log says the server died: "
        f"{stamp}Subprocess scheduler_0 (pid=7) crashed with exit code -9. Cleanup"
    )


def test_the_process_is_gone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    manifest = collect({0: closed_url()}, tmp_path / "out", pids={0: child.pid}, wait_s=30)
    assert manifest["replicas"][0]["error"] == f"process {child.pid} has exited"


def test_a_key_is_wanted_and_not_given(stub: Stub, tmp_path: Path) -> None:
    stub.key = KEY
    manifest = collect({0: stub.url}, tmp_path / "out", passive=True, wait_s=30)
    errors = manifest["replicas"][0]["errors"]
    assert errors[0] == "/model_info: HTTP 401 " + '{"error":"Unauthorized"}'
    assert errors[1].endswith("; give the server's key")
    assert not (tmp_path / "out/replica-0/server_info_startup.json").exists()


def test_a_server_that_answers_every_request_with_an_error_is_not_ready(
    stub: Stub, tmp_path: Path
) -> None:
    def refuse(body: dict[str, Any]) -> Answer:
        stub.generated.append(body)
        return 500, b"boom"

    stub.generate = refuse  # type: ignore[method-assign]
    replica = collect({0: stub.url}, tmp_path / "out")["replicas"][0]
    assert replica["ready"] is False
    assert replica["error"] == "answers 3 of 3 requests with HTTP 500"
    assert len(stub.generated) == 3
    assert "server_info.json" in replica["files"]
    state = read_evidence(tmp_path / "out").replicas[0].state
    assert (state.state, state.reason) == ("failed", replica["error"])
    assert main(["--url", stub.url, "--out", str(tmp_path / "again")]) == 1
