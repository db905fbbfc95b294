"""The decode step: real figures that it must get right, with nothing fitted to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plan import geometries, tiny
from plan.deployments import LIBRARY, checkpoint, deployment, served, shipped

from configurator.content import ROOT
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.plan.efficiency import Plain
from configurator.plan.geometry import geometry_of
from configurator.plan.measured import Geometer, deployment_of
from configurator.plan.model import Step
from configurator.plan.step import Asked, curve_of, step_of
from configurator.plan.step_passes import Round, round_of
from configurator.plan.step_time import size_of

COUNTED = [geometry_of, geometries.by_model]
"""From the entries, and by hand from the article's figures."""


def planned(
    wanted: Deployment, asked: Asked | None = None, count: Geometer = geometry_of,
    own: tuple[Plain, ...] = (),
) -> Step:  # fmt: skip
    found = step_of(wanted, count(wanted, LIBRARY), LIBRARY, count, asked, own)
    assert found is not None
    return found


def gigabytes(step: Step) -> dict[str, float]:
    """GB of a step by kind of pass, all runs of it."""
    found: dict[str, float] = {}
    for one in step.passes:
        found[one.name] = found.get(one.name, 0) + size_of(one.reads).value * one.times / 1e9
    return found


@pytest.mark.parametrize("count", COUNTED)
def test_bytes_of_ling_are_those_of_its_article(count: Geometer) -> None:
    baseline = planned(shipped("ling-3.0-flash-spark-baseline"), count=count)
    assert gigabytes(baseline) == {"plain decode": pytest.approx(4.83, rel=0.01)}
    found = gigabytes(planned(shipped("ling-3.0-flash-spark"), count=count))
    assert found["plain decode"] == pytest.approx(4.43, rel=0.01)
    # Between one state written and one a verified token: ours keeps all four, 2 % more.
    assert found["verify"] == pytest.approx(7.56, rel=0.03)
    # The last draft pass runs over the four verified tokens: 5 % more than three single ones.
    assert found["draft"] == pytest.approx(1.53, rel=0.05)
    assert found["draft"] + found["verify"] == pytest.approx(9.09, rel=0.03)


@pytest.mark.parametrize("count", COUNTED)
@pytest.mark.parametrize(
    ("name", "accepted", "published"),
    [
        ("ling-3.0-flash-spark-baseline", None, 37.81),
        ("ling-3.0-flash-spark", 2.68, 53.89),
        ("ling-3.0-flash-spark", 1.0, 24.0),
    ],
)
def test_published_speeds_of_ling_on_a_spark(
    name: str, accepted: float | None, published: float, count: Geometer
) -> None:
    found = planned(shipped(name), Asked(accepted=accepted), count)
    # Other people's steps without speculation, none of the run that published this.
    assert found.efficiency.rests_on == ("ling-3.0-flash-fp4-spark-off-c1",)
    assert found.throughput is not None
    assert found.throughput.low <= published <= found.throughput.high
    assert found.throughput.value == pytest.approx(published, rel=0.30)
    assert found.throughput.low / found.throughput.high > 0.6


def test_a_speed_of_ling_that_nobody_measured_a_step_of_rests_on_another_model() -> None:
    wanted = shipped("ling-3.0-flash-spark-baseline")
    out = [name for name in LIBRARY.names("measurement") if name.startswith("ling")]
    count = geometry_of(wanted, LIBRARY)
    found = step_of(wanted, count, LIBRARY, geometry_of, left_out=out)
    assert found is not None
    assert found.efficiency.rests_on == ("qwen3-8b-spark-vllm",)
    assert found.throughput is not None
    assert found.throughput.value == pytest.approx(37.81, rel=0.30)


@pytest.mark.parametrize("count", COUNTED)
def passes_over_plain(step: Step) -> float:
    """The draft's passes and the verify pass over a plain one, by time."""
    return sum(one.time.value * one.times for one in step.passes[1:]) / step.plain.value


