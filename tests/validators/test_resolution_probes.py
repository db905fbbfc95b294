"""The KV pool against the promised context, and the model that drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from replicas import judged, log, said

from configurator.content import Library
from configurator.evidence.model import ModelReport, Report
from configurator.loader import Validators
from configurator.resolve import resolve


@pytest.mark.parametrize(
    ("asked", "info", "expected", "says"),
    [
        (
            "", {"context_length": 163840, "max_total_num_tokens": 59862}, ("REFUTED", "built"),
            "holds 59,862 tokens; --context-length promises 163,840",
        ),
        (
            "", {"context_length": 4096, "max_total_num_tokens": 8192}, ("PROVEN", "built"),
            "2 times the 4,096",
        ),
        ("", {"context_length": 4096, "max_total_num_tokens": 4096}, ("PROVEN", "built"), "1 time"),
        (
            "9000", {"context_length": 4096, "max_total_num_tokens": 8192}, ("REFUTED", "built"),
            "the expectation promises 9,000",
        ),
        ("", {"context_length": 4096}, ("INCONCLUSIVE", None), "not known"),
        ("", {"context_length": 4096, "max_total_num_tokens": True}, ("INCONCLUSIVE", None), ""),
        (
            "", {"context_length": None, "max_total_num_tokens": 8192}, ("NOT_APPLICABLE", None),
            "no context length is promised",
        ),
        ("9000", None, ("INCONCLUSIVE", None), "not known"),
    ],
)  # fmt: skip
def test_context_and_kv_pool(
    validators: Validators, asked: str, info: dict[str, Any] | None,
    expected: tuple[str, str | None], says: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"context-fits-kv-pool={asked}", server_info=info)
    assert said(outcome) == expected
    assert says in outcome.summary


def test_what_the_profile_promises_comes_before_the_argument(
    validators: Validators, library: Library
) -> None:
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    workload = deployment.profile.workload.model_copy(update={"context": 100_000})
    profile = deployment.profile.model_copy(update={"workload": workload})
    outcome = judged(
        validators, "context-fits-kv-pool", deployment=replace(deployment, profile=profile),
        server_info={"context_length": 131_072, "max_total_num_tokens": 120_000},
    )  # fmt: skip
    assert said(outcome) == ("PROVEN", "built")
    assert "workload.context" in outcome.summary


def reported(path: str = "/models/mtp") -> tuple[Report, ...]:
    draft = ModelReport("ForCausalLMNextN", True, role="draft", path=path)
    return (Report("r.json", 0, "ready", ModelReport("ForCausalLM", False), (draft,)),)


SKIP = "Parameter layers.0.qkv_proj.weight not found in params_dict, skip loading"


@pytest.mark.parametrize(
    ("asked", "evidence", "expected", "says"),
    [
        ("", {"reports": reported()}, ("PROVEN", "built"), "ForCausalLMNextN of mtp"),
        ("mtp", {"reports": reported()}, ("PROVEN", "built"), "mtp"),
        ("other", {"reports": reported()}, ("REFUTED", "built"), "the draft is mtp, not other"),
        (
            "", {"server_info": {"speculative_algorithm": None}}, ("REFUTED", "resolved"),
            "does not speculate",
        ),
        (
            "", {"server_info": {"speculative_algorithm": "NGRAM"}}, ("NOT_APPLICABLE", None),
            "NGRAM drafts without a model",
        ),
        (
            "",
            {"server_info": {
                "speculative_algorithm": "EAGLE", "speculative_draft_model_path": "/models/mtp",
            }},
            ("INCONCLUSIVE", "resolved"), "an echo of the wish",
        ),
        ("", {"server_info": {"speculative_algorithm": "EAGLE"}}, ("INCONCLUSIVE", None), "draft"),
    ],
)  # fmt: skip
def test_the_model_that_drafts(
    validators: Validators, asked: str, evidence: dict[str, Any],
    expected: tuple[str, str | None], says: str,
) -> None:  # fmt: skip
    outcome = judged(validators, f"draft-model={asked}", **evidence)
    assert said(outcome) == expected
    assert says in outcome.summary


def test_weights_that_the_loader_passed_over_are_a_conflict(validators: Validators) -> None:
    outcome = judged(validators, "draft-model", reports=reported(), log=log("one", SKIP))
    assert said(outcome) == ("PROVEN", "built")
    assert outcome.conflicts == ("server.log:2 says that layers.0.qkv_proj.weight was not loaded",)
