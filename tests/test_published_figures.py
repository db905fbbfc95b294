"""The shipped claims: every figure of the pages they were made from is there, with its needs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from configurator.content import ROOT, Library
from configurator.evidence.trace import read_trace
from configurator.plan.consistency import Checked, consistency
from configurator.schema.claims import Published, stated

LIBRARY = Library()
FIGURES: dict[str, list[Any]] = yaml.safe_load(
    (Path(__file__).parent / "fixtures" / "published_figures.yaml").read_text()
)
DO_NOT_AGREE = {
    "time a token with DSPARK, one request: published against measured again",
    "random text: the cell against the cell word for word",
    "throughput x time a token = 1, DSPARK",
    "one configuration, two tables: 5 steps and 6 tokens",
    "rate per GPU x time a token = 1, NEXTN",
    "rate per GPU x time a token = 1, DSPARK",
    "acceptance of the study against the card",
    "acceptance of the study fits the public draft's window",
    "what both gains leave for Humming and FP8 head",
    "gain of speculation where nothing is accepted",
}


def named(claim_id: str) -> Published:
    return LIBRARY.claims()[claim_id]


def relation(name: str) -> Checked:
    (found,) = [c for c in consistency(LIBRARY) if c.relation.name == name]
    return found


def figure(item: Any) -> tuple[float, str]:
    number, _, unit = str(item).partition(" ")
    return float(number), unit


@pytest.mark.parametrize("publication", FIGURES)
def test_every_figure_of_the_pages_is_in_the_content(publication: str) -> None:
    kept: Counter[tuple[float, str]] = Counter()
    for published in LIBRARY.claims().values():
        if published.entry == publication:
            claim = published.claim
            ends = [claim.value] if claim.to is None else [claim.value, claim.to]
            kept.update((float(end), claim.unit) for end in ends)
    wanted = Counter(map(figure, FIGURES[publication]))
    assert wanted - kept == Counter()
    assert kept - wanted == Counter()


def test_every_publication_is_counted() -> None:
    assert set(FIGURES) == set(LIBRARY.names("claims"))
    assert len(LIBRARY.claims()) >= 200


def test_every_claim_says_its_source_and_conditions() -> None:
    for published in LIBRARY.claims().values():
        run = published.run
        assert run.source.strip(), published.id
        assert run.measured_by.strip(), published.id
        assert list(stated(published.conditions)) or run.reproduced == "no", published.id
        assert run.conditions.workload.kind, published.id


def test_names_in_conditions_are_entries() -> None:
    kernels, models = set(LIBRARY.names("kernel")), set(LIBRARY.names("model"))
    for published in LIBRARY.claims().values():
        conditions = published.conditions
        named_here = {*(conditions.mechanisms or ()), *conditions.without}
        assert named_here <= kernels, published.id
        if conditions.model and conditions.model.startswith(("ling-", "muse-")):
            assert conditions.model in models, published.id
        if conditions.speculation.draft is not None:
            assert conditions.speculation.draft in models, published.id


def test_what_is_computed_is_not_called_published() -> None:
    computed = [p for p in LIBRARY.claims().values() if "-derived-" in p.id]
    assert len(computed) >= 30
    for published in LIBRARY.claims().values():
        assert (published.claim.derived is not None) == (published in computed), published.id
        if published in computed:
            assert published.run.measured_by == "nobody; arithmetic of ours"
            assert any("Not a published figure" in text for text in published.caveats)


def test_which_figures_do_not_agree() -> None:
    assert {c.relation.name for c in consistency(LIBRARY) if not c.holds} == DO_NOT_AGREE
    for checked in consistency(LIBRARY):
        if not checked.holds and checked.relation.kind != "equal":
            assert checked.relation.note, checked.relation.name


@pytest.mark.parametrize(
    ("name", "left", "right", "holds"),
    [
        ("throughput x step time = tokens accepted", 6.543, 6.6, True),
        ("throughput x step time = tokens accepted, ordinary kernels", 6.669, 6.6, True),
        ("ratio of step times = ratio of throughputs", 2.186, 2.145, True),
        ("draft + verify = step", 5.74e-3, 5.9e-3, True),
        ("draft + verify = step, ordinary kernels", 12.06e-3, 12.9e-3, True),
        ("gain in throughput", 1.4253, 1.425, True),
        ("change in latency", 0.7554, 0.755, True),
        ("throughput over output length = latency, baseline over optimized", 1.331, 1.324, True),
        ("what both gains leave for Humming and FP8 head", 1.202, 1.652, False),
        ("gain of speculation where nothing is accepted", 0.6348, 0.4425, False),
        ("time a token with DSPARK, one request: published against measured again", 9.48e-3,
         16.9e-3, False),
        ("rate per GPU x time a token = 1, NEXTN", 2.073, 1, False),
        ("acceptance of the study fits the public draft's window", 9.95, 9, False),
    ],
)  # fmt: skip
def test_consistency_of_the_published(name: str, left: float, right: float, holds: bool) -> None:
    checked = relation(name)
    assert checked.left == pytest.approx(left, rel=1e-3)
    assert checked.right == pytest.approx(right, rel=1e-3)
    assert checked.holds is holds


@pytest.mark.parametrize(
    ("claim_id", "shown", "baseline"),
    [
        ("muse-megakernel-decode-1109", "1,109 tok/s", "517 tok/s"),
        ("muse-megakernel-step-5.9", "5.9 ms", "12.9 ms"),
        ("muse-megakernel-kernels-97", "97 kernels", "about 1,450 kernels"),
        ("muse-megakernel-verify-5.3", "5.3 ms", "10.9 ms"),
        ("muse-megakernel-draft-0.44", "0.44 ms", "1.16 ms"),
        ("muse-megakernel-accepted-6.6", "6.6 tokens", None),
        ("muse-hosted-endpoint-169", "169 tok/s", None),
        ("ling-three-optimizations-53.89", "53.89 tok/s", "37.81 tok/s"),
        ("ling-three-optimizations-42.5-percent", "+42.5 %", None),
        ("ling-three-optimizations-185.1-percent", "+185.1 %", None),
        ("ling-three-optimizations-latency-11.49", "11.49 s", "15.21 s"),
        ("ling-unshared-head-24.0", "24.0 tok/s", "37.81 tok/s"),
        ("ling-acceptance-gsm8k-2.68", "2.68 tokens", None),
        ("ling-acceptance-synthetic-3.90", "3.9 tokens", None),
        ("ling-verify-cost-ratio-2.26", "about 2.26", None),
        ("ling-community-tpot-9.6", "9.6 to 39.9 ms", None),
    ],
)
def test_published_figures(claim_id: str, shown: str, baseline: str | None) -> None:
    published = named(claim_id)
    assert published.shown == shown
    base = published.claim.baseline
    assert (named(base).shown if base else None) == baseline


def test_the_throughput_claim_says_what_it_holds_for() -> None:
    published = named("muse-megakernel-decode-1109")
    conditions = published.conditions
    assert (conditions.gpus, conditions.tensor, conditions.batch_size) == (8, 8, 1)
    assert (conditions.workload.kind, conditions.workload.text) == ("one request", "GSM8K")
    assert (published.sample.requests, published.sample.steps) == (1, 20)
    assert published.claim.statistic == "median of 20 decode steps"
    assert conditions.hosts is None


def test_conflicts_that_are_no_numbers_are_kept() -> None:
    about = {c.about for name in LIBRARY.names("claims") for c in LIBRARY.claims_of(name).conflicts}
    assert "storage of the LM head in the checkpoint of Ling-3.0-flash-fp4" in about


RECORDINGS = ROOT / "tests" / "fixtures" / "recordings"


def accepted(answer: Path) -> float:
    """What the client is told of one request."""
    told = json.loads(answer.read_text())["meta_info"]["spec_accept_length"]
    return float(told)


def traced(name: str) -> tuple[float, float]:
    """Mean time of the GEMM of the LM head, and of all kernels of a round, in us."""
    (file,) = (RECORDINGS / "fp8head" / name / "trace").glob("*.json.gz")
    trace = read_trace(file)
    (head,) = (kernel for kernel in trace.kernels if "_256x8_" in kernel.name)
    kinds = ("TARGET_VERIFY", "draft", "draft_extend")
    return head.mean_us, sum(s.gpu_us for s in trace.steps if s.kind in kinds and not s.within)


def test_our_own_figures_are_those_of_the_recordings_that_they_name() -> None:
    before, after = traced("bf16_nextn"), traced("fp8_module_shared")
    assert before[0] == pytest.approx(named("trap-shared-head-189").claim.value, rel=0.01)
    assert after[0] == pytest.approx(named("trap-shared-head-95").claim.value, rel=0.01)
    change = 100 * (after[1] / before[1] - 1)
    # Medians of the parts of a round are added here, the figure is of whole rounds.
    assert change == pytest.approx(named("trap-shared-busy-23-percent").claim.value, abs=1.5)
    own, alone = RECORDINGS / "fp8head", RECORDINGS / "cpu" / "fp8_head_nextn_target_only"
    told = accepted(own / "fp8_both_scale_own" / "generate_extra.json")
    assert told == pytest.approx(named("trap-own-scale-1.003").claim.value, abs=0.001)
    told = accepted(alone / "generate_bs1.json")
    assert told == pytest.approx(named("trap-weight-only-cpu-1.02").claim.value, abs=0.005)


def test_the_model_of_our_own_figures_is_the_recorded_one() -> None:
    alone = RECORDINGS / "cpu" / "fp8_head_nextn_target_only" / "probe-tp0-pp0-dp0.json"
    shape = json.loads(alone.read_text())["target"]["lm_head"]["tensors"]["weight"]["shape"]
    model = named("trap-weight-only-cpu-1.02").conditions.model
    assert model == "synthetic, with a vocabulary of {} and a width of {}".format(*shape)


def test_a_source_in_this_repository_exists() -> None:
    for name in LIBRARY.names("claims"):
        for source in LIBRARY.claims_of(name).sources:
            if source.startswith(("tests/", "docs/")):
                assert (ROOT / source).exists(), source
