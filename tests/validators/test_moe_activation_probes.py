"""The numbers of the experts' inputs: from names of kernels and from the report alone."""

from __future__ import annotations

from typing import Any

import pytest
from replicas import judged, said

from configurator.evidence.model import ModelReport, MoeLayer, Report
from configurator.evidence.report_models import parse_model
from configurator.evidence.trace_model import Kernel, Ran, Trace, TraceStep
from configurator.loader import Validators

SHAPES = "Shape<0u, 512u, 512u>, Shape<8u, 128u, 256u>, Shape<8u, 32u, 64u>, Shape<0u, 0u, 0u>"
W4 = "FloatingPointType<4u, 2u, 1u>, FloatingPointType<16u, 8u, 7u>"
NUMBERS = {
    "bf16": "FloatingPointType<16u, 8u, 7u>", "fp16": "FloatingPointType<16u, 5u, 10u>",
    "fp8": "FloatingPointType<8u, 4u, 3u>", "int8": "IntegerType<true, 8>",
}  # fmt: skip


def humming(numbers: str) -> str:
    return f"void humming<MmaOpClass, {SHAPES}, {NUMBERS[numbers]}, {W4}, LayerConfig>(int*, bool)"


def traces(*names: str, kind: str = "DECODE") -> tuple[Trace, ...]:
    kernels = tuple(Kernel(name, 8, 10.0) for name in names)
    ran = tuple(Ran(name, 0.0, 1.0, 7, by_graph=True) for name in names)
    return (Trace("t.json.gz", kernels, (TraceStep(kind, 8, 5, 1, 52, ran, by_name=kernels),)),)


def reports(*ranks: tuple[str, ...], **target: Any) -> tuple[Report, ...]:
    """Of each rank the numbers of its layers."""
    made = []
    for rank, numbers in enumerate(ranks):
        layers = tuple(
            MoeLayer(f"layers.{at}.mlp", "HummingMoEMethod", "humming", activations=one)
            for at, one in enumerate(numbers)
        )
        model = ModelReport("M", False, moe_layers=layers, **target)
        size = len(ranks)
        ids = {"tp_rank": rank, "tp_size": size}
        made.append(Report(f"tp{rank}.json", rank, "ready", model, ranks=ids))
    return tuple(made)


@pytest.mark.parametrize("numbers", list(NUMBERS))
def test_a_kernel_tells_what_it_takes(validators: Validators, numbers: str) -> None:
    seen = traces(humming(numbers), "moe_align_block_size_kernel")
    assert said(judged(validators, "moe-activations", traces=seen)) == ("PROVEN", "executed")
    mine = judged(validators, f"moe-activations={numbers}", traces=seen)
    assert said(mine) == ("PROVEN", "executed")
    assert mine.summary == f"kernels of moe-humming in DECODE steps take {numbers}"
    other = "fp8" if numbers != "fp8" else "bf16"
    wrong = judged(validators, f"moe-activations={other}", traces=seen)
    assert said(wrong) == ("REFUTED", "executed")
    assert wrong.summary.startswith(f"not {other}: kernels of moe-humming in DECODE steps take ")


def test_steps_of_drafts_and_kernels_that_do_not_tell_say_nothing(validators: Validators) -> None:
    for seen in (
        traces(humming("fp8"), kind="draft"),
        traces("fused_moe_kernel"),
        traces("humming_unknown<1>"),
        (),
    ):
        found = judged(validators, "moe-activations=fp8", traces=seen)
        assert said(found) == ("INCONCLUSIVE", None)
        assert found.summary == "nothing shows what numbers the experts multiply"


def test_deep_gemm_tells_it_too(validators: Validators) -> None:
    seen = traces("void deep_gemm::sm90_fp8_gemm_impl<(deep_gemm::GemmType)1>")
    assert said(judged(validators, "moe-activations=fp8", traces=seen)) == ("PROVEN", "executed")


