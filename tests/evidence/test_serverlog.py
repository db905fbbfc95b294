"""The server's log: its lines, how far the start got, and the cause of an end."""

from __future__ import annotations

import pytest

from configurator.evidence.model import ServerState
from configurator.evidence.serverlog import parse_log, server_state

STAMP = "[2026-01-01 00:00:01] "
READY = "[2026-01-01 00:00:09] The server is fired up and ready to roll!"
WRAPPED = """[2026-01-01 00:00:05] Capture target verify CUDA graph begin.
[2026-01-01 00:00:06] Scheduler hit an exception: Traceback (most recent call last):
  File "logits_processor.py", line 785, in _compute
    logits = torch.matmul(hidden.to(weight.dtype), weight.T)
NotImplementedError: "addmm_cuda" not implemented for 'Float8_e4m3fn'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "scheduler.py", line 1, in run
Exception: Capture cuda graph failed: "addmm_cuda" not implemented for 'Float8_e4m3fn'
Possible solutions:
1. set --mem-fraction-static to a smaller value

[2026-01-01 00:00:07] Received sigquit from a child process. It usually means the child failed."""


def state(
    log: str | None, *, answered: bool = False, ready: bool | None = False, error: str = ""
) -> ServerState:
    lines = None if log is None else parse_log(log)
    return server_state(lines, answered=answered, ready=ready, error=error)


def test_of_a_progress_bar_the_end_is_kept() -> None:
    lines = parse_log("begin\r\n 0%|  | 0/2\r 50%|# | 1/2\r100%|##| 2/2\nend\n\n")
    assert [(line.number, line.text) for line in lines] == [
        (1, "begin"), (2, "100%|##| 2/2"), (3, "end"),
    ]  # fmt: skip


def test_text_on_the_line_of_a_progress_bar_is_kept() -> None:
    (text, bar) = parse_log(" 0%|  | 0/2\r[2026-01-01] a warning\r100%|##| 2/2")
    assert (text.text, bar.text) == ("[2026-01-01] a warning", "100%|##| 2/2")


def test_the_first_exception_of_a_chain_is_the_cause() -> None:
    found = state(WRAPPED)
    assert found.state == "failed"
    assert found.phase == "capturing CUDA graphs"
    assert found.reason == "NotImplementedError: \"addmm_cuda\" not implemented for 'Float8_e4m3fn'"
    assert found.locator == "server.log:5"
    assert "without its method and scale" in found.remedy
    assert "false lead" in found.remedy


def test_an_exception_kills_a_server_that_was_ready() -> None:
    found = state(f"{READY}\n{WRAPPED}", answered=True, ready=True)
    assert (found.state, found.locator) == ("failed", "server.log:6")


