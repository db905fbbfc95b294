"""The real engine, asked with the Python that CONFIGURATOR_ENGINE_PYTHON names."""

from __future__ import annotations

from typing import Any

from tools import need_engine

from configurator.content import Library
from configurator.oracle.client import Oracle, OracleLaunch, OracleResult, gpu_facts

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
    },
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}
CONFIGS: dict[str, dict[str, Any]] = {"llama": LLAMA, "deepseek": DEEPSEEK}
EAGLE = (
    "--speculative-algorithm EAGLE --speculative-eagle-topk 4 --speculative-num-steps 3 "
    "--speculative-num-draft-tokens 8"
)

REFUSED = [
    ("h200", "deepseek", "--tp 8 --attention-backend trtllm_mla", "only supported on Blackwell"),
    ("b200", "deepseek", f"--tp 8 {EAGLE}", "topk > 1 with page_size > 1 is only supported"),
    ("h200", "deepseek", "--tp 8 --speculative-algorithm BOGUS", "Unknown speculative algorithm"),
    ("h200", "deepseek", "--tp 8 --speculative-algorithm DFLASH", "requires setting --specul"),
    ("h200", "llama", "--context-length 999999", "greater than the derived context_length"),
    ("h200", "llama", "--cuda-graph-backend-decode=nope", "invalid choice: 'nope'"),
    ("h200", "llama", "--enable-torch-compil", "could match --enable-torch-compile"),
    ("b200", "llama", "--chunked-prefill-size 100 --page-size 64", "divisible by page_size"),
]
RESOLVED: list[tuple[str, str, str, dict[str, object]]] = [
    ("h200", "llama", "", {"attention_backend": "fa3", "page_size": 1, "device": "cuda"}),
    ("b200", "llama", "", {"attention_backend": "trtllm_mha", "page_size": 64}),
    ("h200", "deepseek", "--tp 8", {"attention_backend": "fa3", "moe_runner_backend": "auto"}),
    (
        "b200",
        "deepseek",
        "--tp 8",
        {"attention_backend": "trtllm_mla", "moe_runner_backend": "flashinfer_trtllm"},
    ),
    ("h200", "deepseek", f"--tp 8 {EAGLE}", {"speculative_num_draft_tokens": 8, "page_size": 1}),
    ("hgx-b300", "llama", "--page-size 1 --attention-backend trtllm_mha", {"page_size": 64}),
    ("h200", "deepseek", "--tp 8 --dp 8 --enable-dp-attention", {"attn_dp_size": 8}),
    ("cpu", "llama", "--device cpu", {"attention_backend": "torch_native"}),
]


def question(hardware: str, model: str, line: str) -> OracleLaunch:
    # Without a seed the engine draws one.
    argv = ("--model-path", f"org/{model}", "--random-seed", "1", *line.split())
    facts = gpu_facts(Library().hardware(hardware))
    return OracleLaunch(f"{hardware} {model} {line}", argv, {}, facts, CONFIGS[model])


def answers(*questions: OracleLaunch) -> list[OracleResult]:
    return list(Oracle(need_engine()).check(questions))


def test_what_the_engine_refuses_and_takes() -> None:
    questions = [question(*case[:3]) for case in (*REFUSED, *RESOLVED)]
    results = answers(*questions)
    for (*_, error), result in zip(REFUSED, results, strict=False):
        assert result.state == "refused", result
        assert error in result.error
        assert result.where.startswith(("sglang/srt/", "the engine's argument parser"))
    for (*_, expected), result in zip(RESOLVED, results[len(REFUSED) :], strict=True):
        assert result.state == "resolved", result
        assert {name: result.resolved[name] for name in expected} == expected, result.id


def test_no_launch_sees_what_another_left() -> None:
    first = question("h200", "llama", "")
    other = OracleLaunch(
        "other",
        (*question("b200", "deepseek", "--tp 8").argv, "--enable-dp-attention", "--dp", "8"),
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
        gpu_facts(Library().hardware("b200")),
        DEEPSEEK,
    )
    on_cpu = question("cpu", "llama", "--device cpu")
    results = answers(first, other, on_cpu, first, on_cpu)
    assert results[0] == results[3]
    assert results[2] == results[4]
    assert results[0].warnings == ()


def test_the_environment_of_a_launch_counts_for_it_alone() -> None:
    long = question("h200", "llama", "--context-length 999999")
    allowed = OracleLaunch(
        "allowed",
        long.argv,
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
        long.gpu,
        long.config,
    )
    assert [r.state for r in answers(long, allowed, long)] == ["refused", "resolved", "refused"]
