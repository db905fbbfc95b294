"""A plan held against a server that ran."""

from __future__ import annotations

from typing import Any

import plans
import pytest

from configurator.content import Library
from configurator.demo.server import recording
from configurator.evidence.model import Evidence, ModelReport, Replica, Report, ServerState
from configurator.evidence.read import read_evidence
from configurator.plan.diff import Diff, Planned, Value
from configurator.plan.figures import Figure
from configurator.plan.running import held_against, measured
from configurator.resolve import resolve

GIB = 2**30


def planned(library: Library) -> Planned:
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    return Planned(deployment, plans.plan())


def state(**usage: Any) -> dict[str, Any]:
    return {"memory_usage": usage, "effective_max_running_requests_per_dp": 1}


def replica(**evidence: Any) -> Replica:
    return Replica(0, ServerState("ready"), **evidence)


def held(library: Library, *replicas: Replica) -> Diff:
    return held_against(planned(library), Evidence("evidence", replicas), "evidence")


def shown(found: Diff) -> dict[tuple[str, str], tuple[Value, Value]]:
    return {(d.section, d.name): (d.first, d.second) for d in found.differences}


def test_predictions_stand_beside_what_was_measured(library: Library) -> None:
    info = {
        "max_total_num_tokens": 1_900_000,
        "internal_states": [
            {**state(weight=62.7, kvcache=14.2, token_capacity=1_888_000, graph={"decode": 1.1}),
             "avg_spec_accept_length": 2.7}
        ],
    }  # fmt: skip
    texts = shown(held(library, replica(server_info=info)))
    first, second = texts["memory", "token capacity"]
    assert isinstance(first, Figure)
    assert isinstance(second, Figure)
    assert (first.value, second.value) == (1_884_000, 1_888_000)
    _, weights = texts["memory", "weights"]
    assert isinstance(weights, Figure)
    assert weights.value == pytest.approx(62.7 * GIB)
    assert weights.high - weights.low == pytest.approx(0.001 * GIB)
    _, cache = texts["memory", "KV bytes a token"]
    assert isinstance(cache, Figure)
    assert cache.value == pytest.approx(14.2 * GIB / 1_888_000)
    assert texts["memory", "KV bytes a token"][0] is not None
    _, accepted = texts["step", "accepted a step"]
    assert isinstance(accepted, Figure)
    assert accepted.value == 2.7


def test_a_report_counts_weights_that_the_server_only_rounds() -> None:
    model = ModelReport("M", False, weight_bytes={"experts": 300, "head": 20, "counted_before": 4})
    report = Report("reports/r.json", 0, "captured", model)
    info = {"internal_states": [state(weight=0.001)]}
    figure = measured(replica(server_info=info, reports=(report,)))["weights"]
    assert (figure.value, figure.exact) == (320, True)
    assert figure.source == "in-engine report reports/r.json"


@pytest.mark.parametrize(
    "info",
    [
        None,
        {},
        {"internal_states": None},
        {"internal_states": [None, 3]},
        {"internal_states": [state(weight="big", kvcache=True, token_capacity=-0.5, graph=[1])]},
        {"internal_states": [state(weight=0.0, kvcache=None, graph={"a": "b"})]},
    ],
)
def test_what_a_server_does_not_say_is_not_measured(info: Any) -> None:
    found = measured(replica(server_info=info))
    assert set(found) <= {"requests at once"}


def test_words_are_compared_as_the_parser_names_them(library: Library) -> None:
    deployment = planned(library).deployment
    requested: dict[str, Any] = {
        arg.name.replace("-", "_"): arg.value for arg in deployment.args.values()
        if isinstance(arg.value, str | int | float | bool)
    }  # fmt: skip
    requested |= {
        "mem_fraction_static": "0.680",
        "api_key": "<redacted>",
        "cuda_graph_bs_decode": "1",
    }
    del requested["tp_size"]
    requested |= {"tensor_parallel_size": "1", "schedule_policy": "lpm"}
    texts = shown(held(library, replica(requested=requested, server_info={"version": "0.5.23"})))
    arguments = {name: pair for (section, name), pair in texts.items() if section == "arguments"}
    assert arguments == {"--schedule-policy": (None, "lpm")}


def test_what_the_server_made_of_an_argument(library: Library) -> None:
    info = {
        "mem_fraction_static": 0.68, "moe_runner_backend": "triton", "speculative_algorithm": None,
        "api_key": "sk-abcdefghijklmnopqrstuvwx", "max_running_requests": 1,
    }  # fmt: skip
    found = held(library, replica(server_info=info))
    resolved = {d.name: (d.first, d.second) for d in found.differences if d.section == "resolved"}
    assert resolved == {
        "--moe-runner-backend": ("humming", "triton"),
        "--speculative-algorithm": ("NEXTN", None),
    }


def test_variables_of_the_profile_and_of_the_engine(library: Library) -> None:
    environment = {
        "PATH": "/usr/bin", "HOME": "/root", "HUMMING_COMPILER": "nvrtc",
        "SGLANG_ENABLE_FP8_LM_HEAD": "0", "SGLANG_SECRET_KEY": "abcdefgh12345678",
    }  # fmt: skip
    found = held(library, replica(environment=environment))
    texts = {d.name: (d.first, d.second) for d in found.differences if d.section == "environment"}
    assert texts["SGLANG_ENABLE_FP8_LM_HEAD"] == ("1", "0")
    assert texts["SGLANG_SECRET_KEY"] == (None, "<redacted>")
    assert "PATH" not in texts
    assert "HUMMING_COMPILER" not in texts


def test_what_was_not_compared_is_said(library: Library) -> None:
    found = held(library, replica(), Replica(1, ServerState("ready")))
    assert found.differences == ()
    assert found.open == (
        "arguments: the launch command of the server is not known",
        "environment: that of the engine's process is not known",
        "resolved settings and memory: there is no /server_info",
        "replica 1: only replica 0 is compared",
    )


def test_a_recording_of_a_real_engine(library: Library) -> None:
    found = held_against(
        planned(library), read_evidence(recording("healthy")), "http://user:pass@host:1"
    )
    texts = shown(found)
    assert texts["arguments", "--context-length"] == ("262144", "1024")
    _, tokens = texts["memory", "token capacity"]
    assert isinstance(tokens, Figure)
    assert tokens.value == 4096
    assert "pass" not in found.second