@pytest.mark.parametrize(
    ("log", "reason", "remedy"),
    [
        (
            f"{STAMP}Scheduler hit an exception: Traceback (most recent call last):\n"
            "AttributeError: 'BailingMoeV2Config' object has no attribute 'kv_lora_rank'\n"
            "[2026-01-01 00:00:07] Received sigquit from a child process.",
            "AttributeError: 'BailingMoeV2Config' object has no attribute 'kv_lora_rank'",
            "MLA",
        ),
        (
            "Traceback (most recent call last):\nRuntimeError: probe refused this profile",
            "RuntimeError: probe refused this profile",
            "the end of the log",
        ),
        (
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n"
            "[2026-01-01 00:00:07] Received sigquit from a child process.",
            "KeyError: 'a'",
            "the end of the log",
        ),
        (
            f"{STAMP}Scheduler hit an exception: Traceback (most recent call last):\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
            "memory.mem_fraction_static",
        ),
        (
            "usage: launch_server.py [-h]\nlaunch_server.py: error: unrecognized arguments: --x",
            "launch_server.py: error: unrecognized arguments: --x",
            "configurator validate",
        ),
        (
            "[2026-01-01 00:00:07] Process 12 (rank 0) crashed with exit code -9. Cleaning up.",
            "[2026-01-01 00:00:07] Process 12 (rank 0) crashed with exit code -9. Cleaning up.",
            "the end of the log",
        ),
        (
            f"{STAMP}Scheduler hit an exception: Traceback (most recent call last):\n"
            "RuntimeError: --enable-nvidia-megakernel cannot run this setup:\n"
            "  - the GPU is no B200\n  - pp_size is 2\n[2026-01-01 00:00:07] bye",
            "RuntimeError: --enable-nvidia-megakernel cannot run this setup: "
            "- the GPU is no B200 - pp_size is 2",
            "change what the listed reasons name",
        ),
    ],
)
def test_why_a_server_failed(log: str, reason: str, remedy: str) -> None:
    found = state(log)
    assert found.state == "failed"
    assert found.reason == reason
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("line", "phase", "remedy"),
    [
        ("Load weight begin. avail mem=139 GB", "loading weights", "startup.timeout_s"),
        ("Running FlashInfer autotune...", "FlashInfer autotune", "tunes for minutes"),
        (
            "Entering DeepGEMM JIT Pre-Compile session.",
            "DeepGEMM pre-compile",
            "SGLANG_JIT_DEEPGEMM_PRECOMPILE=0",
        ),
    ],
)
def test_a_server_that_is_still_starting(line: str, phase: str, remedy: str) -> None:
    found = state(f"first\n[2026-01-01 00:00:01] {line}\nlast")
    assert (found.state, found.phase, found.locator) == ("starting", phase, "server.log:2")
    assert phase in found.reason
    assert remedy in found.remedy


@pytest.mark.parametrize(
    "harmless",
    [
        "Traceback (most recent call last):\n  File x\nConnectionError: freeze_gc was refused",
        "[2026-01-01 00:00:10] hook failed: Traceback (most recent call last):\nValueError: no",
        "[2026-01-01 00:00:10] Process 12 crashed with exit code -15. Triggering SIGQUIT for "
        "cleanup...\n[2026-01-01 00:00:10] SIGQUIT received. signum=None, frame=None.",
    ],
)
def test_tracebacks_of_a_server_that_serves_are_harmless(harmless: str) -> None:
    assert state(f"{READY}\n{harmless}", answered=True, ready=True).state == "ready"
    assert state(f"{harmless}\n{READY}", answered=True, ready=True).state == "ready"


def test_an_earlier_start_in_the_same_log_does_not_count() -> None:
    again = f"{STAMP}server_args=ServerArgs()\n{WRAPPED}\n{STAMP}server_args=ServerArgs()\n"
    assert state(again + READY, answered=True, ready=True).state == "ready"
    assert state(f"{again}{STAMP}Load weight begin.").phase == "loading weights"


def test_a_process_that_is_gone_has_failed_whatever_its_log_says() -> None:
    found = state("Load weight begin.\nno more", error="process 7 has exited")
    assert (found.state, found.reason) == ("failed", "process 7 has exited")
    assert found.locator == "server.log:2"
    assert state(None, error="process 7 has exited").state == "failed"
    assert state(None, error="process 7 has exited").locator == ""


@pytest.mark.parametrize(
    ("log", "answered", "ready", "expected"),
    [
        (None, False, False, "unreachable"),
        (READY, False, False, "unreachable"),
        (READY, False, None, "ready"),
        (None, True, None, "ready"),
        (None, True, True, "ready"),
        (None, False, True, "unreachable"),
        (None, True, False, "starting"),
        ("", False, False, "unreachable"),
    ],
)
def test_state_without_a_death(
    log: str | None, answered: bool, ready: bool | None, expected: str
) -> None:
    found = state(log, answered=answered, ready=ready, error="Connection refused")
    assert found.state == expected
    assert found.reason == ("Connection refused" if expected != "ready" else "")


