"""Reports that failed in part, that contradict themselves, or that only repeat the wish."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from replicas import judged, log, said, spoken

from configurator.content import Library
from configurator.evidence.model import Report, Sample
from configurator.evidence.reports import parse_report
from configurator.loader import Validators
from configurator.resolve import resolve
from configurator.verdicts import Outcome

FIXTURES = Path(__file__).parents[1] / "fixtures" / "inengine"
ERROR = {"error": "KeyError: x"}


def raw(name: str = "nextn_good", **target: Any) -> dict[str, Any]:
    """A recorded report, with parts of its target replaced."""
    path = FIXTURES / name / "report-tp0-pp0-dp0.json"
    data: dict[str, Any] = json.loads(path.read_text())
    data["target"].update(target)
    return data


def ranks(*reports: dict[str, Any]) -> tuple[Report, ...]:
    """The reports as ranks 0, 1, ... of one server."""
    found = []
    for rank, data in enumerate(reports):
        data = copy.deepcopy(data)
        data["rank"].update(tp_rank=rank, tp_size=len(reports))
        report = parse_report(f"tp{rank}.json", data)
        assert report is not None
        found.append(report)
    return tuple(found)


def asked(validators: Validators, what: str, *reports: dict[str, Any], **evidence: Any) -> Outcome:
    return judged(validators, what, reports=ranks(*reports), **evidence)


def graphs(captured: list[int] | None, *, wanted: tuple[int, ...] = (1, 2, 4)) -> dict[str, Any]:
    return raw(graphs={"decode": {"class": "G", "batch_sizes": [*wanted], "captured": captured}})


EAGER, BROKEN = raw(graphs={"decode": None}), raw(graphs={"decode": ERROR})


@pytest.mark.parametrize(
    ("reports", "expected", "fact"),
    [
        ([graphs([1, 2, 4])], ("PROVEN", "captured"), "batch sizes 1, 2, 4"),
        ([graphs([])], ("REFUTED", "captured"), "batch size 1, 2; captured: none"),
        ([graphs(None)], ("INCONCLUSIVE", None), "neither metrics"),
        # Tokens of ragged verification: 4 of them are no batch of 4.
        ([graphs([4, 8, 16])], ("INCONCLUSIVE", None), "neither metrics"),
        ([graphs([1, 4])], ("REFUTED", "captured"), "batch size 2; captured: 1, 4"),
        ([graphs([1, 2, 4]), graphs([])], ("REFUTED", "captured"), "on rank 1; captured: none"),
        ([graphs([1, 2, 4]), EAGER], ("REFUTED", "captured"), "on rank 1"),
        ([graphs([1, 2, 4]), graphs([1, 4])], ("REFUTED", "captured"), "captured: 1, 4"),
        ([graphs([1, 2]), graphs(None)], ("INCONCLUSIVE", "captured"), "not known on rank 1"),
        ([graphs([1, 2]), BROKEN], ("INCONCLUSIVE", "captured"), "not known on rank 1"),
        ([EAGER], ("INCONCLUSIVE", None), "neither metrics"),
    ],
)
def test_captured_sizes_are_those_of_every_rank(
    validators: Validators, reports: list[dict[str, Any]], expected: tuple[str, str | None],
    fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, "decode-cuda-graphs=1,2", *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_before_the_capture_an_empty_table_means_nothing(validators: Validators) -> None:
    loaded = {**graphs([]), "stage": "loaded"}
    assert said(asked(validators, "decode-cuda-graphs=1", loaded)) == ("INCONCLUSIVE", None)


def passes(graph: float, eager: float) -> tuple[Sample, ...]:
    name = "sglang:cuda_graph_passes_total"
    pairs = (("decode_cuda_graph", graph), ("decode_none", eager))
    return tuple(Sample(name, {"mode": mode}, value) for mode, value in pairs)


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (passes(5, 0), (), ("PROVEN", "executed")),
        # A restart between the snapshots: 3 of 8 since then were eager.
        (passes(5, 3), passes(0, 100), ("INCONCLUSIVE", "executed")),
        (passes(5, -3), (), ("INCONCLUSIVE", None)),
        (passes(5, 0), passes(0, -3), ("INCONCLUSIVE", "executed")),
        (passes(float("inf"), 0), (), ("INCONCLUSIVE", None)),
        (passes(float("nan"), 0), (), ("INCONCLUSIVE", None)),
    ],
)
def test_counters_that_fell_or_are_no_counts_do_not_prove_graphs(
    validators: Validators, now: tuple[Sample, ...], before: tuple[Sample, ...],
    expected: tuple[str, str | None],
) -> None:  # fmt: skip
    outcome = judged(validators, "decode-cuda-graphs", metrics=now, metrics_startup=before)
    assert said(outcome) == expected


def with_head(data: dict[str, Any], **head: Any) -> dict[str, Any]:
    """The report with fields of the target's head replaced."""
    data = copy.deepcopy(data)
    data["target"]["lm_head"].update(head)
    return data


