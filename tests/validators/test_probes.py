"""Probes of speculation, graphs and the server's state: proof, refutation, neither."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from replicas import judged, log, said, spoken

from configurator.content import Library
from configurator.evidence.model import Exchange, Sample
from configurator.loader import Validators
from configurator.resolve import resolve

SPECULATING = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4}
GOOD, BAD, HALF = [0, 0, 0, 100], [399], [60, 30, 10]


@pytest.mark.parametrize(
    ("histograms", "floor", "kind", "expected", "fact"),
    [
        ([GOOD], None, "profile", ("PROVEN", "executed"), "no floor or break-even is stated"),
        ([GOOD], 2.0, "profile", ("PROVEN", "effective"), "above the floor 2"),
        ([GOOD], 2.0, "easy", ("PROVEN", "executed"), "the text is easy, not the profile's"),
        ([BAD], None, "profile", ("REFUTED", "executed"), "useless"),
        ([HALF], 2.0, "profile", ("REFUTED", "executed"), "below the floor 2"),
        ([HALF], 1.5, "profile", ("INCONCLUSIVE", "executed"), "the interval holds the floor"),
        ([HALF], 1.2, "profile", ("PROVEN", "effective"), "acceptance length 1.50"),
        ([[90, 10]], None, "profile", ("INCONCLUSIVE", "executed"), "the interval holds 1.1"),
        ([[0, 0, 0, 19]], None, "profile", ("INCONCLUSIVE", "executed"), "fewer than 20"),
        ([[63], [0] * 7 + [8]], 2.0, "profile", ("PROVEN", "executed"), "depends on the text"),
        ([[399], [0, 0, 0, 4]], None, "profile", ("REFUTED", "executed"), "useless"),
    ],
)  # fmt: skip
def test_acceptance(
    validators: Validators, histograms: list[list[int]], floor: float | None, kind: str,
    expected: tuple[str, str], fact: str,
) -> None:  # fmt: skip
    exchanges = tuple(
        spoken(histogram, name=f"{n}.json", kind=kind, width=8)
        for n, histogram in enumerate(histograms)
    )
    outcome = judged(
        validators, "speculative-acceptance", floor=floor, exchanges=exchanges,
        server_info=SPECULATING,
    )  # fmt: skip
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_acceptance_of_n_gram_drafts_is_the_texts(validators: Validators) -> None:
    info = {"speculative_algorithm": "NGRAM"}
    outcome = judged(
        validators, "speculative-acceptance", floor=2.0, server_info=info,
        exchanges=(spoken([15, 0, 0, 0, 0, 0, 0, 48], width=8),),
    )  # fmt: skip
    assert said(outcome) == ("PROVEN", "executed")
    assert outcome.depends_on_text


def test_a_target_that_drafts_for_itself_gains_nothing(validators: Validators) -> None:
    info = {**SPECULATING, "model_path": "/m", "speculative_draft_model_path": "/m"}
    itself: dict[str, Any] = {"server_info": info, "model_info": {"model_type": "llama"}}
    layer: dict[str, Any] = {"server_info": info, "model_info": {"model_type": "glm4_moe"}}
    for evidence, rung in ((itself, "executed"), (layer, "effective")):
        outcome = judged(
            validators, "speculative-acceptance", floor=2.0, exchanges=(spoken(GOOD),), **evidence
        )
        assert said(outcome) == ("PROVEN", rung)


ITSELF = {"model_path": "/m/q", "speculative_draft_model_path": "/m/q/"}
OWN_LAYER = {"model_info": {"model_type": "glm4_moe"}}


@pytest.mark.parametrize(
    ("info", "more", "rung", "fact"),
    [
        ({**ITSELF, "speculative_algorithm": "STANDALONE"}, {}, "executed", "the target itself"),
        ({**ITSELF, "speculative_algorithm": "STANDALONE"}, OWN_LAYER, "executed",
         "the draft is the target itself"),
        (ITSELF, OWN_LAYER, "effective", "above the floor"),
        (ITSELF, {}, "executed", "may be the target itself, whose path it has"),
        (ITSELF, {"model_info": {"model_type": "llama"}}, "executed", "the target itself"),
        ({**ITSELF, "speculative_algorithm": "STANDALONE",
          "speculative_draft_model_path": "/m/small"}, {}, "effective", "above the floor"),
        ({"model_path": 3, "speculative_draft_model_path": [3]}, {}, "effective", "above the"),
    ],
)  # fmt: skip
def test_a_draft_of_the_targets_path_is_no_gain(
    validators: Validators, info: dict[str, Any], more: dict[str, Any], rung: str, fact: str
) -> None:
    outcome = judged(
        validators, "speculative-acceptance", floor=2.0, exchanges=(spoken(GOOD),),
        server_info={**SPECULATING, **info}, **more,
    )  # fmt: skip
    assert said(outcome) == ("PROVEN", rung)
    assert fact in outcome.summary


@pytest.mark.parametrize("proposed", [10, 299])
def test_more_drafts_accepted_than_proposed_prove_nothing(
    validators: Validators, proposed: int
) -> None:
    exchange = spoken(GOOD, spec_num_proposed_drafts=proposed)
    outcome = judged(validators, "speculative-acceptance", floor=2.0, exchanges=(exchange,))
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert f"counts 300 accepted drafts of {proposed} proposed" in outcome.summary


@pytest.mark.parametrize(
    ("output", "rung"),
    [
        ({"text": ""}, "executed"),
        ({"text": "\0\0", "output_ids": None}, "executed"),
        ({"text": "", "output_ids": []}, "executed"),
        ({"text": "words"}, "effective"),
        ({"output_ids": [1, 2]}, "effective"),
    ],
)
def test_counters_without_any_output_show_no_gain(
    validators: Validators, output: dict[str, Any], rung: str
) -> None:
    meta = spoken(GOOD, completion_tokens=None).response["meta_info"]
    exchange = Exchange("1.json", "/generate", 200, None, {**output, "meta_info": meta}, "profile")
    outcome = judged(validators, "speculative-acceptance", floor=2.0, exchanges=(exchange,))
    assert said(outcome) == ("PROVEN", rung)


def test_acceptance_without_requests_is_open(validators: Validators) -> None:
    nothing = judged(validators, "speculative-acceptance")
    assert said(nothing) == ("INCONCLUSIVE", None)
    resolved = judged(validators, "speculative-acceptance", server_info=SPECULATING)
    assert said(resolved) == ("INCONCLUSIVE", "resolved")
    states = {**SPECULATING, "internal_states": [{"avg_spec_accept_length": 3.5}]}
    average = judged(
        validators, "speculative-acceptance", server_info=states,
        log=log("Decode batch, #running-req: 1, accept len: 3.00, accept rate: 0.6"),
    )  # fmt: skip
    assert said(average) == ("INCONCLUSIVE", "executed")
    assert average.depends_on_text


def test_acceptance_that_is_switched_off_is_refuted(validators: Validators) -> None:
    for name in ("speculative-acceptance", "draft-used", "draft-tokens=4"):
        outcome = judged(validators, name, server_info={"speculative_algorithm": None})
        assert said(outcome) == ("REFUTED", "resolved")


def test_the_warm_up_does_not_count(validators: Validators) -> None:
    exchanges = (spoken(BAD), spoken(GOOD, name="002.json", kind="warm-up"))
    outcome = judged(validators, "speculative-acceptance", exchanges=exchanges)
    assert said(outcome) == ("REFUTED", "executed")


def test_a_wrong_client_metric_is_a_conflict(validators: Validators) -> None:
    outcome = judged(
        validators, "speculative-acceptance", exchanges=(spoken(GOOD, spec_accept_length=0),),
        log=log("Decode batch, accept len: 1.20, accept rate: 0.1"),
    )  # fmt: skip
    assert said(outcome) == ("PROVEN", "executed")
    assert "spec_accept_length says 0" in outcome.conflicts[0]
    assert "server.log:1 says accept len 1.2" in outcome.conflicts[1]


def test_sequences_of_one_response_all_count(validators: Validators) -> None:
    one = spoken([0, 0, 0, 10])
    batch = Exchange("b.json", "/generate", 200, None, [one.response] * 4, "profile")
    outcome = judged(validators, "speculative-acceptance", exchanges=(batch,))
    assert "40 verify steps" in outcome.summary


def test_drafts_used(validators: Validators) -> None:
    outcome = judged(validators, "draft-used", exchanges=(spoken(BAD),))
    assert said(outcome) == ("PROVEN", "executed")
    assert outcome.summary == "1,197 drafts were proposed and 0 accepted"
    assert said(judged(validators, "draft-used", server_info=SPECULATING)) == (
        "INCONCLUSIVE", "resolved",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "evidence", "expected"),
    [
        ("4", {"exchanges": (spoken(GOOD),)}, ("PROVEN", "executed")),
        ("8", {"exchanges": (spoken(GOOD),)}, ("REFUTED", "executed")),
        ("8", {"server_info": SPECULATING}, ("REFUTED", "resolved")),
        ("4", {"server_info": SPECULATING}, ("INCONCLUSIVE", "resolved")),
        ("4", {}, ("INCONCLUSIVE", None)),
    ],
)
def test_draft_tokens(
    validators: Validators, asked: str, evidence: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    assert said(judged(validators, f"draft-tokens={asked}", **evidence)) == expected


def passes(graph: float, eager: float) -> tuple[Sample, ...]:
    name = "sglang:cuda_graph_passes_total"
    return (
        Sample(name, {"mode": "decode_cuda_graph"}, graph),
        Sample(name, {"mode": "decode_none"}, eager),
        Sample("sglang:is_cuda_graph", {}, 0.0),
    )


AT_A_TIME = {
    number: Exchange("a.json", "/generate", 200, None, {}, "easy", together=number)
    for number in (4, 8)
}
CAPTURED = {"internal_states": [{"decode_cuda_graph_bs": [1, 2, 4]}]}
VERIFY = (
    "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2], avail",
    "Capture target verify CUDA graph end. elapsed=1.69 s",
)
DRAFT = ("Capture draft decode CUDA graph begin. backend=full, bs=[1, 2]",)


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "fact"),
    [
        ("", {"metrics": passes(126, 0)}, ("PROVEN", "executed"), "126 decode passes"),
        ("", {"metrics": passes(0, 897)}, ("REFUTED", "executed"), "all 897 decode passes ran"),
        ("", {"metrics": passes(50, 50)}, ("INCONCLUSIVE", "executed"), "50% of 100"),
        ("", {"metrics": passes(75, 25), "server_info": CAPTURED, "exchanges": (AT_A_TIME[8],)},
         ("REFUTED", "executed"), "8 requests ran at a time, and graphs end at 4"),
        ("", {"metrics": passes(75, 25), "server_info": CAPTURED, "exchanges": (AT_A_TIME[4],)},
         ("INCONCLUSIVE", "executed"), "25% of 100"),
        ("", {"metrics": passes(99, 1)}, ("PROVEN", "executed"), "1 eager"),
        ("", {"metrics": passes(1, 127)}, ("REFUTED", "executed"), "127 of 128 decode passes"),
        ("", {"metrics": passes(6, 94)}, ("INCONCLUSIVE", "executed"), "94% of 100"),
        ("", {"metrics": passes(4, 20), "metrics_startup": passes(4, 0)}, ("REFUTED", "executed"),
         "all 20"),
        ("", {"metrics": passes(0, 0)}, ("INCONCLUSIVE", None), "neither"),
        ("", {}, ("INCONCLUSIVE", None), "neither"),
        ("", {"server_info": CAPTURED}, ("PROVEN", "captured"), "batch sizes 1, 2, 4"),
        ("1,2", {"server_info": CAPTURED}, ("PROVEN", "captured"), "1, 2, 4"),
        ("1,8", {"server_info": CAPTURED, "metrics": passes(9, 0)}, ("REFUTED", "captured"),
         "batch size 8"),
        ("1,2", {"log": log(*VERIFY)}, ("PROVEN", "captured"), "1, 2"),
        ("4", {"log": log(*VERIFY)}, ("REFUTED", "captured"), "batch size 4; captured: 1, 2"),
        ("", {"log": log(VERIFY[0])}, ("INCONCLUSIVE", None), "neither"),
        ("", {"log": log(*VERIFY, *DRAFT), "metrics": passes(9, 0)}, ("PROVEN", "executed"),
         "that step of the draft runs eager"),
    ],
)  # fmt: skip
def test_decode_graphs(
    validators: Validators, asked: str, evidence: dict[str, Any],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"decode-cuda-graphs={asked}", **evidence)
    assert said(outcome) == expected
    assert fact in outcome.summary


def decode(running: int, *, graph: bool = True) -> str:
    return f"Decode batch, #running-req: {running}, cuda graph: {graph}, gen throughput: 9"


ONE, BIG = decode(1), decode(64)
OFF = {"disable_cuda_graph": True}


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "fact"),
    [
        ("64", {"metrics": passes(100, 0)}, ("INCONCLUSIVE", "executed"),
         "100 decode passes replayed graphs, none eager; not known for batch size 64"),
        ("1,2", {"metrics": passes(100, 0), "server_info": CAPTURED}, ("PROVEN", "executed"), "2"),
        ("64", {"metrics": passes(9, 0), "log": log(BIG)}, ("PROVEN", "executed"), "9 decode"),
        ("64", {"metrics": passes(9, 0), "log": log(ONE)}, ("INCONCLUSIVE", "executed"), "for b"),
        ("64", {"log": log(ONE)}, ("INCONCLUSIVE", "executed"), "not known for batch size 64"),
        ("1", {"log": log(ONE)}, ("PROVEN", "executed"), "all 1 decode lines"),
        ("1,64", {"log": log(ONE, BIG)}, ("PROVEN", "executed"), "all 2 decode lines"),
        ("64", {"metrics": passes(9, 0), "log": log(BIG, decode(64, graph=False))},
         ("INCONCLUSIVE", "executed"), "not known for batch size 64"),
        ("", {"metrics": passes(10, 0), "server_info": OFF}, ("INCONCLUSIVE", "executed"),
         "/server_info says disable_cuda_graph True, but 10 decode passes"),
        ("", {"log": log(ONE), "server_info": OFF}, ("INCONCLUSIVE", "executed"), "but all 1"),
        ("", {"metrics": passes(0, 10), "server_info": OFF}, ("REFUTED", "executed"), "all 10"),
    ],
)  # fmt: skip
def test_a_wished_size_needs_a_trace_of_its_own(
    validators: Validators, asked: str, evidence: dict[str, Any],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"decode-cuda-graphs={asked}", **evidence)
    assert said(outcome) == expected
    assert fact in outcome.summary
    assert bool(outcome.conflicts) == ("says disable" in outcome.summary)


@pytest.mark.parametrize(
    ("concurrency", "evidence", "expected"),
    [
        (1, {"metrics": passes(100, 0)}, ("INCONCLUSIVE", "executed")),
        (1, {"metrics": passes(100, 0), "server_info": CAPTURED}, ("PROVEN", "executed")),
        (3, {"metrics": passes(100, 0), "server_info": CAPTURED}, ("PROVEN", "executed")),
        (3, {"server_info": CAPTURED}, ("PROVEN", "captured")),
        (3, {"server_info": {**CAPTURED, "disable_cuda_graph_padding": True}},
         ("INCONCLUSIVE", "captured")),
        (8, {"metrics": passes(100, 0), "server_info": CAPTURED}, ("INCONCLUSIVE", "executed")),
        (8, {"metrics": passes(100, 0), "server_info": {**CAPTURED, "max_running_requests": 4}},
         ("PROVEN", "executed")),
        (64, {"log": log(BIG)}, ("PROVEN", "executed")),
        (64, {"log": log(ONE)}, ("INCONCLUSIVE", "executed")),
    ],
)  # fmt: skip
def test_the_profiles_concurrency_needs_a_graph(
    validators: Validators, library: Library, concurrency: int, evidence: dict[str, Any],
    expected: tuple[str, str | None],
) -> None:  # fmt: skip
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    profile = deployment.profile
    workload = profile.workload.model_copy(update={"concurrency": concurrency})
    deployment = dataclasses.replace(
        deployment, profile=profile.model_copy(update={"workload": workload})
    )
    outcome = judged(validators, "decode-cuda-graphs", deployment=deployment, **evidence)
    assert said(outcome) == expected


@pytest.mark.parametrize(
    ("state", "exchanges", "expected"),
    [
        ("ready", (spoken(GOOD),), ("PROVEN", "executed")),
        ("ready", (), ("PROVEN", "resolved")),
        ("failed", (), ("REFUTED", "resolved")),
        ("starting", (), ("INCONCLUSIVE", None)),
        ("unreachable", (), ("INCONCLUSIVE", None)),
    ],
)
def test_server_ready(
    validators: Validators, state: str, exchanges: Any, expected: tuple[str, str | None]
) -> None:
    outcome = judged(validators, "server-ready", state=state, exchanges=exchanges)
    assert said(outcome) == expected
    assert outcome.remedy or state == "ready"