def test_a_port_that_is_taken_is_the_cause_although_the_log_says_ready() -> None:
    taken = "[Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): "
    log = f"[2026-01-01 00:00:01] ERROR:    {taken}address already in use\n{READY}"
    found = state(log, error="process 42 has exited")
    assert (found.state, found.locator) == ("failed", "server.log:1")
    assert found.reason == f"{taken}address already in use"
    assert "another process listens on that port" in found.remedy


SPANS = (
    "[2026-01-01 00:00:02] CustomAllreduce is disabled because this process group spans across "
    "nodes."
)
BEGUN = "[2026-01-01 00:00:01] Init torch distributed begin.\n" + SPANS
LOOPBACK = "[2026-01-01 00:00:02] gloo: connect 127.0.0.1: Connection refused"


@pytest.mark.parametrize(
    ("log", "line", "variable"),
    [
        (BEGUN, 2, "SGLANG_HOST_IP"),
        (SPANS, 1, "SGLANG_HOST_IP"),
        (BEGUN + "\n[2026-01-01 00:00:09] waiting", 2, "SGLANG_HOST_IP"),
        (LOOPBACK, 1, "GLOO_SOCKET_IFNAME"),
        (BEGUN.replace(SPANS, LOOPBACK), 2, "GLOO_SOCKET_IFNAME"),
    ],
)
def test_ranks_that_do_not_find_each_other(log: str, line: int, variable: str) -> None:
    found = state(log)
    assert (found.state, found.phase) == ("starting", "initializing distributed")
    assert found.locator == f"server.log:{line}"
    assert "the ranks have not met" in found.reason
    assert variable in found.remedy


@pytest.mark.parametrize(
    "log",
    [
        BEGUN + "\n[2026-01-01 00:00:03] Init torch distributed ends. elapsed=2 s",
        BEGUN + "\n[2026-01-01 00:00:03] Load weight begin. avail mem=90 GB",
        "[2026-01-01 00:00:02] Init torch distributed begin.",
        "[2026-01-01 00:00:02] connect 192.0.2.7:5000: Connection refused",
        "[2026-01-01 00:00:02] HTTPConnectionPool(host='127.0.0.1'): Connection refused",
    ],
)
def test_ranks_that_met_or_may_still_meet(log: str) -> None:
    found = state(log)
    assert found.state == "starting"
    assert "the ranks have not met" not in found.reason
    assert "SGLANG_HOST_IP" not in found.remedy


def test_a_watchdog_that_ends_the_wait_gets_the_same_remedy() -> None:
    fatal = "[2026-01-01 00:05:00] Received sigquit from a child process."
    found = state(f"{BEGUN}\n{fatal}")
    assert found.state == "failed"
    assert "SGLANG_HOST_IP" in found.remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!", "sgl_ker"),
        ("RuntimeError: CUDA error: no kernel image is available for execution", "all alike"),
        ("RuntimeError: connect [127.0.0.1]:41001: Connection refused", "GLOO_SOCKET_IFNAME"),
    ],
)
def test_kernels_and_networks_that_end_a_start(error: str, remedy: str) -> None:
    trace = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{error}'
    found = state(trace)
    assert (found.state, found.reason) == ("failed", error)
    assert remedy in found.remedy


CAPTURED = f"{STAMP}Capture target decode CUDA graph end."


def texts(log: str) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in parse_log(log)]


def test_only_the_last_start_counts_by_the_numbers_of_the_file() -> None:
    log = f"{STAMP}server_args=a\n{CAPTURED}\n{STAMP}server_args={{'b': 1}}\n"
    log += f"{STAMP}Load weight begin."
    assert texts(log) == [
        (3, f"{STAMP}server_args="), (4, f"{STAMP}Load weight begin."),
    ]  # fmt: skip


def test_an_earlier_start_without_its_first_lines_does_not_count() -> None:
    log = f"{STAMP}KV Cache is allocated. dtype: x\n{STAMP}server_args=b\n"
    log += f"{STAMP}Load weight begin."
    assert [number for number, _ in texts(log)] == [2, 3]


