"""Weights from headers: classes by tensor name, and bytes against what engines reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plan.deployments import LIBRARY, checkpoint, served
from plan.tiny import glm, llama

from configurator.checkpoint import read_checkpoint
from configurator.content import ROOT
from configurator.plan.config_shape import shape_of_config
from configurator.plan.geometry import geometry_of
from configurator.plan.headers import parts_of_headers, whole
from configurator.plan.model import Geometry
from configurator.plan.sharing import Ranks

REPORTS = ROOT / "tests" / "fixtures" / "inengine"
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 512, "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
GLM: dict[str, Any] = LLAMA | {
    "architectures": ["Glm4MoeForCausalLM"], "moe_intermediate_size": 128, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
NEXTN = """\
optimizations:
  nextn-mtp: {draft: {same_checkpoint: true}, steps: 3, topk: 1, draft_tokens: 4}
"""


def reported(name: str, rank: int = 0) -> list[dict[str, int]]:
    """Bytes that the engine counted: of the target, then of the draft."""
    path = REPORTS / name / f"report-tp{rank}-pp0-dp0.json"
    report = json.loads(path.read_text())
    return [model["weight_bytes"] for model in [report["target"], *report["drafts"]]]


def in_classes(geometry: Geometry, owner: str) -> dict[str, float]:
    """Bytes on one GPU, in the classes of a report."""
    found = dict.fromkeys(("embedding", "head", "experts", "other"), 0.0)
    names = {"embedding": "embedding", "LM head": "head", "routed experts": "experts"}
    for part in geometry.parts:
        if part.owner == owner:
            found[names.get(part.name, "other")] += part.size.value / part.pieces
    return found


def compare(geometry: Geometry, owner: str, said: dict[str, int]) -> None:
    for key, size in in_classes(geometry, owner).items():
        assert size == pytest.approx(said[key], rel=0.02), key
    total = sum(said[key] for key in ("embedding", "head", "experts", "other"))
    of = geometry.weights if owner == "target" else geometry.draft
    assert of is not None
    assert of.value == pytest.approx(total, rel=0.02)


def test_a_dense_model_is_exact_to_the_byte(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "m", LLAMA, llama(LLAMA))
    geometry = geometry_of(served(tmp_path, path), LIBRARY)
    (said,) = reported("cpu_graphs")
    assert in_classes(geometry, "target") == {key: said[key] for key in list(said)[:4]}
    assert geometry.weights is not None
    assert geometry.weights.value == sum(said.values()) == 2_886_144


def test_experts_and_a_draft_in_the_same_checkpoint(tmp_path: Path) -> None:
    config = GLM | {"num_hidden_layers": 2}
    path = checkpoint(tmp_path / "m", config, glm(config))
    geometry = geometry_of(served(tmp_path, path, NEXTN), LIBRARY)
    target, draft = reported("nextn_good")
    compare(geometry, "target", target)
    # The report has the shared embedding and head in `counted_before`: they take nothing twice.
    assert draft["counted_before"] == 2 * 262_144
    compare(geometry, "draft", draft)


def test_without_speculation_the_prediction_layer_is_not_loaded(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "m", GLM, glm(GLM))
    geometry = geometry_of(served(tmp_path, path), LIBRARY)
    assert geometry.draft is None
    assert {part.owner for part in geometry.parts} == {"target"}
    assert [cache.owner for cache in geometry.caches] == ["target"]


@pytest.mark.parametrize("rank", [0, 1])
def test_two_ranks(tmp_path: Path, rank: int) -> None:
    config = GLM | {"num_hidden_layers": 2}
    path = checkpoint(tmp_path / "m", config, glm(config))
    text = NEXTN + "topology: {tensor: 2}\n"
    two = "{name: h200, gpus: 2}"
    geometry = geometry_of(served(tmp_path, path, text, hardware=two), LIBRARY)
    target, draft = reported("tensor_parallel_2", rank)
    compare(geometry, "target", target)
    compare(geometry, "draft", draft)


def test_a_promised_draft_that_is_not_there(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "m", GLM, glm(GLM, draft=False))
    geometry = geometry_of(served(tmp_path, path, NEXTN), LIBRARY)
    assert geometry.draft is None
    assert geometry.unknown == (
        "draft: config.json of m promises prediction layers, and no tensor is one",
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.3.mlp.experts.7.down_proj.weight_scale_inv", "routed experts"),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", "routed experts"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "shared experts"),
        ("model.layers.3.mlp.shared_expert_gate.weight", "router"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.3.mlp.gate_proj.weight", "dense MLP"),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", "latent projections"),
        ("model.layers.3.self_attn.q_b_proj.weight", "attention"),
        ("model.layers.3.self_attn.kv_b_proj.weight", "attention"),
        ("model.layers.3.self_attn.k_proj.weight", "keys and values"),
        ("model.layers.3.self_attn.qkv_proj.weight", "attention"),
        ("model.layers.3.linear_attn.in_proj_qkvz.weight", "linear attention"),
        ("backbone.layers.3.mixer.in_proj.weight", "linear attention"),
        ("language_model.model.embed_tokens.weight", "embedding"),
        ("lm_head.weight", "LM head"),
        ("model.visual.blocks.3.attn.qkv.weight", "towers"),
        ("vision_tower.layers.0.mlp.fc1.weight", "towers"),
        ("model.layers.3.pre_expert_proj.weight", "other"),
    ],
)
def test_classes_by_name(tmp_path: Path, name: str, kind: str) -> None:
    path = checkpoint(tmp_path / "m", {"num_hidden_layers": 4}, {name: ("BF16", (8, 8))})
    found = read_checkpoint(path)
    (part,) = parts_of_headers(found, shape_of_config(found), Ranks())
    # A scale is bytes, and no parameter.
    assert (part.name, part.size.value) == (kind, 128)
    assert part.parameters == (0 if "scale" in name else 64)


def test_norms_and_recurrent_layers_that_are_called_attention(tmp_path: Path) -> None:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.layers.0.attention.q_proj.weight": ("BF16", (8, 8)),
        "model.layers.0.attention.A_log": ("F32", (4,)),
        "model.layers.1.attention.q_proj.weight": ("BF16", (8, 8)),
        "model.layers.1.attention.q_norm.weight": ("BF16", (8,)),
    }
    found = read_checkpoint(checkpoint(tmp_path / "m", {"num_hidden_layers": 2}, tensors))
    parts = parts_of_headers(found, shape_of_config(found), Ranks())
    assert {part.name: part.size.value for part in parts} == {
        "linear attention": 144, "attention": 128, "norms": 16,
    }  # fmt: skip


def test_packed_weights_and_their_scales(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 1, "quantization_config": {"quant_method": "mxfp4"}}
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.layers.0.mlp.experts.gate_up_proj_blocks": ("U8", (4, 64, 16)),
        "model.layers.0.mlp.experts.gate_up_proj_scales": ("U8", (4, 64, 1)),
    }
    found = read_checkpoint(checkpoint(tmp_path / "m", config, tensors))
    (part,) = parts_of_headers(found, shape_of_config(found), Ranks())
    assert (part.dtype, part.parameters) == ("mxfp4", 4 * 64 * 32)
    assert part.size.value == part.parameters * 0.53125


def test_an_index_without_its_shards_is_not_counted(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "m", LLAMA, llama(LLAMA))
    assert whole(read_checkpoint(path))
    index = {"weight_map": {"model.norm.weight": "a.safetensors"}, "metadata": {"total_size": 9e6}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read_checkpoint(path)
    assert not whole(found)
    parts = geometry_of(served(tmp_path, path), LIBRARY).parts
    # Counted from the config instead, with the rest of the index's total.
    assert sum(part.size.value for part in parts) == 9e6
    assert parts[-1].name == "not itemized"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"num_hidden_layers": "many"},
        {"num_hidden_layers": 10**9, "layer_types": ["full_attention"] * 3},
        {"num_hidden_layers": 2, "layer_types": [1, {}], "num_attention_heads": 0},
        {"num_hidden_layers": 2, "linear_attn_config": {"kda_layers": [1], "num_heads": "x"}},
        {"num_hidden_layers": 2, "mlp_only_layers": "x", "num_experts": 4, "hidden_size": 8},
        {"num_hidden_layers": 2, "num_experts": 4, "moe_intermediate_size": -1},
    ],
)
def test_configs_that_make_no_sense(tmp_path: Path, config: dict[str, Any]) -> None:
    geometry = geometry_of(served(tmp_path, checkpoint(tmp_path / "m", config, {})), LIBRARY)
    assert geometry.unknown


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00004.safetensors"])
def test_a_checkpoint_that_is_half_there_is_counted_from_its_config(
    tmp_path: Path, name: str
) -> None:
    config = GLM | {"num_hidden_layers": 4}
    whole_one = checkpoint(tmp_path / "whole", config, glm(config))
    half = checkpoint(tmp_path / "half", config, glm(config | {"num_hidden_layers": 2}))
    (half / "model.safetensors").rename(half / name)
    expected = geometry_of(served(tmp_path, whole_one, NEXTN), LIBRARY)
    found = geometry_of(served(tmp_path, half, NEXTN), LIBRARY)
    assert expected.unknown == ()
    lacks = (
        "the files that are there hold 3 of 4 layers"
        if name == "model.safetensors"
        else "1 of 4 files model-*.safetensors are there"
    )
    assert found.unknown == (f"weights from headers: {lacks}",)
    assert found.weights is not None
    assert expected.weights is not None
    assert found.weights.value == pytest.approx(expected.weights.value, rel=0.01)
    assert found.draft is not None


def test_tensors_without_a_byte_are_no_weights_of_0(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "m", LLAMA, {"model.embed_tokens.weight": ("BF16", (0, 256))})
    found = geometry_of(served(tmp_path, path), LIBRARY)
    assert found.weights is not None
    assert found.weights.value > 2_000_000
