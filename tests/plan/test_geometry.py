"""Geometry: parts of weights and caches, from entries of the content."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan import tiny
from plan.deployments import LIBRARY, checkpoint, deployment, served, shipped

from configurator.plan.geometry import geometry_of
from configurator.plan.model import Geometry

MUSE = "muse-spark-open-gb300x8"
LING = "ling-3.0-flash-spark"


def sizes(geometry: Geometry, owner: str = "target") -> dict[str, float]:
    """GB of each part of the whole model."""
    return {p.name: p.size.value / 1e9 for p in geometry.parts if p.owner == owner}


def test_ling_by_class() -> None:
    geometry = geometry_of(shipped(LING), LIBRARY)
    found = sizes(geometry)
    assert found["routed experts"] == pytest.approx(120.8 * 0.53125, rel=1e-3)
    # 35 layers of 63.0M and the latent ones, FP8: the 2.52B that the article's byte count has.
    dense = found["linear attention"] + found["attention"] + found["latent projections"]
    assert dense + found["dense MLP"] == pytest.approx(2.52, rel=0.01)
    assert found["LM head"] == pytest.approx(157_184 * 2_560 / 1e9, rel=1e-6)
    assert found["embedding"] == pytest.approx(2 * found["LM head"], rel=1e-6)
    assert geometry.unknown == ()


def test_ling_adds_up_to_the_published_sizes(tmp_path: Path) -> None:
    plain = geometry_of(deployment(tmp_path, base=f"{LING}-baseline"), LIBRARY)
    counted = [p for p in plain.parts if p.name != "absorbed projections"]
    parameters = sum(p.parameters for p in counted)
    assert parameters == pytest.approx(124.45e9, rel=1e-3), "the BF16 GGUF has 248.9 GB"
    drafted = geometry_of(shipped(LING), LIBRARY)
    draft = sum(p.parameters for p in drafted.parts if p.owner == "draft")
    assert draft == pytest.approx(3.1e9, rel=0.02), "the prediction layer has 3.1B"
    assert parameters + draft == pytest.approx(127.5e9, rel=1e-3), "Hugging Face counts 127.5B"
    whole = sum(p.size.value for p in counted) + sum(sizes(drafted, "draft").values()) * 1e9
    assert whole == pytest.approx(70.4e9, rel=0.005), "the checkpoint has up to 70.4 GB"


def test_the_fp8_head_is_what_the_mechanism_says(tmp_path: Path) -> None:
    text = "optimizations: {fp8-lm-head: null}\n"
    without = geometry_of(deployment(tmp_path, text, base=LING), LIBRARY)
    with_it = geometry_of(shipped(LING), LIBRARY)
    head = {g: next(p for p in g.parts if p.name == "LM head") for g in (without, with_it)}
    assert (head[without].dtype, head[with_it].dtype) == ("bf16", "fp8")
    assert head[without].size.value - head[with_it].size.value == 157_184 * 2_560 - 4
    assert "fp8-lm-head" in head[with_it].size.source


def test_caches_of_ling() -> None:
    geometry = geometry_of(shipped(LING), LIBRARY)
    caches = {(c.owner, c.kind): c for c in geometry.caches}
    assert caches["target", "mla"].per_token.value == (512 + 64) * 2 * 7
    assert caches["draft", "mla"].per_token.value == (512 + 64) * 2
    state = caches["target", "linear"].per_request.value
    assert state == (3 * 4096 * 3 * 2 + 32 * 128 * 128 * 4) * 35
    assert 2 * state == pytest.approx(0.15e9, rel=0.02), "read and written: 0.15 GB a step"
    assert caches["target", "linear"].ring is None


def test_the_ring_of_a_draft_that_replays() -> None:
    geometry = geometry_of(shipped(f"{LING}-dspark"), LIBRARY)
    (linear,) = (c for c in geometry.caches if c.kind == "linear")
    assert linear.ring is not None
    channels = 32 * 128
    each = 4 * channels * 2 + 32 * 4 + channels * 4
    assert linear.ring.value == each * 32 * 35
    assert any(u.startswith("draft: KV cache") for u in geometry.unknown)


@pytest.mark.parametrize(("name", "floor"), [(MUSE, 133), (f"{MUSE}-tp8", 67)])
def test_muse_a_gpu_is_its_even_share_and_what_every_rank_has(name: str, floor: float) -> None:
    found = shipped(name)
    geometry = geometry_of(found, LIBRARY)
    tensor = found.profile.topology.tensor
    assert geometry.weights is not None
    whole = sum(sizes(geometry).values())
    assert whole == pytest.approx(533, rel=0.01), "the checkpoint has 533 GB"
    copies = sum(
        p.size.value * (1 - 1 / tensor) for p in geometry.parts
        if p.owner == "target" and p.split == "replicated"
    )  # fmt: skip
    assert {p.name for p in geometry.parts if p.split == "replicated"} == {
        "pooler and unpooler", "router", "towers"
    }  # fmt: skip
    assert geometry.weights.value - copies == pytest.approx(floor * 1e9, rel=0.01)
    assert floor * 1e9 < geometry.weights.low < geometry.weights.value


def test_muse_keeps_by_kind_of_layer() -> None:
    geometry = geometry_of(shipped(MUSE), LIBRARY)
    caches = {(c.owner, c.kind): c for c in geometry.caches}
    assert caches["target", "full"].per_token.value == 16 // 4 * (64 + 64) * 16
    assert caches["target", "sliding"].per_token.value == 16 // 4 * (64 + 64) * 46
    assert caches["target", "sliding"].window == 2048
    # The draft's sliding layers keep every token: its pool has no window.
    assert caches["draft", "full"].per_token.value == 8 // 4 * (128 + 128) * 5
    assert geometry.draft is None
    assert geometry.unknown == (
        "draft: dense MLP of 5 layers: model entry muse-spark-open-dflash2 does not say its width",
    )


def test_a_model_of_which_nothing_is_said(tmp_path: Path) -> None:
    geometry = geometry_of(deployment(tmp_path, model="{name: unspecified}"), LIBRARY)
    assert geometry.weights is None
    assert (geometry.parts, geometry.caches) == ((), ())
    assert geometry.unknown == (
        "weights: model entry unspecified does not say its hidden size",
        "KV cache: model entry unspecified does not say layers, heads and widths",
    )


def test_towers_of_a_config_without_weights_are_named_and_not_left_out(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "num_hidden_layers": 2,
        "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
        "vision_config": {"depth": 2, "hidden_size": 32},
    }  # fmt: skip
    bare = geometry_of(served(tmp_path, checkpoint(tmp_path / "bare", config, {})), LIBRARY)
    assert bare.unknown == (
        "towers: config.json of bare has a vision_config, and only headers of the weights say its "
        "size",
    )
    assert bare.weights is not None
    tensors = {**tiny.llama(config), "visual.blocks.0.attn.qkv.weight": ("BF16", (96, 32))}
    whole = geometry_of(served(tmp_path, checkpoint(tmp_path / "whole", config, tensors)), LIBRARY)
    assert whole.unknown == ()
    assert "towers" in sizes(whole)


def test_a_model_with_a_total_alone(tmp_path: Path) -> None:
    model = "{name: unspecified, overrides: {weights_gb: 80}}"
    text = "topology: {tensor: 4}\n"
    four = "{name: h200, gpus: 4}"
    geometry = geometry_of(deployment(tmp_path, text, model=model, hardware=four), LIBRARY)
    assert [p.name for p in geometry.parts] == ["not itemized"]
    assert geometry.weights is not None
    assert geometry.weights.value == 20e9
    assert geometry.unknown[0].startswith("classes of weights: ")


def test_online_fp8(tmp_path: Path) -> None:
    plain = geometry_of(deployment(tmp_path), LIBRARY)
    text = "extra: {args: {quantization: fp8}}\n"
    quantized = geometry_of(deployment(tmp_path, text), LIBRARY)
    before, after = sizes(plain), sizes(quantized)
    assert after["dense MLP"] == pytest.approx(before["dense MLP"] / 2, rel=1e-3)
    assert (after["LM head"], after["embedding"]) == (before["LM head"], before["embedding"])


@pytest.mark.parametrize(
    ("asked", "size"),
    [("auto", 147_456), ("fp8_e4m3", 73_728), ("bf16", 147_456), ("nvfp4", 41_472)],
)
def test_kv_dtypes(tmp_path: Path, asked: str, size: int) -> None:
    text = f"extra: {{args: {{kv-cache-dtype: {asked}}}}}\n"
    geometry = geometry_of(deployment(tmp_path, text), LIBRARY)
    assert [cache.per_token.value for cache in geometry.caches] == [size]


def test_a_kv_dtype_that_nobody_knows(tmp_path: Path) -> None:
    text = "extra: {args: {kv-cache-dtype: int3}}\n"
    geometry = geometry_of(deployment(tmp_path, text), LIBRARY)
    assert geometry.caches == ()
    assert geometry.unknown == (
        "KV cache: bytes of an element of 'int3' (--kv-cache-dtype int3) are not known",
    )


def test_more_ranks_than_kv_heads(tmp_path: Path) -> None:
    sixteen = "{name: h200, gpus: 16}"
    text = "topology: {tensor: 16}\n"
    geometry = geometry_of(deployment(tmp_path, text, hardware=sixteen), LIBRARY)
    assert [cache.per_token.value for cache in geometry.caches] == [147_456 / 8]
    assert "each with a copy of one" in geometry.caches[0].per_token.formula
    (kv,) = (p for p in geometry.parts if p.name == "keys and values")
    assert kv.pieces == 8


def test_one_lm_head_is_shared_by_all_groups_of_data_parallel_attention(tmp_path: Path) -> None:
    text = "topology: {{tensor: 8, data: 8}}\nextra: {{args: {{enable-dp-attention: true{}}}}}\n"
    pieces = []
    for more in ("", ", enable-dp-lm-head: true"):
        found = deployment(tmp_path, text.format(more), hardware="{name: h200, gpus: 8}")
        parts = {part.name: part.pieces for part in geometry_of(found, LIBRARY).parts}
        pieces.append((parts["LM head"], parts["embedding"], parts["attention"]))
    assert pieces == [(8, 1, 1), (1, 1, 1)]


def test_a_path_that_cannot_be_one_is_no_directory(tmp_path: Path) -> None:
    path = "1" * 400
    text = "extra: {args: {speculative-algorithm: EAGLE, speculative-num-draft-tokens: 4, "
    found = deployment(tmp_path, f"{text}speculative-draft-model-path: '{path}'}}}}\n")
    assert geometry_of(found, LIBRARY).draft is None