def test_the_first_lines_of_the_only_start_count() -> None:
    log = f"{STAMP}Unknown SGLang environment variable\n{STAMP}server_args=b\n"
    log += f"{STAMP}Load weight begin."
    assert [number for number, _ in texts(log)] == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last)\n    server_args=server_args,",
        "TypeError: load() got an argument 'server_args=1'",
        f"{STAMP}Receive: obj=GenerateReqInput(text='server_args=')",
    ],
)
def test_what_only_names_the_arguments_is_no_start(line: str) -> None:
    assert (1, CAPTURED) in texts(f"{CAPTURED}\n{line}")
    assert (2, CAPTURED) in texts(f"{STAMP}server_args=x\n{CAPTURED}\n{line}")


@pytest.mark.parametrize(
    "before",
    [
        "Receive: obj=GenerateReqInput(text='",
        f"{STAMP}Receive OpenAI: obj={{'text': '",
        f"{STAMP}Finish: obj=GenerateReqInput(rid='1', text='",
        'worker-1  | {"timestamp": "2026-01-01T00:00:00", "event": "request.received", "text": "',
        '{"timestamp": "2026-01-01T00:00:00", "event": "request.finished.openai", "text": "',
        '[2026-01-01 00:00:00] INFO:     127.0.0.1:4000 - "GET /',
    ],
)
def test_what_a_person_sent_is_no_evidence(before: str) -> None:
    assert texts(f"{before}KV Cache is allocated. dtype: torch.float8_e4m3fn')") == []
    assert texts(f"{CAPTURED}\n{before}Using fp4 gemm')\n{CAPTURED}") == [
        (1, CAPTURED), (3, CAPTURED),
    ]  # fmt: skip


def test_the_lines_of_a_text_that_was_sent_are_no_evidence() -> None:
    log = f"{STAMP}Receive: obj=GenerateReqInput(text='tell\nUsing fp4 gemm for humming moe\n"
    log += 'INFO:     127.0.0.1:1 - "GET / HTTP/1.1" 200 OK\nUsing fp4 gemm for humming moe\n'
    log += f"Traceback (most recent call last):\nRuntimeError: x\n{CAPTURED}"
    assert texts(log) == [(7, CAPTURED)]


def test_a_traceback_after_a_request_is_kept() -> None:
    sent = f"{STAMP}Receive: obj=GenerateReqInput(text='x')"
    log = f"{sent}\nTraceback (most recent call last):\n  File x\nRuntimeError: boom"
    found = state(log, ready=False, error="process 1 has exited")
    assert (found.state, found.reason) == ("failed", "RuntimeError: boom")
    assert found.locator == "server.log:4"


def test_of_a_long_line_only_the_beginning_is_looked_at() -> None:
    ((_, text),) = texts("x" * 3_000_000)
    assert len(text) == 8192


def test_the_arguments_of_a_start_are_no_evidence() -> None:
    name = "KV Cache is allocated. dtype: torch.float8_e4m3fn"
    log = f"{STAMP}server_args=ServerArgs(served_model_name='{name}')"
    assert texts(log) == [(1, f"{STAMP}server_args=")]


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ((500, 500), "answers 2 of 2 requests with HTTP 500"),
        ((503, 500, 500), "answers 3 of 3 requests with HTTP 500 and 503"),
        ((500, 200), ""), ((400, 500), ""), ((0, 500), ""), ((), ""),
    ],
)  # fmt: skip
def test_a_server_that_answers_only_with_errors_has_failed(
    statuses: tuple[int, ...], reason: str
) -> None:
    found = server_state(parse_log(READY), answered=True, ready=True, statuses=statuses)
    assert (found.state, found.reason) == ("failed" if reason else "ready", reason)


def test_the_collector_says_that_every_request_failed() -> None:
    assert state(READY, answered=True, error="answers 3 of 3 requests with HTTP 500").state == (
        "failed"
    )
    assert (
        state(READY, answered=True, ready=True, error="answers 2 of 3 requests with HTTP 500").state
        == "ready"
    )
