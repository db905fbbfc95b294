"""In-engine reports of every shape, and which of several count."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from configurator.evidence.model import Graphs, Hooks, Megakernel, Report, Sharing
from configurator.evidence.read import read_evidence
from configurator.evidence.reports import latest, parse_hooks, parse_report, reports_in

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def report(file: str, stage: str, pipeline: int) -> Report:
    raw = {"rank": {"tp_rank": 0, "pp_rank": pipeline, "dp_rank": None}}
    return Report(file, 0, stage, None, raw=raw)


def test_every_pipeline_stage_keeps_its_report() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 1)])
    assert [one.file for one in kept] == ["a.json", "b.json"]


def test_of_one_rank_the_later_report_counts() -> None:
    kept = latest([report("a.json", "ready", 0), report("b.json", "ready", 0)])
    assert [one.file for one in kept] == ["b.json"]


def test_the_early_report_goes_whatever_the_order_and_the_rank() -> None:
    early = Report("plugin/head-early.json", 0, "after_head_sharing", None)
    ready = Report("plugin/head-ready.json", 0, "ready", None)
    assert latest([ready, early]) == (ready,)
    unranked = [
        Report("plugin/head-early.json", None, "after_head_sharing", None),
        Report("plugin/head-ready.json", None, "ready", None),
        Report("plugin/other.json", None, "ready", None),
    ]
    assert latest(unranked) == tuple(unranked[1:])


def tensor(dtype: str, place: str, value: str | None = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [8, 4], "nbytes": 32, "storage": place, "value": value}


def lm_head(**tensors: dict[str, Any]) -> dict[str, Any]:
    return {"module": "ParallelLMHead", "quant_method": "Fp8Head", "tensors": tensors}


def sharing(
    ours: dict[str, Any], theirs: dict[str, Any], said: dict[str, Any] | None = None
) -> Sharing:
    drafts = [{"lm_head": theirs, "sharing_with_target": said or {}}]
    parsed = parse_report("a.json", {"target": {"lm_head": ours}, "drafts": drafts})
    assert parsed is not None
    assert parsed.drafts[0].sharing is not None
    return parsed.drafts[0].sharing


WEIGHT = tensor("torch.float8_e4m3fn", "S0")


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1")), True),
        (lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S9")), False),
        (lm_head(weight=WEIGHT), False),
        ({}, None),
        ({"error": "KeyError"}, None),
        ({"tensors": {"error": "KeyError"}}, None),
        (lm_head(weight=WEIGHT, weight_scale={"error": "KeyError"}), None),
    ],
)
def test_scales_are_the_same_where_they_are_stored_in_one_place(
    theirs: dict[str, Any], same: bool | None
) -> None:
    ours = lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1"))
    assert sharing(ours, theirs).same_scales is same


def test_a_stated_sharing_counts_before_places() -> None:
    ours = lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1", "0.5"))
    said = {
        "same_module": False,
        "weight": {"same_parameter": False, "same_storage": True},
        "weight_scale": {"same_parameter": False, "same_storage": False, "values": ["0.5", "0.0"]},
    }
    assert sharing(ours, ours, said) == Sharing(False, True, None, False, ("0.5", "0.0"))
    assert sharing(ours, ours, {"same_module": True}).same_scales is True


def test_a_comparison_counts_though_a_description_lost_the_scale() -> None:
    scale = tensor("float32", "S1", "0.5")
    said = {
        "same_module": False,
        "weight": {"same_parameter": True, "same_storage": True},
        "weight_scale": {"same_parameter": False, "same_storage": False, "values": ["0.5", "0.0"]},
    }
    found = sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT, weight_scale=scale), said)
    assert (found.same_scales, found.scale_values) == (False, ("0.5", "0.0"))
    del said["weight_scale"]
    assert sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT), said).same_scales is None


@pytest.mark.parametrize(
    ("scale", "same"),
    [
        ({"only_in": "target"}, False),
        ({"error": "KeyError"}, None),
        (None, None),
        ({"same_parameter": True}, True),
        ({"same_parameter": False, "same_storage": False}, False),
        ({"same_parameter": False}, None),
    ],
)
def test_a_scale_that_was_not_compared_is_not_known(
    scale: dict[str, Any] | None, same: bool | None
) -> None:
    ours = lm_head(weight=WEIGHT, weight_scale=tensor("float32", "S1"))
    said: dict[str, Any] = {"same_module": False, "weight": {"same_parameter": True}}
    if scale is not None:
        said["weight_scale"] = scale
    found = sharing(ours, lm_head(weight=WEIGHT), said)
    assert (found.same_weight, found.same_scales) == (True, same)


@pytest.mark.parametrize(
    "said",
    [
        {"error": "KeyError"},
        {"same_module": None, "weight": {"same_parameter": False}},
        {"weight": {"error": "KeyError"}},
        {"weight": {"only_in": "target"}},
        {"same_module": "no", "weight": {"same_storage": 0}},
    ],
)
def test_a_sharing_that_was_not_compared_is_not_known(said: dict[str, Any]) -> None:
    found = sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT), said)
    assert (found.same_module, found.same_weight, found.kind) == (None, None, "unknown")


@pytest.mark.parametrize(
    ("weight", "theirs", "fact"),
    [
        ({"same_storage": False}, WEIGHT, "same_storage is false"),
        ({"same_content": False}, WEIGHT, "same_content is false"),
        ({}, WEIGHT | {"dtype": "torch.float32"}, "dtype torch.float8_e4m3fn and torch.float32"),
        ({}, WEIGHT | {"storage": "S7"}, "storage S0 and S7"),
    ],
)
def test_one_module_with_two_weights_is_a_conflict(
    weight: dict[str, Any], theirs: dict[str, Any], fact: str
) -> None:
    said = {"same_module": True, "weight": weight}
    found = sharing(lm_head(weight=WEIGHT), lm_head(weight=theirs), said)
    assert fact in found.conflict
    assert (found.same_module, found.same_weight, found.kind) == (None, None, "unknown")
    agreed = sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT), {"same_module": True})
    assert (agreed.conflict, agreed.kind) == ("", "module")


@pytest.mark.parametrize("schema", ["configurator/report/2", "configurator/report/10"])
def test_a_report_of_a_later_schema_is_no_report(schema: str) -> None:
    data = {"schema": schema, "target": {"model_class": "A"}}
    assert parse_report("a.json", data) is None


@pytest.mark.parametrize(
    ("environment", "simulated", "known"),
    [
        ({"simulated_acceptance": {}, "unregistered": {}}, {}, (True, True)),
        ({"simulated_acceptance": ["A=3", "B"]}, {"A": "3", "B": "<set>"}, (True, False)),
        ({"simulated_acceptance": {"A": {"x": 1}}, "unregistered": 3}, {}, (False, False)),
        ({"simulated_acceptance": "A=3", "unregistered": []}, {}, (False, True)),
        ({"error": "KeyError", "simulated_acceptance": {}}, {}, (False, False)),
        ({"simulated_acceptance": {"error": "KeyError"}}, {"error": "KeyError"}, (False, False)),
        (None, {}, (False, False)),
    ],
)
def test_an_environment_that_is_not_whole_is_not_known(
    environment: Any, simulated: dict[str, str], known: tuple[bool, bool]
) -> None:
    data = {"schema": "configurator/report/1", "target": None, "environment": environment}
    found = parse_report("a.json", data)
    assert found is not None
    assert found.simulated_acceptance == simulated
    assert (found.knows_simulation, found.knows_undeclared) == known


def test_numbers_beyond_all_counts_are_none() -> None:
    data = {"schema": "configurator/report/1", "target": None, "build_ms": 10**400,
            "rank": {"tp_rank": 10**400, "tp_size": 2}}  # fmt: skip
    found = parse_report("a.json", data)
    assert found is not None
    assert (found.build_ms, found.rank, found.ranks) == (None, None, {"tp_size": 2})


def test_a_head_without_a_scale_has_no_scales_to_share() -> None:
    assert sharing(lm_head(weight=WEIGHT), lm_head(weight=WEIGHT)).same_scales is None


def test_what_is_no_report() -> None:
    assert parse_report("a.json", {"mode": "bf16", "target": "x"}) is None
    assert parse_report("a.json", [1]) is None


def test_the_report_of_a_whole_model() -> None:
    path = RECORDINGS / "cpu" / "moe_triton" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert parsed.target is not None
    assert parsed.target.head is not None
    assert (parsed.stage, parsed.drafts, parsed.simulated_acceptance) == ("ready", (), {})
    assert parsed.target.head.dtype == "bfloat16"
    assert {layer.runner for layer in parsed.target.moe_layers} == {"triton"}


def test_a_simulated_acceptance_and_undeclared_variables_are_kept() -> None:
    path = RECORDINGS / "cpu" / "sim_acc_nextn_bad" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert parsed.simulated_acceptance == {"SGLANG_SIMULATE_ACC_LEN": "3"}
    path = RECORDINGS / "cpu" / "unknown_env" / "probe-tp0-pp0-dp0.json"
    parsed = parse_report(path.name, json.loads(path.read_text()))
    assert parsed is not None
    assert "SGLANG_ENABLE_FP8_LM_HEAD" in parsed.env_undeclared


@pytest.mark.parametrize(
    ("case", "stage", "method", "sharing"),
    [
        (
            "fp8_target_only",
            "after_head_sharing",
            "UnquantizedEmbeddingMethod",
            Sharing(False, True, None, False),
        ),
        (
            "fp8_both_scale_own",
            "ready",
            "Fp8DynamicHeadMethod",
            Sharing(False, True, None, False, ("0.0013340541627258062", "0.0")),
        ),
        (
            "fp8_module_shared",
            "ready",
            "Fp8DynamicHeadMethod",
            Sharing(True, True, None, True, ("0.0013340541627258062",) * 2),
        ),
        ("bf16_nextn", "ready", "UnquantizedEmbeddingMethod", Sharing(False, True)),
    ],
)
def test_reports_of_real_heads(case: str, stage: str, method: str, sharing: Sharing) -> None:
    (one,) = read_evidence(RECORDINGS / "fp8head" / case).replicas[0].reports
    (draft,) = one.drafts
    assert (one.rank, one.stage) == (0, stage)
    assert draft.head is not None
    assert draft.head.quant_method == method
    assert draft.sharing == sharing


def sample(**changes: Any) -> dict[str, Any]:
    """A report of the documented schema, as the probe writes it."""
    place = {"dtype": "float8_e4m3fn", "shape": [8, 4], "nbytes": 32, "storage": "S0"}
    scale = {"dtype": "float32", "shape": [], "nbytes": 4, "storage": "S1", "value": "0.5"}
    head = {
        "path": "lm_head", "module": "ParallelLMHead", "quant_method": "Fp8Head",
        "quant_method_applied": True, "use_fp32_lm_head": False, "path_taken": "quant_method.apply",
        "tied_to_embedding": False, "tensors": {"weight": place, "weight_scale": scale},
    }  # fmt: skip
    graphs = {"class": "DecodeCudaGraphRunner", "batch_sizes": [1, 2, 4], "captured": [1, 2]}
    layer = {
        "name": "model.layers.1.mlp", "layer_class": "FusedMoE", "quant_method": "Fp8MoEMethod",
        "layer_backend": "MoeRunnerBackend.HUMMING", "runner_backend": "MoeRunnerBackend.TRITON",
        "runner_core": "TritonRunnerCore", "fused_func": None, "w13_dtype": "torch.bfloat16",
    }  # fmt: skip
    model = {
        "model_class": "Glm4MoeForCausalLM", "model_path": "tiny", "is_draft": False,
        "quantization": "fp8", "dtype": "torch.bfloat16", "kv_cache_dtype": "torch.bfloat16",
        "kv_pool": {"class": "MHATokenToKVPool", "dtype": "torch.float8_e4m3fn"},
        "prefill_attention": "fa3", "decode_attention": "flashinfer",
        "attention_class": "HybridAttnBackend", "moe_layers": [layer],
        "quant_methods": {"RowParallelLinear:Fp8LinearMethod": 4}, "lm_head": head,
        "graphs": {"decode": graphs}, "megakernel": None,
        "weight_bytes": {"embedding": 1, "head": 32, "experts": 2, "other": 3},
    }  # fmt: skip
    said = {
        "same_module": False, "same_quant_method": True,
        "weight": {"same_parameter": True, "same_storage": True},
        "weight_scale": {"same_parameter": False, "same_storage": False, "values": ["0.5", "0.1"]},
    }  # fmt: skip
    draft = {
        **model, "role": "draft", "is_draft": True, "sharing_with_target": said,
        "graphs": {"decode": None, "extend": graphs}, "draft_attention": {"decode": "FA3"},
    }  # fmt: skip
    environment = {
        "registered": {"SGLANG_A": "1"}, "unregistered": {"SGLANG_B": "2"},
        "renamed": {"SGL_C": "SGLANG_C", "SGLANG_D": None},
        "simulated_acceptance": {"SGLANG_SIMULATE_ACC_LEN": "3"},
    }  # fmt: skip
    return {
        "schema": "configurator/report/1", "stage": "ready",
        "versions": {"engine": "0.5.23", "probe": 1, "cuda": None},
        "rank": {"tp_rank": 1, "pp_rank": 0, "dp_rank": None, "tp_size": 2},
        "target": model, "drafts": [draft], "environment": environment,
        "hooks": {"applied": ["a.b"], "missing": {"c.d": "not applied"}},
        "errors": [{"part": "device", "error": "KeyError: 1"}], "build_ms": 3.5, **changes,
    }  # fmt: skip


def parsed(data: Any) -> Report:
    found = parse_report("report-tp1-pp0-dp0.json", data)
    assert found is not None
    return found


def test_the_documented_report_is_read_whole() -> None:
    one = parsed(sample())
    assert (one.rank, one.stage, one.schema) == (1, "ready", "configurator/report/1")
    assert one.ranks == {"tp_rank": 1, "pp_rank": 0, "tp_size": 2}
    assert one.versions == {"engine": "0.5.23", "probe": "1"}
    assert one.env_declared == {"SGLANG_A": "1"}
    assert one.env_undeclared == ("SGLANG_B",)
    assert one.env_renamed == {"SGL_C": "SGLANG_C", "SGLANG_D": ""}
    assert one.simulated_acceptance == {"SGLANG_SIMULATE_ACC_LEN": "3"}
    assert (one.hooks_applied, one.hooks_missing) == (("a.b",), {"c.d": "not applied"})
    assert one.errors == {"device": "KeyError: 1"}
    assert one.build_ms == 3.5
    assert one.target is not None
    assert (one.target.path, one.target.kv_cache_dtype) == ("tiny", "bfloat16")
    assert one.target.kv_pool_dtype == "float8_e4m3fn"
    assert one.target.attention_class == "HybridAttnBackend"
    assert one.target.weight_bytes["head"] == 32
    assert one.target.head is not None
    assert one.target.head.scales == {"weight_scale": "0.5"}
    assert one.target.sharing is None


def test_the_draft_and_its_head() -> None:
    (draft,) = parsed(sample()).drafts
    assert (draft.role, draft.is_draft) == ("draft", True)
    assert draft.sharing == Sharing(False, True, None, False, ("0.5", "0.1"))
    assert draft.sharing.kind == "weight"
    assert draft.draft_attention == {"decode": "FA3"}
    assert draft.graph_batch_sizes == ()
    assert draft.graphs["extend"] == Graphs("DecodeCudaGraphRunner", (1, 2, 4), (1, 2))


@pytest.mark.parametrize(
    ("sharing", "kind"),
    [
        (Sharing(same_module=True, same_weight=True), "module"),
        (Sharing(False, True, None, True), "tensors"),
        (Sharing(False, True, None, None), "tensors"),
        (Sharing(False, True, None, False), "weight"),
        (Sharing(False, False, True), "copy"),
        (Sharing(False, False, False), "other"),
        (Sharing(False, False, None), "other"),
        (Sharing(), "unknown"),
    ],
)
def test_kinds_of_sharing(sharing: Sharing, kind: str) -> None:
    assert sharing.kind == kind


@pytest.mark.parametrize(
    ("decode", "sizes"),
    [
        ({"batch_sizes": [1, 2, 4], "captured": [1, 2]}, (1, 2)),
        ({"batch_sizes": [1, 2], "captured": None}, (1, 2)),
        ({"batch_sizes": [1, 2], "captured": [8, 16]}, (1, 2)),
        (None, ()),
        ({"error": "KeyError: 1"}, None),
    ],
)
def test_captured_sizes(decode: Any, sizes: tuple[int, ...] | None) -> None:
    data = sample()
    data["target"]["graphs"] = {"decode": decode}
    target = parsed(data).target
    assert target is not None
    assert target.graph_batch_sizes == sizes


def test_an_early_report_says_nothing_of_graphs() -> None:
    data = sample(stage="loaded")
    del data["target"]["graphs"]
    target = parsed(data).target
    assert target is not None
    assert target.graph_batch_sizes is None
    late, early = parsed(sample()), parsed(data)
    assert latest([late, early]) == (late,)


def test_a_moe_layer_shows_what_was_built_beside_what_it_says() -> None:
    data = sample()
    without = dict(data["target"]["moe_layers"][0], runner_backend=None, runner_core=None)
    data["target"]["moe_layers"].append(without)
    target = parsed(data).target
    assert target is not None
    built, bare = target.moe_layers
    assert (built.runner, built.resolved, built.has_runner) == ("triton", "humming", True)
    assert (bare.runner, bare.resolved, bare.has_runner) == ("humming", "humming", False)


def test_a_megakernel_is_read() -> None:
    data = sample()
    data["target"]["megakernel"] = {
        "class": "Built", "widths": [4, 8], "summary": "two", "forward_installed": True,
        "draft_sampler": False, "graphs": [1, 2], "graphs_covered": [1],
    }  # fmt: skip
    target = parsed(data).target
    assert target is not None
    read = Megakernel("Built", (4, 8), "two", True, False, (1, 2), (1,))
    assert target.megakernel == read
    for said, known in ((False, False), (True, True), (None, None), ("no", None)):
        data["target"]["megakernel"]["capture_checked"] = said
        target = parsed(data).target
        assert target is not None
        assert target.megakernel == dataclasses.replace(read, capture_checked=known)


def test_failed_parts_are_missing_evidence() -> None:
    failed = {"error": "KeyError: 1"}
    data = sample(environment=failed, hooks=failed, rank=failed, versions=failed)
    data["target"] |= {"lm_head": failed, "megakernel": failed, "quant_methods": failed}
    data["target"]["moe_layers"] = [failed]
    one = parsed(data)
    assert one.target is not None
    assert (one.target.head, one.target.megakernel, one.target.moe_layers) == (None, None, ())
    assert one.target.linear_methods == {}
    assert (one.rank, one.env_undeclared, one.hooks_missing) == (None, (), {})


@pytest.mark.parametrize("target", [None, {"error": "AttributeError: no tp_worker"}])
def test_a_report_without_a_target_keeps_its_errors(target: Any) -> None:
    one = parsed(sample(target=target, drafts=[{"error": "x"}]))
    assert (one.target, one.drafts) == (None, ())
    assert one.errors == {"device": "KeyError: 1"}


WRONG: tuple[Any, ...] = (
    None,
    1,
    2.5,
    True,
    "text",
    [],
    [1, "x", None, {"a": []}],
    {},
    {"a": {"b": 1}, "error": 0},
)


def places(data: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside nested data."""
    found = [trail] if trail else []
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            found += places(value, (*trail, key))
    return found


