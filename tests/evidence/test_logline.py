"""Lines of a log: their prefix, their message, and what a start says of itself."""

from __future__ import annotations

import re
import time

import pytest

from configurator.collector.logline import START, taken_apart
from configurator.evidence.model import LogLine, Replica, ServerState
from configurator.evidence.startline import identity_in

ENGINE = "[2026-11-30 09:00:00]"
KV = "KV Cache is allocated. dtype: torch.bfloat16"


@pytest.mark.parametrize(
    ("prefix", "ranks"),
    [
        (f"{ENGINE} ", {}),
        ("[2026-11-30 09:00:00.123] ", {}),
        ("[2026-11-30 09:00:00 TP3] ", {"tp": 3}),
        (
            "[2026-11-30 09:00:00 DP1 PP0 ATTN_CP2 MOE_DP4 TP12 EP5] ",
            {"dp": 1, "pp": 0, "attn_cp": 2, "moe_dp": 4, "tp": 12, "ep": 5},
        ),
        ("[2026-11-30 09:00:00 encode_dp_worker[0]] ", {}),
        (f"{ENGINE} INFO:     ", {}),
        (f"worker-1  | {ENGINE} ", {}),
        (f"\x1b[36mworker-1  | \x1b[0m{ENGINE} ", {}),
        (f"2026-11-30T09:00:00.123456789Z {ENGINE} ", {}),
        (f"2026-11-30T09:00:00.1+00:00 stdout F {ENGINE} ", {}),
        (f"Nov 30 09:00:00 spark sglang[42]: {ENGINE} ", {}),
        (f"[pod/llm-0/engine] {ENGINE} ", {}),
        (f"(SchedulerActor pid=42, ip=192.0.2.1) {ENGINE} ", {}),
        (f"0: {ENGINE} ", {}),
        (f"  0%|    | 0/7 [00:00<?, ?it/s]Capturing batches (bs=8):  25%|# | 1/4{ENGINE} ", {}),
        ("gb200-1:7:99 [0] NCCL INFO ", None),
    ],
)  # fmt: skip
def test_a_message_begins_after_the_prefix(prefix: str, ranks: dict[str, int] | None) -> None:
    message, found = taken_apart(prefix + KV)
    assert message == (KV if ranks is not None else f"NCCL INFO {KV}")
    assert found == (ranks or {})


@pytest.mark.parametrize(
    "text",
    [
        KV,
        f"  {KV}",
        f"RuntimeError: {KV}",
        f"Traceback {ENGINE} {KV}",
        f"'{ENGINE} {KV}'",
        f"[t] {KV}",
        f"[2026-11-30] {KV}",
        f"INFO:     127.0.0.1:1 - {KV}",
        "",
    ],
)
def test_a_line_without_a_prefix_has_no_message(text: str) -> None:
    assert taken_apart(text) == ("", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INFO:     Uvicorn running on http://127.0.0.1:30000", "Uvicorn running on"),
        ("ERROR:    [Errno 98] error while attempting to bind", "[Errno 98] error"),
        ("WARNING 11-30 09:00:00 [envs.py:12] Unknown vLLM environment", "Unknown vLLM"),
        ("[W1130 09:00:00.1 socket.cpp:1] connect 127.0.0.1", "connect 127"),
        ("[rank0]:[W1130 09:00:00.1 socket.cpp:1] connect 127.0.0.1", "connect 127"),
        ("Failed to apply hooks to sglang.srt: no", "Failed to apply hooks to sglang.srt"),
        ("DeepGEMM warmup:  10%|#", "DeepGEMM warmup"),
        ("DeepGEMM warmup of mine", ""),
        ("INFO:     anything else", ""),
    ],
)
def test_lines_that_are_printed_without_a_prefix_are_listed(text: str, message: str) -> None:
    found, ranks = taken_apart(text)
    assert found.startswith(message) if message else found == ""
    assert ranks == {}


def test_what_was_built_was_built_before_the_server_was_ready() -> None:
    ready = f"{ENGINE} The server is fired up and ready to roll!"
    texts = [f"{ENGINE} built 1", ready, f"{ENGINE} built 2", f"{ENGINE} not built 3"]
    log = tuple(LogLine(number, text) for number, text in enumerate(texts, 1))
    replica, built = Replica(0, ServerState("ready"), log=log), re.compile(r"built (\d)")
    assert [found[1] for _, found in replica.said(built)] == ["1", "2"]
    assert [line.number for line, _ in replica.said(built, while_starting=True)] == [1]
    cut = Replica(0, ServerState("ready"), log=log[2:])
    assert [line.number for line, _ in cut.said(built, while_starting=True)] == [3]


ARGUMENTS = (
    "model_path='/models/a', tokenizer_path='/x', served_model_name='b, port=9', "
    'chat_template="it\'s random_seed=8", graph=Config(tp_size=4, bs=[1, 2]), tp_size=2, '
    "dp_size=None, port=30000, random_seed=42, api_key='<redacted>'"
)
EXPECTED = {"model_path": "/models/a", "tp_size": "2", "port": "30000", "random_seed": "42"}


def test_the_arguments_of_a_start_tell_it_from_another() -> None:
    assert identity_in(f"{START}ServerArgs({ARGUMENTS})") == EXPECTED
    as_dict = (
        "{'model_path': '/models/a', 'served_model_name': \"'port': 9\", 'tp_size': 2, "
        "'graph': {'decode': {'port': 3}}, 'dp_size': None, 'port': 30000, 'random_seed': 42}"
    )
    assert identity_in(START + as_dict) == EXPECTED


@pytest.mark.parametrize("rest", ["", "ServerArgs(...)", "ServerArgs(", "{", "port=1", "'port': 1"])
def test_arguments_that_cannot_be_read_tell_nothing(rest: str) -> None:
    assert identity_in(START + rest) == {}


@pytest.mark.parametrize(
    "text",
    ["x" * 8192, "0%|" * 2700, "0%| " + "[" * 8000, "\x1b[" * 4000, "(a pid=1" * 1000, "1: " * 2700,
     " " * 8192, "[2026-11-30 09:00:00" + " TP0" * 2000],
)  # fmt: skip
def test_hostile_lines_cost_no_time(text: str) -> None:
    began = time.process_time()
    assert taken_apart(text) == ("", {})
    for quotes in ("'", "'\\", "\"'", "(["):
        identity_in(f"{START}({quotes * 100_000}")
    assert time.process_time() - began < 1
