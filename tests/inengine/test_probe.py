"""The probe on objects as several engine versions have them."""

from __future__ import annotations

import os
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from inengine import engine_fakes as fakes
from inengine.engine_fakes import Module, Tensor

from configurator.inengine.configurator_probe import building, models, sharing
from configurator.inengine.configurator_probe.building import build
from configurator.inengine.configurator_probe.drafts import draft_runners
from configurator.inengine.configurator_probe.environment import environment_facts
from configurator.inengine.configurator_probe.graphs import graph_facts, megakernel_facts
from configurator.inengine.configurator_probe.heads import head_facts, head_of
from configurator.inengine.configurator_probe.layers import moe_facts, weight_bytes
from configurator.inengine.configurator_probe.models import decode_backend, model_facts
from configurator.inengine.configurator_probe.origin import rank_facts
from configurator.inengine.configurator_probe.run import Run
from configurator.inengine.configurator_probe.sharing import same_bytes, sharing_facts


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    for name in ("CONFIGURATOR_PROBE_DIR", "CONFIGURATOR_PROBE_REQUIRED"):
        monkeypatch.delenv(name, raising=False)


def model(**held: Any) -> fakes.LlamaForCausalLM:
    return fakes.LlamaForCausalLM(**{"lm_head": fakes.head(), **held})


def relation(target: Any, draft: Any) -> dict[str, Any]:
    facts = sharing_facts(Run(), model(lm_head=target), model(lm_head=draft))
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("held", "ranks"),
    [
        ({"ps": SimpleNamespace(tp_rank=1, pp_rank=0, dp_rank=2)}, (1, 0, 2)),
        ({"ps": None, "tp_rank": 3, "pp_rank": 1, "dp_rank": None}, (3, 1, None)),
        ({"ps": None}, (None, None, None)),
        ({"ps": None, "tp_rank": "0", "pp_rank": True}, (None, None, None)),
    ],
)
def test_ranks_come_from_where_a_version_keeps_them(
    held: dict[str, Any], ranks: tuple[int | None, ...]
) -> None:
    facts = rank_facts(fakes.scheduler(model(), **held))
    assert tuple(facts[name] for name in ("tp_rank", "pp_rank", "dp_rank")) == ranks


def test_ranks_of_the_parallel_context_and_sizes_of_the_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = SimpleNamespace(get_parallel=lambda: SimpleNamespace(tp_rank=1, dp_rank=0))
    monkeypatch.setitem(sys.modules, "sglang.srt.runtime_context", context)
    one = fakes.scheduler(model(), ps=None, server_args=SimpleNamespace(tp_size=2, dp_size=4))
    facts = rank_facts(one)
    assert (facts["tp_rank"], facts["dp_rank"], facts["tp_size"], facts["dp_size"]) == (1, 0, 2, 4)


ONE, TWO = fakes.runner(Module()), fakes.runner(Module())


@pytest.mark.parametrize(
    ("worker", "roles"),
    [
        (SimpleNamespace(weight_update_runners=lambda: [("draft", ONE)]), ["draft"]),
        (SimpleNamespace(weight_update_runners=list), []),
        (SimpleNamespace(draft_worker=SimpleNamespace(draft_runner=ONE)), ["draft"]),
        (
            SimpleNamespace(draft_worker=SimpleNamespace(draft_runner_list=[ONE, TWO])),
            ["draft_step_0", "draft_step_1"],
        ),
        (SimpleNamespace(draft_worker=SimpleNamespace(draft_runners=[ONE])), ["draft"]),
        (SimpleNamespace(draft_worker=None, draft_model_runner=ONE), ["draft"]),
        (SimpleNamespace(draft_worker=None, model_runner=ONE), ["draft"]),
        (
            SimpleNamespace(model_runner=ONE, target_worker=SimpleNamespace(model_runner=ONE)),
            [],
        ),
    ],
)
def test_drafts_are_found_by_the_names_of_each_version(worker: Any, roles: list[str]) -> None:
    found = draft_runners(worker)
    assert [role for role, _ in found] == roles
    assert all(runner in (ONE, TWO) for _, runner in found)


