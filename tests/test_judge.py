"""Judging: what an outcome becomes under rung, server state, replicas and policy."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from configurator.content import Library
from configurator.deployment import Expectation
from configurator.errors import ConfiguratorError
from configurator.evidence.model import (
    Evidence,
    Exchange,
    LogLine,
    ModelReport,
    Replica,
    Report,
    ServerState,
)
from configurator.judge import Judgement, expectation_from, judge
from configurator.loader import Validators
from configurator.probes import Check, probe
from configurator.resolve import resolve
from configurator.verdicts import (
    Answer,
    Observation,
    Outcome,
    Rung,
    inconclusive,
    not_applicable,
    proven,
    refuted,
)

READY = ServerState("ready")
STARTING = ServerState("starting", "FlashInfer autotune", "no answer yet", "wait longer")
SEEN = Observation("log", "subject", 1, Rung.BUILT, "server.log:1")
REPORTED = Observation("report", "subject", 1, Rung.BUILT, "reports/0.json", rank=0)
LOGGED = Observation("log", "subject", 1, Rung.BUILT, "server.log:7")
OUTCOMES = {
    "of-both": proven(Rung.BUILT, "it is built", REPORTED, LOGGED),
    "of-report": proven(Rung.BUILT, "it is built", REPORTED),
    "proven": proven(Rung.BUILT, "it is built", SEEN),
    "resolved": proven(Rung.RESOLVED, "it is resolved", SEEN),
    "refuted": refuted(Rung.BUILT, "another is built", SEEN, remedy="mend it"),
    "open": inconclusive(Rung.RESOLVED, "an echo", SEEN, remedy="look closer"),
    "absent": not_applicable("no place for it"),
}


@probe("said", takes="WORD", requires_value=True)
def said(check: Check) -> Outcome:
    """Says what the environment of the replica, or else the expectation, tells it to."""
    word = (check.replica.environment or {}).get("SAY") or check.expectation.value or ""
    outcome = OUTCOMES[word]
    # Every report that is there says the same, each of its own rank.
    own = tuple(
        dataclasses.replace(REPORTED, locator=report.file, rank=report.rank)
        for report in check.replica.reports
    )
    rest = tuple(seen for seen in outcome.observations if seen.source != "report")
    return dataclasses.replace(outcome, observations=(*own, *rest)) if own else outcome


@probe("holds", kind="invariant")
def holds(check: Check) -> Outcome:
    """An invariant that always holds."""
    return proven(Rung.EXECUTED, "it holds", SEEN)


MINE = Validators({}, {"said": said, "holds": holds}, {})


def evidence(*replicas: Replica) -> Evidence:
    return Evidence("somewhere", replicas)


def replica(index: int = 0, say: str = "", state: ServerState = READY, **more: Any) -> Replica:
    return Replica(index, state, environment={"SAY": say} if say else None, **more)


def expected(value: str = "proven", **more: Any) -> Expectation:
    return Expectation("wish", "said", value=value, **more)


def one(wanted: Expectation, *replicas: Replica) -> tuple[Any, Judgement]:
    result = judge([wanted], evidence(*(replicas or (replica(),))), MINE)
    return result.verdicts[0], result


@pytest.mark.parametrize(
    ("value", "policy", "answer", "code"),
    [
        ("proven", {}, "PROVEN", 0),
        ("refuted", {}, "REFUTED", 1),
        ("refuted", {"on_refuted": "drop"}, "REFUTED", 1),
        ("refuted", {"on_refuted": "warn"}, "REFUTED", 0),
        ("open", {}, "INCONCLUSIVE", 0),
        ("open", {"on_unproven": "fail"}, "INCONCLUSIVE", 1),
        ("absent", {"on_unproven": "fail"}, "NOT_APPLICABLE", 0),
    ],
)
def test_policy_makes_the_exit_code(
    value: str, policy: dict[str, Any], answer: str, code: int
) -> None:
    verdict, result = one(expected(value, **policy))
    assert (str(verdict.answer), result.exit_code) == (answer, code)


def test_invariants_are_judged_unasked_and_once() -> None:
    assert [v.mechanism for v in judge([], evidence(replica()), MINE).verdicts] == ["holds"]
    asked = judge([Expectation("holds", "holds", "invariant")], evidence(replica()), MINE)
    assert [(v.mechanism, v.kind) for v in asked.verdicts] == [("holds", "invariant")]


@probe("nowhere", kind="invariant")
def nowhere(check: Check) -> Outcome:
    """An invariant that has no place in what runs."""
    return not_applicable("no place for it")


def test_an_invariant_that_has_no_place_is_shown_only_when_asked_for() -> None:
    both = Validators({}, {"holds": holds, "nowhere": nowhere}, {})
    unasked = judge([], evidence(replica()), both)
    assert [v.mechanism for v in unasked.verdicts] == ["holds"]
    asked = judge([Expectation("nowhere", "nowhere", "invariant")], evidence(replica()), both)
    assert [v.mechanism for v in asked.verdicts] == ["nowhere", "holds"]


def test_a_proof_below_the_wanted_rung_is_none() -> None:
    verdict, _ = one(expected("resolved"))
    assert (verdict.answer, verdict.rung) == (Answer.INCONCLUSIVE, Rung.RESOLVED)
    assert verdict.summary == "it is resolved; that is resolved, and proof starts at built"
    assert "in-engine report" in verdict.remedy
    assert one(expected("resolved", proof_rung="resolved"))[0].answer is Answer.PROVEN


@pytest.mark.parametrize(
    ("said_by", "answer", "summary"),
    [
        (("proven", "proven"), "PROVEN", "all replicas: it is built"),
        (("proven", "refuted"), "REFUTED", "replica 1: another is built; replica 0: PROVEN"),
        (("open", "refuted", "open"), "REFUTED",
         "replica 1: another is built; replicas 0, 2: INCONCLUSIVE"),
        (("open", "proven"), "INCONCLUSIVE", "replica 0: an echo; replica 1: PROVEN"),
        (("absent", "proven"), "PROVEN", "replica 1: it is built; replica 0: NOT_APPLICABLE"),
        (("absent", "absent"), "NOT_APPLICABLE", "all replicas: no place for it"),
    ],
)  # fmt: skip
def test_the_worst_replica_decides(said_by: tuple[str, ...], answer: str, summary: str) -> None:
    replicas = [replica(index, word) for index, word in enumerate(said_by)]
    verdict, _ = one(expected("open"), *replicas)
    assert (str(verdict.answer), verdict.summary) == (answer, summary)


def test_evidence_says_which_replica_and_the_decisive_comes_first() -> None:
    verdict, _ = one(expected(), replica(0, "proven"), replica(1, "refuted"))
    assert [seen.replica for seen in verdict.evidence] == [1, 0]
    assert verdict.remedy == "mend it"


def test_nothing_is_proven_of_a_server_that_is_not_ready() -> None:
    verdict, result = one(expected(), replica(state=STARTING))
    assert verdict.answer is Answer.INCONCLUSIVE
    assert "starting, phase FlashInfer autotune" in verdict.summary
    assert verdict.remedy == "wait longer"
    assert result.exit_code == 1


@probe("unseen", kind="invariant")
def unseen(check: Check) -> Outcome:
    """An invariant that no evidence speaks of."""
    return inconclusive(None, "no request was sent", remedy="send requests")


@pytest.mark.parametrize(
    ("state", "remedy"),
    [
        (READY, "send requests"),
        (STARTING, "wait longer"),
        (ServerState("failed", reason="KeyError: x"), "send requests"),
    ],
)
def test_what_is_open_of_a_server_that_is_not_ready_waits_for_it(
    state: ServerState, remedy: str
) -> None:
    both = Validators({}, {"unseen": unseen, "holds": holds}, {})
    open_, held = judge([], evidence(replica(state=state)), both).verdicts
    assert (open_.answer, open_.summary) == (Answer.INCONCLUSIVE, "no request was sent")
    assert open_.remedy == remedy
    assert (held.answer, held.remedy) == (Answer.PROVEN, "")


def test_a_refutation_stays_although_the_server_is_not_ready() -> None:
    verdict, _ = one(expected("refuted"), replica(state=STARTING))
    assert (verdict.answer, verdict.summary) == (Answer.REFUTED, "another is built")


def test_a_probe_that_crashes_is_our_bug_and_hides_no_other() -> None:
    wanted = [expected("nonsense"), expected("refuted")]
    result = judge(wanted, evidence(replica()), MINE)
    crashed, after = result.verdicts[:2]
    assert crashed.summary == "probe said crashed: KeyError: 'nonsense'"
    assert (crashed.answer, after.answer) == (Answer.INCONCLUSIVE, Answer.REFUTED)
    assert result.exit_code == 3


def test_a_probe_that_does_not_exist_is_unusable_input() -> None:
    with pytest.raises(ConfiguratorError, match="mechanism wish: no probe is named 'sayd'") as got:
        judge([Expectation("wish", "sayd")], evidence(replica()), MINE)
    assert got.value.problems[0].remedy == "did you mean 'said'?"


def test_evidence_of_no_server_is_unusable_input() -> None:
    with pytest.raises(ConfiguratorError, match="evidence of no server"):
        judge([], evidence(), MINE)


META = {
    "completion_tokens": 400, "spec_verify_ct": 100, "spec_num_correct_drafts": 300,
    "spec_num_proposed_drafts": 300, "spec_correct_drafts_histogram": [0, 0, 0, 100],
}  # fmt: skip


@pytest.mark.parametrize(("length", "answer"), [("3.0", "INCONCLUSIVE"), ("-1", "PROVEN")])
def test_no_acceptance_counts_while_it_is_simulated(
    validators: Validators, length: str, answer: str
) -> None:
    ids = list(range(100))
    response = {"text": "words", "output_ids": ids, "meta_info": META}
    server = Replica(
        0, READY, environment={"SGLANG_SIMULATE_ACC_LEN": length},
        exchanges=(Exchange("1.json", "/generate", 200, None, response, "profile"),),
    )  # fmt: skip
    asked = ("speculative-acceptance=2", "draft-used")
    wanted = [expectation_from(text, validators.probes) for text in asked]
    result = judge(wanted, evidence(server), validators)
    by_name = {verdict.mechanism: verdict for verdict in result.verdicts}
    assert str(by_name["speculative-acceptance"].answer) == answer
    assert str(by_name["draft-used"].answer) == answer
    if answer == "INCONCLUSIVE":
        assert by_name["no-simulated-acceptance"].answer is Answer.REFUTED
        assert "acceptance is simulated" in by_name["draft-used"].summary
        assert result.exit_code == 1


@pytest.mark.parametrize(
    ("environment", "proof_rung", "expected"),
    [
        ({"PATH": "/bin"}, "executed", ("PROVEN", "effective")),
        (None, "executed", ("PROVEN", "executed")),
        ({}, "executed", ("PROVEN", "executed")),
        ({"PATH": "/bin"}, "effective", ("PROVEN", "effective")),
        (None, "effective", ("INCONCLUSIVE", "executed")),
        ({"SGL_SIMULATE_ACC_LEN": "4"}, "executed", ("INCONCLUSIVE", "executed")),
    ],
)
def test_acceptance_that_may_be_simulated_is_not_effective(
    validators: Validators, environment: dict[str, str] | None, proof_rung: str,
    expected: tuple[str, str],
) -> None:  # fmt: skip
    response = {"text": "words", "output_ids": list(range(100)), "meta_info": META}
    exchange = Exchange("1.json", "/generate", 200, None, response, "profile")
    server = Replica(0, READY, environment=environment, exchanges=(exchange,))
    wanted = expectation_from("speculative-acceptance=2", validators.probes)
    wanted = dataclasses.replace(wanted, proof_rung=proof_rung)
    verdict = judge([wanted], evidence(server), validators).verdicts[0]
    assert (str(verdict.answer), str(verdict.rung)) == expected
    is_open = "not shown to be effective: no-simulated-acceptance is INCONCLUSIVE"
    assert (is_open in verdict.summary) == (not environment)


@pytest.mark.parametrize(
    ("text", "value", "floor", "rung"),
    [
        ("fp8-lm-head", None, None, "built"),
        ("moe-runner=triton", "triton", None, "built"),
        ("moe-runner = triton", "triton", None, "built"),
        ("speculative-acceptance", None, None, "executed"),
        ("speculative-acceptance=2.5", "2.5", 2.5, "executed"),
        ("decode-cuda-graphs=1, 2", "1, 2", None, "captured"),
        ("attention-backend=fa3", "fa3", None, "resolved"),
    ],
)
def test_expectations_from_the_command_line(
    validators: Validators, text: str, value: str | None, floor: float | None, rung: str
) -> None:
    wanted = expectation_from(text, validators.probes)
    assert (wanted.value, wanted.floor, wanted.proof_rung) == (value, floor, rung)
    assert wanted.required


@pytest.mark.parametrize(
    ("text", "code", "fact"),
    [
        ("fp8-lm-hed", "REF001", "no probe is named 'fp8-lm-hed'; did you mean 'fp8-lm-head'"),
        ("", "REF001", "no probe is named ''"),
        ("moe-runner", "EXP001", "moe-runner needs a value to compare with"),
        ("moe-runner=", "EXP001", "moe-runner needs a value"),
        ("fp8-lm-head=yes", "EXP001", "fp8-lm-head takes no value, but got 'yes'"),
        ("speculative-acceptance=", "EXP001", "needs a value"),
        ("speculative-acceptance=high", "EXP001", "not a number from 1 up"),
        ("speculative-acceptance=0.5", "EXP001", "a number from 1 up"),
        ("speculative-acceptance=nan", "EXP001", "a number from 1 up"),
        ("draft-tokens=4.5", "EXP001", "a whole number"),
        ("draft-tokens=0", "EXP001", "a whole number"),
        ("decode-cuda-graphs=1,x", "EXP001", "batch sizes"),
    ],
)
def test_expectations_that_cannot_be_used(
    validators: Validators, text: str, code: str, fact: str
) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        expectation_from(text, validators.probes)
    assert caught.value.problems[0].code == code
    assert fact in str(caught.value)


BUILT = ModelReport("Model", False)


def reported(*ranks: int, size: int = 2) -> Replica:
    reports = tuple(Report(f"reports/{rank}.json", rank, "ready", BUILT) for rank in ranks)
    return replica(say="of-report", server_info={"tp_size": size}, reports=reports)


def test_a_rank_without_a_report_leaves_a_proof_from_reports_open() -> None:
    verdict, _ = one(expected(), reported(0))
    assert verdict.answer is Answer.INCONCLUSIVE
    assert "tensor parallel rank 1 left no in-engine report" in verdict.summary


def test_a_report_of_which_everything_failed_is_no_report() -> None:
    failed = Report("reports/1.json", None, "ready", None, errors={"all": "RuntimeError"})
    (one_report,) = reported(0).reports
    info = {"tp_size": 2}
    both = replica(say="of-report", server_info=info, reports=(one_report, failed))
    verdict, _ = one(expected(), both)
    assert verdict.answer is Answer.INCONCLUSIVE
    assert "tensor parallel rank 1 left no in-engine report" in verdict.summary


def test_reports_of_every_rank_prove() -> None:
    assert one(expected(), reported(0, 1))[0].answer is Answer.PROVEN
    assert one(expected(), reported(0, size=1))[0].answer is Answer.PROVEN


def test_an_open_verdict_says_which_report_does_not_count() -> None:
    reason = "reports/0.json does not count: the report is of another start"
    verdict, _ = one(expected(), replica(say="open", set_aside=(reason,)))
    assert (verdict.answer, verdict.summary) == (Answer.INCONCLUSIVE, f"an echo; {reason}")
    log = "server.log does not count: it is of another start"
    verdict, _ = one(expected(), replica(say="open", set_aside=(log,)))
    assert verdict.summary == f"an echo; {log}"
    verdict, _ = one(expected(), replica(say="proven", set_aside=(reason,)))
    assert (verdict.answer, verdict.summary) == (Answer.PROVEN, "it is built")


def placed(rank: int | None = 0, **ranks: Any) -> Report:
    return Report(f"reports/{rank}-{ranks}.json", rank, "ready", BUILT, ranks=ranks)


@pytest.mark.parametrize(
    ("info", "reports", "silent"),
    [
        ({"tp_size": 1}, [placed()], ""),
        ({"tp_size": "1", "dp_size": 1.0, "pp_size": None}, [placed()], ""),
        (None, [placed(tp_size=1)], ""),
        (None, [placed(tp_size=2)], "tensor parallel rank 1 left no"),
        ({"tp_size": 1}, [placed(tp_size=2)], "tensor parallel rank 1 left no"),
        ({"tp_size": "2"}, [placed()], "tensor parallel rank 1 left no"),
        ({"tp_size": 2.0}, [placed()], "tensor parallel rank 1 left no"),
        ({"tp_size": 4}, [placed(), placed(2)], "tensor parallel ranks 1, 3 left no"),
        ({"pp_size": 2}, [placed(pp_rank=0)], "pipeline rank 1 left no"),
        ({"dp_size": 2}, [placed(dp_rank=0)], "data parallel rank 1 left no"),
        ({"dp_size": 2}, [placed(dp_rank=0), placed(dp_rank=1)], ""),
        (None, [placed(dp_rank=1, dp_size=2)], "data parallel rank 0 left no"),
        ({"tp_size": 2, "pp_size": 2}, [placed(), placed(1), placed(1, pp_rank=1)],
         "rank tp0-pp1-dp0 left no"),
        ({"tp_size": 2, "dp_size": 2, "enable_dp_attention": True},
         [placed(dp_rank=0), placed(1, dp_rank=1)], ""),
        ({"tp_size": 2}, [placed(), placed(None)], "tensor parallel rank 1 left no"),
        ({"tp_size": 1}, [placed(None)], ""),
        ({"tp_size": 1}, [placed(9)], "tensor parallel rank 0 left no"),
        ({"tp_size": 20}, [placed()], "7, 8 and 11 more left no"),
        ({"tp_size": 65_537}, [placed()], "how many ranks there are cannot be told"),
        ({"tp_size": 10**400}, [placed()], "cannot be told"),
        ({"tp_size": float("inf")}, [placed()], "cannot be told"),
        ({"tp_size": float("nan")}, [placed()], "cannot be told"),
        ({"tp_size": 0}, [placed()], "cannot be told"),
        ({"tp_size": True}, [placed()], "cannot be told"),
        ({"tp_size": "many"}, [placed()], "cannot be told"),
        ({"tp_size": 60_000, "dp_size": 60_000}, [placed()], "cannot be told"),
    ],
)  # fmt: skip
def test_every_rank_must_be_heard(
    info: dict[str, Any] | None, reports: list[Report], silent: str
) -> None:
    told = replica(say="of-report", server_info=info, reports=tuple(reports))
    verdict, _ = one(expected(), told)
    assert verdict.answer is (Answer.INCONCLUSIVE if silent else Answer.PROVEN)
    assert silent in verdict.summary


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("Preparing experts", Answer.INCONCLUSIVE),
        ("[2026-11-30 09:00:00 TP0] Preparing experts", Answer.INCONCLUSIVE),
        ("[2026-11-30 09:00:00 TP1] Preparing experts", Answer.PROVEN),
    ],
)
def test_a_line_of_the_log_speaks_of_its_own_rank(line: str, answer: Answer) -> None:
    told = replica(
        say="of-both", server_info={"tp_size": 2}, reports=(placed(),), log=(LogLine(7, line),)
    )
    assert one(expected(), told)[0].answer is answer


def test_replicas_without_evidence_leave_the_whole_open() -> None:
    library = Library()
    deployment = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    assert deployment.profile.topology.replicas == 2
    ranks = tuple(placed(rank) for rank in range(deployment.profile.topology.tensor))
    args = ([expected()], evidence(replica(reports=ranks)), MINE, deployment)
    result = judge(*args)
    assert (result.unseen, result.verdicts[0].answer) == ((1,), Answer.INCONCLUSIVE)
    expected_text = "replica 1: no evidence of this replica; replica 0: PROVEN"
    assert result.verdicts[0].summary == expected_text
    alone = judge(*args, whole=False)
    assert (alone.unseen, alone.verdicts[0].answer) == ((1,), Answer.PROVEN)


def test_one_server_that_was_asked_twice_is_one_replica() -> None:
    info = {"random_seed": 7, "port": 30000, "launch_command": "serve"}
    verdict, result = one(expected(), *(replica(index, server_info=info) for index in range(3)))
    assert (verdict.answer, result.unseen) == (Answer.INCONCLUSIVE, (1, 2))
    assert "replicas 1, 2: no evidence of this replica: it is the server of replica 0, both" in (
        verdict.summary
    )
    verdict, result = one(
        expected(), replica(0, server_info=info), replica(1, server_info=info | {"port": 30001})
    )
    assert (verdict.answer, result.unseen) == (Answer.PROVEN, ())


def test_a_rank_whose_report_does_not_count_is_named_with_the_reason() -> None:
    reason = "reports/1.json does not count: the report is of another start"
    told = dataclasses.replace(reported(0), set_aside=(reason,))
    verdict, _ = one(expected(), told)
    assert verdict.summary.endswith(f"tensor parallel rank 1 left no in-engine report; {reason}")