@pytest.mark.parametrize("wrong", WRONG)
def test_values_of_any_type_anywhere_stop_nothing(wrong: Any) -> None:
    for trail in places(sample()):
        data = sample()
        holder = data
        for key in trail[:-1]:
            holder = holder[key]
        holder[trail[-1]] = wrong
        one = parse_report("a.json", data)
        assert one is not None
        assert latest([one]) == (one,)


def test_what_a_process_says_of_its_hooks() -> None:
    data = {
        "schema": "configurator/hooks/1", "pid": 7, "registered": ["a.b"],
        "missing": {"c.d": "gone"}, "error": None,
    }  # fmt: skip
    assert parse_hooks("hooks-7.json", data) == Hooks("hooks-7.json", 7, ("a.b",), {"c.d": "gone"})
    assert parse_report("hooks-7.json", data) is None
    assert parse_hooks("a.json", sample()) is None
    assert parse_hooks("a.json", [1]) is None
    hostile = dict(data, pid="x", registered=3, missing=[1], error=["y"])
    assert parse_hooks("a.json", hostile) == Hooks("a.json", None, (), {}, "['y']")


def test_reports_in_an_answer_of_the_server() -> None:
    first, second = sample(), sample(rank={"tp_rank": 0, "dp_rank": 1})
    state = [{"configurator_probe": first}, {}, 3, {"configurator_probe": second}]
    both = reports_in({"internal_states": state})
    assert [one.file for one in both] == [
        "server_info.json#/internal_states/0/configurator_probe",
        "server_info.json#/internal_states/3/configurator_probe",
    ]
    alone = reports_in({"configurator_probe": first, "internal_states": state[:1]})
    assert [one.rank for one in alone] == [1]
    assert reports_in({"internal_states": {}}) == reports_in(None) == ()


def test_reports_of_other_hosts_in_an_answer_of_the_server() -> None:
    def of_rank(rank: int) -> dict[str, Any]:
        return sample(rank={"tp_rank": rank, "tp_size": 4})

    others = [of_rank(1), "junk", of_rank(3)]
    state = {"configurator_probe": of_rank(0), "configurator_probe_ranks": others}
    found = reports_in({"internal_states": [state]})
    assert [(one.rank, one.file) for one in found] == [
        (0, "server_info.json#/internal_states/0/configurator_probe"),
        (1, "server_info.json#/internal_states/0/configurator_probe_ranks/0"),
        (3, "server_info.json#/internal_states/0/configurator_probe_ranks/2"),
    ]
    broken = {"configurator_probe": of_rank(0), "configurator_probe_ranks": {"error": "x"}}
    assert [one.rank for one in reports_in({"internal_states": [broken]})] == [0]