@pytest.mark.parametrize(
    ("held", "path"),
    [
        ({"lm_head": fakes.head()}, "lm_head"),
        ({"language_model": Module(lm_head=fakes.head())}, "language_model.lm_head"),
        ({"model": Module(shared_head=Module(head=fakes.head()))}, "model.shared_head.head"),
        ({"odd": Module(place=fakes.head())}, "odd.place"),
        ({"model": Module()}, None),
    ],
)
def test_the_head_is_found_wherever_it_lies(held: dict[str, Any], path: str | None) -> None:
    assert head_of(Module(**held))[0] == path


def test_a_lora_wrapper_is_taken_off_the_head() -> None:
    inner = fakes.head()
    assert head_of(model(lm_head=Module(base_layer=inner)))[1] is inner


def test_a_plain_head_is_described() -> None:
    run = Run()
    facts = head_facts(run, "target.lm_head", model())
    assert facts is not None
    assert facts["module"] == "ParallelLMHead"
    assert facts["quant_method"] == "UnquantizedEmbeddingMethod"
    assert facts["quant_method_applied"] is False
    assert facts["path_taken"] == "matmul(hidden cast to bfloat16)"
    assert facts["tensors"]["weight"] == {
        "dtype": "bfloat16", "shape": [4, 1], "nbytes": 8, "device": "cpu", "storage": "S0",
        "storage_offset": 0,
    }  # fmt: skip
    assert run.errors == []


def test_an_fp8_head_shows_its_scale_even_as_a_plain_attribute() -> None:
    scale = Tensor(0.5, dtype="float32", shape=())
    quantized = fakes.head(
        Tensor(1, 2, dtype="float8_e4m3fn"), fakes.Fp8HeadMethod(), plain_scale=scale
    )
    facts = head_facts(Run(), "target.lm_head", model(lm_head=quantized))
    assert facts is not None
    assert facts["path_taken"] == "quant_method.apply"
    assert facts["tensors"]["weight"]["dtype"] == "float8_e4m3fn"
    assert facts["tensors"]["plain_scale"]["value"] == "0.5"


def test_the_float32_flag_and_a_tied_head_are_seen() -> None:
    one = fakes.head()
    tied = Module(
        lm_head=one, model=Module(embed_tokens=one),
        logits_processor=SimpleNamespace(use_fp32_lm_head=True),
    )  # fmt: skip
    facts = head_facts(Run(), "target.lm_head", tied)
    assert facts is not None
    assert facts["path_taken"] == "matmul(float32 casts)"
    assert (facts["use_fp32_lm_head"], facts["tied_to_embedding"]) == (True, True)


def test_one_module_for_both() -> None:
    one = fakes.head()
    facts = relation(one, one)
    assert facts["same_module"] is True
    assert facts["weight"]["same_parameter"] is True
    assert facts["weight"]["same_storage"] is True


def test_an_aliased_weight_with_a_scale_of_its_own() -> None:
    ours = fakes.head(Tensor(1, 2), weight_scale=Tensor(0.5, dtype="float32", shape=()))
    theirs = fakes.head(ours.weight.alias(), weight_scale=Tensor(0.25, dtype="float32", shape=()))
    facts = relation(ours, theirs)
    assert facts["same_module"] is False
    assert facts["weight"] == {
        "same_parameter": False, "same_storage": True, "same_dtype_shape": True,
    }  # fmt: skip
    assert facts["weight_scale"]["same_storage"] is False
    assert facts["weight_scale"]["values"] == ["0.5", "0.25"]


def test_a_scale_that_only_the_target_has() -> None:
    ours = fakes.head(Tensor(1, 2), weight_scale=Tensor(0.5, shape=()))
    assert relation(ours, fakes.head(ours.weight))["weight_scale"] == {"only_in": "target"}


