"""Published figures against deployments: which apply, which nearly do, and why others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan.claims import Match, match
from configurator.resolve import resolve

LIBRARY = Library()
SPARK = "ling-3.0-flash-spark"


def deployment(name: str) -> Deployment:
    profile, layers = LIBRARY.profile(name)
    return resolve(profile, layers, LIBRARY)


def changed(folder: Path, text: str) -> Deployment:
    path = folder / "profile.yaml"
    path.write_text(f"apiVersion: configurator/v1\nkind: Deployment\nname: mine\n{text}")
    return deployment(str(path))


def held(of: Deployment, claim_id: str) -> Match:
    (found,) = match(of, [LIBRARY.claims()[claim_id]])
    return found


@pytest.mark.parametrize(
    ("name", "claim_id", "status"),
    [
        (SPARK, "ling-three-optimizations-53.89", "applies"),
        (SPARK, "ling-acceptance-gsm8k-2.68", "applies"),
        (SPARK, "ling-three-optimizations-185.1-percent", "nearly"),
        (SPARK, "ling-fp8-lm-head-11-percent", "nearly"),
        (SPARK, "ling-baseline-37.81", "does not"),
        (SPARK, "ling-unshared-head-24.0", "does not"),
        (SPARK, "ling-pr-h200-accepted-3.8", "does not"),
        (f"{SPARK}-baseline", "ling-baseline-37.81", "applies"),
        (f"{SPARK}-baseline", "ling-three-optimizations-53.89", "does not"),
        (f"{SPARK}-dspark", "ling-community-dspark-off-code-68", "nearly"),
        (f"{SPARK}-dspark", "ling-dspark-acceptance-5.29", "does not"),
        ("muse-spark-open-gb300x8", "muse-megakernel-decode-1109", "does not"),
        ("muse-spark-open-gb300x8", "muse-hosted-endpoint-169", "does not"),
        ("muse-spark-open-gb300x8", "muse-derived-weights-tp4-133", "applies"),
        ("muse-spark-open-gb300x8", "muse-derived-weights-tp8-67", "does not"),
        ("muse-spark-open-gb300x8-tp8", "muse-derived-weights-tp8-67", "applies"),
        ("muse-spark-open-gb300x8-tp8", "muse-ordinary-decode-517", "does not"),
    ],
)
def test_which_figures_apply(name: str, claim_id: str, status: str) -> None:
    assert held(deployment(name), claim_id).status == status


def test_a_figure_of_tensor_8_is_not_carried_to_two_replicas_of_4() -> None:
    found = held(deployment("muse-spark-open-gb300x8"), "muse-megakernel-decode-1109")
    assert found.why == (
        "tensor: 8 there, 4 here; replicas: 1 there, 2 here; mechanisms: dflash, sgl-muse-mega "
        "there, dflash, nvidia-megakernel here; draft: muse-spark-open-dflash2-article there, "
        "muse-spark-open-dflash2 here"
    )
    assert [row.condition for row in found.differs] == [
        "tensor", "replicas", "mechanisms", "draft", "verify width", "candidates",
    ]  # fmt: skip


def test_a_profile_that_does_not_say_its_workload_leaves_it_open() -> None:
    found = held(deployment(SPARK), "ling-three-optimizations-53.89")
    assert [row.text for row in found.open] == [
        "workload: GSM8K there, not said here",
        "engine: not stated there, ling-v3-mxfp4-humming here",
    ]
    assert (found.differs, found.why) == ((), "")


@pytest.mark.parametrize(
    ("workload", "status", "why"),
    [
        ("text: GSM8K", "applies", ""),
        ("text: gsm8k", "applies", ""),
        ("text: support chat", "nearly", "workload: GSM8K there, support chat here"),
        ("concurrency: 4", "nearly", "concurrency: 1 there, 4 here"),
        ("sampling: {temperature: 0}", "nearly", "temperature: 0.6 there, 0 here"),
        ("sampling: {top_k: 20}", "nearly", "top_k: 29 there, 20 here"),
    ],
)
def test_the_workload_makes_a_figure_nearly_apply(
    workload: str, status: str, why: str, tmp_path: Path
) -> None:
    mine = changed(tmp_path, f"extends: {SPARK}\nworkload: {{{workload}}}\n")
    found = held(mine, "ling-three-optimizations-53.89")
    assert (found.status, found.why) == (status, why)


def test_a_profile_without_sampling_leaves_it_open(tmp_path: Path) -> None:
    mine = changed(tmp_path, f"extends: {SPARK}\nworkload: {{sampling: null}}\n")
    found = held(mine, "ling-three-optimizations-53.89")
    assert found.status == "applies"
    assert {"temperature", "top_p", "top_k"} <= {row.condition for row in found.open}


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        ("hardware: {name: h200}", "does not", "hardware: NVIDIA GB10 there, NVIDIA H200 here"),
        ("topology: {replicas: 2}\nhardware: {gpus: 2}", "does not",
         "hosts: 1 there, 2 here; gpus: 1 there, 2 here; replicas: 1 there, 2 here"),
        ("optimizations: {fp8-lm-head: null}", "does not",
         "mechanisms: fp8-lm-head, humming-mxfp4-moe, nextn-mtp there, humming-mxfp4-moe, "
         "nextn-mtp here"),
        ("optimizations: {lm-head-shared: {}}", "applies", ""),
        ("optimizations: {nextn-mtp: {steps: 2, draft_tokens: 3}}", "nearly",
         "steps: 3 there, 2 here; verify width: 4 there, 3 here"),
    ],
)  # fmt: skip
def test_machine_topology_and_mechanisms_decide(
    change: str, status: str, why: str, tmp_path: Path
) -> None:
    mine = changed(tmp_path, f"extends: {SPARK}\n{change}\n")
    found = held(mine, "ling-three-optimizations-53.89")
    assert (found.status, found.why) == (status, why)


def test_a_division_that_a_publication_does_not_state_is_taken_for_1(tmp_path: Path) -> None:
    tp8 = "muse-spark-open-gb300x8-tp8"
    undivided = changed(tmp_path, f"extends: {tp8}\ntopology: {{expert: 1}}\n")
    needed = [r.condition for r in held(undivided, "muse-ordinary-step-12.9").open if r.needed]
    assert "expert" not in needed
    rows = [r.text for r in held(deployment(tp8), "muse-ordinary-step-12.9").open if r.needed]
    assert rows[:1] == ["expert: not stated there, 8 here"]
    mine = changed(tmp_path, f"extends: {tp8}\ntopology: {{expert: 4, data: 2}}\n")
    rows = [r.text for r in held(mine, "muse-ordinary-step-12.9").open if r.needed]
    assert rows[:2] == ["expert: not stated there, 4 here", "data: not stated there, 2 here"]
    # Memory a GPU is computed for a tensor size, whatever runs beside it.
    weights = held(deployment("muse-spark-open-gb300x8"), "muse-derived-weights-tp4-133")
    assert [r.condition for r in weights.open if r.needed] == []


def test_acceptance_on_another_machine_nearly_applies(tmp_path: Path) -> None:
    mine = changed(tmp_path, f"extends: {SPARK}\nhardware: {{name: h200}}\n")
    accepted = held(mine, "ling-acceptance-gsm8k-2.68")
    assert (accepted.status, accepted.why) == (
        "nearly", "hardware: NVIDIA GB10 there, NVIDIA H200 here",
    )  # fmt: skip
    assert held(mine, "ling-three-optimizations-latency-11.49").status == "does not"


def test_what_a_publication_does_not_state_is_named() -> None:
    found = held(deployment(SPARK), "ling-fp8-lm-head-11-percent")
    assert [row.condition for row in found.open if row.needed] == [
        "mechanisms", "concurrency", "workload", "temperature",
    ]  # fmt: skip
    assert "workload: not stated there, not said here" in found.why
    hosted = held(deployment("muse-spark-open-gb300x8"), "muse-hosted-endpoint-169")
    assert hosted.why == "hardware: not stated there, NVIDIA GB300 here"


def test_a_mechanism_that_did_not_take_effect_is_told() -> None:
    found = held(deployment(SPARK), "ling-unshared-head-24.0")
    assert found.why == "in effect: not lm-head-shared there, lm-head-shared here"


def test_an_engine_build_is_compared(tmp_path: Path) -> None:
    assert held(deployment(SPARK), "ling-notebook-34.87").differs == ()
    mine = changed(tmp_path, f"extends: {SPARK}\nengine: {{build: sglang-0.5.23}}\nclaims: []\n")
    (row,) = held(mine, "ling-notebook-34.87").differs
    assert row.text == "engine: ling-v3-mxfp4-humming there, sglang-0.5.23 here"


def test_the_order_is_fixed_and_other_models_come_last() -> None:
    claims = list(LIBRARY.claims().values())
    found = match(deployment(SPARK), claims)
    assert found == match(deployment(SPARK), claims)
    states = [m.status for m in found]
    assert states == sorted(states, key=["applies", "nearly", "does not"].index)
    assert found[0].published.id == "ling-three-optimizations-53.89"
    last = [m.other_model for m in found]
    assert last == sorted(last)
    assert sum(last) == sum(m.published.conditions.model != "ling-3.0-flash-fp4" for m in found)
    assert all(m.status == "does not" for m in found if m.other_model)


def test_no_value_is_changed() -> None:
    of = deployment("muse-spark-open-gb300x8")
    before = {p.id: p for p in LIBRARY.claims().values()}
    assert {m.published.id: m.published for m in match(of, before.values())} == before
