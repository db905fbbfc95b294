"""What a person sends stands in the log with default settings, and is no evidence of anything."""

from __future__ import annotations

import pytest
from replicas import judged, raw_log

from configurator.evidence.serverlog import parse_log, server_state
from configurator.loader import Validators

RANK = "[2026-11-30 09:05:30 TP0] "
READY = "[2026-11-30 09:01:00] The server is fired up and ready to roll!"
STARTED = "[2026-11-30 09:00:00] server_args=ServerArgs(model_path='/models/a')"
SPEAKS = {"speculative_algorithm": "EAGLE"}
KV = "KV Cache is allocated. dtype: torch.float8_e4m3fn"
RUNS = "NVIDIA megakernel: m runs the decode graphs of batch sizes [1] (1 of 1); every other step"
SKIPPED = "Parameter layers.0.mlp.weight not found in params_dict, skip loading"
HEAVY = "Load weight begin. avail mem=120.00 GB"
FACTS = (
    # What is asked, the message, and the answer where the engine wrote it while it started.
    ("nvidia-megakernel", RUNS, "PROVEN"),
    ("moe-runner=humming", "Using grouped gemm for humming moe", "PROVEN"),
    ("moe-runner=humming", "Preparing x MXFP4 experts for Humming backend", "PROVEN"),
    ("moe-runner=marlin", "Using 'MARLIN' NvFp4 MoE backend out of potential backends", "PROVEN"),
    ("kv-cache-dtype=fp8_e4m3", KV, "PROVEN"),
    ("kv-cache-dtype=bf16", KV, "REFUTED"),
    ("decode-cuda-graphs", "Decode batch, #running-req: 1, cuda graph: True", "PROVEN"),
    ("decode-cuda-graphs", "Decode batch, #running-req: 1, cuda graph: False", "REFUTED"),
    ("speculative-acceptance", "Decode batch, #running-req: 1, accept len: 1.00", "REFUTED"),
    ("no-undeclared-environment", "Unknown vLLM environment variable detected: X", "REFUTED"),
)  # fmt: skip
EXECUTED = ("Decode batch", "Using grouped", "Unknown vLLM")


def asked_of(validators: Validators, asked: str, *lines: str) -> str:
    log = parse_log("\n".join(lines))
    return str(judged(validators, asked, log=log, server_info=SPEAKS).answer)


@pytest.mark.parametrize(("asked", "message", "answer"), FACTS)
def test_a_message_of_the_engine_is_evidence(
    validators: Validators, asked: str, message: str, answer: str
) -> None:
    lines = [STARTED, *[RANK + message] * 3, READY]
    assert asked_of(validators, asked, *lines) == answer


SENT = (
    RANK + "Hit invalid json_schema: key_string='{}', e=RuntimeError('x')",
    RANK + "Hit invalid ebnf: key_string=\"{}\", e=RuntimeError('x')",
    RANK + "Hit invalid grammar: serialized_grammar='{}'",
    RANK + "Hit invalid regex schema: regex='{}', e=x",
    RANK + "Hit invalid structural_tag: key_string='{}', e=x",
    # A message of several lines, and the text of an exception.
    RANK + "Failed to parse\n{}",
    RANK + "Exception in ASGI application\nTraceback (most recent call last):\n  f()\n{}",
    RANK + "Exception in ASGI application\nTraceback (most recent call last):\nValueError: {}",
)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize(("asked", "message", "answer"), FACTS)
def test_the_same_words_in_what_was_sent_are_none(
    validators: Validators, asked: str, message: str, answer: str, sent: str, before: bool
) -> None:
    nothing = asked_of(validators, asked, STARTED, READY)
    assert nothing not in ("PROVEN", "REFUTED")
    lines = [sent.format(message)] * 3
    log = [STARTED, *lines, READY] if before else [STARTED, READY, *lines]
    assert asked_of(validators, asked, *log) == nothing


@pytest.mark.parametrize(("asked", "message", "answer"), FACTS)
def test_what_was_built_is_not_told_after_the_start(
    validators: Validators, asked: str, message: str, answer: str
) -> None:
    lines = [RANK + message] * 3
    late = asked_of(validators, asked, STARTED, READY, *lines)
    assert (late == answer) == message.startswith(EXECUTED)
    # A log that is cut before that line is all there is.
    assert asked_of(validators, asked, *lines) == answer


REFUSED = "ValueError: --enable-nvidia-megakernel: none of the 3 captured decode graphs runs m"
DIED = RANK + "Scheduler hit an exception: Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ([STARTED, DIED, "  File x", REFUSED], "REFUTED"),
        ([STARTED, "Traceback (most recent call last):", "  File x", REFUSED], "REFUTED"),
        ([STARTED, "Traceback (most recent call last):", REFUSED, RANK + "more"], "INCONCLUSIVE"),
        ([STARTED, READY, "Traceback (most recent call last):", REFUSED], "INCONCLUSIVE"),
        ([STARTED, REFUSED], "INCONCLUSIVE"),
        ([STARTED, RANK + REFUSED], "INCONCLUSIVE"),
        ([STARTED, DIED, "KeyError: 1", RANK + "bye", REFUSED], "INCONCLUSIVE"),
        ([STARTED, SENT[0].format(REFUSED)], "INCONCLUSIVE"),
        ([STARTED, RANK + RUNS, READY, SENT[0].format(REFUSED)], "PROVEN"),
    ],
)
def test_a_refusal_is_the_error_that_ended_the_engine(
    validators: Validators, lines: list[str], answer: str
) -> None:
    assert asked_of(validators, "nvidia-megakernel", *lines) == answer


FATAL = (
    "Scheduler hit an exception: Traceback (most recent call last):",
    "DataParallelController hit an exception: x",
    "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    "Received sigquit from a child process. It usually means the child failed.",
)


@pytest.mark.parametrize("message", FATAL)
def test_a_death_is_a_message_of_the_engine(message: str) -> None:
    assert server_state(parse_log(RANK + message), answered=True, ready=True).state == "failed"
    for sent in SENT:
        log = parse_log(f"{STARTED}\n{READY}\n{sent.format(message)}")
        assert server_state(log, answered=True, ready=True).state == "ready"


def test_weights_that_were_passed_over_are_told_by_the_loader(validators: Validators) -> None:
    useless = ["Decode batch, #running-req: 1, accept len: 1.00"] * 3
    for text, told in ((RANK + SKIPPED, True), (SENT[0].format(SKIPPED), False)):
        log = raw_log(text, *[RANK + line for line in useless])
        outcome = judged(validators, "speculative-acceptance", server_info=SPEAKS, log=log)
        assert ("layers.0.mlp.weight" in outcome.remedy) == told


def test_phases_are_told_by_the_engine() -> None:
    assert server_state(parse_log(RANK + HEAVY), answered=False, ready=False).phase == (
        "loading weights"
    )
    sent = parse_log(f"{RANK}{HEAVY}\n{SENT[0].format('Uvicorn running')}")
    assert server_state(sent, answered=False, ready=False).phase == "loading weights"