def test_layers_that_all_tell_are_proof_of_what_was_built(validators: Validators) -> None:
    both = reports(("fp8", "fp8"), ("fp8", "fp8"))
    found = judged(validators, "moe-activations=fp8", reports=both)
    assert said(found) == ("PROVEN", "built")
    assert found.summary == "2 of 2 MoE layers take fp8"
    wrong = judged(validators, "moe-activations=bf16", reports=both)
    assert said(wrong) == ("REFUTED", "built")
    assert wrong.summary == "not bf16: 2 of 2 MoE layers take fp8"


@pytest.mark.parametrize(
    ("layers", "summary"),
    [
        (
            (("fp8", "fp8"), ("fp8", "")),
            "2 of 2 MoE layers take fp8 on rank 0; 1 of 2 MoE layers take fp8 on rank 1; a MoE "
            "layer does not tell on rank 1",
        ),
        (
            (("fp8", "bf16"), ("fp8", "bf16")),
            "1 of 2 MoE layers take fp8; 1 of 2 MoE layers take bf16",
        ),
    ],
)
def test_layers_that_are_silent_or_differ_leave_it_open(
    validators: Validators, layers: tuple[tuple[str, ...], ...], summary: str
) -> None:
    found = judged(validators, "moe-activations", reports=reports(*layers))
    assert said(found) == ("INCONCLUSIVE", "built")
    assert found.summary == summary


def test_one_layer_with_others_refutes_those_that_are_named(validators: Validators) -> None:
    mixed = reports(("fp8", "bf16"))
    found = judged(validators, "moe-activations=fp8", reports=mixed)
    assert said(found) == ("REFUTED", "built")
    assert found.summary == "not fp8: 1 of 2 MoE layers take bf16"


def test_what_ran_and_what_was_built_may_not_differ(validators: Validators) -> None:
    evidence: dict[str, Any] = {
        "traces": traces(humming("bf16")), "reports": reports(("fp8",)),
    }  # fmt: skip
    found = judged(validators, "moe-activations", **evidence)
    assert said(found) == ("INCONCLUSIVE", "built")
    assert said(judged(validators, "moe-activations=bf16", **evidence)) == ("REFUTED", "built")
    assert said(judged(validators, "moe-activations=fp8", **evidence)) == ("REFUTED", "executed")


def test_kernels_that_differ_ran_all_the_same(validators: Validators) -> None:
    both = traces(humming("bf16"), humming("fp8"))
    assert said(judged(validators, "moe-activations", traces=both)) == ("INCONCLUSIVE", "executed")


def test_numbers_that_there_are_not_and_models_without_experts(validators: Validators) -> None:
    found = judged(validators, "moe-activations=fp80", traces=traces(humming("fp8")))
    assert (said(found)[0], found.remedy) == ("INCONCLUSIVE", "did you mean 'fp8'?")
    dense = reports((), linear_methods={"QKVParallelLinear:UnquantizedLinearMethod": 1})
    assert said(judged(validators, "moe-activations", reports=dense))[0] == "NOT_APPLICABLE"
    # Experts of a class of their own are no MoE layers of the engine, and are experts.
    own = reports((), linear_methods={"PackedExperts:UnquantizedLinearMethod": 1})
    assert said(judged(validators, "moe-activations", reports=own))[0] == "INCONCLUSIVE"


def test_the_variable_alone_proves_nothing(validators: Validators) -> None:
    env = {"SGLANG_HUMMING_INPUT_QUANT_CONFIG": '{"dtype": "float8e4m3"}'}
    found = judged(validators, "moe-activations=fp8", environment=env)
    assert said(found) == ("INCONCLUSIVE", None)


@pytest.mark.parametrize(
    ("told", "numbers"),
    [
        ("bfloat16", "bf16"), ("float16", "fp16"), ("float8e4m3", "fp8"), ("int8", "int8"),
        ("float6e3m2", "float6e3m2"), (None, ""),
    ],
)  # fmt: skip
def test_names_in_a_report(told: str | None, numbers: str) -> None:
    layer = {"name": "mlp", "runner_backend": "MoeRunnerBackend.HUMMING", "activations": told}
    model = parse_model({"moe_layers": [layer]}, is_draft=False)
    assert model is not None
    assert [one.activations for one in model.moe_layers] == [numbers]
