"""The collector against a stub server: what it writes, what it never writes, where it stops."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from configurator.evidence import collect as module
from configurator.evidence.collect import (
    MOST_NESTED,
    CollectError,
    Plan,
    collect,
    find_secrets,
    main,
    redact_json,
    redact_text,
    usable_url,
)
from configurator.evidence.read import read_evidence

KEY = "k9-very-secret-key"
ADMIN = "adm-7777-secret"
Answer = tuple[int, bytes]


class Stub:
    """A server whose pages can be changed while it runs; it remembers what was asked."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.steps = 16
        self.pages: dict[str, Callable[[], Answer]] = {}
        self.seen: list[str] = []
        self.generated: list[dict[str, Any]] = []
        self.extra_headers: dict[str, str] = {}
        self.info: dict[str, Any] = {
            "version": "0.5.23",
            "api_key": KEY,
            "admin_api_key": ADMIN,
            "skip_tokenizer_init": False,
            "max_total_num_tokens": 4096,
            "launch_command": f"--port 1 --api-key {KEY} --admin-api-key={ADMIN} --tp-size 1",
            "internal_states": [
                {"env_vars": {"SGLANG_X": "1", "HF_TOKEN": "hf_abcdefghijklmnopq"}}
            ],
        }
        self.answer("/health", 200, b"")
        self.answer("/model_info", 200, b'{"served_model_name": "m"}')
        self.answer("/metrics", 200, b'sglang:num_requests_total{model_name="m"} 1.0\n')
        self.answer("/v1/loads", 200, b'{"loads": []}')
        self.pages["/server_info"] = lambda: (200, json.dumps(self.info).encode())
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str, status: int, body: bytes) -> None:
        self.pages[path] = lambda: (status, body)

    def generate(self, body: dict[str, Any]) -> Answer:
        self.generated.append(body)
        meta: dict[str, Any] = {"completion_tokens": 64}
        if self.steps:
            meta |= {"spec_verify_ct": self.steps, "spec_accept_length": 64 / self.steps}
        return 200, json.dumps({"text": "t", "meta_info": meta}).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.split("?")[0]
                stub.seen.append(self.path)
                allowed = stub.key is None or path in ("/health", "/ready", "/metrics")
                if not allowed and self.headers.get("Authorization") != f"Bearer {stub.key}":
                    return self.send(401, b'{"error":"Unauthorized"}')
                missing: Callable[[], Answer] = lambda: (404, b"{}")  # noqa: E731
                return self.send(*stub.pages.get(path, missing)())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.seen.append(self.path)
                self.send(*stub.generate(body))

            def send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                for name, value in stub.extra_headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                # The collector hangs up on a body that is too large.
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def everything(directory: Path) -> str:
    return "\n".join(path.read_text() for path in directory.rglob("*") if path.is_file())


def late(seconds: float) -> Answer:
    time.sleep(seconds)
    return 200, b"x"


def closed_url() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = server.server_address[1]
    server.server_close()
    return f"http://127.0.0.1:{port}"


# --- a ready server ----------------------------------------------------------------------------


def test_a_ready_server_yields_the_whole_directory(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=5)
    folder = tmp_path / "out" / "replica-0"
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == [
        "loads.json", "metrics.txt", "metrics_startup.txt", "model_info.json",
        "requests/001.json", "requests/002.json", "requests/003.json",
        "server_info.json", "server_info_startup.json",
    ]  # fmt: skip
    assert read(tmp_path / "out" / "manifest.json") == manifest
    assert (manifest["format"], manifest["engine"]["version"]) == (1, "0.5.23")
    replica = manifest["replicas"][0]
    assert (replica["index"], replica["url"]) == (0, stub.url)
    assert (replica["reachable"], replica["ready"], replica["error"]) == (True, True, "")
    assert manifest["environment"] == {"SGLANG_X": "1", "HF_TOKEN": "<redacted>"}
    kinds = [request["kind"] for request in manifest["requests"]]
    assert kinds == ["known-answer", "easy", "easy"]
    last = manifest["requests"][2]
    assert 0 <= last.pop("took_s") <= last.pop("started_s") + 5
    assert last == {
        "replica": 0, "file": "replica-0/requests/003.json", "path": "/generate",
        "kind": "easy", "status": 200, "together": 1,
    }  # fmt: skip
    kept = read(folder / "requests/001.json")
    assert kept["request"] == stub.generated[0]
    assert kept["response"]["meta_info"]["spec_verify_ct"] == 16