FP8 = raw("fp8_head_target_shared")
NO_HEAD = raw("fp8_head_target_shared", lm_head=ERROR)
PLAIN_METHOD = with_head(FP8, quant_method="UnquantizedEmbeddingMethod", quant_method_applied=None)


@pytest.mark.parametrize(
    ("reports", "expected", "fact"),
    [
        ([FP8], ("PROVEN", "built"), "Fp8HeadStub"),
        ([FP8, FP8], ("PROVEN", "built"), "Fp8HeadStub"),
        ([FP8, NO_HEAD], ("INCONCLUSIVE", "built"), "the part lm_head is missing on rank 1"),
        ([FP8, {**FP8, "target": None}], ("INCONCLUSIVE", "built"), "missing on rank 1"),
        ([PLAIN_METHOD], ("INCONCLUSIVE", "built"), "does not say whether a method"),
        ([with_head(PLAIN_METHOD, quant_method_applied=ERROR)], ("INCONCLUSIVE", "built"),
         "does not say whether a method"),
        ([with_head(FP8, quant_method=None, quant_method_applied=None)],
         ("INCONCLUSIVE", "built"), "does not say"),
        ([{**with_head(FP8, quant_method_applied=ERROR), "errors": [
            {"part": "target.lm_head.quant_method_applied", "error": "KeyError: x"}]}],
         ("INCONCLUSIVE", "built"), "does not say whether a method"),
        ([FP8, with_head(FP8, quant_method_applied=False)], ("REFUTED", "built"), "on rank 1"),
    ],
)  # fmt: skip
def test_the_head_of_every_rank_must_be_known(
    validators: Validators, reports: list[dict[str, Any]], expected: tuple[str, str | None],
    fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, "fp8-lm-head", *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_a_float32_switch_beside_a_proven_head_is_named(validators: Validators) -> None:
    head = with_head(FP8, quant_method_applied=None, use_fp32_lm_head=True)
    outcome = asked(validators, "fp8-lm-head", head)
    assert said(outcome) == ("PROVEN", "built")
    assert outcome.conflicts[0].startswith("use_fp32_lm_head is set")
    assert not asked(validators, "fp8-lm-head", FP8).conflicts


def drafting(*drafts: Any, **sharing: Any) -> dict[str, Any]:
    """A report with other drafts, or with its draft compared otherwise."""
    data = raw("nextn_good")
    if sharing:
        data["drafts"][0]["sharing_with_target"] = sharing
    if drafts:
        data["drafts"] = [data["drafts"][0] if draft is Ellipsis else draft for draft in drafts]
    return data


def methodless(*models: str, **sharing: Any) -> dict[str, Any]:
    data = drafting(**sharing)
    for model in models:
        part = data["target"] if model == "target" else data["drafts"][0]
        part["lm_head"]["quant_method"] = None
    return data


ALIASED = {"same_module": False, "weight": {"same_parameter": True}}
OTHER = {"same_parameter": False, "same_storage": False}
GOOD = drafting()


@pytest.mark.parametrize(
    ("reports", "answer", "fact"),
    [
        ([GOOD, GOOD], "PROVEN", "target's weight"),
        ([GOOD, drafting(ERROR)], "INCONCLUSIVE", "the part drafts is missing on rank 1"),
        ([GOOD, {**GOOD, "drafts": ERROR}], "INCONCLUSIVE", "missing on rank 1"),
        ([GOOD, {**GOOD, "drafts": []}], "INCONCLUSIVE", "missing on rank 1"),
        ([drafting(..., ERROR)], "INCONCLUSIVE", "the part drafts is missing"),
        ([{**GOOD, "drafts": ERROR}], "INCONCLUSIVE", "the part drafts is missing"),
        ([GOOD, {**GOOD, "target": None}], "INCONCLUSIVE", "missing on rank 1"),
        ([methodless("draft", **ALIASED)], "INCONCLUSIVE", "name the draft's method"),
        ([methodless("draft", "target", **ALIASED)], "INCONCLUSIVE", "method"),
        ([methodless("target", **ALIASED)], "INCONCLUSIVE", "name the target's method"),
        ([drafting(same_module=False, weight={"same_parameter": False})], "INCONCLUSIVE",
         "does not compare"),
        ([drafting(same_module=True, weight={**OTHER, "same_content": False})], "INCONCLUSIVE",
         "contradicts itself"),
        ([drafting(same_module=False, weight=OTHER)], "REFUTED", "a weight of its own"),
        ([drafting(same_module=False, weight={
            **OTHER, "same_content": True, "compared": "sample of 8 of 512 rows"})],
         "REFUTED", "a copy of the target's weight (sample of 8 of 512 rows)"),
        ([drafting(same_module=False, weight={
            **OTHER, "same_content": False, "compared": "dtype or shape differ"})],
         "REFUTED", "another dtype or shape, for instance of a reduced vocabulary"),
        ([drafting(same_module=False, weight={
            **OTHER, "same_content": False, "compared": "all"})],
         "REFUTED", "a weight of other content, not"),
    ],
)  # fmt: skip
def test_only_positive_facts_of_every_draft_decide_what_is_shared(
    validators: Validators, reports: list[dict[str, Any]], answer: str, fact: str
) -> None:
    outcome = asked(validators, "lm-head-shared", *reports)
    assert str(outcome.answer) == answer
    assert fact in outcome.summary


def of_one_weight(scale: dict[str, Any] | None) -> dict[str, Any]:
    """Two FP8 heads of one weight and one method, whose description lost the scales."""
    data = copy.deepcopy(FP8)
    target = data["target"]["lm_head"]
    for name in [name for name in target["tensors"] if name != "weight"]:
        del target["tensors"][name]
    said = {"same_module": False, "weight": {"same_parameter": True, "same_storage": True}}
    said |= {"weight_scale": scale} if scale else {}
    draft = {"role": "draft", "lm_head": copy.deepcopy(target), "sharing_with_target": said}
    return {**data, "drafts": [draft]}


def test_fp8_numbers_without_a_scale_are_half_of_a_head(validators: Validators) -> None:
    """That a scale is missing from a report says nothing of whether it is shared."""
    silent = asked(validators, "lm-head-shared", of_one_weight(None))
    assert (str(silent.answer), silent.summary) == (
        "INCONCLUSIVE", "the weight is shared; the report does not compare the scales",
    )  # fmt: skip
    compared = asked(validators, "lm-head-shared", of_one_weight({**OTHER, "values": ["1", "0"]}))
    assert (str(compared.answer), compared.summary) == (
        "REFUTED", "the weight is shared but not its scale: 1 against 0",
    )  # fmt: skip
    same = of_one_weight({"same_parameter": True})
    assert str(asked(validators, "lm-head-shared", same).answer) == "PROVEN"


def test_a_head_that_contradicts_itself_is_a_conflict(validators: Validators) -> None:
    data = drafting(same_module=True, weight={**OTHER, "same_content": False})
    assert "contradicts itself" in asked(validators, "lm-head-shared", data).conflicts[0]


def test_a_draft_beside_no_speculation_is_a_conflict(validators: Validators) -> None:
    off = {"speculative_algorithm": None}
    for what in ("lm-head-shared", "draft-model"):
        outcome = asked(validators, what, GOOD, server_info=off)
        assert outcome.answer == "INCONCLUSIVE", what
        assert "speculative_algorithm null" in outcome.conflicts[0]


def humming(**second: Any) -> dict[str, Any]:
    """Two layers on Humming; the second one with fields replaced."""
    data = raw("moe_humming")
    for layer in data["target"]["moe_layers"]:
        layer.update(
            layer_backend="MoeRunnerBackend.HUMMING", runner_backend="MoeRunnerBackend.HUMMING",
            runner_core="HummingRunnerCore",
        )  # fmt: skip
    layers = data["target"]["moe_layers"]
    layers[1] = second if "error" in second else {**layers[1], **second}
    return data


NO_LAYERS = {**humming(), "target": {**humming()["target"], "moe_layers": ERROR}}
NO_OBJECT: dict[str, Any] = {"runner_backend": None, "runner_core": None}


@pytest.mark.parametrize(
    ("reports", "expected", "fact"),
    [
        ([humming(), humming()], ("PROVEN", "built"), "2 of 2"),
        ([humming(**ERROR)], ("INCONCLUSIVE", "built"), "1 of 2 MoE layers"),
        ([humming(), NO_LAYERS], ("INCONCLUSIVE", "built"), "moe_layers is missing or not whole on "
         "rank 1"),
        ([humming(), {**humming(), "target": None}], ("INCONCLUSIVE", "built"), "on rank 1"),
        ([humming(), {**humming(), "target": ERROR}], ("INCONCLUSIVE", "built"), "on rank 1"),
        ([NO_LAYERS], ("INCONCLUSIVE", None), "moe_layers is missing"),
        ([humming(**NO_OBJECT)], ("INCONCLUSIVE", "built"), "no runner object, only the name humm"),
        ([humming(runner_core="TritonRunnerCore")], ("INCONCLUSIVE", "built"),
         "a runner named humming whose core is TritonRunnerCore"),
        ([humming(runner_backend="MoeRunnerBackend.TRITON", runner_core="TritonRunnerCore")],
         ("REFUTED", "built"), "1 of 2"),
    ],
)  # fmt: skip
def test_only_runner_objects_of_every_layer_prove_a_runner(
    validators: Validators, reports: list[dict[str, Any]], expected: tuple[str, str | None],
    fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, "moe-runner=humming", *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_names_without_an_object_are_only_resolved(validators: Validators) -> None:
    data = humming()
    for layer in data["target"]["moe_layers"]:
        layer.update(NO_OBJECT)
    assert said(asked(validators, "moe-runner=humming", data)) == ("INCONCLUSIVE", "resolved")
    assert said(asked(validators, "moe-runner=triton", data)) == ("REFUTED", "resolved")


def test_a_core_of_another_runner_everywhere_proves_neither(validators: Validators) -> None:
    data = humming()
    for layer in data["target"]["moe_layers"]:
        layer["runner_core"] = "TritonRunnerCore"
    for name in ("humming", "triton"):
        outcome = asked(validators, f"moe-runner={name}", data)
        assert outcome.answer == "INCONCLUSIVE"
        assert "whose core is TritonRunnerCore" in outcome.conflicts[0]


BF16_POOL = raw(kv_cache_dtype="torch.float8_e4m3fn")
FP8_POOL = raw(kv_pool={"dtype": "torch.float8_e4m3fn"})
NO_POOL = raw(kv_cache_dtype="fp8_e4m3", kv_pool=ERROR)
UNQUANTIZED = raw()
FP8_LINEAR = {"QKVParallelLinear:Fp8LinearMethod": 300, "RowParallelLinear:Unquantized": 100}
FEW = {"QKVParallelLinear:Fp8LinearMethod": 1, "RowParallelLinear:UnquantizedLinearMethod": 400}
UNKNOWN = {"QKVParallelLinear:CompressedTensorsLinearMethod": 4}
WRAPS = {"decode_attention": "triton", "attention_class": "HybridLinearAttnBackend"}
WRAPPED = raw(**WRAPS)
TRITON = raw(decode_attention="triton", attention_class="TritonAttnBackend")
OTHER_CLASS = raw(decode_attention="flashinfer", attention_class="TritonAttnBackend")


@pytest.mark.parametrize(
    ("what", "reports", "expected", "fact"),
    [
        ("kv-cache-dtype=bf16", [raw()], ("PROVEN", "built"), "bfloat16"),
        ("kv-cache-dtype=fp8_e4m3", [BF16_POOL], ("REFUTED", "built"), "is bfloat16, not fp8"),
        ("kv-cache-dtype=fp8_e4m3", [NO_POOL], ("INCONCLUSIVE", "resolved"), "the report says"),
        ("kv-cache-dtype=fp8_e4m3", [FP8_POOL, NO_POOL], ("INCONCLUSIVE", "built"),
         "the part kv_pool is missing on rank 1"),
        ("kv-cache-dtype=fp8_e4m3", [FP8_POOL], ("PROVEN", "built"), "float8_e4m3fn"),
        ("attention-backend=intel_amx", [raw()], ("PROVEN", "built"), "intel_amx"),
        ("attention-backend=flashinfer", [OTHER_CLASS], ("INCONCLUSIVE", "resolved"),
         "the runner says flashinfer, but its attention object is TritonAttnBackend"),
        ("attention-backend=triton", [OTHER_CLASS], ("INCONCLUSIVE", "resolved"), "but its att"),
        ("attention-backend=fa3", [OTHER_CLASS], ("REFUTED", "built"), "is flashinfer"),
        ("attention-backend=fa4", [raw(decode_attention="fa4",
                                       attention_class="FlashAttentionBackend")],
         ("PROVEN", "built"), "fa4"),
        ("attention-backend=triton", [WRAPPED], ("INCONCLUSIVE", "resolved"),
         "the class HybridLinearAttnBackend of the attention object, which wraps others"),
        ("attention-backend=triton", [raw(**WRAPS, decode_attention_class="TritonAttnBackend")],
         ("PROVEN", "built"), "(TritonAttnBackend)"),
        ("attention-backend=triton",
         [raw(**WRAPS, decode_attention_class="FlashInferAttnBackend")],
         ("INCONCLUSIVE", "resolved"), "but its attention object is FlashInferAttnBackend"),
        ("attention-backend=triton", [raw(decode_attention="triton", attention_class=None)],
         ("INCONCLUSIVE", "resolved"), "no class of the attention object"),
        ("attention-backend=triton", [raw(decode_attention="triton",
                                          attention_class="SomeFallbackBackend")],
         ("INCONCLUSIVE", "resolved"), "the class SomeFallbackBackend"),
        ("attention-backend=triton", [raw(decode_attention="triton",
                                          attention_class="TritonFallbackBackend")],
         ("INCONCLUSIVE", "resolved"), "the class TritonFallbackBackend"),
        ("attention-backend=triton", [TRITON, WRAPPED], ("INCONCLUSIVE", "resolved"), "on rank 1"),
        ("attention-backend=triton", [TRITON, TRITON], ("PROVEN", "built"), "triton"),
        ("attention-backend=triton", [TRITON, raw()], ("REFUTED", "built"),
         "is intel_amx (report), of class IntelAMXAttnBackend, not triton"),
        ("attention-backend=fa3", [raw(decode_attention="fa4",
                                       attention_class="FlashAttentionBackend")],
         ("REFUTED", "resolved"), "is fa4"),
        ("attention-backend=nsa", [raw(decode_attention="dsa",
                                       attention_class="DeepseekSparseAttnBackend")],
         ("PROVEN", "built"), "dsa"),
        ("attention-backend=triton", [raw(decode_attention=None, attention_class=None)],
         ("INCONCLUSIVE", None), "decode_attention is not known"),
        ("attention-backend=intel_amx", [raw(), raw(decode_attention=None)],
         ("INCONCLUSIVE", "built"), "decode_attention is not known on rank 1"),
        ("fp8-weights", [raw(quant_methods=FP8_LINEAR)], ("PROVEN", "built"),
         "300 of 400 linear layers are FP8"),
        ("fp8-weights", [raw(quant_methods=FEW)], ("INCONCLUSIVE", "built"),
         "1 of 401 linear layers are FP8"),
        ("fp8-weights", [raw(quant_methods=FP8_LINEAR), UNQUANTIZED], ("REFUTED", "built"),
         "0 of 8 linear layers are FP8 (UnquantizedLinearMethod) on rank 1"),
        ("fp8-weights", [raw(quant_methods=FP8_LINEAR), raw(quant_methods=ERROR)],
         ("INCONCLUSIVE", "built"), "quant_methods is missing on rank 1"),
        ("fp8-weights", [raw(quant_methods=UNKNOWN)], ("INCONCLUSIVE", "built"), "0 of 4"),
    ],
)  # fmt: skip
def test_precision_is_proven_by_what_every_rank_was_built_with(
    validators: Validators, what: str, reports: list[dict[str, Any]],
    expected: tuple[str, str | None], fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, what, *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


def test_a_pool_unlike_what_was_resolved_is_a_conflict(validators: Validators) -> None:
    outcome = asked(validators, "kv-cache-dtype=fp8_e4m3", FP8_POOL)
    assert outcome.conflicts == (
        "report says kv_cache_dtype bfloat16, but float8_e4m3fn is allocated",
    )


def test_a_backend_that_was_asked_for_is_said_to_be(validators: Validators) -> None:
    info = {"attention_backend": "triton"}
    outcome = judged(
        validators, "attention-backend=triton", server_info=info, requested=info
    )  # fmt: skip
    assert said(outcome) == ("PROVEN", "resolved")
    assert outcome.summary.endswith("and the launch command asks for it")


def test_a_report_that_does_not_say_leaves_the_resolved_name_open(validators: Validators) -> None:
    info = {"attention_backend": "triton"}
    silent = raw(decode_attention=None, attention_class=None)
    outcome = asked(validators, "attention-backend=triton", silent, server_info=info)
    assert said(outcome) == ("INCONCLUSIVE", "resolved")
    other = asked(validators, "attention-backend=fa3", silent, server_info=info)
    assert said(other) == ("REFUTED", "resolved")
    at_odds = asked(
        validators, "attention-backend=triton", TRITON, server_info={"attention_backend": "fa3"}
    )
    assert said(at_odds) == ("INCONCLUSIVE", "resolved")
    assert at_odds.conflicts == ("/server_info says fa3, a report triton",)


def test_a_draft_is_known_by_its_path_on_every_rank(validators: Validators) -> None:
    nameless = drafting()
    nameless["drafts"][0]["model_path"] = ""
    for reports, fact in (
        ([nameless], "no model_path, so nothing shows that it is glm4moe-mtp-good"),
        ([GOOD, drafting(ERROR)], "the part drafts is missing on rank 1"),
        ([GOOD, {**GOOD, "drafts": []}], "the part drafts is missing on rank 1"),
        ([drafting(..., ERROR)], "the part drafts is missing"),
    ):
        outcome = asked(validators, "draft-model=glm4moe-mtp-good", *reports)
        assert said(outcome) == ("INCONCLUSIVE", "built"), fact
        assert fact in outcome.summary
    good = asked(validators, "draft-model=glm4moe-mtp-good", GOOD, GOOD)
    assert said(good) == ("PROVEN", "built")
    assert said(asked(validators, "draft-model", nameless)) == ("PROVEN", "built")


OFF = {"speculative_algorithm": None}
EAGLE = {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4}
COUNTING = ("draft-used", "draft-tokens=4", "speculative-acceptance")


@pytest.mark.parametrize("what", COUNTING)
def test_a_reported_draft_contradicts_no_speculation(validators: Validators, what: str) -> None:
    outcome = asked(validators, what, GOOD, server_info=OFF)
    assert outcome.answer == "INCONCLUSIVE"
    assert outcome.conflicts == (
        "/server_info says speculative_algorithm null, but a draft is reported",
    )
    counted = judged(validators, what, server_info=OFF, exchanges=(spoken([0, 0, 0, 100]),))
    assert said(counted) == ("PROVEN", "executed")
    assert "speculative_algorithm null" in counted.conflicts[0]


@pytest.mark.parametrize("what", COUNTING)
@pytest.mark.parametrize(
    "meta",
    [
        {"spec_num_correct_drafts": float("inf")},
        {"spec_num_correct_drafts": -1},
        {"spec_verify_ct": 25.5},
        {"spec_verify_ct": 10**30},
        {"spec_verify_ct": float("nan")},
    ],
)
def test_counters_that_are_no_counts_prove_nothing(
    validators: Validators, what: str, meta: dict[str, Any]
) -> None:
    answer = spoken([0, 0, 0, 100], **meta)
    outcome = judged(validators, what, server_info=EAGLE, exchanges=(answer,))
    assert outcome.answer == "INCONCLUSIVE"


@pytest.mark.parametrize("what", COUNTING)
def test_refused_requests_count_nothing(validators: Validators, what: str) -> None:
    answer = spoken([0, 0, 0, 100])
    for status, expected in ((200, "PROVEN"), (400, "INCONCLUSIVE"), (500, "INCONCLUSIVE")):
        exchange = dataclasses.replace(answer, status=status)
        outcome = judged(validators, what, server_info=EAGLE, exchanges=(exchange,))
        assert str(outcome.answer) == expected, status


def test_an_average_of_two_widths_is_not_one_width(validators: Validators) -> None:
    three, five = spoken([0, 0, 25], width=3), spoken([0, 0, 0, 0, 25], width=5)
    outcome = judged(validators, "draft-tokens=4", server_info=EAGLE, exchanges=(three, five))
    assert said(outcome) == ("INCONCLUSIVE", "executed")
    assert "3.00 to 5.00 tokens, 4.00 on average" in outcome.summary
    alike = judged(validators, "draft-tokens=4", server_info=EAGLE, exchanges=(five, five))
    assert said(alike) == ("REFUTED", "executed")


def mega(
    covered: list[int] | None, graphs: tuple[int, ...] | None = (1, 2, 4), **kernel: Any
) -> dict[str, Any]:
    seen = None if graphs is None else [*graphs]
    built = {"class": "MegaKernel", "widths": [1, 2, 4], "graphs": seen, "graphs_covered": covered}
    return raw(megakernel={**built, **kernel})


def unfinished(graphs: tuple[int, ...] | None) -> dict[str, Any]:
    """A rank on which not every graph went through the installed forward."""
    return mega(None if graphs is None else [*graphs], graphs, capture_checked=False)


TAKEN_AWAY = mega(None, None, forward_installed=False)
COVERS_NO_STEP = mega(None, None, forward_installed=False, widths=[])
CHECKED = mega([1, 2, 4], capture_checked=True, forward_installed=True)


@pytest.mark.parametrize(
    ("reports", "expected", "fact"),
    [
        ([mega([1, 2, 4])], ("PROVEN", "captured"), "batch sizes 1, 2, 4 run it; the draft keeps"),
        ([mega([1, 2])], ("PROVEN", "captured"), "2 of 3; 4 run the ordinary forward"),
        ([CHECKED, CHECKED], ("PROVEN", "captured"), "batch sizes 1, 2, 4 run it; the draft keeps"),
        ([mega([1, 2, 4]), mega([1])], ("INCONCLUSIVE", "captured"), "1, 2, 4 on rank 0; 1 on ran"),
        ([unfinished((1, 2))], ("INCONCLUSIVE", "built"), "of batch sizes 1, 2 alone a graph went"),
        ([unfinished(())], ("INCONCLUSIVE", "built"), "no captured graph went through it"),
        ([unfinished(None)], ("INCONCLUSIVE", "built"), "no captured graph went through it"),
        ([CHECKED, unfinished((1,))], ("INCONCLUSIVE", "built"), "went through it on rank 1"),
        ([TAKEN_AWAY], ("REFUTED", "built"), "it was taken away again"),
        ([CHECKED, TAKEN_AWAY], ("REFUTED", "built"), "taken away again on rank 1"),
        ([COVERS_NO_STEP], ("REFUTED", "built"), "covers no step"),
        ([mega([])], ("REFUTED", "captured"), "no size is covered; covered: none"),
        ([mega([1]), mega([])], ("REFUTED", "captured"), "on rank 1"),
        ([mega(None)], ("INCONCLUSIVE", "built"), "which graphs run it is not known"),
        ([mega([1]), raw()], ("INCONCLUSIVE", "built"), "not known on rank 1"),
        ([mega([1]), raw(megakernel=ERROR)], ("INCONCLUSIVE", "built"), "not known on rank 1"),
        ([raw()], ("INCONCLUSIVE", None), "no log line"),
    ],
)
def test_the_report_says_which_graphs_run_the_megakernel(
    validators: Validators, reports: list[dict[str, Any]], expected: tuple[str, str | None],
    fact: str,
) -> None:  # fmt: skip
    outcome = asked(validators, "nvidia-megakernel", *reports)
    assert said(outcome) == expected
    assert fact in outcome.summary


IDLE = {"class": "Built", "widths": [], "forward_installed": False, "draft_sampler": False}


STAMP = "[2026-01-01 00:00:07 TP0]"
OWN, NO_STEP = "; the draft keeps its own forward", "; the draft's megakernel covers no step"


@pytest.mark.parametrize(
    ("kernel", "line", "note"),
    [
        (None, "", OWN),
        (IDLE, "", NO_STEP),
        # The log speaks of the draft last, and of the target no longer: it was cut off.
        (IDLE, f"{STAMP} NVIDIA megakernel: d: no step and no draft sampler", NO_STEP),
        ({**IDLE, "draft_sampler": True}, "", ""),
        ({**IDLE, "forward_installed": True, "widths": [1]}, "", ""),
        ({"class": "Built"}, "", ""),
    ],
)  # fmt: skip
def test_a_draft_without_use_of_its_megakernel_is_named(
    validators: Validators, kernel: dict[str, Any] | None, line: str, note: str
) -> None:
    report = copy.deepcopy(CHECKED)
    for draft in report["drafts"]:
        draft["megakernel"] = kernel
    outcome = asked(validators, "nvidia-megakernel", report, log=log(line))
    assert said(outcome) == ("PROVEN", "captured")
    assert outcome.summary == f"the decode graphs of batch sizes 1, 2, 4 run it{note}"


def test_a_check_that_has_not_completed_refutes_no_concurrency(
    validators: Validators, library: Library
) -> None:
    deployment = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    needed = deployment.profile.workload.concurrency
    whole = asked(validators, "nvidia-megakernel", mega([needed + 1]), deployment=deployment)
    assert said(whole) == ("REFUTED", "captured")
    part = mega([needed + 1], capture_checked=False)
    outcome = asked(validators, "nvidia-megakernel", part, deployment=deployment)
    assert said(outcome) == ("INCONCLUSIVE", "built")


def test_a_pipeline_stage_without_a_head_lacks_nothing(validators: Validators) -> None:
    first = raw("fp8_head_target_shared", lm_head=None)
    last = copy.deepcopy(FP8)
    for stage, data in enumerate((first, last)):
        data["rank"].update(tp_rank=0, pp_rank=stage, pp_size=2)
    reports = tuple(filter(None, (parse_report("a", first), parse_report("b", last))))
    assert said(judged(validators, "fp8-lm-head", reports=reports)) == ("PROVEN", "built")
    first["target"]["lm_head"] = ERROR
    first["errors"] = [{"part": "target.lm_head", **ERROR}]
    reports = tuple(filter(None, (parse_report("a", first), parse_report("b", last))))
    assert said(judged(validators, "fp8-lm-head", reports=reports)) == ("INCONCLUSIVE", "built")
