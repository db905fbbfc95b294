"""The FP8 head's plugin once weights are loaded: quantized in its place, shared whole, proven."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from plugins.stand_in_engine import (
    PACKAGE,
    LogitsProcessor,
    Module,
    ParallelLMHead,
    Parameter,
    UnquantizedEmbeddingMethod,
    engine,
)

__all__ = ["engine"]
Engine = dict[str, ModuleType]


def target(**members: Any) -> Module:
    """A model with an embedding, a BF16 head and what computes its logits."""
    head = ParallelLMHead(64, 16, quant_method=UnquantizedEmbeddingMethod())
    made = {"lm_head": head, "logits_processor": LogitsProcessor()}
    return Module(model=Module(embed_tokens=Module(weight=Parameter(64, 16))), **made | members)


def quantizing(monkeypatch: pytest.MonkeyPatch, error: float = 0.04) -> Any:
    """The plugin's module, with arithmetic that needs no torch."""
    module = import_module(f"{PACKAGE}.quantizing")

    def weights(weight: Parameter, rowwise: bool) -> tuple[Parameter, Parameter]:
        scale = (weight.shape[0], 1) if rowwise else ()
        return Parameter(*weight.shape, dtype="float8_e4m3fn"), Parameter(*scale, dtype="float32")

    monkeypatch.setattr(module, "weights_in_fp8", weights)
    monkeypatch.setattr(module, "relative_error", lambda *_: error)
    return module


@pytest.mark.parametrize(("granularity", "after"), [("per-tensor", 1028), ("per-row", 1280)])
def test_the_head_is_made_anew_in_its_place(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, granularity: str, after: int
) -> None:
    model = target()
    head: Any = model.lm_head  # type: ignore[attr-defined]
    quantizing(monkeypatch).quantize(model, granularity)
    assert model.lm_head is head  # type: ignore[attr-defined]
    assert (head.weight.dtype, type(head.quant_method).__name__) == (
        "float8_e4m3fn", "Fp8HeadMethod",
    )  # fmt: skip
    assert head.made == {
        "by": "configurator_fp8_head", "granularity": granularity, "relative_error": 0.04,
        "bytes_before": 2048, "bytes_after": after, "freed": True,
    }  # fmt: skip


def test_new_weights_are_not_written_among_fp8_numbers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = target()
    quantizing(monkeypatch).quantize(model, "per-tensor")
    with pytest.raises(RuntimeError, match="takes no new weights"):
        model.lm_head.weight.weight_loader(None, None)  # type: ignore[attr-defined]


def test_a_weight_that_somebody_keeps_is_not_called_freed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = target()
    kept = model.lm_head.weight  # type: ignore[attr-defined]
    quantizing(monkeypatch).quantize(model, "per-tensor")
    assert (kept.dtype, model.lm_head.made["freed"]) == ("bfloat16", False)  # type: ignore[attr-defined]


def test_memory_that_another_module_holds_is_not_called_freed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters that are parts of one buffer: giving up one of them frees nothing."""
    model = target()
    other = model.model.embed_tokens  # type: ignore[attr-defined]
    other.weight = Parameter(64, 16, of=model.lm_head.weight, start=64 * 16)  # type: ignore[attr-defined]
    quantizing(monkeypatch).quantize(model, "per-tensor")
    assert model.lm_head.made["freed"] is False  # type: ignore[attr-defined]


def test_memory_that_cannot_be_told_is_nobodys(engine: Engine) -> None:
    memory_of = import_module(f"{PACKAGE}.quantizing").memory_of

    class Spread(Parameter):
        """A tensor over several ranks."""

        def untyped_storage(self) -> SimpleNamespace:
            raise NotImplementedError

    assert (memory_of(Spread(4, 4)), memory_of(Parameter(0))) == (0, 0)
    assert memory_of(Parameter(4, 4)) != 0


class OwnLogits(LogitsProcessor):
    """Logits of a model's own making."""

    def _compute_lm_head(self, hidden_states: Any, lm_head: Any, embedding_bias: Any = None) -> Any:
        """Reads the weight itself."""


def tied() -> Module:
    model = target()
    model.lm_head.weight = model.model.embed_tokens.weight  # type: ignore[attr-defined]
    return model


def tied_by_its_memory() -> Module:
    """As of two parameters of one tensor, which are not the same object."""
    model = target()
    model.lm_head.weight = Parameter(64, 16, of=model.model.embed_tokens.weight)  # type: ignore[attr-defined]
    return model