@pytest.mark.parametrize("count", COUNTED)
def test_the_published_ratio_is_shown_beside_ours(count: Geometer) -> None:
    found = planned(shipped("ling-3.0-flash-spark"), count=count)
    assert found.verify_ratio is not None
    assert found.ratio is not None
    assert found.verify_ratio.value == pytest.approx(1.71, abs=0.04)
    assert passes_over_plain(found) == pytest.approx(2.05, abs=0.05)
    assert found.ratio.value >= passes_over_plain(found) * 0.999
    assert found.ratio.low < 2.26 < found.ratio.high
    said = next(text for text in found.remarks if "verify_cost_ratio" in text)
    assert f"verify over plain is {found.verify_ratio.value:.2f}, with the draft's" in said
    assert f"passes {passes_over_plain(found):.2f}, with what a round takes beside" in said
    assert f"them {found.ratio.value:.2f} (" in said
    assert "2.26 is inside the range, and it is not known which of the three it is" in said


def test_what_a_round_takes_beside_its_passes_is_measured_elsewhere() -> None:
    found = planned(shipped("ling-3.0-flash-spark"))
    beside = found.efficiency.round
    # A launch with and without NEXTN on an H200: 9.67 ms, of which the passes are 6.9.
    assert beside.low == 0.0
    assert beside.value == pytest.approx(2.82e-3, abs=0.05e-3)
    assert "on other hardware" in beside.formula
    assert found.step is not None
    passes = passes_over_plain(found) * found.plain.value
    assert found.step.value == pytest.approx(passes + beside.value)
    plain = planned(shipped("ling-3.0-flash-spark-baseline"))
    assert plain.efficiency.round.high == 0.0


def test_without_an_acceptance_there_is_no_time_a_token() -> None:
    found = planned(shipped("ling-3.0-flash-spark"))
    assert found.step is not None
    assert (found.accepted, found.per_token, found.throughput) == (None, None, None)
    assert any("a profile's floor is a wish, no estimate" in text for text in found.remarks)
    # Of a step, which what is missing cannot change.
    assert [change.mechanism for change in found.changes] == ["fp8-lm-head"]


@pytest.mark.parametrize("accepted", [0.5, 4.5])
def test_an_acceptance_that_cannot_be_is_refused(accepted: float) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        planned(shipped("ling-3.0-flash-spark"), Asked(accepted=accepted))
    assert caught.value.problems[0].code == "PLN001"
    assert "give 1 to 4" in caught.value.problems[0].remedy


@pytest.mark.parametrize(
    ("name", "asked", "fact"),
    [
        ("ling-3.0-flash-spark", Asked(batch=0), "a batch of 0 cannot be"),
        ("ling-3.0-flash-spark", Asked(context=0), "a context of 0 cannot be"),
        ("ling-3.0-flash-spark", Asked(experts=7), "7 distinct experts a layer cannot be"),
        ("ling-3.0-flash-spark", Asked(experts=513), "a token chooses 8 of 512"),
        ("../examples/qwen3-8b-h200.yaml", Asked(experts=8), "has no routed experts"),
    ],
)
def test_values_that_no_step_has_are_refused(name: str, asked: Asked, fact: str) -> None:
    wanted = shipped(name if "/" not in name else str(ROOT / "tests" / name))
    with pytest.raises(ConfiguratorError) as caught:
        planned(wanted, asked)
    assert caught.value.problems[0].code == "PLN001"
    assert fact in str(caught.value)


def test_the_page_says_what_is_predicted() -> None:
    page = (ROOT / "docs" / "plan-step.md").read_text()
    for name, accepted, published in (
        ("ling-3.0-flash-spark-baseline", None, "37.81"),
        ("ling-3.0-flash-spark", 2.68, "53.89"),
        ("ling-3.0-flash-spark", 1.0, "24.0"),
    ):
        rate = planned(shipped(name), Asked(accepted=accepted)).throughput
        assert rate is not None
        predicted = f"{rate.value:.1f} ({rate.low:.1f} to {rate.high:.1f})"
        assert f"| {published} tok/s | {predicted} |" in page
    found = planned(shipped("ling-3.0-flash-spark"))
    ratio, verify = found.ratio, found.verify_ratio
    assert ratio is not None
    assert verify is not None
    assert f"{verify.value:.2f} for the verify pass alone, {passes_over_plain(found):.2f}" in page
    assert f"and {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) with" in page