@pytest.mark.parametrize(
    ("theirs", "content", "compared"),
    [
        (Tensor(1, 2, 3), True, "all"),
        (Tensor(1, 2, 4), False, "all"),
        (Tensor(1, 2), False, "dtype or shape differ"),
        (Tensor(1, 2, 3, dtype="float32"), False, "dtype or shape differ"),
        (Tensor(1, 2, 3, device="cuda:0"), None, "not compared"),
    ],
)
def test_heads_of_their_own_are_compared(
    theirs: Tensor, content: bool | None, compared: str
) -> None:
    weight = relation(fakes.head(Tensor(1, 2, 3)), fakes.head(theirs))["weight"]
    assert weight["same_storage"] is False
    assert (weight["same_content"], weight["compared"]) == (content, compared)


def test_large_heads_compare_a_sample_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_COMPARED_BYTES", 10)
    monkeypatch.setattr(sharing, "_BLOCK_BYTES", 2)
    monkeypatch.setattr(sharing, "_BLOCKS", 4)
    ours, late = Tensor(*range(16)), Tensor(*range(15), 99)
    assert same_bytes(Run(), ours, ours.copy()) == (True, "sample of 4 of 16 rows")
    assert same_bytes(Run(), ours, late) == (True, "sample of 4 of 16 rows")
    assert same_bytes(Run(), ours, Tensor(*[99] * 16)) == (False, "sample")


def test_comparing_stops_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_BLOCK_BYTES", 2)
    ours = Tensor(1, 2, 3)
    assert same_bytes(Run("ready"), ours, ours.copy()) == (True, "all")
    early = Run("loaded")
    assert same_bytes(early, ours, ours.copy()) == (True, "sample of 1 of 3 rows")
    assert same_bytes(early, ours, Tensor(9, 2, 3)) == (False, "all")


def moe(runner: Any, **held: Any) -> fakes.FusedMoE:
    method = fakes.Fp8MoEMethod()
    method.runner = runner
    return fakes.DeepEPMoE(quant_method=method, **held)


def test_a_moe_layer_shows_the_runner_that_was_built() -> None:
    built = SimpleNamespace(
        runner_backend="MoeRunnerBackend.TRITON", runner_core=fakes.TritonRunnerCore(),
        fused_func=None,
    )  # fmt: skip
    layer = moe(built, runner_backend="MoeRunnerBackend.HUMMING", w13_weight=Tensor(1, 2))
    whole = model(layers=Module(mlp=layer))
    facts = model_facts(Run(), "target", fakes.runner(whole))["moe_layers"]
    assert facts == [
        {
            "name": "layers.mlp", "layer_class": "DeepEPMoE", "quant_method": "Fp8MoEMethod",
            "layer_backend": "MoeRunnerBackend.HUMMING",
            "runner_backend": "MoeRunnerBackend.TRITON", "runner_core": "TritonRunnerCore",
            "fused_func": None, "mxfp4_backend": None, "activations": None,
            "w13_dtype": "torch.bfloat16",
        }
    ]  # fmt: skip


def test_a_layer_that_is_laid_out_for_numbers_says_which() -> None:
    class Float8:
        def __repr__(self) -> str:
            return "float8e4m3"

    metas = {"w13": SimpleNamespace(a_dtype=Float8()), "w2": SimpleNamespace(a_dtype=Float8())}
    assert moe_facts("mlp", moe(None, humming_metas=metas))["activations"] == "float8e4m3"
    for odd in ({}, {"w2": None}, {"w13": SimpleNamespace()}, "text"):
        assert moe_facts("mlp", moe(None, humming_metas=odd))["activations"] is None


def test_a_moe_layer_without_a_runner_says_so() -> None:
    facts = moe_facts("mlp", moe(None, runner_backend="MoeRunnerBackend.HUMMING"))
    assert (facts["runner_backend"], facts["runner_core"]) == (None, None)