def with_megakernel() -> Module:
    model = target()
    vars(model)["_megakernel"] = object()
    return model


def in_float32() -> LogitsProcessor:
    return LogitsProcessor(use_fp32_lm_head=True)


class JointSchemaPooler(Module):
    """The engine's pooler that reads rows of the head, by name."""


def with_adapter() -> Module:
    model = target()
    head = model.lm_head  # type: ignore[attr-defined]
    model.lm_head = Module(base_layer=head)  # type: ignore[attr-defined]
    return model


def packed() -> Module:
    class PackWeightMethod:
        """Weights in the order of a CPU's tiles."""

    return target(lm_head=ParallelLMHead(64, 16, quant_method=PackWeightMethod()))


def fp8_already() -> Module:
    weight = Parameter(64, 16, dtype="float8_e4m3fn")
    return target(lm_head=ParallelLMHead(weight=weight, quant_method=UnquantizedEmbeddingMethod()))


def on_gpu(rows: int) -> Module:
    weight = Parameter(rows, 16)
    weight.is_cuda = True
    return target(lm_head=ParallelLMHead(weight=weight, quant_method=UnquantizedEmbeddingMethod()))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (tied(), "the LM head's weight is also that of Module: it is tied"),
        (tied_by_its_memory(), "the LM head's weight is also that of Module: it is tied"),
        (
            with_megakernel(),
            "the model runs a megakernel, which may read the LM head's weight past",
        ),
        (
            target(logits_processor=in_float32()),
            "LogitsProcessor.use_fp32_lm_head asks for logits in float32",
        ),
        (
            target(pooler=JointSchemaPooler()),
            "JointSchemaPooler reads the LM head's weight past its method",
        ),
        (with_adapter(), "the LM head has a LoRA adapter: leave lm_head out of its modules"),
        (packed(), "the LM head is bfloat16 with PackWeightMethod, not plain"),
        (fp8_already(), "the LM head is float8_e4m3fn with UnquantizedEmbeddingMethod, not"),
        (on_gpu(40), "the head of this rank is 40 x 16; FP8 needs multiples of 16"),
        (target(lm_head=Module()), "the model has 0 LM heads (ParallelLMHead), not one"),
        (
            target(other=ParallelLMHead(64, 16, quant_method=UnquantizedEmbeddingMethod())),
            "the model has 2 LM heads (ParallelLMHead), not one",
        ),
        (target(logits_processor=Module()), "the model has no LogitsProcessor"),
        (
            target(logits_processor=OwnLogits()),
            "OwnLogits._compute_lm_head is the model's own, which may read the weight past",
        ),
    ],
)
def test_what_only_the_built_head_shows_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, model: Module, reason: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        quantizing(monkeypatch).quantize(model, "per-tensor")
    assert f"\n  - {reason}" in str(caught.value)
    assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize("error", [0.9, float("nan")])
def test_a_kernel_that_computes_something_else_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    model = target()
    with pytest.raises(RuntimeError, match=r"off by (0\.9|nan) of their size"):
        quantizing(monkeypatch, error).quantize(model, "per-tensor")
    assert model.lm_head.weight.dtype == "bfloat16"  # type: ignore[attr-defined]


# ------------------------------------------------------------------ drafts


def quantized(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    model = target()
    quantizing(monkeypatch).quantize(model, "per-tensor")
    return model.lm_head  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["lm_head", "model.shared_head.head", "thinker.lm_head"])