def test_what_a_mechanism_changes_is_the_step_without_it_alone() -> None:
    found = planned(shipped("ling-3.0-flash-spark"), Asked(accepted=2.68))
    changes = {change.mechanism: change for change in found.changes}
    assert set(changes) == {"fp8-lm-head", "nextn-mtp"}
    head = changes["fp8-lm-head"]
    # One LM head of 402 MB more in the verify pass and in each of three draft passes.
    more = (head.without.value - head.with_it.value) * 2.68
    reached = 273e9 * found.efficiency.share.value
    assert more == pytest.approx(4 * 402.4e6 / reached, rel=1e-3)
    assert changes["nextn-mtp"].without == found.plain
    assert changes["nextn-mtp"].with_it == found.per_token
    said = next(text for text in found.remarks if text.startswith("changes no byte"))
    assert "humming-mxfp4-moe" in said
    assert "fp8-lm-head" not in said


def test_the_break_even_of_the_curve_is_the_ratio() -> None:
    found = planned(shipped("ling-3.0-flash-spark"))
    assert found.ratio is not None
    assert [point.accepted for point in found.curve[:2]] == [1.0, 1.25]
    assert found.curve[-1].accepted == 4.0
    last = found.curve[-1]
    assert last.value == pytest.approx(4 / found.ratio.value)
    assert last.low < last.value < last.high
    at_ratio = curve_of(replace(found.ratio, low=2.0, value=2.0, high=2.0), 4)
    assert [point.value for point in at_ratio if point.accepted == 2.0] == [1.0]
    assert curve_of(None, 4) == ()


def test_muse_reads_102_experts_uniformly_and_49_as_measured() -> None:
    wanted = shipped("muse-spark-open-paper")
    uniform = planned(wanted).passes[-1]
    counted = planned(wanted, Asked(experts=49)).passes[-1]
    assert (uniform.name, uniform.tokens) == ("verify", 16)
    formulas = [read.size.formula for read in uniform.reads if read.name == "routed experts"]
    assert "102.0 of 256 experts a layer (uniform routing, 16 tokens x 8)" in formulas[0]
    assert "/ 8 GPUs" in formulas[0]
    sizes = {read.name: read.size.value for read in uniform.reads}
    less = {read.name: read.size.value for read in counted.reads}
    assert sizes["routed experts"] / less["routed experts"] == pytest.approx(102 / 49, rel=1e-3)


def test_a_draft_that_is_not_known_leaves_the_verify_pass_and_no_step() -> None:
    found = planned(shipped("muse-spark-open-gb300x8"))
    assert [one.name for one in found.passes] == ["plain decode", "verify"]
    assert (found.step, found.per_token, found.ratio, found.curve) == (None, None, None, ())
    assert found.verify_ratio is not None
    assert any("it pays only above that" in text for text in found.remarks)


def test_hardware_that_nobody_measured_is_said_to_be_so(tmp_path: Path) -> None:
    found = planned(deployment(tmp_path, hardware="{name: rtx-pro-6000, gpus: 1}"))
    assert found.efficiency.rests_on == ()
    assert any(
        "no plain step that counts is measured on rtx-pro-6000" in text for text in found.remarks
    )
    assert found.plain.high / found.plain.low > 2


def test_a_published_verify_pass_of_muse_rests_on_another_model_of_its_hardware() -> None:
    found = planned(shipped("muse-spark-open-paper"), Asked(experts=49))
    assert found.efficiency.rests_on == ("minimax-m2.7-gb300-tp2-c1",)
    assert found.bound.startswith("launches, synchronisation and the host")
    # Verify part of the step without the megakernel, 10.9 ms; with it 5.3, which no count of
    # bytes tells.
    verify = found.passes[-1].time
    assert verify.value == pytest.approx(10.9e-3, rel=0.3)
    assert verify.low < 10.9e-3 < verify.high
    assert any("measured at tensor 2 at most: what 8 GPUs" in text for text in found.remarks)
    assert any("nvidia-megakernel" in text for text in found.remarks)


def test_a_figure_outside_of_the_range_is_shown_with_the_reason() -> None:
    wanted = shipped("ling-3.0-flash-spark-baseline")
    fast = Plain("fast", "dgx-spark", "ling-3.0-flash-fp4", 0.0177, 4.83e9, 42, 273, host="mine")
    found = planned(wanted, own=(fast,))
    assert found.efficiency.host == "mine"
    assert found.efficiency.share.value == pytest.approx(1.0, abs=0.001)
    text = next(text for text in found.remarks if "26.45 ms" in text)
    assert "outside, slower than the bytes explain" in text
    inside = next(text for text in planned(wanted).remarks if "26.45 ms" in text)
    assert "outside" not in inside