def test_level_1_sends_three_short_different_requests(stub: Stub, tmp_path: Path) -> None:
    collect({0: stub.url}, tmp_path / "out", concurrency=8)
    assert len(stub.generated) == 3
    assert len({body["text"] for body in stub.generated}) == 3
    assert {body["sampling_params"]["max_new_tokens"] for body in stub.generated} == {64}
    assert {body["sampling_params"]["temperature"] for body in stub.generated} == {0}


def test_level_2_stops_at_enough_verify_steps(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 100
    collect({0: stub.url}, tmp_path / "out", level=2)
    assert len(stub.generated) == 4


def test_level_2_sends_at_most_24_different_requests(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2)
    assert len({body["text"] for body in stub.generated}) == len(stub.generated) == 24
    assert {request["together"] for request in manifest["requests"]} == {1}
    assert manifest["notes"] == [
        "replica 0: 384 verify steps after 24 requests, 400 were wanted"
    ]  # fmt: skip


def test_level_2_sends_alone_and_at_the_concurrency(stub: Stub, tmp_path: Path) -> None:
    manifest = collect(
        {0: stub.url}, tmp_path / "out", level=2, concurrency=5, prompts=["one", "two"]
    )
    sent = [(request["kind"], request["together"]) for request in manifest["requests"]]
    assert sent[:4] == [("known-answer", 1), ("easy", 1), ("easy", 1), ("profile", 1)]
    assert sent[4:] == [("profile", 5), ("profile", 5), *[("easy", 5)] * 13]
    kept = read(tmp_path / "out/replica-0/requests/005.json")
    assert (kept["kind"], kept["together"], kept["request"]["text"]) == ("profile", 5, "one")
    texts = [body["text"] for body in stub.generated]
    assert texts.count("one") == 2
    assert len(set(texts)) == len(texts) - 1


def test_a_concurrency_above_the_number_of_texts_is_reached(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, concurrency=48)
    together = [r for r in manifest["requests"] if r["together"] == 48]
    assert len(together) == 48
    assert len({body["text"] for body in stub.generated}) == len(stub.generated)
    for width, sent in ((256, 256), (300, 256)):
        waves = Plan(level=2, concurrency=width).together(tokenizer=True, again=True)
        assert [len(wave) for wave in waves] == [sent]


def test_an_ngram_draft_meets_no_text_twice(stub: Stub, tmp_path: Path) -> None:
    stub.info["speculative_algorithm"] = "NGRAM"
    prompts = [f"text {i}" for i in range(4)]
    collect({0: stub.url}, tmp_path / "out", level=2, concurrency=5, prompts=prompts)
    texts = [body["text"] for body in stub.generated]
    assert set(prompts) < set(texts)
    assert len(set(texts)) == len(texts)


def test_without_speculation_the_concurrency_is_tried_once(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 0
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, concurrency=4)
    assert [r["together"] for r in manifest["requests"]] == [1, 1, 1, 4, 4, 4, 4]


def test_greedy_requests_are_sent_to_be_compared(stub: Stub, tmp_path: Path) -> None:
    body = {"text": "old", "sampling_params": {"temperature": 0, "max_new_tokens": 32}}
    manifest = collect(
        {0: stub.url}, tmp_path / "out", level=2, prompts=["one"], references=[body] * 2,
        sampling={"temperature": 1.0, "top_p": 0.9},
    )  # fmt: skip
    kinds = [r["kind"] for r in manifest["requests"]]
    assert kinds == ["known-answer", "easy", "easy", "profile", *["reference"] * 3]
    assert stub.generated[4:6] == [body, body]
    assert stub.generated[6] == {
        "text": "one",
        "sampling_params": {"temperature": 0, "max_new_tokens": 128},
    }
    assert stub.generated[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 128}


def test_facts_of_the_host_beside_the_engine(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA GB10, [N/A], 12.1, 580.95'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(module, "NVIDIA_SMI", (str(tool),))
    host = collect({0: stub.url}, tmp_path / "out")["host"]
    assert host["gpus"] == ["NVIDIA GB10, [N/A], 12.1, 580.95"]
    assert 0 < host["memory_available_kib"] < host["memory_kib"]
    assert host["engine_seen"] is False
    assert module.host_facts(["http://192.0.2.1:30000"], []) == {}
    monkeypatch.setattr(module, "NVIDIA_SMI", (str(tmp_path / "none"),))
    beside = module.host_facts([], [os.getpid()])
    assert set(beside) == {"engine_seen", "memory_kib", "memory_available_kib"}
    assert beside["engine_seen"] is True


def test_level_2_keeps_the_concurrency_of_the_profile(stub: Stub, tmp_path: Path) -> None:
    running, most, lock = 0, 0, threading.Lock()
    plain = stub.generate

    def slow(body: dict[str, Any]) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return plain(body)

    stub.generate = slow  # type: ignore[method-assign]
    collect({0: stub.url}, tmp_path / "out", level=2, concurrency=4)
    assert most == 4


def test_without_speculation_level_2_ends_early(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 0
    collect({0: stub.url}, tmp_path / "out", level=2)
    assert len(stub.generated) == 3


def test_level_3_says_that_it_has_no_trace_yet(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 400
    manifest = collect({0: stub.url}, tmp_path / "out", level=3)
    assert manifest["notes"] == ["level 3: no bounded trace yet, collected as level 2"]


def test_passive_asks_for_no_token(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, passive=True)
    assert stub.generated == []
    assert "/health" not in stub.seen  # it generates a token inside the engine
    assert manifest["replicas"][0]["ready"] is True
    assert manifest["requests"] == []


def test_prompts_and_sampling_of_the_profile(stub: Stub, tmp_path: Path) -> None:
    manifest = collect(
        {0: stub.url}, tmp_path / "out", prompts=["one", "two", "one"],
        sampling={"temperature": 0.6, "max_new_tokens": 100000},
    )  # fmt: skip
    assert [body["text"] for body in stub.generated[1:]] == ["one", "two"]
    assert stub.generated[1]["sampling_params"] == {"temperature": 0.6, "max_new_tokens": 64}
    assert stub.generated[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 64}
    kinds = [request["kind"] for request in manifest["requests"]]
    assert kinds == ["known-answer", "profile", "profile"]


def test_a_server_without_tokenizer_gets_token_ids(stub: Stub, tmp_path: Path) -> None:
    stub.info["skip_tokenizer_init"] = True
    manifest = collect({0: stub.url}, tmp_path / "out", prompts=["one"])
    ids = [tuple(body["input_ids"]) for body in stub.generated]
    assert len(set(ids)) == 3
    assert all(0 < token < 500 for row in ids for token in row)
    assert {request["kind"] for request in manifest["requests"]} == {"unknown"}


def test_the_name_of_server_info_in_older_engines(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/get_server_info"] = stub.pages.pop("/server_info")
    collect({0: stub.url}, tmp_path / "out")
    assert read(tmp_path / "out/replica-0/server_info.json")["version"] == "0.5.23"


# --- servers that are not ready ----------------------------------------------------------------


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


def test_a_hanging_server_costs_one_time_out(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/health"] = lambda: late(3)
    start = time.monotonic()
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=0.2)
    assert time.monotonic() - start < 2
    assert manifest["replicas"][0]["error"] == "/health: no answer within 0.2 s"


def test_one_page_that_hangs_does_not_stop_the_rest(stub: Stub, tmp_path: Path) -> None:
    stub.pages["/metrics"] = lambda: late(1)
    manifest = collect({0: stub.url}, tmp_path / "out", timeout_s=0.3)
    assert manifest["replicas"][0]["errors"] == ["/metrics: no answer within 0.3 s"] * 2
    assert len(stub.generated) == 3


def test_a_trickling_body_ends_at_the_deadline() -> None:
    class Drip:
        def read1(self, size: int) -> bytes:
            time.sleep(0.02)
            return b"x"

    with pytest.raises(TimeoutError):
        module._read(Drip(), time.monotonic() + 0.1)


def test_the_log_says_that_the_server_died(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "server_args={...}\nSubprocess scheduler_0 (pid=7) crashed with exit code -9. Cleanup\n"
    )
    start = time.monotonic()
    manifest = collect({0: closed_url()}, tmp_path / "out", logs={0: log}, wait_s=30)
    assert time.monotonic() - start < 5
    assert manifest["replicas"][0]["error"] == (
        "the log says the server died: "
        "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Cleanup"
    )


def test_the_death_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("server_args={1}\nSIGQUIT received.\nserver_args={2}\nLoad weight begin.\n")
    manifest = collect({0: closed_url()}, tmp_path / "out", logs={0: log}, wait_s=0.2)
    assert manifest["replicas"][0]["error"] == "/health: Connection refused"


def test_the_process_is_gone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    manifest = collect({0: closed_url()}, tmp_path / "out", pids={0: child.pid}, wait_s=30)
    assert manifest["replicas"][0]["error"] == f"process {child.pid} has exited"


def test_a_server_that_dies_under_the_first_request(stub: Stub, tmp_path: Path) -> None:
    def die(body: dict[str, Any]) -> Answer:
        stub.answer("/health", 503, b"")
        stub.generated.append(body)
        return 500, b'{"error": "scheduler died"}'

    stub.generate = die  # type: ignore[method-assign]
    manifest = collect({0: stub.url}, tmp_path / "out", level=2)
    replica = manifest["replicas"][0]
    assert len(stub.generated) == 1
    assert replica["ready"] is False
    assert replica["errors"] == [
        '/generate: HTTP 500 {"error": "scheduler died"}', "/health: HTTP 503",
    ]  # fmt: skip
    assert "server_info_startup.json" in replica["files"]
    assert read(tmp_path / "out/replica-0/requests/001.json")["status"] == 500


def test_two_replicas_of_which_one_is_dead(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({1: closed_url(), 0: stub.url}, tmp_path / "out")
    assert [(r["index"], r["ready"]) for r in manifest["replicas"]] == [(0, True), (1, False)]
    assert {request["replica"] for request in manifest["requests"]} == {0}


# --- answers that cannot be used ---------------------------------------------------------------


def test_a_key_is_wanted_and_not_given(stub: Stub, tmp_path: Path) -> None:
    stub.key = KEY
    manifest = collect({0: stub.url}, tmp_path / "out", passive=True, wait_s=30)
    errors = manifest["replicas"][0]["errors"]
    assert errors[0] == "/model_info: HTTP 401 " + '{"error":"Unauthorized"}'
    assert errors[1].endswith("; give the server's key")
    assert not (tmp_path / "out/replica-0/server_info_startup.json").exists()


def test_the_key_is_sent_and_never_written(stub: Stub, tmp_path: Path) -> None:
    stub.key = KEY
    manifest = collect({0: stub.url}, tmp_path / "out", api_key=KEY)
    assert manifest["replicas"][0]["errors"] == []
    assert KEY not in everything(tmp_path / "out")


def test_no_json_no_file(stub: Stub, tmp_path: Path) -> None:
    stub.answer("/server_info", 200, b"<html>not an engine</html>")
    stub.answer("/model_info", 200, b"[1]")
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert manifest["replicas"][0]["errors"] == [
        "/server_info: HTTP 200 but the body is not a JSON object",
        "/model_info: HTTP 200 but the body is not a JSON object",
        "/server_info: HTTP 200 but the body is not a JSON object",
    ]
    assert not (tmp_path / "out/replica-0/server_info.json").exists()


def test_a_huge_body_is_refused(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BODY", 2 << 20)
    stub.answer("/metrics", 200, b"x" * (3 << 20))
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert manifest["replicas"][0]["error"] == "/metrics: the body is larger than 2 MiB"


def test_redirects_are_not_followed(stub: Stub, tmp_path: Path) -> None:
    other = Stub()
    stub.answer("/server_info", 307, b"")
    stub.extra_headers["Location"] = other.url + "/server_info"
    manifest = collect({0: stub.url}, tmp_path / "out", api_key=KEY)
    other.close()
    assert manifest["replicas"][0]["error"] == "/server_info: HTTP 307"
    assert other.seen == []


def test_proxies_are_ignored(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", closed_url())
    monkeypatch.delenv("no_proxy", raising=False)
    assert collect({0: stub.url}, tmp_path / "out")["replicas"][0]["ready"] is True


# --- logs, reports, environment ----------------------------------------------------------------


def test_a_long_log_keeps_its_ends(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_HEAD", 100)
    monkeypatch.setattr(module, "LOG_TAIL", 200)
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


def test_reports_are_copied_with_their_time(stub: Stub, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "rank0.json").write_text('{"rank": 0, "env": {"HF_TOKEN": "hunter2"}}')
    (reports / "rank1.json").write_text('{"rank": 1')
    os.utime(reports / "rank0.json", (1000.0, 1000.0))
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: reports})
    copy = tmp_path / "out/replica-0/reports/rank0.json"
    assert read(copy) == {"rank": 0, "env": {"HF_TOKEN": "<redacted>"}}
    assert copy.stat().st_mtime == 1000.0
    assert manifest["notes"][0].startswith("report rank1.json left out: ")
    assert not copy.with_name("rank1.json").exists()


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


# --- redaction ---------------------------------------------------------------------------------


def test_no_secret_reaches_any_file(stub: Stub, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        f"server_args=ServerArgs(model_path='m', api_key='{KEY}', admin_api_key='{ADMIN}', tp=1)\n"
        f"server_args={{'api_key': '{KEY}', 'port': 1}}\n"
        f"GET /v1/models Authorization: Bearer {KEY}\nkey is {ADMIN}, they say\n"
    )
    stub.answer("/model_info", 200, json.dumps({"nested": [{"client_secret": "s3"}]}).encode())
    collect({0: stub.url}, tmp_path / "out", logs={0: log})
    written = everything(tmp_path / "out")
    for secret in (KEY, ADMIN, "hf_abcdefghijklmnopq", '"s3"'):
        assert secret not in written
    info = read(tmp_path / "out/replica-0/server_info.json")
    assert info["api_key"] == "<redacted>"
    assert info["launch_command"] == (
        "--port 1 --api-key <redacted> --admin-api-key=<redacted> --tp-size 1"
    )
    assert info["max_total_num_tokens"] == 4096


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("--api-key abc --tp 4", "--api-key <redacted> --tp 4"),
        ("--api-key 'a b' --tp 4", "--api-key '<redacted>' --tp 4"),
        ("--api-k abc", "--api-k <redacted>"),
        ("--api-key \\\n  abc", "--api-key \\\n  <redacted>"),
        ("['--api-key', 'abc', '--tp']", "['--api-key', '<redacted>', '--tp']"),
        ("ServerArgs(api_key='abc', tp=1)", "ServerArgs(api_key='<redacted>', tp=1)"),
        ('{"ssl_keyfile_password": "a\\"b"}', '{"ssl_keyfile_password": "<redacted>"}'),
        ('"{\\"api_key\\": \\"abc\\"}"', '"{\\"api_key\\": \\"<redacted>\\"}"'),
        ("HF_TOKEN=abc python", "HF_TOKEN=<redacted> python"),
        ("HF_TOKEN=123 python", "HF_TOKEN=<redacted> python"),
        ("AWS_SECRET_ACCESS_KEY: abc", "AWS_SECRET_ACCESS_KEY: <redacted>"),
        ("Authorization: Bearer a.b-c", "Authorization: <redacted>"),
        ("'authorization': 'Bearer abc'", "'authorization': '<redacted>'"),
        ("x-api-key: abc", "x-api-key: <redacted>"),
        ("GET /x?api_key=abc&n=1", "GET /x?api_key=<redacted>&n=1"),
        ("redis://me:pw@host:1/0", "redis://<redacted>@host:1/0"),
        ("https://tok@host/x", "https://<redacted>@host/x"),
        ("{'authorization': b'Bearer abc'}", "{'authorization': b'<redacted>'}"),
        ("Invalid API key: abc", "Invalid API key: <redacted>"),
        ("JWT_SECRET_KEY=abc", "JWT_SECRET_KEY=<redacted>"),
        ("api_key='a\\'b', n=1", "api_key='<redacted>', n=1"),
        ("loaded hf_ABCDEFGHIJKLMNOPQRST", "loaded <redacted>"),
    ],
)
def test_redacted_text(text: str, wanted: str) -> None:
    assert redact_text(text) == wanted
    assert redact_text(wanted) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch, #running-req: 1, #token: 38, token usage: 0.01, accept len: 1.00",
        "Prefill batch, #new-seq: 1, #new-token: 4, #cached-token: 0",
        "server_args={'api_key': None, 'max_total_tokens': 4096, 'enable_x_token': False}",
        "--speculative-num-draft-tokens 4 --tokenizer-path p --skip-tokenizer-init",
        "'eos_token': '</s>', 'image_token': '<img>', \"hf_chat_template_name\": null",
        'sglang:prompt_tokens_total{engine_type="unified"} 8.0',
        "http://127.0.0.1:30000/server_info",
    ],
)
def test_text_that_holds_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("hostile", ["api_key='" + "\\" * 20000, "a" * 50000, 'api_key="' * 5000])
def test_redaction_takes_linear_time(hostile: str) -> None:
    start = time.monotonic()
    redact_text(hostile)
    assert time.monotonic() - start < 2


def test_redacted_json_is_by_name_and_by_place() -> None:
    value = {
        "api_key": None, "admin_api_key": "", "hf_token": "x", "deep": [{"PASSWORD": 7}],
        "argv": ["--api-key", "abc", "--tp", "4"], "said": "the key is longsecret1", "n": 1.5,
    }  # fmt: skip
    assert redact_json(value, ["longsecret1"]) == {
        "api_key": None, "admin_api_key": "", "hf_token": "<redacted>",
        "deep": [{"PASSWORD": "<redacted>"}], "argv": ["--api-key", "<redacted>", "--tp", "4"],
        "said": "the key is <redacted>", "n": 1.5,
    }  # fmt: skip


def test_a_short_key_does_not_eat_the_evidence() -> None:
    assert redact_text("sglang:gen_throughput 1", ["sglang"]) == "sglang:gen_throughput 1"
    assert redact_text("--api-key sglang", ["sglang"]) == "--api-key <redacted>"


def test_found_secrets() -> None:
    found = find_secrets({"a": [{"api_key": "one"}], "eos_token": "</s>", "api_key": None})
    assert found == {"one"}


# --- input that cannot be used -----------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["", "localhost:30000", "ftp://h/x", "file:///etc/passwd", "http://", "http://h:99999",
     "http://h:1/?q=1", "http://a b:1", "http://me:pw@h:1"],
)  # fmt: skip
def test_unusable_urls(url: str) -> None:
    with pytest.raises(CollectError) as caught:
        usable_url(url)
    assert "\n" not in str(caught.value)
    assert "pw@" not in str(caught.value)


def test_a_url_loses_its_last_slash() -> None:
    assert usable_url("http://[::1]:30000/") == "http://[::1]:30000"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"level": 0}, "level 0, concurrency 1, time-out 60 s: level is 1 to 3"),
        ({"concurrency": 0}, "concurrency 0"),
        ({"timeout_s": 0}, "time-out 0 s"),
        ({"api_key": "a\nb"}, "the API key has spaces"),
        ({"logs": {0: "/nowhere.log"}}, "log /nowhere.log is not a file"),
        ({"reports": {0: "/nowhere"}}, "reports /nowhere is not a directory"),
    ],
)
def test_unusable_arguments(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        collect({0: "http://127.0.0.1:1"}, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_evidence_is_not_mixed(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    with pytest.raises(CollectError, match="is not empty; give a new directory"):
        collect({0: stub.url}, tmp_path)
    with pytest.raises(CollectError, match="cannot be used"):
        collect({0: stub.url}, tmp_path / "old.json")


def test_the_built_in_prompts_are_24_different_ones() -> None:
    texts = [body["text"] for _, body in Plan(level=2).alone(tokenizer=True)]
    assert len(set(texts)) == 24
    assert len({module._easy(i) for i in range(300)}) == 300


# --- command line ------------------------------------------------------------------------------


def test_it_runs_isolated_from_everything_of_ours(stub: Stub, tmp_path: Path) -> None:
    stub.key = KEY
    done = subprocess.run(
        [sys.executable, "-I", str(module.__file__), "--url", stub.url, "--out",
         str(tmp_path / "out"), "--api-key-env", "THE_KEY", "--level", "1"],
        env={"THE_KEY": KEY}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "replica 0: ready, 9 files\n"
    assert KEY not in done.stderr + everything(tmp_path / "out")


def test_only_the_standard_library_is_imported() -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    found = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "a relative import"]
        )
    }
    assert "urllib" in found
    assert found <= set(sys.stdlib_module_names)


def test_exit_code_1_when_a_server_is_not_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--url", closed_url(), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().out == (
        "replica 0: not ready, 0 files\n  /health: Connection refused\n"
    )
    assert (tmp_path / "out/manifest.json").is_file()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--url", "nonsense"], "'nonsense' is not a server's URL"),
        (["--url", "http://h:1", "--api-key-env", "NOT_SET_HERE"], "NOT_SET_HERE is not set"),
        (["--url", "http://h:1", "--sampling", "[]"], "--sampling must be a JSON object"),
        (["--url", "http://h:1", "--sampling", "{"], "Expecting property name"),
        (["--url", "http://h:1", "--prompts", "/nowhere"], "No such file"),
    ],
)
def test_exit_code_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main([*more, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_prompts_from_a_file(stub: Stub, tmp_path: Path) -> None:
    for text in ("one\n\ntwo\n", '["one", "two"]'):
        (tmp_path / "prompts").write_text(text)
        stub.generated.clear()
        out = tmp_path / f"out{len(text)}"
        assert main(["--url", stub.url, "--out", str(out), "--prompts",
                     str(tmp_path / "prompts")]) == 0  # fmt: skip
        assert [body["text"] for body in stub.generated[1:]] == ["one", "two"]


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


def test_one_request_that_is_refused_does_not_end_the_others(stub: Stub, tmp_path: Path) -> None:
    answer = stub.generate

    def refuse_first(body: dict[str, Any]) -> Answer:
        status, text = answer(body)
        return (500, b"boom") if len(stub.generated) == 1 else (status, text)

    stub.generate = refuse_first  # type: ignore[method-assign]
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert [request["status"] for request in manifest["requests"]] == [500, 200, 200]
    assert manifest["replicas"][0]["ready"] is True


def nested(levels: int) -> str:
    return '{"a": ' * levels + '{"api_key": "verysecretvalue1", "kept": [1, "x"]}' + "}" * levels


@pytest.mark.parametrize("levels", [100, 900])
def test_deep_json_loses_nothing_but_its_secrets(stub: Stub, tmp_path: Path, levels: int) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "deep.json").write_text(nested(levels))
    stub.info["deep"] = json.loads(nested(levels - 40))
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    for name in ("reports/deep.json", "server_info.json"):
        text = (tmp_path / "out/replica-0" / name).read_text()
        read(tmp_path / "out/replica-0" / name)
        assert "kept" in text
        assert "verysecretvalue1" not in text
        assert any(f"{name} is nested deeper than 32 levels" in n for n in manifest["notes"])


def test_the_text_of_deep_json_is_json() -> None:
    value: Any = {"a": [1, None, True, '"x'], "b": {}, "c": [], "d": {"e": [[2.5], {"f": "g"}]}}
    for _ in range(MOST_NESTED):
        value = {"in": value}
    found = redact_json(value)
    for _ in range(MOST_NESTED):
        found = found["in"]
    inner: Any = value
    for _ in range(MOST_NESTED):
        inner = inner["in"]
    assert json.loads(found) == inner


def test_a_report_too_deep_to_read_is_left_out(stub: Stub, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    assert "report deep.json left out: nested too deep to be read" in manifest["notes"]


def test_only_regular_files_of_the_folder_are_reports(stub: Stub, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (tmp_path / "outside.json").write_text('{"outside": 1}')
    (folder / "good.json").write_text('{"inside": 1}')
    (folder / "same.json").symlink_to("good.json")
    (folder / "away.json").symlink_to("../outside.json")
    (folder / "endless.json").symlink_to("/dev/zero")
    (folder / "gone.json").symlink_to("nothing")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    kept = tmp_path / "out/replica-0/reports"
    assert sorted(path.name for path in kept.iterdir()) == ["good.json", "same.json"]
    notes = "\n".join(manifest["notes"])
    for name in ("away", "endless", "gone", "loop", "folder", "pipe"):
        assert f"report {name}.json left out: " in notes


def test_the_code_of_a_traceback_is_no_new_start(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-01-01 00:00:01] server_args=ServerArgs(x=1)\n"
        "Rank 0 scheduler died: crashed with exit code 1\n"
        "Traceback (most recent call last):\n    server_args=server_args,\n"
    )
    replica = collect({0: closed_url()}, tmp_path / "out", logs={0: log})["replicas"][0]
    assert "crashed with exit code 1" in replica["error"]


def test_what_a_server_says_does_not_steer_the_terminal(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.answer("/health", 503, b"\x1b]0;pwn\x07\x1b[2J")
    assert main(["--url", stub.url, "--out", str(tmp_path / "out"), "--wait", "0.2"]) == 1
    said = capsys.readouterr()
    assert "pwn" in said.out
    assert "pwn" in said.err
    assert "\x1b" not in said.out + said.err


@pytest.mark.parametrize(
    "line",
    [
        "[2026-01-01 00:00:02] Receive: obj=GenerateReqInput(text='Scheduler hit an exception')",
        '{"timestamp": "x", "event": "request.finished", "obj": "SIGQUIT received"}',
    ],
)
def test_what_a_person_sent_is_no_death(tmp_path: Path, line: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"[2026-01-01 00:00:01] server_args=ServerArgs(x=1)\n{line}\n")
    replica = collect({0: closed_url()}, tmp_path / "out", logs={0: log})["replicas"][0]
    assert "died" not in replica["error"]


def test_one_endless_line_of_the_log_costs_no_time(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("x" * 1_000_000)
    began = time.monotonic()
    collect({0: closed_url()}, tmp_path / "out", logs={0: log})
    assert time.monotonic() - began < 5