def test_weight_bytes_count_a_shared_storage_once() -> None:
    weight = Tensor(1, 2, 3, 4)
    one = model(
        lm_head=fakes.head(weight),
        embed=fakes.VocabParallelEmbedding(weight=Tensor(1, 2)),
        mlp=fakes.FusedMoE(w13=Tensor(1), inner=Module(w=Tensor(1))),
        norm=Module(weight=Tensor(1, 2, 3)),
    )
    run = Run()
    sums = weight_bytes(run, one, list(one.named_modules()))
    assert sums == {"embedding": 4, "head": 8, "experts": 4, "other": 6, "counted_before": 0}
    draft = model(lm_head=fakes.head(weight.alias()))
    again = weight_bytes(run, draft, list(draft.named_modules()))
    assert (again["head"], again["counted_before"]) == (0, 8)


@pytest.mark.parametrize(
    ("graphs", "wanted", "captured"),
    [
        (fakes.DecodeCudaGraphRunner([2, 1]), [1, 2], None),
        (
            fakes.DecodeCudaGraphRunner([1, 2], [fakes.ShapeKey(1)]),
            [1, 2],
            [1],
        ),
        (fakes.DecodeCudaGraphRunner([1], [(1, None)]), [1], [1]),
    ],
)
def test_captured_graphs(graphs: Any, wanted: list[int], captured: list[int] | None) -> None:
    facts = graph_facts(graphs)
    assert facts is not None
    assert (facts["batch_sizes"], facts["captured"]) == (wanted, captured)


def test_an_eager_runner_has_no_graphs() -> None:
    assert graph_facts(fakes.EagerRunner()) is None
    assert graph_facts(None) is None


class BuiltMegakernel:
    widths = (4, 8)
    draft_sampler = None

    def summary(self) -> str:
        return "two widths"


@pytest.mark.parametrize(
    ("steps", "graphs", "covered"),
    [
        ({1: object(), 2: object()}, [1, 2], [1, 2]),
        ({1: object(), 2: None}, [1, 2], [1]),
        ({1: None}, [1], []),
        ({}, None, None),
    ],
)
def test_the_megakernel_shows_which_graphs_it_covers(
    steps: dict[int, Any], graphs: list[int] | None, covered: list[int] | None
) -> None:
    dispatch = SimpleNamespace(captured=steps)

    def forward() -> Any:
        return dispatch

    facts = megakernel_facts(Module(_megakernel=BuiltMegakernel(), forward=forward))
    assert facts == {
        "class": "BuiltMegakernel", "widths": [4, 8], "summary": "two widths",
        "forward_installed": True, "draft_sampler": False, "graphs": graphs,
        "graphs_covered": covered, "capture_checked": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hooks", "checked"),
    [
        (None, None),
        ([], None),
        (["mine", "done"], True),
        (["open"], False),
        # Another model's check, another hook, and a check of an engine that keeps it elsewhere.
        (["other"], None),
        ([lambda: None], None),
    ],
)
def test_the_engines_own_check_of_the_captured_graphs(hooks: Any, checked: bool | None) -> None:
    built = BuiltMegakernel()
    ours, others = SimpleNamespace(built=built), SimpleNamespace(built=BuiltMegakernel())
    known = {
        "mine": SimpleNamespace(),
        "done": SimpleNamespace(dispatch=ours, is_done=True),
        "open": SimpleNamespace(dispatch=ours, is_done=False),
        "other": SimpleNamespace(dispatch=others, is_done=True),
    }
    given = [known.get(hook, hook) if isinstance(hook, str) else hook for hook in hooks or ()]
    runner = SimpleNamespace(capture_tail_hooks=None if hooks is None else given)
    facts = megakernel_facts(Module(_megakernel=built), runner)
    assert facts is not None
    assert facts["capture_checked"] is checked


