"""Facts of checkpoints, from whole ones, half ones and hostile ones."""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from configurator.checkpoint import Checkpoint, read_checkpoint
from configurator.errors import ConfiguratorError
from configurator.safetensors_header import read_header


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A safetensors file: dtype, shape and bytes of each tensor."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def checkpoint(
    folder: Path, config: dict[str, Any] | None = None, names: tuple[str, ...] = ()
) -> Checkpoint:
    """A checkpoint of a config and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if names:
        index = {"weight_map": dict.fromkeys(names, "model.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return read_checkpoint(folder)


def of(config: dict[str, Any]) -> Checkpoint:
    return Checkpoint(Path("x"), config)


def problems(found: Checkpoint) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in found.problems]


def test_tensors_of_headers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2}')
    safetensors(
        tmp_path / "model.safetensors",
        {"lm_head.weight": ("F8_E4M3", [4, 2], 8), "lm_head.weight_scale": ("F32", [4], 16)},
    )
    found = read_checkpoint(tmp_path)
    assert found.problems == ()
    head = found.head
    assert head is not None
    assert (head.dtype, head.shape, head.size) == ("F8_E4M3", (4, 2), 8)
    assert found.head_quantized is True
    assert found.size == 24
    assert found.layers == 2


def test_an_index_alone_names_tensors_without_dtypes(tmp_path: Path) -> None:
    found = checkpoint(tmp_path, {}, ("lm_head.weight", "model.norm.weight"))
    assert set(found.tensors) == {"lm_head.weight", "model.norm.weight"}
    assert found.tensors["lm_head.weight"].dtype == ""
    assert found.head_quantized is None
    assert found.missing_shards == ("model.safetensors",)
    assert found.problems == ()


def test_missing_shards_and_the_size_that_the_index_names(tmp_path: Path) -> None:
    safetensors(tmp_path / "a.safetensors", {"x": ("BF16", [1], 2)})
    index = {
        "metadata": {"total_size": 4096},
        "weight_map": {"x": "a.safetensors", "y": "b.safetensors"},
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read_checkpoint(tmp_path)
    assert found.missing_shards == ("b.safetensors",)
    assert (found.tensors["x"].dtype, found.tensors["y"].dtype) == ("BF16", "")
    assert found.size == 4096


def test_only_files_that_the_engine_loads_are_read(tmp_path: Path) -> None:
    safetensors(tmp_path / "consolidated.safetensors", {"output.weight": ("BF16", [1], 2)})
    safetensors(tmp_path / "model.safetensors", {"lm_head.weight": ("BF16", [1], 2)})
    assert set(read_checkpoint(tmp_path).tensors) == {"lm_head.weight"}
    safetensors(tmp_path / "mtp.safetensors", {"mtp.fc.weight": ("BF16", [1], 2)})
    index = {"weight_map": {"lm_head.weight": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert set(read_checkpoint(tmp_path).tensors) == {"lm_head.weight"}
    glm = {"architectures": ["Glm4MoeForCausalLM"]}
    assert set(checkpoint(tmp_path, glm).tensors) == {"lm_head.weight", "mtp.fc.weight"}


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"", "claims a header of 0 bytes and has 0 bytes"),
        (b"\x10", "claims a header of 16 bytes and has 1 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", f"claims a header of {2**63} bytes and has 10 bytes"),
        (struct.pack("<Q", 500) + b"{}", "claims a header of 500 bytes and has 10 bytes"),
        (struct.pack("<Q", 4) + b"{{{{", "has a header that is no JSON"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "has a header that is no JSON"),
        (struct.pack("<Q", 2) + b"[]", "has a header that is no mapping"),
        (struct.pack("<Q", 7) + b'{"x":1}', "has a header without a proper entry for 'x'"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the weights"),
    ],
)
def test_no_header(tmp_path: Path, data: bytes, fact: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(data)
    found = read_checkpoint(tmp_path)
    assert problems(found) == [("CKPT002", f"model.safetensors {fact}")]
    assert found.tensors == {}
    assert all(problem.remedy for problem in found.problems)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": 1, "shape": [], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0]},
        {"dtype": "F32", "shape": [1]},
    ],
)
def test_no_tensor(tmp_path: Path, entry: dict[str, Any]) -> None:
    text = json.dumps({"x": entry}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ConfiguratorError, match=r"CKPT002 .*proper entry for 'x'"):
        read_header(path)


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors(path, {"x": ("F32", [256], 1024)})
    whole = path.stat().st_size
    os.truncate(path, whole - 1)
    fact = f"model.safetensors has {whole - 1} bytes of the {whole} that its header names"
    assert problems(read_checkpoint(tmp_path)) == [("CKPT002", fact)]


def test_weights_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    size = 1 << 40
    text = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + size)
    assert read_checkpoint(tmp_path).size == size


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "config.json is no JSON: Expecting value"),
        ('{"a": 1', "config.json is no JSON: Expecting ',' delimiter"),
        ("[1]", "config.json is no mapping"),
        ("null", "config.json is no mapping"),
        ("[" * 100_000, "config.json is no JSON"),
        ('{"a": ' + "9" * 5000 + "}", "config.json is no JSON"),
    ],
)
def test_a_broken_config_hides_its_own_facts_alone(tmp_path: Path, text: str, fact: str) -> None:
    (tmp_path / "config.json").write_text(text)
    found = checkpoint(tmp_path, None, ("lm_head.weight",))
    assert problems(found) == [("CKPT001", fact)]
    assert found.config == {}
    assert set(found.tensors) == {"lm_head.weight"}


def test_the_place_of_a_broken_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{\n  "a": 1,\n  b\n}')
    (problem,) = read_checkpoint(tmp_path).problems
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (3, 3)
    assert problem.position.file.endswith("config.json")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\x80\x81\x82\x83\x84")
    assert problems(read_checkpoint(tmp_path)) == [("CKPT001", "config.json is no JSON")]


@pytest.mark.parametrize("shard", ["../../etc/passwd", "/etc/passwd", "a/b.safetensors", "..", ""])
def test_an_index_that_leads_out(tmp_path: Path, shard: str) -> None:
    index = {"weight_map": {"x": shard, "y": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = read_checkpoint(tmp_path)
    fact = f"model.safetensors.index.json names {shard!r}, which is no file of the directory"
    assert problems(found) == [("CKPT002", fact)]
    assert set(found.tensors) == {"y"}


def test_names_that_could_hide_text_are_dropped(tmp_path: Path) -> None:
    escape = "mtp.\x1b[2K.weight"
    config = {"architectures": ["A\nB", "C"], "dspark_\r": 1, "dspark_block_size": 5}
    found = checkpoint(tmp_path, config, (escape, "x" * 301, "mtp.fc.weight"))
    assert set(found.tensors) == {"mtp.fc.weight"}
    assert found.architectures == ("C",)
    assert found.dspark == {"dspark_block_size": 5}
    safetensors(tmp_path / "a.safetensors", {escape: ("U8", [1], 1), "x": ("U8", [1], 1)})
    (tmp_path / "model.safetensors.index.json").unlink()
    assert set(read_checkpoint(tmp_path).tensors) == {"x"}
    hidden = of({"quantization_config": {"ignore": ["a\x07", "lm_head"]}}).quantization
    assert hidden is not None
    assert hidden.exclusions == ("lm_head",)


@pytest.mark.parametrize("weight_map", [None, [], 7, {"x": 1}, {"x": None}])
def test_an_index_that_is_none(tmp_path: Path, weight_map: Any) -> None:
    text = json.dumps({"weight_map": weight_map, "metadata": {"total_size": "much"}})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    found = read_checkpoint(tmp_path)
    assert found.tensors == {}
    assert found.size == 0


def test_links_out_of_the_directory_are_not_read(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret.json").write_text('{"num_hidden_layers": 7}')
    safetensors(tmp_path / "secret.safetensors", {"x": ("U8", [1], 1)})
    (inside / "config.json").symlink_to(tmp_path / "secret.json")
    (inside / "model.safetensors").symlink_to("../secret.safetensors")
    found = read_checkpoint(inside)
    assert found.config == {}
    assert found.tensors == {}
    fact = "is a link out of the directory and was not read"
    assert problems(found) == [
        ("CKPT001", f"config.json {fact}"),
        ("CKPT002", f"model.safetensors {fact}"),
    ]


def test_the_layout_of_the_hub_cache_is_read(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--x" / "snapshots" / "abc"
    blobs = tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1").write_text('{"num_hidden_layers": 7}')
    safetensors(blobs / "2", {"x": ("U8", [1], 1)})
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (snapshot / "model.safetensors").symlink_to("../../blobs/2")
    found = read_checkpoint(snapshot)
    assert (found.layers, set(found.tensors), found.problems) == (7, {"x"}, ())


def test_links_in_circles_and_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("config.json")
    (tmp_path / "a.safetensors").symlink_to("nowhere")
    found = read_checkpoint(tmp_path)
    assert problems(found) == [("CKPT001", "config.json is a link to nowhere")]
    assert found.missing_shards == ("a.safetensors",)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    (tmp_path / "config.json").mkdir()
    assert problems(read_checkpoint(tmp_path)) == [
        ("CKPT001", "config.json is no regular file"),
        ("CKPT002", "model.safetensors is no regular file"),
    ]


def test_what_is_no_directory(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing", tmp_path / "file", loop, Path("a\0b")):
        with pytest.raises(ConfiguratorError, match=r"CKPT001 .*is no directory"):
            read_checkpoint(path)


def test_facts_of_values_that_make_no_sense() -> None:
    nonsense: list[Any] = [None, "many", -1, 2.5, True, [], {}, 10**400]
    for value in nonsense:
        keys = (
            *("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"),
            *("num_experts", "max_position_embeddings", "vision_config", "text_config"),
            *("quantization_config", "eagle_config", "rope_scaling", "dspark_block_size"),
            *("architectures", "num_nextn_predict_layers", "tie_word_embeddings"),
        )
        found = of(dict.fromkeys(keys, value))
        assert (found.layers, found.heads, found.kv_heads, found.hidden_size) == (None,) * 4
        assert (found.experts, found.context, found.vision_heads) == (None,) * 3
        assert (found.quantization, found.aux_layers, found.draft_block) == (None,) * 3
        assert (found.architectures, found.declared_draft_layers) == ((), None)


def test_the_language_model_of_a_multimodal_config() -> None:
    text = {"num_attention_heads": 48, "num_hidden_layers": 60, "mtp_num_hidden_layers": 1}
    found = of({"text_config": text, "vision_config": {"num_heads": 16}, "hidden_size": 8})
    assert (found.heads, found.layers, found.vision_heads) == (48, 60, 16)
    assert (found.declared_draft_layers, found.hidden_size) == (1, 8)
    omni = of({"thinker_config": {"text_config": {"num_attention_heads": 12}}})
    assert omni.heads == 12


@pytest.mark.parametrize(
    ("name", "drafts"),
    [
        ("mtp.layers.0.self_attn.q_proj.weight", True),
        ("model.mtp_layers.0.eh_proj.weight", True),
        ("model.layers.78.eh_proj.weight", True),
        ("model.language_model.layers.78.x", True),
        ("model.layers.77.mlp.up_proj.weight", False),
        ("vision_tower.encoder.layers.90.mlp.weight", False),
        ("model.layers.7a.x", False),
    ],
)
def test_draft_tensors(tmp_path: Path, name: str, drafts: bool) -> None:
    found = checkpoint(tmp_path, {"num_hidden_layers": 78}, (name,))
    assert found.draft_tensors == ((name,) if drafts else ())


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 40960}, 40960),
        ({"max_position_embeddings": 4096, "rope_scaling": {"factor": 4.0}}, 16384),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"factor": 4, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        (
            {"max_position_embeddings": 8192, "rope_scaling": {"factor": 8, "rope_type": "llama3"}},
            8192,
        ),
        ({"max_position_embeddings": 10, "seq_length": 7}, 7),
        ({"max_position_embeddings": 10, "rope_scaling": {"factor": "4"}}, 10),
        ({"max_position_embeddings": 10, "rope_scaling": {"factor": True}}, 10),
        ({"max_position_embeddings": 10, "rope_scaling": {"factor": 1e308}}, 10),
        ({}, None),
    ],
)
def test_context(config: dict[str, Any], tokens: int | None) -> None:
    assert of(config).context == tokens


def test_experts_and_dense_layers() -> None:
    moe = {"n_routed_experts": 256, "moe_intermediate_size": 2048, "intermediate_size": 18432}
    found = of(moe)
    assert (found.experts, found.expert_size, found.dense_size) == (256, 2048, None)
    assert of(moe | {"first_k_dense_replace": 3}).dense_size == 18432
    assert of({"intermediate_size": 18432}).dense_size == 18432
    minimax = of({"num_local_experts": 256, "intermediate_size": 1536})
    assert (minimax.expert_size, minimax.dense_size) == (1536, None)


def test_latent_attention_has_no_kv_heads() -> None:
    assert of({"num_key_value_heads": 128, "kv_lora_rank": 512}).kv_heads is None
    assert of({"num_key_value_heads": 8}).kv_heads == 8


def test_drafts_of_other_models() -> None:
    eagle = of(
        {
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]},
            "target_hidden_size": 4096,
            "draft_vocab_size": 32000,
        }
    )
    assert (eagle.aux_layers, eagle.target_hidden_size) == ((2, 18, 33), 4096)
    assert eagle.draft_vocabulary == 32000
    dspark = of({"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41], "hidden_size": 1})
    assert dspark.dspark == {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41]}
    assert (dspark.draft_block, dspark.aux_layers) == (5, (40, 41))
    assert of({"dflash_config": {"block_size": 8}, "block_size": 3}).draft_block == 8


@pytest.mark.parametrize(
    ("entries", "module", "answer"),
    [
        ({"modules_to_not_convert": ["lm_head"]}, "lm_head", True),
        ({"ignore": ["lm_head"]}, "language_model.lm_head", True),
        ({"ignored_layers": ["model.layers.0"]}, "model.layers.0.mlp.up_proj", True),
        ({"ignored_layers": ["model.layers.1"]}, "model.layers.10.mlp.up_proj", False),
        ({"ignore": ["re:mtp\\..*"]}, "mtp.layers.0.self_attn.qkv_proj", True),
        ({"ignore": ["re:.*lm_head"]}, "model.lm_head", True),
        ({"ignore": ["re:^model"]}, "mtp.fc", False),
        ({"exclude_modules": ["*lm_head*"]}, "language_model.lm_head", True),
        ({"exclude_modules": ["model.layers.78*"]}, "model.layers.78.mlp", True),
        ({"ignore": ["re:("]}, "lm_head", None),
        ({"ignore": ["re:(a+)+$"]}, "lm_head", None),
        ({"ignore": ["re:" + ".*" * 20 + "x"]}, "lm_head", None),
        ({"ignore": ["re:(a+)+$", "lm_head"]}, "lm_head", True),
        ({"ignore": ["re:.*a.*b.*c.*d$"]}, "xaxbxcxd", True),
        ({"ignore": "lm_head"}, "lm_head", False),
        ({}, "lm_head", False),
    ],
)
def test_exclusions(entries: dict[str, Any], module: str, answer: bool | None) -> None:
    found = of({"quantization_config": {"quant_method": "FP8"} | entries}).quantization
    assert found is not None
    assert found.method == "fp8"
    assert found.excludes(module) is answer


def test_a_pattern_cannot_hold_up_the_reader() -> None:
    patterns = [
        "re:(a|a)*$",
        "re:(.*a){12}",
        "re:.*.*.*.*.*b",
        "re:((a?){30})a{30}",
        "*a*a*a*a*a*b",
    ]
    found = of({"quantization_config": {"ignore": patterns}}).quantization
    assert found is not None
    start = time.process_time()
    assert found.excludes("a" * 190) is None
    assert time.process_time() - start < 1


def test_quantization_from_elsewhere(tmp_path: Path) -> None:
    modelopt = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(modelopt))
    found = checkpoint(tmp_path, {"hidden_size": 1})
    assert found.quantization is not None
    assert found.quantization.method == "nvfp4"
    assert found.head_excluded is True
    assert of({}).head_excluded is None
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": "NVFP4"}')
    assert read_checkpoint(tmp_path).quantization is None
    blocks = of({"text_config": {"quantization_config": {"weight_block_size": [128, 64]}}})
    assert blocks.quantization is not None
    assert blocks.quantization.block == (128, 64)


@pytest.mark.parametrize("sizes", [[0, 128], [128], [True, 128], ["128", 128], [10**9, 1], 128])
def test_blocks_that_are_none(sizes: Any) -> None:
    found = of({"quantization_config": {"weight_block_size": sizes}}).quantization
    assert found is not None
    assert found.block is None


def test_targets_of_groups() -> None:
    groups = {"group_0": {"targets": ["Linear"]}, "group_1": {"targets": ["re:.*lm_head"]}, "g": 1}
    found = of({"quantization_config": {"config_groups": groups}}).quantization
    assert found is not None
    assert found.targets == ("Linear", "re:.*lm_head")


def test_an_overridden_config_leaves_the_checkpoint_as_it_is() -> None:
    found = of({"max_position_embeddings": 100, "num_hidden_layers": 2})
    assert found.context == 100
    assert found.overridden({"max_position_embeddings": 400}).context == 400
    assert found.overridden({"max_position_embeddings": 400}).layers == 2
    assert found.context == 100


def test_tied_embeddings() -> None:
    assert of({"tie_word_embeddings": True}).tied is True
    assert of({"text_config": {"tie_word_embeddings": False}}).tied is False
    assert of({}).tied is None


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16", "shape": [3], "data_offsets": [0, 4]},
        {"dtype": "F4", "shape": [1000], "data_offsets": [0, 8]},
        {"dtype": "F4", "shape": [10**400], "data_offsets": [0, 8]},
        {"dtype": "F4", "shape": [1] * 40, "data_offsets": [0, 8]},
    ],
)
def test_a_shape_that_its_bytes_do_not_hold_is_no_tensor(
    tmp_path: Path, entry: dict[str, object]
) -> None:
    header = json.dumps({"a": entry}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ConfiguratorError, match=r"CKPT002.*without a proper entry for 'a'"):
        read_header(file)