def test_whatever_has_the_weight_becomes_the_head(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    head = quantized(engine, monkeypatch)
    draft = ParallelLMHead(weight=head.weight)
    for name in reversed(path.split(".")):
        draft = Module(**{name: draft})  # type: ignore[assignment]
    draft.logits_processor = LogitsProcessor()  # type: ignore[attr-defined]
    assert import_module(f"{PACKAGE}.sharing").share(head, draft) == "module"
    assert draft.get_submodule(path) is head


def test_a_draft_that_took_the_module_keeps_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = quantized(engine, monkeypatch)
    draft = Module(lm_head=head, logits_processor=LogitsProcessor())
    assert import_module(f"{PACKAGE}.sharing").share(head, draft) == "module"


def test_a_draft_that_computes_logits_itself_gets_no_fp8_head(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = quantized(engine, monkeypatch)
    draft = Module(lm_head=ParallelLMHead(weight=head.weight), logits_processor=OwnLogits())
    with pytest.raises(
        RuntimeError, match=r"of the draft: OwnLogits\._compute_lm_head is the model"
    ):
        import_module(f"{PACKAGE}.sharing").share(head, draft)
    own = Module(lm_head=ParallelLMHead(32, 16), logits_processor=OwnLogits())
    assert import_module(f"{PACKAGE}.sharing").share(head, own) == "none"


def test_a_draft_with_copied_fp8_numbers_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is no alias, and is read without a scale all the same."""
    head = quantized(engine, monkeypatch)
    copy = Parameter(64, 16, dtype="float8_e4m3fn")
    share = import_module(f"{PACKAGE}.sharing").share
    plain = ParallelLMHead(weight=copy, quant_method=UnquantizedEmbeddingMethod())
    with pytest.raises(RuntimeError, match="has FP8 numbers that no method scales"):
        share(head, Module(lm_head=plain))
    assert share(head, Module(lm_head=ParallelLMHead(weight=copy, quant_method=Module()))) == "none"


def test_a_draft_with_a_head_of_its_own_keeps_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, own = quantized(engine, monkeypatch), ParallelLMHead(32, 16)
    draft = Module(lm_head=own)
    assert import_module(f"{PACKAGE}.sharing").share(head, draft) == "none"
    assert draft.lm_head is own  # type: ignore[attr-defined]


def test_a_draft_that_reads_part_of_the_weight_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = quantized(engine, monkeypatch)
    rows = Parameter(16, 16, dtype="float8_e4m3fn", of=head.weight)
    draft = Module(lm_head=ParallelLMHead(weight=rows))
    with pytest.raises(RuntimeError, match="lm_head of the draft still has the FP8 weight"):
        import_module(f"{PACKAGE}.sharing").share(head, draft)


def runner(model: Any) -> SimpleNamespace:
    return SimpleNamespace(model=model)


class NGRAMWorker:
    """Drafts from text, by name."""

    draft_worker = None


@pytest.mark.parametrize(
    ("worker", "found"),
    [
        (None, []),
        (SimpleNamespace(weight_update_runners=lambda: [("draft", runner("a"))]), ["a"]),
        (SimpleNamespace(draft_worker=SimpleNamespace(draft_runners=[runner("a")])), ["a"]),
        (SimpleNamespace(draft_worker=SimpleNamespace(draft_runner=runner("a"))), ["a"]),
        (NGRAMWorker(), []),
    ],
)
def test_drafts_are_found_where_each_release_keeps_them(
    engine: Engine, worker: Any, found: list[str]
) -> None:
    assert import_module(f"{PACKAGE}.sharing").draft_models(worker) == found


def test_a_worker_of_another_kind_is_refused(engine: Engine) -> None:
    with pytest.raises(RuntimeError, match="SimpleNamespace keeps its draft where"):
        import_module(f"{PACKAGE}.sharing").draft_models(SimpleNamespace(model="a"))


# ------------------------------------------------------------------ the line


def line_of(head: Any, shared: list[str], **scheduler: Any) -> str:
    proving = import_module(f"{PACKAGE}.proving")
    return str(proving.line(SimpleNamespace(**scheduler), head, shared))


def test_the_line_says_what_was_built(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    head = quantized(engine, monkeypatch)
    assert line_of(head, ["module"], ps=SimpleNamespace(tp_rank=3)) == (
        "configurator_fp8_head: tp3: lm_head float8_e4m3fn [64 x 16], 1 scale (per-tensor), method "
        "Fp8HeadMethod applied; bytes 2048 -> 1028, the former weight is freed; logits off by "
        "0.04; shared with drafts: module"
    )


def test_the_line_tells_the_built_state_and_not_the_wish(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = quantized(engine, monkeypatch)
    head.made["freed"] = False
    head.weight = Parameter(64, 16)
    head.quant_method = UnquantizedEmbeddingMethod()
    text = line_of(head, [])
    assert text.startswith("configurator_fp8_head: tp1: lm_head bfloat16 [64 x 16]")
    assert "UnquantizedEmbeddingMethod NOT APPLIED" in text
    assert "STILL HELD" in text
    assert text.endswith("shared with drafts: no draft")


def test_a_head_that_was_replaced_is_no_proof(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = target()
    module = quantizing(monkeypatch)
    module.quantize(model, "per-tensor")
    assert module.quantized_head(model) is model.lm_head  # type: ignore[attr-defined]
    model.lm_head = ParallelLMHead(64, 16, quant_method=UnquantizedEmbeddingMethod())  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="was replaced after it was quantized"):
        module.quantized_head(model)