def test_the_runners_hooks_reach_the_megakernel() -> None:
    built = BuiltMegakernel()
    check = SimpleNamespace(dispatch=SimpleNamespace(built=built), is_done=False)
    runner = SimpleNamespace(model=model(_megakernel=built), capture_tail_hooks=[check])
    facts = model_facts(Run(), "target", runner)
    assert facts["megakernel"]["capture_checked"] is False


def test_no_megakernel_and_one_without_a_forward() -> None:
    assert megakernel_facts(Module()) is None
    facts = megakernel_facts(Module(_megakernel=BuiltMegakernel()))
    assert facts is not None
    assert (facts["forward_installed"], facts["graphs"]) == (False, None)


def test_variables_are_sorted_by_who_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SGLANG_", "SGL_"))]:
        monkeypatch.delenv(name)
    values = {
        "SGLANG_DECLARED": "http://me:mine@host/x", "SGLANG_HIDDEN": "h", "SGLANG_RUN_ID": "r",
        "SGLANG_ENABLE_FP8_LM_HEAD": "1", "SGLANG_API_KEY": "k", "SGL_SOMETHING": "1",
        "SGLANG_OLD": "1", "SGLANG_GONE": "1", "SGLANG_SIMULATE_ACC_LEN": "3",
        "SGLANG_MAX_NEW_TOKENS": "5", "OTHER_VARIABLE": "1", "SGL_SIMULATE_ACC_LEN": "2",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert environment_facts() == {
        "registered": {
            "SGLANG_DECLARED": "http://(redacted)@host/x", "SGLANG_HIDDEN": "(redacted)",
        },
        "read_elsewhere": {"SGLANG_RUN_ID": "r"},
        "unregistered": {
            "SGLANG_API_KEY": "(redacted)", "SGLANG_ENABLE_FP8_LM_HEAD": "1",
            "SGLANG_MAX_NEW_TOKENS": "5", "SGLANG_SIMULATE_ACC_LEN": "3",
        },
        "renamed": {
            "SGL_SOMETHING": "SGLANG_SOMETHING",
            "SGL_SIMULATE_ACC_LEN": "SGLANG_SIMULATE_ACC_LEN", "SGLANG_OLD": "SGLANG_DECLARED",
            "SGLANG_GONE": None,
        },
        "simulated_acceptance": {"SGLANG_SIMULATE_ACC_LEN": "3", "SGL_SIMULATE_ACC_LEN": "2"},
    }  # fmt: skip


def drafting(draft: Module, **held: Any) -> SimpleNamespace:
    inner = SimpleNamespace(draft_runner=fakes.runner(draft, is_draft_worker=True), **held)
    return SimpleNamespace(draft_worker=inner)


def test_the_whole_report_of_a_target_and_its_draft() -> None:
    target = model()
    draft = model(lm_head=fakes.head(target.lm_head.weight))
    worker = drafting(
        draft,
        cuda_graph_runner=fakes.DecodeCudaGraphRunner([1, 2]),
        draft_attn_backend=SimpleNamespace(),
    )
    report = build(fakes.scheduler(target, draft_worker=worker), "ready")
    assert report["errors"] == []
    assert (report["schema"], report["stage"]) == ("configurator/report/1", "ready")
    assert report["versions"]["engine"] == "0.0.1"
    assert report["target"]["model_path"] == "tiny"
    (one,) = report["drafts"]
    assert (one["role"], one["is_draft"]) == ("draft", True)
    assert one["sharing_with_target"]["weight"]["same_parameter"] is True
    assert one["graphs"]["decode"]["batch_sizes"] == [1, 2]
    assert one["graphs"]["extend"] is None
    assert one["draft_attention"] == {"decode": "SimpleNamespace", "extend": None}


def test_before_graphs_are_captured_the_report_is_silent_about_them() -> None:
    worker = drafting(model())
    report = build(fakes.scheduler(model(), draft_worker=worker), "loaded")
    assert "graphs" not in report["target"]
    assert "graphs" not in report["drafts"][0]
    assert report["drafts"][0]["lm_head"]["module"] == "ParallelLMHead"


def test_a_part_that_fails_loses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(models, "head_facts", broken)
    monkeypatch.setattr(building, "environment_facts", broken)
    report = build(fakes.scheduler(model()), "ready")
    assert report["target"]["lm_head"] == {"error": "KeyError: 'gone'"}
    assert report["environment"] == {"error": "KeyError: 'gone'"}
    assert report["target"]["model_class"] == "LlamaForCausalLM"
    assert [failed["part"] for failed in report["errors"]] == ["target.lm_head", "environment"]


def test_a_scheduler_without_a_worker_still_reports() -> None:
    report = build(SimpleNamespace(), "ready")
    assert "error" not in report
    assert report["target"] is None
    assert report["errors"][0]["part"] == "target"


def backend(name: str, **held: Any) -> Any:
    """An object of a class of that name."""
    made = type(name, (), {})()
    vars(made).update(held)
    return made


TRITON, FA3 = backend("TritonAttnBackend"), backend("FlashAttentionBackend")
# FlashInfer keeps the name of its kernel under the name that a hybrid keeps its backend under.
FLASHINFER = backend("FlashInferAttnBackend", decode_backend="fa2", prefill_backend="fa2")


def hybrid(**held: Any) -> Any:
    return backend("HybridAttnBackend", decode_backend=TRITON, prefill_backend=FA3, **held)


@pytest.mark.parametrize(
    ("held", "name"),
    [
        ({"attn_backend": FLASHINFER}, "FlashInferAttnBackend"),
        ({"attn_backend": hybrid()}, "TritonAttnBackend"),
        ({"attn_backend": backend("HybridLinearAttnBackend", full_attn_backend=hybrid())},
         "TritonAttnBackend"),
        ({"attn_backend": backend("TboAttnBackend", primary=TRITON)}, "TritonAttnBackend"),
        ({"attn_backend": backend("MiniMaxHybridAttnBackend", dense=FA3)},
         "FlashAttentionBackend"),
        # With speculation a hybrid verifies with its prefill backend unless told otherwise.
        ({"attn_backend": hybrid(spec_attn_is_decode=False)}, "TritonAttnBackend"),
        ({"attn_backend": hybrid(spec_attn_is_decode=False),
          "spec_algorithm": SimpleNamespace(name="EAGLE")}, "FlashAttentionBackend"),
        ({"attn_backend": hybrid(spec_attn_is_decode=True),
          "spec_algorithm": SimpleNamespace(name="EAGLE")}, "TritonAttnBackend"),
        ({"attn_backend": FA3, "decode_attn_backend": TRITON}, "TritonAttnBackend"),
    ],
)  # fmt: skip
def test_the_backend_of_decode_steps_is_looked_up_inside_wrappers(
    held: dict[str, Any], name: str
) -> None:
    assert type(decode_backend(SimpleNamespace(**held))).__name__ == name


def test_a_runner_without_an_attention_backend_has_none_for_decoding() -> None:
    assert decode_backend(SimpleNamespace()) is None
    circle = backend("LoopBackend")
    circle.primary = circle
    assert decode_backend(SimpleNamespace(attn_backend=circle)) is circle


def test_a_report_says_of_which_start_it_is() -> None:
    arguments = SimpleNamespace(random_seed=5, port=30000, model_path="/models/tiny/")
    one = fakes.scheduler(model(), server_args=arguments, random_seed=42)
    start = build(one, "ready")["start"]
    assert start["random_seed"] == 42  # That of the first rank, not what this host drew.
    assert (start["port"], start["model_path"]) == (30000, "tiny")
    assert re.fullmatch("[0-9a-f]{12}", start["host"])
    one.tp_worker.random_seed = 43
    assert build(one, "loaded")["start"] == start | {"random_seed": 43}
    bare = build(fakes.scheduler(model()), "ready")
    assert bare["start"] == {
        "random_seed": None, "port": None, "host": start["host"], "model_path": "",
    }  # fmt: skip
    assert bare["errors"] == []
