"""Rules on checkpoints, by cases that people have reported, and by what must stay silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from launches import launch

from configurator.checkpoint import Checkpoint, Tensor
from configurator.errors import Position, Problem
from configurator.launch import Launch
from configurator.loader import Validators
from configurator.rules import Finding

TARGET, DRAFT = Path("/models/target"), Path("/models/draft")
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
NEXTN = "sglang serve --model-path /models/target --speculative-algorithm NEXTN"
OWN_DRAFT = "sglang serve --model-path /models/target --speculative-draft-model-path /models/draft"


def checkpoint(
    config: dict[str, Any] | None = None, *names: str, path: Path = TARGET
) -> Checkpoint:
    """A checkpoint of a config and of tensors without dtypes."""
    tensors = {name: Tensor(name, "") for name in names}
    return Checkpoint(path, config or {}, tensors, ("config.json",))


def found(validators: Validators, code: str, subject: Launch) -> list[Finding]:
    """What one rule says."""
    return list(validators.rules[code].check(subject))


def codes(validators: Validators, subject: Launch) -> list[str]:
    """Codes of all rules on checkpoints that say something."""
    rules = [rule for code, rule in validators.rules.items() if code.startswith("CKPT")]
    return sorted(rule.code for rule in rules if list(rule.check(subject)))


def test_rules_are_silent_without_a_checkpoint_or_facts(validators: Validators) -> None:
    command = (
        "A=1 sglang serve --model-path /models/target --tp 6 --ep-size 5 --context-length 99999999 "
        "--speculative-algorithm {} --speculative-draft-model-path /models/draft "
        "--speculative-num-draft-tokens 9 --moe-runner-backend humming"
    )
    for algorithm in ("NEXTN", "EAGLE3", "DSPARK", "STANDALONE", "$ALGORITHM"):
        for engine in ("0.5.17", "0.5.23"):
            said = command.format(algorithm)
            assert codes(validators, launch(said, engine=engine)) == []
            empty, draft = checkpoint(), checkpoint(path=DRAFT)
            assert (
                codes(validators, launch(said, engine=engine, checkpoint=empty, draft=draft)) == []
            )


def test_what_cannot_be_read_is_told_where_the_path_is_written(validators: Validators) -> None:
    place = Position("config.json", 3, 7)
    broken = replace(
        checkpoint(),
        problems=(
            Problem("CKPT001", "config.json is no JSON: x", "fetch the file again", place),
            Problem("CKPT002", "a.safetensors has 3 bytes", "fetch the file again"),
        ),
    )
    subject = launch("sglang serve --tp 1 --model-path /models/target", checkpoint=broken)
    assert found(validators, "CKPT001", subject) == [
        Finding(
            ("argv", 2), "/models/target: config.json is no JSON: x, line 3", "fetch the file again"
        ),
        Finding(("argv", 2), "/models/target: a.safetensors has 3 bytes", "fetch the file again"),
    ]
    by_place = launch("sglang serve /models/target", checkpoint=broken)
    assert found(validators, "CKPT001", by_place)[0].path == ("argv", 0)
    of_draft = launch(f"{OWN_DRAFT} --speculative-algorithm EAGLE", draft=broken)
    assert found(validators, "CKPT001", of_draft)[0].path == ("argv", 2)


@pytest.mark.parametrize("file", ["config.json", "params.json", "model.gguf"])
def test_a_directory_of_any_kind_of_checkpoint(validators: Validators, file: str) -> None:
    subject = launch(
        "--model-path x", checkpoint=Checkpoint(TARGET, files=(file, "tokenizer.json"))
    )
    assert found(validators, "CKPT101", subject) == []
    bare = launch("--model-path x", checkpoint=Checkpoint(TARGET, files=("tokenizer.json",)))
    (finding,) = found(validators, "CKPT101", bare)
    assert finding.message == "/models/target has no config.json; files there: 1"


def test_missing_shards(validators: Validators) -> None:
    some = replace(
        checkpoint(),
        files=("config.json", "a.safetensors"),
        missing_shards=("b.safetensors", "c.safetensors"),
    )
    (finding,) = found(validators, "CKPT102", launch("--model-path x", checkpoint=some))
    assert finding.message.endswith("in 2 files: b.safetensors, c.safetensors")
    assert finding.remedy == "fetch b.safetensors, c.safetensors"
    three = replace(some, missing_shards=("b", "c", "d"))
    (finding,) = found(validators, "CKPT102", launch("--model-path x", checkpoint=three))
    assert finding.remedy == "fetch b, c, d"
    four = replace(some, missing_shards=("b", "c", "d", "e"))
    (finding,) = found(validators, "CKPT102", launch("--model-path x", checkpoint=four))
    assert finding.remedy == "fetch b, c, d, ..."
    none = replace(some, files=("config.json",))
    (finding,) = found(validators, "CKPT102", launch("--model-path x", checkpoint=none))
    assert finding.message.endswith("there is no file of weights")


GLM = {"num_hidden_layers": 78, "num_nextn_predict_layers": 1}


@pytest.mark.parametrize(
    ("command", "config", "names", "silent"),
    [
        (NEXTN, GLM, ["model.layers.77.mlp.weight"], False),
        (NEXTN, {"num_hidden_layers": 78}, ["model.layers.77.mlp.weight"], False),
        (NEXTN, GLM, ["model.layers.77.mlp.weight", "model.layers.78.eh_proj.weight"], True),
        (NEXTN, GLM, ["mtp.fc.weight"], True),
        (NEXTN, GLM, [], True),
        (NEXTN, {}, ["x.weight"], True),
        (NEXTN.replace("NEXTN", "EAGLE"), GLM, ["x.weight"], False),
        # An EAGLE draft of its own may still be meant.
        (NEXTN.replace("NEXTN", "EAGLE"), {"num_hidden_layers": 78}, ["x.weight"], True),
        (NEXTN.replace("NEXTN", "EAGLE3"), GLM, ["x.weight"], True),
        (f"{NEXTN} --speculative-draft-model-path /models/target", GLM, ["x.weight"], False),
        (f"{NEXTN} --speculative-draft-model-path /models/draft", GLM, ["x.weight"], True),
        (f"{NEXTN} --speculative-draft-model-path $DRAFT", GLM, ["x.weight"], True),
        (NEXTN, GLM | {"dspark_block_size": 5}, ["x.weight"], True),
    ],
)
def test_mtp_layers_must_be_there(
    validators: Validators, command: str, config: dict[str, Any], names: list[str], silent: bool
) -> None:
    subject = launch(command, checkpoint=checkpoint(config, *names))
    assert (found(validators, "CKPT111", subject) == []) is silent


def test_missing_mtp_layers_are_named(validators: Validators) -> None:
    subject = launch(NEXTN, checkpoint=checkpoint(GLM, "model.layers.77.mlp.weight"))
    (finding,) = found(validators, "CKPT111", subject)
    assert "layers.78 and above" in finding.message
    assert "declares 1 MTP layers" in finding.message
    assert finding.path == ("argv", 2)


def compressed(*ignored: str) -> dict[str, Any]:
    config = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"]}},
        "ignore": list(ignored),
    }
    return {"quantization_config": config}


@pytest.mark.parametrize(
    ("engine", "ignored", "silent"),
    [
        ("0.5.17", ["mtp.fc", "mtp.layers.0.self_attn.q_proj"], False),
        ("0.5.20", ["mtp.layers.0.mlp.gate_proj"], False),
        ("0.5.21", ["mtp.layers.0.self_attn.q_proj"], True),
        ("0.5.17", ["mtp.fc", "mtp.layers.0.mlp.down_proj"], True),
        ("0.5.17", ["mtp.layers.0.self_attn.q_proj", "re:mtp.*"], True),
        ("0.5.17", ["model.layers.0.self_attn.q_proj"], True),
    ],
)
def test_parts_excluded_from_quantization_one_by_one(
    validators: Validators, engine: str, ignored: list[str], silent: bool
) -> None:
    subject = launch(NEXTN, engine=engine, checkpoint=checkpoint(compressed(*ignored)))
    findings = found(validators, "CKPT112", subject)
    assert (findings == []) is silent
    assert all(r"re:mtp\..*" in finding.remedy for finding in findings)


PLAIN = "mtp.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("ignored", "names", "silent"),
    [
        (["lm_head"], [PLAIN], False),
        ([r"re:mtp\..*"], [PLAIN], True),
        (["mtp"], [PLAIN], True),
        (["lm_head"], [PLAIN, f"{PLAIN}_scale"], True),
        (["lm_head"], ["mtp.layers.0.input_layernorm.weight"], True),
        (["re:(m+)+x"], [PLAIN], True),
    ],
)
def test_plain_mtp_layers_in_a_quantized_group(
    validators: Validators, ignored: list[str], names: list[str], silent: bool
) -> None:
    subject = launch(NEXTN, checkpoint=checkpoint(compressed(*ignored), *names))
    findings = found(validators, "CKPT113", subject)
    assert (findings == []) is silent
    assert all(PLAIN.removesuffix(".weight") in finding.message for finding in findings)


DSPARK = {"dspark_block_size": 5, "dspark_target_layer_ids": [40, 41, 42]}
WITH_DSPARK = "sglang serve --model-path /models/target --speculative-algorithm DSPARK"


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ("--speculative-num-draft-tokens 8", "set --speculative-num-draft-tokens 6"),
        ("--speculative-num-draft-tokens 5", "set --speculative-num-draft-tokens 6"),
        ("--speculative-dspark-block-size 7", "set --speculative-dspark-block-size 5"),
        ("--speculative-num-draft-tokens 6", None),
        ("--speculative-dspark-block-size 5", None),
        ("--speculative-dspark-block-size 4 --speculative-num-draft-tokens 5", None),
        ("--speculative-num-draft-tokens $TOKENS", None),
        ("--speculative-num-draft-tokens 8 --speculative-draft-model-path other/draft", None),
        ("", None),
    ],
)
def test_the_window_of_a_dspark_block(
    validators: Validators, more: str, remedy: str | None
) -> None:
    subject = launch(f"{WITH_DSPARK} {more}", engine="0.5.17", checkpoint=checkpoint(DSPARK))
    findings = found(validators, "CKPT114", subject)
    assert all(finding.path == ("argv", 4) for finding in findings)
    assert [finding.remedy.partition(",")[0] for finding in findings] == (
        [remedy] if remedy else []
    )


def test_the_window_of_a_dspark_draft_of_its_own(validators: Validators) -> None:
    draft = checkpoint({"dflash_config": {"block_size": 8}}, path=DRAFT)
    command = f"{OWN_DRAFT} --speculative-algorithm DSPARK --speculative-num-draft-tokens"
    for window, count in ((8, 1), (9, 0)):
        subject = launch(f"{command} {window}", checkpoint=checkpoint(), draft=draft)
        assert len(found(validators, "CKPT114", subject)) == count


def test_a_dspark_checkpoint_is_no_mtp_checkpoint(validators: Validators) -> None:
    eagle = WITH_DSPARK.replace("DSPARK", "EAGLE")
    (finding,) = found(validators, "CKPT115", launch(eagle, checkpoint=checkpoint(DSPARK)))
    assert finding.remedy.startswith("set --speculative-algorithm DSPARK")
    old = launch(eagle, engine="0.5.15", checkpoint=checkpoint(DSPARK))
    assert found(validators, "CKPT115", old)[0].remedy.startswith("use sglang 0.5.16 or later")
    right = launch(WITH_DSPARK, checkpoint=checkpoint(DSPARK))
    assert found(validators, "CKPT115", right) == []


@pytest.mark.parametrize(
    ("engine", "config", "silent"),
    [
        ("0.5.11", {"num_nextn_predict_layers": 0}, False),
        ("0.5.12.post1", {"num_nextn_predict_layers": 0}, False),
        ("0.5.13", {"num_nextn_predict_layers": 0}, True),
        ("0.5.17", {"num_nextn_predict_layers": 0}, True),
        ("0.5.11", {"num_nextn_predict_layers": 1}, True),
        ("0.5.11", {}, True),
    ],
)
def test_a_draft_that_says_zero_mtp_layers(
    validators: Validators, engine: str, config: dict[str, Any], silent: bool
) -> None:
    draft = checkpoint(config, path=DRAFT)
    subject = launch(f"{OWN_DRAFT} --speculative-algorithm EAGLE3", engine=engine, draft=draft)
    assert (found(validators, "CKPT116", subject) == []) is silent


def pair(algorithm: str, target: dict[str, Any], draft: Checkpoint, more: str = "") -> Launch:
    command = f"{OWN_DRAFT} --speculative-algorithm {algorithm} {more}"
    return launch(command, checkpoint=checkpoint(target), draft=draft)


@pytest.mark.parametrize(
    ("before", "more", "silent"),
    [
        ("", "", False),
        ("", "--context-length 4096", False),
        ("", "--context-length 2048", True),
        ("", "--context-length $LENGTH", True),
        ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 ", "", True),
        ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=0 ", "", False),
        ("", "--json-model-override-args '{}'", True),
    ],
)
def test_the_drafts_context(validators: Validators, before: str, more: str, silent: bool) -> None:
    subject = launch(
        f"{before}{OWN_DRAFT} --speculative-algorithm EAGLE3 {more}",
        checkpoint=checkpoint({"max_position_embeddings": 131072}),
        draft=checkpoint({"max_position_embeddings": 2048}, path=DRAFT),
    )
    assert (found(validators, "CKPT121", subject) == []) is silent


@pytest.mark.parametrize(
    ("algorithm", "draft", "silent"),
    [
        ("EAGLE3", {"target_hidden_size": 4096, "hidden_size": 5120}, False),
        ("EAGLE3", {"hidden_size": 4096}, False),
        ("EAGLE", {"hidden_size": 4096}, False),
        ("EAGLE3", {"target_hidden_size": 5120, "hidden_size": 2048}, True),
        ("STANDALONE", {"hidden_size": 1024}, True),
        ("DSPARK", {"hidden_size": 1024}, True),
        ("NEXTN", {"hidden_size": 1024, "architectures": ["Gemma4AssistantForCausalLM"]}, True),
    ],
)
def test_the_drafts_width(
    validators: Validators, algorithm: str, draft: dict[str, Any], silent: bool
) -> None:
    subject = pair(algorithm, {"hidden_size": 5120}, checkpoint(draft, path=DRAFT))
    assert (found(validators, "CKPT122", subject) == []) is silent


@pytest.mark.parametrize(
    ("algorithm", "draft", "silent"),
    [
        ("STANDALONE", {"vocab_size": 151936}, False),
        ("STANDALONE", {"vocab_size": 152064}, True),
        ("EAGLE3", {"vocab_size": 151936, "draft_vocab_size": 32000}, True),
        ("EAGLE3", {"vocab_size": 152064, "draft_vocab_size": 152065}, False),
    ],
)
def test_the_drafts_vocabulary(
    validators: Validators, algorithm: str, draft: dict[str, Any], silent: bool
) -> None:
    subject = pair(algorithm, {"vocab_size": 152064}, checkpoint(draft, path=DRAFT))
    assert (found(validators, "CKPT123", subject) == []) is silent


@pytest.mark.parametrize(
    ("ids", "inputs", "messages"),
    [
        ([2, 18, 33], 3, []),
        ([2, 18, 36], 3, ["and the target has 36 layers"]),
        ([2, 18, 33], 2, ["and its fc.weight is made for 2"]),
        ([2, 40], 3, ["and the target has 36 layers", "and its fc.weight is made for 3"]),
    ],
)
def test_the_layers_a_draft_listens_to(
    validators: Validators, ids: list[int], inputs: int, messages: list[str]
) -> None:
    config = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}, "hidden_size": 64}
    fc = Tensor("fc.weight", "BF16", (64, 64 * inputs))
    draft = replace(checkpoint(config, path=DRAFT), tensors={"fc.weight": fc})
    subject = pair("EAGLE3", {"num_hidden_layers": 36, "hidden_size": 64}, draft)
    said = [finding.message for finding in found(validators, "CKPT124", subject)]
    assert len(said) == len(messages)
    assert all(text.endswith(end) for text, end in zip(said, messages, strict=True))


def test_a_draft_whose_layers_are_half_known(validators: Validators) -> None:
    target = {"num_hidden_layers": 36, "hidden_size": 64}
    for config in ({}, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 35]}}):
        subject = pair("EAGLE3", target, checkpoint(config, path=DRAFT))
        assert found(validators, "CKPT124", subject) == []


YARN = '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}'
ALLOW = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("--context-length 131072", ["CKPT131"]),
        # The name of long ago: no release reads it.
        ("SGLANG_ALLOW_LONG_MAX_MODEL_LEN=1 serve --context-length 131072", ["CKPT131"]),
        (f"{ALLOW}=0 serve --context-length 131072", ["CKPT131"]),
        (f"{ALLOW}=1 serve --context-length 131072", ["CKPT132"]),
        (f"--context-length 131072 --json-model-override-args '{YARN}'", []),
        (f"{ALLOW}=true serve --context-length 999999 --json-model-override-args '{YARN}'", []),
        (f"--context-length 200000 --json-model-override-args '{YARN}'", ["CKPT131"]),
        ("--context-length 131072 --json-model-override-args $ARGS", []),
        ("--context-length 131072 --json-model-override-args '{{'", []),
        ("--context-length 40960", []),
        ("--context-length $LENGTH", []),
        ("", []),
    ],
)
def test_the_context(validators: Validators, command: str, said: list[str]) -> None:
    subject = launch(
        f"{command} --model-path x", checkpoint=checkpoint({"max_position_embeddings": 40960})
    )
    assert codes(validators, subject) == said


def test_the_context_names_both_ways_out(validators: Validators) -> None:
    subject = launch(
        "--context-length 131072", checkpoint=checkpoint({"max_position_embeddings": 32768})
    )
    (finding,) = found(validators, "CKPT131", subject)
    assert finding.message == "--context-length 131072 is above the 32768 that config.json gives"
    assert "--context-length 32768 or less" in finding.remedy
    assert f"{ALLOW}=1 with rope_scaling of factor 4 " in finding.remedy


DEEPSEEK = {
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "n_routed_experts": 256,
    "moe_intermediate_size": 2048,
    "intermediate_size": 18432,
    "first_k_dense_replace": 3,
    "quantization_config": FP8,
}
MINIMAX = {
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "num_local_experts": 256,
    "intermediate_size": 1536,
    "quantization_config": FP8,
}
QWEN = {"num_attention_heads": 28, "num_key_value_heads": 4}
VISION = {"vision_config": {"num_heads": 16}, "text_config": {"num_attention_heads": 48}}


@pytest.mark.parametrize(
    ("config", "command", "said"),
    [
        (DEEPSEEK, "--tp 32", ["CKPT145", "CKPT146"]),
        (DEEPSEEK, "--tp 16", []),
        (DEEPSEEK, "--tp 32 --ep-size 32", ["CKPT145"]),
        (DEEPSEEK, "--tp 32 --moe-a2a-backend deepep --moe-dense-tp-size 1", []),
        (DEEPSEEK, "--tp 32 --ep-size 32 --moe-a2a-backend none", ["CKPT145"]),
        (DEEPSEEK | {"quantization_config": FP8 | {"quant_method": "awq"}}, "--tp 32", []),
        (DEEPSEEK | {"quantization_config": {"quant_method": "fp8"}}, "--tp 32", []),
        ({"intermediate_size": 18432, "quantization_config": FP8}, "--tp 32", ["CKPT145"]),
        (MINIMAX, "--tp 8", ["CKPT146"]),
        (MINIMAX, "--tp 8 --ep-size 8", []),
        (MINIMAX, "--tp 4", []),
        (QWEN, "--tp 8", ["CKPT141"]),
        (QWEN, "--tp 4", []),
        (QWEN, "--tp 7", ["CKPT142"]),
        (QWEN, "--tp 8 --dp-size 2 --enable-dp-attention", []),
        (QWEN, "--tp 8 --dp-size 2", ["CKPT141"]),
        (QWEN, "--tp $TP", []),
        (QWEN, "--tp 0", []),
        (VISION, "--tp-size 6", ["CKPT143"]),
        (VISION, "--tp-size 8", []),
        (VISION, "--tp-size 6 --mm-enable-dp-encoder", []),
        (VISION | {"architectures": ["InternVLChatModel"]}, "--tp-size 6", []),
        ({"n_routed_experts": 60}, "--tp 8 --ep-size 8", ["CKPT144"]),
        ({"n_routed_experts": 60}, "--tp 8 --ep-size 8 --ep-num-redundant-experts 4", []),
        ({"n_routed_experts": 60}, "--tp 8 --moe-a2a-backend deepep", ["CKPT144"]),
        ({"n_routed_experts": 60}, "--tp 8", []),
    ],
)
@pytest.mark.parametrize("engine", ["0.5.17", "0.5.23"])
def test_sizes(
    validators: Validators, config: dict[str, Any], command: str, said: list[str], engine: str
) -> None:
    subject = launch(f"--model-path x {command}", engine=engine, checkpoint=checkpoint(config))
    assert codes(validators, subject) == said


@pytest.mark.parametrize(
    ("code", "config", "command", "message", "remedy"),
    [
        (
            "CKPT145",
            DEEPSEEK,
            "--tp 32 --ep-size 32",
            "intermediate_size 18432 over 32 ranks is 576, and weight_block_size is 128 x 128",
            "use --tp-size 1, 2, 4, 8, 16 without other parallel sizes, or --moe-dense-tp-size 1",
        ),
        (
            "CKPT146",
            MINIMAX,
            "--tp 8",
            "expert width 1536 over 8 ranks is 192, and weight_block_size is 128 x 128",
            "use --ep-size 8, or --tp-size 1, 2, 4",
        ),
        (
            "CKPT146",
            DEEPSEEK,
            "--tp 32",
            "expert width 2048 over 32 ranks is 64, and weight_block_size is 128 x 128",
            "use --tp-size 1, 2, 4, 8, 16",
        ),
        (
            "CKPT145",
            {"intermediate_size": 18432, "quantization_config": FP8},
            "--tp 32",
            "intermediate_size 18432 over 32 ranks is 576, and weight_block_size is 128 x 128",
            "use --tp-size 1, 2, 4, 8, 16",
        ),
        (
            "CKPT141",
            {"num_attention_heads": 28},
            "--tp 6",
            "28 attention heads in config.json over 6 ranks leave 4 over",
            "use --tp-size 1, 2, 4, 7, 14, 28",
        ),
        (
            "CKPT143",
            VISION,
            "--tp 6",
            "16 heads of the vision tower over 6 ranks leave 4 over",
            "use --tp-size 1, 2, 4, 8, 16, or --mm-enable-dp-encoder",
        ),
        (
            "CKPT144",
            {"n_routed_experts": 60},
            "--tp 8 --ep-size 8",
            "60 experts over 8 expert parallel ranks leave 4 over",
            "use --ep-size 1, 2, 4",
        ),
    ],
)
def test_sizes_that_work_are_named(
    validators: Validators,
    code: str,
    config: dict[str, Any],
    command: str,
    message: str,
    remedy: str,
) -> None:
    (finding,) = found(validators, code, launch(command, checkpoint=checkpoint(config)))
    assert (finding.message, finding.remedy) == (message, remedy)


GPT_OSS = {"num_local_experts": 128, "quantization_config": {"quant_method": "mxfp4"}}
DEEPSEEK_V4 = {"n_routed_experts": 256, "quantization_config": {"quant_method": "fp8"}}


@pytest.mark.parametrize(
    ("engine", "config", "command", "silent"),
    [
        ("0.5.17", GPT_OSS, "--moe-runner-backend humming", False),
        ("0.5.17", GPT_OSS, "--moe-runner-backend flashinfer_trtllm", False),
        ("0.5.17", GPT_OSS, "--moe-runner-backend flashinfer_cutlass", False),
        ("0.5.17", DEEPSEEK_V4, "--moe-runner-backend humming", True),
        ("0.5.17", GPT_OSS, "--moe-runner-backend triton_kernel", True),
        ("0.5.17", GPT_OSS, "--moe-runner-backend flashinfer_mxfp4", True),
        ("0.5.17", GPT_OSS, "--moe-runner-backend deep_gemm", True),
        ("0.5.14", GPT_OSS, "--moe-runner-backend deep_gemm", False),
        ("0.5.17", GPT_OSS, "--moe-runner-backend humming --quantization humming", True),
        ("0.5.17", GPT_OSS, "--moe-runner-backend $RUNNER", True),
        ("0.5.17", GPT_OSS, "", True),
        ("0.5.1", GPT_OSS, "--moe-runner-backend flashinfer_trtllm", True),
    ],
)
def test_runners_of_mxfp4_experts(
    validators: Validators, engine: str, config: dict[str, Any], command: str, silent: bool
) -> None:
    subject = launch(command, engine=engine, checkpoint=checkpoint(config))
    assert (found(validators, "CKPT151", subject) == []) is silent


def test_when_a_wrong_runner_is_noticed(validators: Validators) -> None:
    for engine, end in (("0.5.19", "dies at the first request"), ("0.5.20", "refuses to start")):
        subject = launch(
            "--moe-runner-backend humming", engine=engine, checkpoint=checkpoint(GPT_OSS)
        )
        assert found(validators, "CKPT151", subject)[0].message.endswith(end)


SCALED = ("lm_head.weight", "lm_head.weight_scale")
LING = {"architectures": ["BailingMoeV3ForCausalLM"], "num_hidden_layers": 1}
MTP = "model.layers.1.eh_proj.weight"


@pytest.mark.parametrize(
    ("command", "config", "names", "silent"),
    [
        ("--model-path x", {"tie_word_embeddings": True}, SCALED, False),
        ("--model-path x", {"tie_word_embeddings": True}, ["lm_head.weight"], True),
        ("--model-path x", {"tie_word_embeddings": False}, SCALED, True),
        ("--model-path x", {}, SCALED, True),
        ("SGLANG_ENABLE_FP8_LM_HEAD=1 serve", {"tie_word_embeddings": True}, [], False),
        ("SGLANG_ENABLE_FP8_LM_HEAD=0 serve", {"tie_word_embeddings": True}, [], True),
        ("SGLANG_ENABLE_FP8_LM_HEAD=1 serve", {"tie_word_embeddings": False}, [], True),
    ],
)
def test_an_fp8_head_of_tied_embeddings(
    validators: Validators, command: str, config: dict[str, Any], names: list[str], silent: bool
) -> None:
    subject = launch(command, checkpoint=checkpoint(config, *names))
    assert (found(validators, "CKPT161", subject) == []) is silent


QWEN_MTP = {"architectures": ["Qwen3_5ForConditionalGeneration"]}


@pytest.mark.parametrize(
    ("engine", "config", "names", "silent"),
    [
        ("0.5.23", LING, [*SCALED, MTP], False),
        ("0.5.23", LING, [*SCALED, MTP, "model.layers.1.mlp.up_proj.weight_scale"], False),
        ("0.5.23", LING, ["lm_head.weight", MTP], True),
        ("0.5.23", LING, [*SCALED, MTP, "model.layers.1.shared_head.head.weight_scale"], True),
        ("0.5.23", LING | {"tie_word_embeddings": True}, [*SCALED, MTP], True),
        ("0.5.23", QWEN_MTP, [*SCALED, "mtp.fc.weight"], True),
        ("0.5.14", QWEN_MTP, [*SCALED, "mtp.fc.weight"], False),
        ("0.5.23", {}, [*SCALED, "mtp.fc.weight"], True),
    ],
)
def test_a_head_shared_without_its_scale(
    validators: Validators, engine: str, config: dict[str, Any], names: list[str], silent: bool
) -> None:
    subject = launch(NEXTN, engine=engine, checkpoint=checkpoint(config, *names))
    assert (found(validators, "CKPT162", subject) == []) is silent
    named = launch(
        f"{NEXTN} --speculative-draft-model-path /models/target",
        engine=engine,
        checkpoint=subject.checkpoint,
    )
    assert (found(validators, "CKPT162", named) == []) is silent
    of_its_own = launch(
        f"{NEXTN} --speculative-draft-model-path /models/draft",
        engine=engine,
        checkpoint=subject.checkpoint,
    )
    assert found(validators, "CKPT162", of_its_own) == []
    other = launch(NEXTN.replace("NEXTN", "EAGLE3"), engine=engine, checkpoint=subject.checkpoint)
    assert found(validators, "CKPT162", other) == []


def test_every_finding_says_what_to_do(validators: Validators) -> None:
    config = DEEPSEEK | GLM | {"max_position_embeddings": 100, "num_attention_heads": 3}
    subject = launch(
        f"{NEXTN} --tp 32 --context-length 200 --ep-size 7", checkpoint=checkpoint(config, "x")
    )
    findings = [
        finding
        for code, rule in validators.rules.items()
        if code.startswith("CKPT")
        for finding in rule.check(subject)
    ]
    assert len(findings) >= 5
    for finding in findings:
        assert finding.remedy
        assert finding.path[0] == "argv"
