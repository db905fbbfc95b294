"""Invariants: sound evidence holds, unsound evidence is refuted, silence proves nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from replicas import judged, said, spoken

from configurator.content import Library
from configurator.engine.catalogue import Catalogue, Variable, load_catalogue
from configurator.evidence.model import Exchange, Replica, Report, ServerState
from configurator.loader import Validators
from configurator.resolve import resolve

LENGTH = "SGLANG_SIMULATE_ACC_LEN"
KNOWN = Catalogue.of("0.5.23", [], [Variable("SGLANG_KNOWN", "bool")], env_read=["SGLANG_READ"])


def reported(undeclared: tuple[str, ...] = (), **simulated: str) -> tuple[Report, ...]:
    return (
        Report(
            "tp0.json", 0, "ready", None, env_undeclared=undeclared,
            simulated_acceptance=simulated, knows_simulation=True, knows_undeclared=True,
        ),
    )  # fmt: skip


SILENT = (Report("tp1.json", 1, "ready", None),)
RENAMED = dataclasses.replace(reported()[0], env_renamed={"SGL_SIMULATE_ACC_LEN": LENGTH})
OLD = "SGL_SIMULATE_ACC_LEN"
TOLD = {"SGLANG_EXPOSE_OWN_ENV_VARS": "1"}


def exposed(*variables: dict[str, str], **info: Any) -> dict[str, Any]:
    """/server_info of an engine whose data parallel ranks expose these variables."""
    return {"internal_states": [{"env_vars": each} for each in variables], **info}


@pytest.mark.parametrize(
    ("evidence", "answer"),
    [
        ({"environment": {LENGTH: "3"}}, "REFUTED"),
        ({"environment": {LENGTH: "-1"}}, "PROVEN"),
        ({"environment": {LENGTH: "nonsense"}}, "PROVEN"),
        ({"environment": {"PATH": "/bin"}}, "PROVEN"),
        ({"environment": {}}, "INCONCLUSIVE"),
        ({"environment": {"\0\0": ""}}, "INCONCLUSIVE"),
        ({"environment": {OLD: "3"}}, "REFUTED"),
        ({"environment": {OLD: "0"}}, "PROVEN"),
        ({"environment": {"SGL_SIMULATE_ACC_METHOD": "x"}}, "PROVEN"),
        ({"reports": reported(SGL_SIMULATE_ACC_LEN="2.5")}, "REFUTED"),
        ({"reports": reported(SGL_SIMULATE_ACC_LEN="-1")}, "PROVEN"),
        ({"reports": (RENAMED,)}, "REFUTED"),
        ({"reports": (dataclasses.replace(RENAMED, simulated_acceptance={LENGTH: "-1"}),)},
         "PROVEN"),
        ({"reports": reported(SGLANG_SIMULATE_ACC_LEN="2.5")}, "REFUTED"),
        ({"reports": reported()}, "PROVEN"),
        ({"server_info": {"internal_states": [{"env_vars": {LENGTH: "3"}}]}}, "REFUTED"),
        ({"environment": {}, "reports": reported(SGLANG_SIMULATE_ACC_LEN="3")}, "REFUTED"),
        ({"environment": {LENGTH: "<redacted>"}}, "REFUTED"),
        ({"reports": reported(SGLANG_SIMULATE_ACC_LEN="(redacted)")}, "REFUTED"),
        ({"reports": reported(SGLANG_SIMULATE_ACC_LEN="<set>")}, "REFUTED"),
        ({"environment": {"error": "KeyError"}}, "INCONCLUSIVE"),
        ({"server_info": {"internal_states": [{"env_vars": {"error": "x"}}]}}, "INCONCLUSIVE"),
        ({"reports": SILENT}, "INCONCLUSIVE"),
        ({"reports": reported() + SILENT}, "INCONCLUSIVE"),
        ({"environment": {"PATH": "x"}, "reports": SILENT}, "PROVEN"),
        ({"environment": {}, "reports": SILENT}, "INCONCLUSIVE"),
        ({"server_info": exposed(TOLD)}, "PROVEN"),
        ({"server_info": exposed({})}, "INCONCLUSIVE"),
        ({"server_info": exposed({OLD: "3"})}, "REFUTED"),
        ({"server_info": exposed(TOLD, TOLD, dp_size=2)}, "PROVEN"),
        ({"server_info": exposed(TOLD, {}, dp_size=2)}, "INCONCLUSIVE"),
        ({"server_info": exposed({}, {}, dp_size=2)}, "INCONCLUSIVE"),
        ({"server_info": exposed(TOLD, dp_size=2)}, "INCONCLUSIVE"),
        ({"server_info": exposed(TOLD, dp_size=2), "environment": TOLD}, "INCONCLUSIVE"),
        ({"server_info": exposed(TOLD, {LENGTH: "3"}, dp_size=3)}, "REFUTED"),
        ({"server_info": {"dp_size": 2, "internal_states": [{}]}, "environment": TOLD}, "PROVEN"),
        ({"server_info": exposed(TOLD, dp_size="many")}, "PROVEN"),
        ({}, "INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_simulated_acceptance(
    validators: Validators, evidence: dict[str, Any], answer: str
) -> None:
    assert said(judged(validators, "no-simulated-acceptance", **evidence))[0] == answer


@pytest.mark.parametrize(
    ("catalogue", "evidence", "answer", "fact"),
    [
        (KNOWN, {"environment": {"SGLANG_KNOWN": "1", "SGLANG_READ": "1", "PATH": "x"}}, "PROVEN",
         "every SGLANG_ variable"),
        (KNOWN, {"environment": {"SGL_KNOWN": "1", "SGLANG_RUN_ID": "1"}}, "PROVEN", "every"),
        (KNOWN, {"environment": {"SGLANG_ENABLE_FP8_LM_HEAD": "1"}}, "REFUTED",
         "does not read SGLANG_ENABLE_FP8_LM_HEAD"),
        (KNOWN, {"reports": reported(("SGLANG_READ",))}, "PROVEN", "every"),
        (None, {"reports": reported(("SGLANG_X", "SGLANG_RUN_ID"))}, "REFUTED", "read SGLANG_X"),
        (None, {"reports": reported(("SGLANG_RUN_ID", "SGLANG_USE_CPU_ENGINE"))}, "PROVEN",
         "every"),
        (None, {"environment": {"SGLANG_X": "1"}}, "INCONCLUSIVE", "no catalogue"),
        (KNOWN, {}, "INCONCLUSIVE", "not known"),
        (KNOWN, {"reports": SILENT}, "INCONCLUSIVE", "tp1.json does not say it"),
        (None, {"reports": reported() + SILENT}, "INCONCLUSIVE", "tp1.json does not say it"),
        (None, {"environment": {"PATH": "x"}, "reports": SILENT}, "INCONCLUSIVE", "no catalogue"),
        (KNOWN, {"environment": {}}, "INCONCLUSIVE", "not known"),
        (KNOWN, {"environment": {"PATH": "x"}}, "PROVEN", "every"),
        (KNOWN, {"server_info": exposed({"SGLANG_KNOWN": "1"}, {}, dp_size=2)}, "INCONCLUSIVE",
         "1 of 2 data parallel ranks tell it"),
        (KNOWN, {"server_info": exposed({"SGLANG_X": "1"}, {}, dp_size=2)}, "REFUTED", "SGLANG_X"),
    ],
)  # fmt: skip
def test_undeclared_environment(
    validators: Validators, catalogue: Catalogue | None, evidence: dict[str, Any], answer: str,
    fact: str,
) -> None:  # fmt: skip
    outcome = judged(validators, "no-undeclared-environment", catalogue=catalogue, **evidence)
    assert str(outcome.answer) == answer
    assert fact in outcome.summary


@pytest.mark.parametrize(
    ("requested", "resolved", "answer"),
    [
        ({"speculative_num_draft_tokens": "4"}, {"speculative_num_draft_tokens": 4}, "PROVEN"),
        ({"speculative_num_draft_tokens": "8"}, {"speculative_num_draft_tokens": 4}, "REFUTED"),
        ({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "EAGLE"}, "PROVEN"),
        ({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": None}, "REFUTED"),
        ({"tp": "4"}, {"tp_size": 4}, "PROVEN"),
        ({"tp": "4"}, {"tp_size": 1}, "REFUTED"),
        ({"mem-fraction": "0.70"}, {"mem_fraction_static": 0.7}, "PROVEN"),
        ({"enable_metrics": True}, {"enable_metrics": True}, "PROVEN"),
        ({"enable_metrics": True}, {"enable_metrics": False}, "REFUTED"),
        ({"moe_runner_backend": "auto"}, {"moe_runner_backend": "triton"}, "PROVEN"),
        ({"model_path": "/m/a/"}, {"model_path": "/m/a"}, "PROVEN"),
        ({"cuda_graph_bs": ["1", "2"]}, {"cuda_graph_bs": [1, 2]}, "PROVEN"),
        ({"cuda_graph_bs": ["1", "2"]}, {"cuda_graph_bs": [1]}, "REFUTED"),
        ({"attention_backend": "intel_amx"},
         {"attention_backend": "x", "prefill_attention_backend": "intel_amx",
          "decode_attention_backend": "intel_amx"}, "PROVEN"),
        ({"attention_backend": "intel_amx"},
         {"attention_backend": "x", "decode_attention_backend": "y"}, "REFUTED"),
        ({"json_model_override_args": '{"a": 1}'}, {"json_model_override_args": {"a": 1}},
         "PROVEN"),
        ({"api_key": "***"}, {"api_key": "other"}, "INCONCLUSIVE"),
        ({"api_key": "***", "tp": "1"}, {"api_key": "other", "tp_size": 1}, "PROVEN"),
        ({"unknown": "1"}, {"tp_size": 1}, "INCONCLUSIVE"),
        ({"page_size": 10**400}, {"page_size": 64}, "REFUTED"),
        ({"page_size": "64"}, {"page_size": 10**400}, "REFUTED"),
        ({"tp": "4"}, None, "INCONCLUSIVE"),
        ({}, {"tp_size": 1}, "INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_requested_equals_resolved(
    validators: Validators, requested: dict[str, Any], resolved: dict[str, Any] | None, answer: str
) -> None:
    outcome = judged(
        validators, "requested-equals-resolved", requested=requested, server_info=resolved
    )
    assert str(outcome.answer) == answer


def test_every_difference_is_named(validators: Validators) -> None:
    outcome = judged(
        validators, "requested-equals-resolved", requested={"tp": "4", "dp": "2"},
        server_info={"tp_size": 1, "dp_size": 1},
    )  # fmt: skip
    assert outcome.summary == "tp_size: asked 4, resolved 1; dp_size: asked 2, resolved 1"


@pytest.mark.parametrize(
    ("exchange", "answer", "fact"),
    [
        (spoken([0, 0, 0, 32]), "PROVEN", "1 responses agree"),
        (spoken([0, 0, 0, 32], completion_tokens=128), "PROVEN", "agree"),
        (spoken([0, 0, 0, 32], completion_tokens=33), "REFUTED", "33 tokens came back"),
        (spoken([0, 0, 0, 32], spec_verify_ct=31), "REFUTED", "holds 32 verify steps"),
        (spoken([5, 1], spec_num_correct_drafts=3), "REFUTED", "holds 1 accepted drafts"),
        (spoken([0, 0, 0, 4], spec_num_proposed_drafts=3), "REFUTED", "accepted of 3 proposed"),
        (spoken([4], spec_accept_rate=float("nan")), "REFUTED", "spec_accept_rate is nan"),
        (spoken([4], spec_num_correct_drafts=-1), "REFUTED", "is -1"),
        (spoken([4], spec_num_correct_drafts=float("inf")), "REFUTED", "is inf"),
        (spoken([4], completion_tokens=10**400), "REFUTED", "completion_tokens is 1000"),
        (spoken([-1, 5]), "REFUTED", "holds what is no count"),
        (spoken([0, 10**400]), "REFUTED", "completion_tokens is 2000"),
        (spoken([4], spec_verify_ct="4"), "INCONCLUSIVE", "spec_verify_ct is '4'"),
        (spoken([4], spec_verify_ct=True), "INCONCLUSIVE", "spec_verify_ct is 'True'"),
        (spoken([4], spec_correct_drafts_histogram=[True] * 4), "INCONCLUSIVE", "[True, True"),
        (spoken([4], spec_correct_drafts_histogram="[4]"), "INCONCLUSIVE", "is '[4]'"),
        (
            spoken([4], spec_correct_drafts_histogram=None, spec_num_correct_drafts=None),
            "INCONCLUSIVE",
            "no response counts",
        ),
        (spoken([4], completion_tokens="many"), "INCONCLUSIVE", "completion_tokens is 'many'"),
        (spoken([]), "INCONCLUSIVE", "no response counts"),
    ],
)
def test_arithmetic(validators: Validators, exchange: Exchange, answer: str, fact: str) -> None:
    outcome = judged(validators, "arithmetic-consistent", exchanges=(exchange,))
    assert str(outcome.answer) == answer
    assert fact in outcome.summary


def answered(text: str, tokens: list[int] | None, counted: int = 64) -> Exchange:
    body: dict[str, Any] = {"text": text, "meta_info": {"completion_tokens": counted}}
    if tokens is not None:
        body["output_ids"] = tokens
    return Exchange("1.json", "/generate", 200, None, body)


@pytest.mark.parametrize(
    ("exchange", "answer"),
    [
        (answered(" t1418 t255 t1663", list(range(64))), "PROVEN"),
        (answered("", [0] * 16, 16), "PROVEN"),
        (answered("", None), "INCONCLUSIVE"),
        (answered("\0\0 \n", None), "INCONCLUSIVE"),
        (Exchange("1.json", "/generate", 200, None, {"meta_info": {}}), "INCONCLUSIVE"),
        (Exchange("1.json", "/generate", 400, None, {"text": "x", "meta_info": {}}),
         "INCONCLUSIVE"),
        (answered("!" * 500, None), "REFUTED"),
        (answered("the " * 40, None), "REFUTED"),
        (answered("!" * 31, None), "PROVEN"),
        (answered("It was late, and the last tram had gone. " * 2, None), "PROVEN"),
        # With token ids the text need not be looked at.
        (answered("!" * 500, list(range(64))), "PROVEN"),
        (answered("x", [100] * 63 + [1]), "REFUTED"),
        (answered("x", [100, 7] * 32), "PROVEN"),
        (answered("\ufffd\ufffdabc", list(range(64))), "REFUTED"),
        (answered("\ufffd" + "a" * 40, list(range(64))), "PROVEN"),
        (answered("", [], 64), "REFUTED"),
        (answered("", [], 0), "INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_output(validators: Validators, exchange: Exchange, answer: str) -> None:
    outcome = judged(validators, "output-not-corrupted", exchanges=(exchange,))
    assert str(outcome.answer) == answer


def test_an_empty_answer_beside_others_does_not_count(validators: Validators) -> None:
    exchanges = (answered("", None), answered("a word", None), answered("x", [1, 2]))
    outcome = judged(validators, "output-not-corrupted", exchanges=exchanges)
    assert said(outcome) == ("PROVEN", "executed")
    assert outcome.summary.startswith("2 responses")


def test_no_probe_needs_any_evidence(validators: Validators) -> None:
    """Silence is never a crash, and never a proof or a refutation."""
    values = {"N": "4", "NAME": "triton"}
    of_the_host = ("gpus-alike", "gpu-memory-whole")
    for name, probe in validators.probes.items():
        value = values.get(probe.takes or "", "")
        for state in ("starting", "unreachable"):
            outcome = judged(validators, f"{name}={value}", state=state)
            if name in of_the_host:
                # A host that nobody looked at is no doubt of the launch.
                assert str(outcome.answer) == "NOT_APPLICABLE", name
                continue
            assert str(outcome.answer) == "INCONCLUSIVE", name
            assert outcome.remedy, name


MALFORMED: tuple[dict[str, Any], ...] = (
    {"server_info": {"internal_states": None, "speculative_algorithm": 3}},
    {"server_info": {"internal_states": [None, {"env_vars": 3, "decode_cuda_graph_bs": 1}]}},
    {"exchanges": (Exchange("1.json", "/generate", 500, None, None),)},
    {"exchanges": (Exchange("1.json", "/generate", 200, None, ["x", {"meta_info": 3}]),)},
    {"exchanges": (spoken([1], spec_correct_drafts_histogram="x", completion_tokens=None),)},
    {"exchanges": (spoken([1], spec_verify_ct="many"),)},
    {"exchanges": (spoken([1], spec_num_correct_drafts=float("inf")),)},
    {"reports": (Report("r.json", None, "", None),)},
    {"metrics": (), "log": (), "environment": {}},
)


@pytest.mark.parametrize("evidence", MALFORMED)
def test_malformed_evidence_crashes_no_probe(
    validators: Validators, evidence: dict[str, Any]
) -> None:
    assert Replica(0, ServerState("ready"), **evidence).index == 0
    values = {"N": "4", "NAME": "triton", "BS,...": "1,2"}
    for name, probe in validators.probes.items():
        judged(validators, f"{name}={values.get(probe.takes or '', '')}", **evidence)


def test_a_server_started_otherwise_than_the_profile_says(
    validators: Validators, library: Library
) -> None:
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    args = deployment.args.items()
    info: dict[str, Any] = {name.replace("-", "_"): arg.value for name, arg in args}
    info["cuda_graph_bs_decode"] = [1]
    good = judged(
        validators, "requested-equals-resolved", deployment=deployment, server_info=info,
        requested={"page_size": "64"},
    )  # fmt: skip
    assert said(good) == ("PROVEN", "resolved")
    other = judged(
        validators, "requested-equals-resolved", deployment=deployment,
        server_info=info | {"moe_runner_backend": "triton"}, requested={"page_size": "64"},
    )  # fmt: skip
    assert said(other) == ("REFUTED", "resolved")
    assert "moe_runner_backend: asked humming, resolved triton" in other.summary
    assert "api_key" not in other.summary


def test_a_variable_that_the_engine_gave_up_is_not_read(validators: Validators) -> None:
    catalogue = load_catalogue("0.5.23")
    given_up = {"SGLANG_PREFILL_DELAYER_MAX_DELAY_PASSES": "20"}
    outcome = judged(
        validators, "no-undeclared-environment", catalogue=catalogue, environment=given_up
    )
    assert outcome.answer == "REFUTED"
    assert "does not read SGLANG_PREFILL_DELAYER_MAX_DELAY_PASSES" in outcome.summary
    replaced = {"SGLANG_USE_TRITON_ROUTER_SUM": "1"}
    outcome = judged(
        validators, "no-undeclared-environment", catalogue=catalogue, environment=replaced
    )
    assert outcome.answer == "PROVEN"
