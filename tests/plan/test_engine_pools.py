"""Pools that the real engine made without --max-total-tokens, and what a plan says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan.deployments import LIBRARY, checkpoint, served
from plan.tiny import glm, llama

from configurator.content import ROOT
from configurator.deployment import Deployment
from configurator.plan.engine_memory import cells_of, states_of, steps_of, tokens_in
from configurator.plan.geometry import geometry_of
from configurator.plan.memory import memory_of
from configurator.plan.model import Geometry

FIXTURES = ROOT / "tests" / "fixtures" / "plan"


def cases(name: str) -> dict[str, Any]:
    found = json.loads((FIXTURES / name).read_text())["cases"]
    return {case["name"]: case for case in found}


CASES = cases("engine_pools.json")
H200 = cases("h200_pools.json")
GIB = 2**30


def drift(name: str) -> float:
    """Share of the pools that other processes of the machine took while the weights loaded."""
    case: dict[str, Any] = CASES[name]
    weights: int = sum(sum(classes.values()) for classes in case["weights"].values())
    pools: int = case["budget"] + sum((case["states"] or {}).values())
    taken: float = (case["before_gib"] - case["after_gib"]) * GIB
    return (taken - weights) / pools


QUIET = [name for name in CASES if abs(drift(name)) < 0.04 and CASES[name]["budget"] > 2e9]


def planned(folder: Path, name: str) -> tuple[Deployment, Geometry]:
    case = CASES.get(name) or H200[name]
    config = case["config"]
    builders = {"llama": llama, "glm4_moe": glm}
    kind = config["model_type"]
    tensors = builders[kind](config) if kind in builders and name in CASES else {}
    path = checkpoint(folder / "model", config, tensors)
    args = dict(case["args"])
    if "speculative-draft-model-path" in args:
        draft = CASES["dense"]["config"]
        args["speculative-draft-model-path"] = str(checkpoint(folder / "d", draft, llama(draft)))
    # JSON is YAML; the engine's own words, as an imported command has them.
    text = f"extra: {{args: {json.dumps(args)}}}\n"
    memory = f"overrides: {{usable_gib: {case['before_gib']}}}"
    machine = "cpu" if name in CASES else "h200"
    deployment = served(folder, path, text, hardware=f"{{name: {machine}, gpus: 1, {memory}}}")
    return deployment, geometry_of(deployment, LIBRARY)


@pytest.mark.parametrize("name", CASES)
def test_tokens_of_a_budget(tmp_path: Path, name: str) -> None:
    deployment, geometry = planned(tmp_path, name)
    case = CASES[name]
    steps = steps_of(deployment, geometry, case["before_gib"] * GIB)
    cells = cells_of(deployment, geometry, steps)
    assert cells is not None
    page = case["args"].get("page-size", 1)
    tokens = tokens_in(case["budget"], cells, page)
    assert tokens == pytest.approx(case["tokens"], abs=page)
    if case["sliding"]:
        assert int(tokens * cells.ratio) == pytest.approx(case["sliding"], abs=1)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name]["slots"]])
def test_state_slots(tmp_path: Path, name: str) -> None:
    deployment, geometry = planned(tmp_path, name)
    case = CASES[name]
    made = case["states"]["conv"] + case["states"]["temporal"]
    states = states_of(deployment, geometry, case["budget"] + made, tracked=True)
    assert states is not None
    assert states.slots == case["slots"]
    assert states.pool == made


@pytest.mark.parametrize("name", CASES)
def test_bytes_of_weights(tmp_path: Path, name: str) -> None:
    _, geometry = planned(tmp_path, name)
    said = CASES[name]["weights"]
    # Buffers (rotary tables) are not weights; what one module counts is the other's in a draft.
    of = {
        model: sum(size for key, size in classes.items() if key != "buffers")
        for model, classes in said.items()
    }
    assert geometry.weights is not None
    if CASES[name]["config"]["model_type"] == "gpt_oss":
        # 64 wide experts are padded to 128 on a CPU, and biases are a part of these tiny ones.
        assert geometry.weights.value < of["target"]
        return
    assert geometry.weights.value == pytest.approx(of["target"], rel=0.02)


def test_most_large_pools_were_made_while_the_machine_was_quiet() -> None:
    assert set(QUIET) == {"dense_30", "mtp_30", "hybrid_off", "kda_off", "kda_nobuf"}


@pytest.mark.parametrize("name", QUIET)
def test_token_capacity(tmp_path: Path, name: str) -> None:
    deployment, geometry = planned(tmp_path, name)
    memory = memory_of(deployment, geometry)
    assert memory is not None
    assert memory.tokens is not None
    assert memory.tokens.value == pytest.approx(CASES[name]["tokens"], rel=0.05)
    assert memory.requests is not None
    assert memory.requests.value == CASES[name]["requests"] == 8


@pytest.mark.parametrize("name", sorted(set(CASES) - set(QUIET)))
def test_token_capacity_is_in_the_range(tmp_path: Path, name: str) -> None:
    """Small pools, of which what a GPU may lose while it loads is a half; and a busy machine."""
    deployment, geometry = planned(tmp_path, name)
    memory = memory_of(deployment, geometry)
    assert memory is not None
    assert memory.tokens is not None
    moved = 1 + abs(drift(name)) + 0.06
    assert memory.tokens.low <= CASES[name]["tokens"] <= memory.tokens.high * moved


def test_the_draft_of_its_own_checkpoint_has_a_pool(tmp_path: Path) -> None:
    _, geometry = planned(tmp_path, "standalone")
    kept = {cache.owner: cache.per_token.value for cache in geometry.caches}
    case = CASES["standalone"]
    for owner, size in kept.items():
        assert size * case["tokens"] / GIB == pytest.approx(case["kv_gib"][owner], rel=1e-4)


def test_the_draft_of_the_same_checkpoint_has_a_pool(tmp_path: Path) -> None:
    _, geometry = planned(tmp_path, "mtp_30")
    kept = {cache.owner: cache.per_token.value for cache in geometry.caches}
    case = CASES["mtp_30"]
    for owner, size in kept.items():
        assert size * case["tokens"] / GIB == pytest.approx(case["kv_gib"][owner], rel=1e-4)


@pytest.mark.parametrize("name", H200)
def test_token_capacity_on_an_h200(tmp_path: Path, name: str) -> None:
    deployment, geometry = planned(tmp_path, name)
    case = H200[name]
    memory = memory_of(deployment, geometry)
    assert memory is not None
    assert memory.tokens is not None
    assert memory.tokens.value == pytest.approx(case["tokens"], rel=0.05)
    steps = steps_of(deployment, geometry, case["before_gib"] * GIB)
    cells = cells_of(deployment, geometry, steps)
    assert cells is not None
    assert tokens_in(case["budget"], cells, 1) == pytest.approx(case["tokens"], abs=1)
    assert int(case["tokens"] * cells.ratio) == (case["sliding"] or 0)


@pytest.mark.parametrize("name", H200)
def test_bytes_of_weights_on_an_h200(tmp_path: Path, name: str) -> None:
    _, geometry = planned(tmp_path, name)
    said = H200[name]["weights"]
    assert geometry.weights is not None
    assert geometry.weights.value == pytest.approx(sum(said["target"].values()), rel=0.02)
    if "draft" in said:
        # As loaded: the embedding and head of its own are given up for the target's later.
        own = said["draft"]["embedding"] + said["draft"]["head"]
        assert geometry.draft is not None
        assert geometry.draft.value == pytest.approx(sum(said["draft"].values()) - own, rel=0.02)


def test_the_drafts_own_embedding_and_head_count_while_pools_are_sized(tmp_path: Path) -> None:
    deployment, geometry = planned(tmp_path, "nextn_07")
    memory = memory_of(deployment, geometry)
    assert memory is not None
    assert memory.tokens is not None
    own = 2 * 151_552 * 4096 * 2
    (draft,) = (share.size.value for share in memory.shares if share.kind == "draft")
    assert draft == pytest.approx(4.79e9, rel=0.01)
    without = memory.tokens.value + own / 53_248
    assert without > H200["nextn_07"]["tokens"] * 1.05, "it would be out of the 5 %"


def test_the_fraction_that_the_engine_chose_on_an_h200(tmp_path: Path) -> None:
    deployment, geometry = planned(tmp_path, "moe_default")
    memory = memory_of(deployment, geometry)
    assert memory is not None
    assert H200["moe_default"]["fraction"] == 0.903
    assert memory.remarks[0].startswith("the engine's own choice of 0.902: ")


@pytest.mark.parametrize("name", [name for name, case in H200.items() if case["graphs_gib"]])
def test_what_captures_took_on_an_h200_is_in_the_range(tmp_path: Path, name: str) -> None:
    deployment, geometry = planned(tmp_path, name)
    memory = memory_of(deployment, geometry)
    assert memory is not None
    (graphs,) = (share.size for share in memory.shares if share.kind == "graphs")
    took = sum(H200[name]["graphs_gib"].values()) * GIB
    assert graphs.low <= took <= graphs.high
