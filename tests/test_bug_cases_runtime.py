"""Public bug reports as evidence of a running server: the verdict on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from replicas import judged, log, said, spoken

from configurator.evidence.model import Exchange, ModelReport, MoeLayer, Report
from configurator.loader import Validators


def decode(length: float, rate: float, running: int, graph: bool) -> str:
    return (
        f"Decode batch, #running-req: {running}, accept len: {length:.2f}, "
        f"accept rate: {rate:.2f}, cuda graph: {graph}"
    )


def built(target: str, draft: str | None = None) -> tuple[Report, ...]:
    """A report of one MoE layer in the target, and of one in the draft."""
    models = [
        ModelReport(name, is_draft, moe_layers=(MoeLayer(f"{name}.layers.0", method, runner),))
        for name, method, runner, is_draft in (
            ("model", "ModelOptNvFp4FusedMoEMethod", target, False),
            ("mtp", "UnquantizedFusedMoEMethod", draft, True),
        )
        if runner is not None
    ]
    return (Report("tp0.json", 0, "ready", models[0], tuple(models[1:])),)


@dataclass(frozen=True)
class Case:
    """One report: what is asked, what is seen, the verdict with its rung, and what it says."""

    name: str
    asked: str
    evidence: dict[str, Any]
    verdict: tuple[str, str | None]
    says: str
    """Part of the summary or of a conflict."""


CASES = (
    Case(
        "B06 graphs are off at the real concurrency",
        "decode-cuda-graphs=48",
        {"log": log(decode(3.1, 0.7, 1, True), decode(1.0, 0.11, 48, False))},
        ("REFUTED", "executed"),
        "batch size 48 ran eager",
    ),
    Case(
        "B06 an accept length of 1 beside a rate of 0.11 is stale and no evidence",
        "speculative-acceptance",
        {"log": log(*[decode(1.0, 0.11, 48, False)] * 3)},
        ("INCONCLUSIVE", None),
        "no evidence of speculation",
    ),
    Case(
        "B16 the echo of a runner, while Triton was built",
        "moe-runner=flashinfer_mxfp4",
        {"server_info": {"moe_runner_backend": "flashinfer_mxfp4"}, "reports": built("triton")},
        ("REFUTED", "built"),
        "/server_info says flashinfer_mxfp4, but what was built or ran is triton",
    ),
    Case(
        "B17 another attention backend than asked for",
        "requested-equals-resolved",
        {
            "requested": {"attention_backend": "fa3"},
            "server_info": {"attention_backend": "triton", "kv_cache_dtype": "fp8_e5m2"},
        },
        ("REFUTED", "resolved"),
        "attention_backend: asked fa3, resolved triton",
    ),
    Case(
        "B19 the draft's experts run elsewhere: said, and no refutation",
        "moe-runner=flashinfer_trtllm",
        {"reports": built("flashinfer_trtllm", "triton")},
        ("PROVEN", "built"),
        "1 of 1 MoE layers of the draft are built with triton",
    ),
    Case(
        "B22 the engine's own choice replaced the runner",
        "requested-equals-resolved",
        {
            "requested": {"moe_runner_backend": "flashinfer_mxfp4"},
            "server_info": {"moe_runner_backend": "triton_kernel"},
        },
        ("REFUTED", "resolved"),
        "moe_runner_backend: asked flashinfer_mxfp4, resolved triton_kernel",
    ),
    Case(
        "B30 status 200 with broken characters",
        "output-not-corrupted",
        {
            "exchanges": (
                Exchange(
                    "001.json",
                    "/generate",
                    200,
                    None,
                    {
                        "text": "\ufffd\ufffd\ufffd a \ufffd",
                        "output_ids": list(range(64)),
                        "meta_info": {"completion_tokens": 64},
                    },
                ),
            )
        },
        ("REFUTED", "executed"),
        "57% of the characters are U+FFFD",
    ),
    Case(
        "B74 the client's counter says 0 where the tokens say 4",
        "speculative-acceptance",
        {
            "server_info": {"speculative_algorithm": "NGRAM"},
            "exchanges": (
                spoken(
                    [64], width=12, completion_tokens=256, spec_accept_length=0,
                    spec_accept_rate=0.0,
                ),
            ),
        },
        ("PROVEN", "executed"),
        "0 drafts counted as accepted, but 256 tokens",
    ),
    Case(
        "B76 acceptance that was asked for",
        "no-simulated-acceptance",
        {"environment": {"SGLANG_SIMULATE_ACC_LEN": "3.5"}},
        ("REFUTED", "executed"),
        "SGLANG_SIMULATE_ACC_LEN is 3.5",
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_on_what_was_seen(case: Case, validators: Validators) -> None:
    outcome = judged(validators, case.asked, **case.evidence)
    assert said(outcome) == case.verdict
    assert case.says in " ".join([outcome.summary, *outcome.conflicts])
