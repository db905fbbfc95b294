"""What the log alone may say of drafts and graphs, and counters that contradict each other."""

from __future__ import annotations

from typing import Any

import pytest
from replicas import judged, log, said, spoken

from configurator.loader import Validators

EAGLE = {"speculative_algorithm": "EAGLE"}
SKIPPED = "Parameter layers.0.self_attn.qkv_proj.weight not found in params_dict, skip loading"


def line(length: float, rate: float, *, running: int = 1, graph: bool = True) -> str:
    return (
        f"Decode batch, #running-req: {running}, accept len: {length:.2f}, "
        f"accept rate: {rate:.2f}, cuda graph: {graph}"
    )


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ([line(1.0, 0.0)] * 3, "REFUTED"),
        ([line(1.0, 0.0)] * 2, "INCONCLUSIVE"),
        ([line(2.0, 0.33), *[line(1.0, 0.0)] * 3], "INCONCLUSIVE"),
        ([line(1.0, 0.11)] * 3, "INCONCLUSIVE"),
        (["Decode batch, #running-req: 1, cuda graph: True"] * 5, "INCONCLUSIVE"),
    ],
)
def test_the_log_refutes_only_when_even_the_warm_up_accepts_nothing(
    validators: Validators, lines: list[str], answer: str
) -> None:
    outcome = judged(
        validators, "speculative-acceptance", server_info=EAGLE, log=log(*lines, SKIPPED)
    )
    assert str(outcome.answer) == answer
    assert (SKIPPED.split()[1] in outcome.remedy) == (answer == "REFUTED")


def test_a_weak_draft_is_no_proof_without_a_floor(validators: Validators) -> None:
    weak = (spoken([70, 25, 5]),)
    outcome = judged(validators, "speculative-acceptance", exchanges=weak)
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert "a weak draft, and no floor" in outcome.summary
    floored = judged(validators, "speculative-acceptance", floor=1.15, exchanges=weak)
    assert said(floored) == ("PROVEN", "effective")


def test_counters_that_the_tokens_contradict_give_way_to_the_tokens(
    validators: Validators,
) -> None:
    zeros = spoken(
        [64], width=12, completion_tokens=256, spec_accept_length=0, spec_accept_rate=0.0
    )
    outcome = judged(validators, "speculative-acceptance", server_info=EAGLE, exchanges=(zeros,))
    assert said(outcome) == ("PROVEN", "executed")
    assert outcome.conflicts[0].startswith("001.json: 0 drafts counted as accepted, but 256 tokens")


def test_contradicting_counters_never_refute(validators: Validators) -> None:
    high = spoken([0, 0, 0, 100], completion_tokens=101)
    outcome = judged(validators, "speculative-acceptance", server_info=EAGLE, exchanges=(high,))
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert "contradict its tokens" in outcome.summary


def test_responses_that_count_outweigh_a_null_algorithm(validators: Validators) -> None:
    off = {"speculative_algorithm": None}
    good = (spoken([0, 0, 0, 100]),)
    outcome = judged(validators, "speculative-acceptance", server_info=off, exchanges=good)
    assert said(outcome) == ("PROVEN", "executed")
    assert "speculative_algorithm null" in outcome.conflicts[0]


MIXED = [line(3.1, 0.7), line(1.0, 0.11, running=48, graph=False)]
DISABLED = {"cuda_graph_config": {"decode": {"backend": "disabled"}}}


@pytest.mark.parametrize(
    ("asked", "lines", "info", "expected", "fact"),
    [
        ("", [line(3, 1)] * 2, {}, ("PROVEN", "executed"), "all 2 decode lines"),
        ("", [line(3, 1, graph=False)] * 2, {}, ("REFUTED", "executed"), "ran eager"),
        ("", MIXED, {}, ("INCONCLUSIVE", "executed"), "batch size 48 ran eager"),
        ("48", MIXED, {}, ("REFUTED", "executed"), "batch size 48 ran eager"),
        ("1", MIXED, {}, ("INCONCLUSIVE", "executed"), "batch size 48 ran eager"),
        ("", [], {"disable_cuda_graph": True}, ("REFUTED", "resolved"), "disable_cuda_graph"),
        ("", [], DISABLED, ("REFUTED", "resolved"), "backend to disabled"),
        ("", [], {"disable_cuda_graph": False}, ("INCONCLUSIVE", None), "neither"),
        ("", ["Prefill batch, #running-req: 1, cuda graph: False"], {}, ("INCONCLUSIVE", None), ""),
    ],
)
def test_decode_lines_speak_of_graphs(
    validators: Validators, asked: str, lines: list[str], info: dict[str, Any],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"decode-cuda-graphs={asked}", log=log(*lines), server_info=info)
    assert said(outcome) == expected
    assert fact in outcome.summary