def test_a_step_of_this_host_counts_before_all_others() -> None:
    own = Plain("mine", "dgx-spark", "qwen3-8b", 0.08, 15.3e9, 36, 273, host="under my desk")
    found = planned(shipped("ling-3.0-flash-spark-baseline"), own=(own,))
    assert found.efficiency.rests_on == ("mine",)
    assert found.efficiency.share.value == pytest.approx(15.3 / (0.08 * 273))


def test_context_comes_from_the_workload_and_is_read_at(tmp_path: Path) -> None:
    text = "workload: {context: 32768, input_tokens: 4000, output_tokens: 1000}\n"
    wanted = deployment(tmp_path, text)
    assert planned(wanted).context == 4500
    short = planned(wanted, Asked(context=100))
    assert short.context == 100
    per_token = 36 * 8 * 128 * 2 * 2
    difference = (
        size_of(planned(wanted).passes[0].reads).value - size_of(short.passes[0].reads).value
    )
    assert difference == pytest.approx(4400 * per_token)
    assert any("at 32,768 a plain step reads" in text for text in short.remarks)


def test_large_batches_are_bound_by_operations_where_the_rate_is_known(tmp_path: Path) -> None:
    wanted = deployment(tmp_path)
    found = planned(wanted, Asked(batch=1024, context=64))
    time = found.passes[0].time
    parameters = 2 * (6.95e9 + 151936 * 4096) * 1024
    assert time.low >= parameters / 989e12 * 0.99
    assert "of operations" in time.formula
    assert "of operations" not in planned(wanted, Asked(batch=1)).passes[0].time.formula


def test_where_no_rate_is_known_the_doubtful_batch_is_named(tmp_path: Path) -> None:
    wanted = deployment(tmp_path, hardware="{name: dgx-spark, gpus: 1}")
    found = planned(wanted, Asked(context=64))
    said = [text for text in found.remarks if "only bandwidth is considered" in text]
    assert len(said) == 1
    assert "doubtful from batch 128 on" in said[0]
    assert not [t for t in planned(deployment(tmp_path)).remarks if "only bandwidth" in t]


def test_more_gpus_than_were_measured_at_are_said_to_be_so(tmp_path: Path) -> None:
    text = "topology: {tensor: 8}\n"
    found = planned(deployment(tmp_path, text, hardware="{name: h200, gpus: 8}"))
    assert any("measured at tensor 1 at most: what 8 GPUs wait" in t for t in found.remarks)


def test_without_bandwidth_or_bytes_there_is_no_step(tmp_path: Path) -> None:
    blind = deployment(tmp_path, hardware="{name: cpu, gpus: 1}")
    assert step_of(blind, geometry_of(blind, LIBRARY), LIBRARY, geometry_of) is None
    nothing = deployment(tmp_path, model="{name: unspecified}")
    assert step_of(nothing, geometry_of(nothing, LIBRARY), LIBRARY, geometry_of) is None


def test_layers_are_those_of_the_checkpoint_where_no_entry_says_them(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
        "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 256, "torch_dtype": "bfloat16",
        "max_position_embeddings": 512,
    }  # fmt: skip
    path = checkpoint(tmp_path / "model", config, tiny.llama(config))
    wanted = served(tmp_path, path, hardware="{name: rtx-pro-6000, gpus: 1}")
    found = planned(wanted)
    assert found.efficiency.layer.high > 0
    # Bytes alone would be a microsecond.
    assert found.plain.high == pytest.approx(2 * found.efficiency.layer.high, rel=0.01)
    assert "2 layers x" in found.plain.formula
    assert found.context == 512


def test_layers_that_nothing_says_are_no_zero_layers(tmp_path: Path) -> None:
    wanted = deployment(tmp_path, hardware="{name: rtx-pro-6000, gpus: 1}")
    less = replace(wanted, model=wanted.model.model_copy(update={"layers": None}))
    counted = replace(geometry_of(wanted, LIBRARY), layers=None)
    found = step_of(less, counted, LIBRARY, geometry_of)
    assert found is not None
    said = [text for text in found.remarks if "how many layers qwen3-8b has is not known" in text]
    assert len(said) == 1
    assert "give its entry 'layers'" in said[0]


def test_drafts_that_an_argument_alone_asks_for_are_no_plain_decode(tmp_path: Path) -> None:
    wanted = deployment(tmp_path, "extra: {args: {speculative-algorithm: EAGLE3}}\n")
    found = planned(wanted, Asked(accepted=2.5))
    assert (found.step, found.accepted, found.per_token) == (None, None, None)
    assert found.plain.value > 0
    assert found.remarks[0] == (
        "the passes of --speculative-algorithm EAGLE3 are not known: no mechanism under "
        "optimizations brings it"
    )


def test_an_acceptance_of_what_drafts_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfiguratorError, match=r"PLN001 mine drafts nothing, so it accepts no 2\.5 "
    ):
        planned(deployment(tmp_path), Asked(accepted=2.5))


def test_a_step_of_part_of_the_weights_is_no_step(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    }  # fmt: skip
    wanted = served(tmp_path, checkpoint(tmp_path / "model", config, {}))
    geometry = geometry_of(wanted, LIBRARY)
    assert "attention" in [part.name for part in geometry.parts]
    assert geometry.unknown == (
        "dense MLP of 2 layers: config.json of model does not say its width",
    )
    assert geometry.weights is None
    assert step_of(wanted, geometry, LIBRARY, geometry_of) is None


def test_passes_come_from_the_kernel_entry() -> None:
    def passes(name: str) -> Round:
        wanted = shipped(name)
        return round_of(wanted, geometry_of(wanted, LIBRARY))

    nextn = passes("ling-3.0-flash-spark")
    assert [(d.tokens, d.times) for d in nextn.drafts] == [(1, 2), (4, 1)]
    assert nextn.width == 4
    block = passes("ling-3.0-flash-spark-dspark")
    assert [(d.tokens, d.times) for d in block.drafts] == [(8, 1)]
    assert block.width == 9
    wide = passes("muse-spark-open-gb300x8")
    assert [(d.tokens, d.times) for d in wide.drafts] == [(8, 1)]
    assert passes("ling-3.0-flash-spark-baseline").drafts == ()


def test_passes_that_no_entry_describes_are_not_guessed() -> None:
    wanted = shipped("ling-3.0-flash-spark")
    mechanism = wanted.mechanisms["nextn-mtp"]
    kernel = mechanism.kernel.model_copy(update={"drafting": None})
    blind = replace(
        wanted,
        mechanisms={**wanted.mechanisms, "nextn-mtp": replace(mechanism, kernel=kernel)},
    )
    found = planned(blind)
    assert found.step is None
    assert any("the passes of nextn-mtp are not known" in text for text in found.remarks)
    assert [one.name for one in found.passes] == ["plain decode"]


def test_what_bounds_the_step_is_named() -> None:
    assert planned(shipped("ling-3.0-flash-spark-baseline")).bound.startswith(
        "memory bandwidth: 4.83 GB a step, of it linear attention (fp8) 46%"
    )
    measurement = LIBRARY.measurement("ling-3.0-flash-fp4-h200-tp2-c1")
    found = planned(deployment_of(measurement, LIBRARY))
    assert found.bound.startswith("launches, synchronisation and the host: reading 2.48 GB")


def test_operations_at_the_data_sheets_rate_are_a_bound_and_no_estimate(tmp_path: Path) -> None:
    found = planned(deployment(tmp_path), Asked(batch=4096, context=1)).plain
    # 2 x 7.57B parameters x 4,096 tokens at 989 TFLOP/s.
    assert found.low == pytest.approx(2 * 7.57e9 * 4096 / 989e12, rel=0.01)
    assert found.value == pytest.approx(found.low / 0.7)
    assert found.high == pytest.approx(found.low / 0.6)


@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-30b-a3b", "ling-3.0-flash-fp4"])
def test_more_requests_take_no_less_time(tmp_path: Path, model: str) -> None:
    wanted = deployment(tmp_path, model=f"{{name: {model}}}")
    batches = [1, 2, 7, 64, 300, 1024, 5000, 65_536]
    times = [planned(wanted, Asked(batch=batch)).plain for batch in batches]
    for name in ("low", "value", "high"):
        ends = [getattr(time, name) for time in times]
        assert ends == sorted(ends)


def test_what_operations_bound_is_not_put_down_to_launches(tmp_path: Path) -> None:
    found = planned(deployment(tmp_path), Asked(batch=4096, context=1))
    assert found.bound == (
        "operations: 89.6 ms of 89.6 ms by habit, where reading 15.8 GB takes 5.36 ms"
    )
    assert planned(deployment(tmp_path)).bound.startswith("memory bandwidth: ")
