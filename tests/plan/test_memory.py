"""Memory: pools, limits, the fraction that works, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plan import tiny
from plan.deployments import LIBRARY, checkpoint, deployment, served, shipped

from configurator.deployment import Deployment
from configurator.plan.geometry import geometry_of
from configurator.plan.memory import memory_of
from configurator.plan.model import Memory

MUSE = "muse-spark-open-gb300x8"
LING = "ling-3.0-flash-spark"
GIB = 2**30
MILLION = 1_048_576
FREE = "optimizations: {dflash: null}\nextra: {args: {max-running-requests: null"


def planned(found: Deployment) -> Memory:
    memory = memory_of(found, geometry_of(found, LIBRARY))
    assert memory is not None
    return memory


def number(memory: Memory, name: str) -> float:
    figure = getattr(memory, name)
    assert figure is not None
    return float(figure.value)


def shares(memory: Memory) -> dict[str, float]:
    return {share.kind: share.size.value for share in memory.shares}


def test_muse_keeps_what_was_computed_of_it(tmp_path: Path) -> None:
    caches = geometry_of(shipped(MUSE), LIBRARY).caches
    full, sliding = (
        next(c for c in caches if c.kind == kind and c.owner == "target")
        for kind in ("full", "sliding")
    )
    assert full.per_token.value * MILLION == pytest.approx(8.6e9, rel=0.01)
    assert sliding.per_token.value * (sliding.window or 0) == pytest.approx(0.05e9, rel=0.05)
    never_freed = (full.per_token.value + sliding.per_token.value) * MILLION
    assert never_freed == pytest.approx(33.3e9, rel=0.01)
    sixteen = geometry_of(deployment(tmp_path, "optimizations: {fp8-kv-cache: null}\n", base=MUSE),
                          LIBRARY).caches  # fmt: skip
    full = next(c for c in sixteen if c.kind == "full" and c.owner == "target")
    assert full.per_token.value * MILLION == pytest.approx(17.2e9, rel=0.01)


def test_muse_holds_about_twelve_sequences_of_a_million_or_three(tmp_path: Path) -> None:
    """About twelve with a small pool for sliding layers (11.7: what every rank holds whole makes
    142 GB of the floor of 133); three with the engine's own ratio of 0.8."""
    small = planned(deployment(tmp_path, FREE + ", swa-full-tokens-ratio: 0.005}}\n", base=MUSE))
    assert number(small, "tokens") / MILLION == pytest.approx(12, rel=0.03)
    assert number(small, "requests") == 11
    usual = planned(deployment(tmp_path, FREE + "}}\n", base=MUSE))
    assert number(usual, "requests") == 3
    (remark,) = (r for r in usual.remarks if r.startswith("sliding layers keep"))
    assert "--swa-full-tokens-ratio 0.004 gives" in remark
    assert "11 sequences of 1,048,576 instead of 3" in remark
    assert usual.breaks_first.startswith("request 4 of 1,048,576 tokens waits")


def test_muse_as_shipped_serves_one_request(tmp_path: Path) -> None:
    memory = planned(shipped(MUSE))
    assert memory.fits is True
    assert number(memory, "requests") == 1
    assert memory.breaks_first == (
        "request 2 of 1,048,576 tokens waits: --max-running-requests is 1"
    )
    assert memory.asked_fraction == 0.85
    assert memory.fraction is not None
    assert memory.fraction.low == pytest.approx(0.605, abs=0.005)
    assert any("muse-spark-open-dflash2 does not say its width" in r for r in memory.remarks)


def test_a_sliding_pool_that_is_sized_by_requests(tmp_path: Path) -> None:
    """With the radix cache off and requests limited the engine sizes it by what they can hold."""
    text = "optimizations: {dflash: null}\nextra: {args: {disable-radix-cache: true}}\n"
    memory = planned(deployment(tmp_path, text, base=MUSE))
    tokens = 2048 + 128 + 1 + 1 + 2 * 16_384 + 1
    (pool,) = (share for share in memory.shares if share.kind == "kv")
    assert f"{tokens:,} sliding tokens" in pool.size.formula
    assert number(memory, "tokens") == pytest.approx(12.3e6, rel=0.02)


def test_ling_on_a_spark() -> None:
    memory = planned(shipped(LING))
    assert memory.total.value == 121 * GIB
    assert memory.fits is True
    found = shares(memory)
    assert found["weights"] == pytest.approx(68.3e9, rel=0.01)
    assert found["draft"] == pytest.approx(1.67e9, rel=0.01)
    # 64 slots and one for padding, and the states of four drafted tokens of two requests.
    assert found["state"] == 75_980_800 * (65 + 2 * 4)
    # The draft makes an embedding and a head of its own until it has the target's.
    own = 2 * 157_184 * 2_560 * 2
    loaded = 68.3e9 + 1.67e9 + own + 0.1 * GIB
    assert number(memory, "tokens") == pytest.approx(
        (memory.total.value * 0.985 * 0.68 - loaded - found["state"]) / 9216, rel=0.01
    )
    assert number(memory, "tokens") % 64 == 0
    (remark,) = (r for r in memory.remarks if r.startswith("109 GiB must be available"))
    assert "memory.min_available_gib is 85" in remark


def test_ling_with_too_small_a_fraction(tmp_path: Path) -> None:
    text = "memory: {mem_fraction_static: 0.5}\n"
    memory = planned(deployment(tmp_path, text, base=LING))
    assert memory.fits is False
    assert number(memory, "tokens") == 0
    assert memory.breaks_first.startswith("the start: 71.7 GB of weights leave nothing of 64.0 GB")
    assert memory.fraction is not None
    assert memory.fraction.low == pytest.approx(0.623, abs=0.002)
    assert memory.fraction.value == memory.fraction.low


def test_usable_context_is_what_the_pool_holds(tmp_path: Path) -> None:
    """A public case: 163,840 tokens configured, a pool of 59,862, and 160,062 are refused."""
    text = "extra: {args: {context-length: 163840, max-total-tokens: 59862}}\n"
    memory = planned(deployment(tmp_path, text))
    assert number(memory, "context") == number(memory, "tokens") == 59_862
    assert memory.breaks_first == "a sequence of more than 59,862 tokens is refused"
    assert any(
        r == "163,840 tokens of context are configured and the pool holds 59,862: usable are "
        "59,862, and longer requests are refused" for r in memory.remarks
    )  # fmt: skip


def test_a_context_that_fits_has_no_remark(tmp_path: Path) -> None:
    memory = planned(deployment(tmp_path, "workload: {context: 32768}\n"))
    assert number(memory, "context") == 32_768
    assert not any("usable are" in remark for remark in memory.remarks)


LLAMA = {
    "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "vocab_size": 256, "torch_dtype": "bfloat16", "max_position_embeddings": 2048,
}  # fmt: skip


def test_the_context_of_a_checkpoint_is_what_its_config_says(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "model", LLAMA, tiny.llama(LLAMA))
    memory = planned(served(tmp_path, path))
    assert memory.context is not None
    assert (memory.context.low, memory.context.high) == (2048, 2048)
    asked = planned(served(tmp_path, path, "extra: {args: {context-length: 1024}}\n"))
    assert asked.context is not None
    assert asked.context.value == 1024


def test_the_engine_runs_no_more_at_once_than_it_sets_by_itself(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "model", LLAMA, tiny.llama(LLAMA))
    memory = planned(served(tmp_path, path))
    assert memory.tokens is not None
    assert memory.tokens.value / 2048 > 4096
    assert memory.requests is not None
    assert (memory.requests.value, memory.requests.high) == (4096, 4096)
    said = (
        "request 4097 of 2,048 tokens waits: without --max-running-requests the engine takes 4096"
    )
    assert said in memory.breaks_first


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    text = "hardware: {gpus: 2}\ntopology: {replicas: 2, tensor: 1}\n"
    memory = planned(deployment(tmp_path, text, base=MUSE))
    assert memory.fits is False
    assert memory.fraction is None
    assert memory.tokens is not None
    assert memory.tokens.high == 0
    assert sum(share.size.value for share in memory.shares) > memory.total.value


@pytest.mark.parametrize("name", [MUSE, LING, f"{LING}-dspark", f"{MUSE}-tp8"])
def test_the_parts_are_the_whole(name: str) -> None:
    memory = planned(shipped(name))
    assert sum(s.size.value for s in memory.shares) == pytest.approx(memory.total.value, rel=1e-9)
    for share in memory.shares:
        assert share.size.low <= share.size.value <= share.size.high
        assert share.size.formula
        assert share.size.source


def test_the_engines_own_fraction(tmp_path: Path) -> None:
    """H200, one rank: 512 MiB + 8,192 x 1.5 MiB + 1/8 GiB + 256 x 2 MiB + 58 x 8 MiB."""
    memory = planned(deployment(tmp_path))
    assert memory.asked_fraction is None
    reserved = 512 + 8192 * 1.5 + 128 + 256 * 2 + 58 * 8
    fraction = round(1 - reserved * 2**20 / memory.total.value, 3)
    assert memory.remarks[0].startswith(f"the engine's own choice of {fraction:g}: 1 - (512 MiB")
    assert memory.fraction is not None
    assert memory.fraction.value == pytest.approx(fraction, abs=0.003)


def test_the_engine_leaves_at_least_ten_gib(tmp_path: Path) -> None:
    text = "extra: {args: {chunked-prefill-size: 2048, cuda-graph-max-bs: 8}}\n"
    memory = planned(deployment(tmp_path, text))
    fraction = round(1 - 10 * GIB / memory.total.value, 3)
    assert memory.remarks[0].startswith(f"the engine's own choice of {fraction:g}: 1 - 10 GiB")


def test_too_little_is_left_for_activations(tmp_path: Path) -> None:
    memory = planned(deployment(tmp_path, "memory: {mem_fraction_static: 0.97}\n"))
    assert memory.fraction is not None
    assert memory.fraction.value == memory.fraction.high == pytest.approx(0.898, abs=0.005)
    (remark,) = (r for r in memory.remarks if "long prefills may run out" in r)
    assert f"use at most {memory.fraction.high:g}" in remark


def test_requests_by_tokens(tmp_path: Path) -> None:
    text = "memory: {mem_fraction_static: 0.85}\n"
    text += "workload: {input_tokens: 30000, output_tokens: 2000}\n"
    memory = planned(deployment(tmp_path, text))
    assert number(memory, "requests") == number(memory, "tokens") // 32_000
    limited = text + "extra: {args: {max-running-requests: 4}}\n"
    assert number(planned(deployment(tmp_path, limited)), "requests") == 4


def test_a_draft_makes_a_token_dearer(tmp_path: Path) -> None:
    text = "optimizations: {nextn-mtp: null}\n"
    without = planned(deployment(tmp_path, text, base=LING))
    with_it = planned(shipped(LING))
    (before,), (after,) = (
        [s.size.formula for s in m.shares if s.kind == "kv"] for m in (without, with_it)
    )
    assert before.endswith(" tokens x 8,064 B")
    assert after.endswith(" tokens x 9,216 B")


def test_states_of_a_replaying_draft_have_rings_and_no_snapshots() -> None:
    memory = planned(shipped(f"{LING}-dspark"))
    assert shares(memory)["state"] == (75_980_800 + 55_193_600) * 65


def test_data_parallel_attention_has_a_pool_a_group(tmp_path: Path) -> None:
    text = "topology: {tensor: 4, data: 4}\nmemory: {mem_fraction_static: 0.85}\n"
    text += "extra: {args: {enable-dp-attention: true}}\n"
    four = "{name: h200, gpus: 4}"
    memory = planned(deployment(tmp_path, text, hardware=four))
    (kv,) = (share for share in memory.shares if share.kind == "kv")
    assert number(memory, "tokens") * 147_456 == pytest.approx(4 * kv.size.value, rel=1e-3)


@pytest.mark.parametrize("model", ["{name: unspecified}", "{name: qwen3-8b}"])
def test_without_weights_or_a_machine_there_is_no_plan(tmp_path: Path, model: str) -> None:
    machine = "h200" if "unspecified" in model else "unspecified"
    hardware = f"{{name: {machine}, gpus: 1}}"
    found = deployment(tmp_path, model=model, hardware=hardware)
    assert memory_of(found, geometry_of(found, LIBRARY)) is None


def test_weights_without_caches_say_what_they_can(tmp_path: Path) -> None:
    model = "{name: unspecified, overrides: {weights_gb: 20}}"
    memory = planned(deployment(tmp_path, model=model))
    assert memory.fits is None
    assert (memory.tokens, memory.requests, memory.context) == (None, None, None)
    assert memory.breaks_first == "not known: what sequences take is not known"
    assert any(r.startswith("not counted: KV cache") for r in memory.remarks)


def test_an_engine_of_which_sliding_pools_are_not_known(tmp_path: Path) -> None:
    found = deployment(tmp_path, "engine: {build: sglang-0.5.17}\n", base=MUSE)
    unknown = geometry_of(found, LIBRARY).unknown
    assert unknown[0].startswith("whether sglang-0.5.17 has a smaller pool")


@pytest.mark.parametrize("args", ["mem-fraction-static: 7", "max-total-tokens: many",
                                  "page-size: -1", "swa-full-tokens-ratio: x",
                                  "attn-dp-size: 1.5", "cuda-graph-max-bs: 1" + "0" * 400,
                                  "cuda-graph-bs: 1" + "0" * 400,
                                  "chunked-prefill-size: 1000000000000",
                                  "mamba-full-memory-ratio: -1"])  # fmt: skip
def test_arguments_that_make_no_sense_change_nothing(tmp_path: Path, args: str) -> None:
    plain = planned(deployment(tmp_path))
    memory = planned(deployment(tmp_path, f"extra: {{args: {{{args}}}}}\n"))
    assert memory.tokens == plain.tokens


QWEN_MOE = "{name: qwen3-30b-a3b}"
EIGHT = "{name: h200, gpus: 8}"
APART = "topology: {{tensor: 8, data: {data}}}\nextra: {{args: {{{args}}}}}\n"


def test_data_parallel_attention_pads_and_leaves_less_for_the_pools(tmp_path: Path) -> None:
    text = APART.format(data=8, args="enable-dp-attention: true")
    memory = planned(deployment(tmp_path, text, hardware=EIGHT, model=QWEN_MOE))
    # The engine's own: 512 + 1.5 x 8192 + 1024 + 2 x 512 + 8 x 58 + 4.5 x 8 x 512 MiB.
    total = 139.09 * 1024
    fraction = round(1 - (512 + 12_288 + 1024 + 1024 + 464 + 18_432) / total, 3)
    assert fraction == 0.763
    assert memory.remarks[0].startswith(f"the engine's own choice of {fraction:g}: ")


def test_both_spellings_of_data_parallel_attention_are_one(tmp_path: Path) -> None:
    old, new = (
        planned(deployment(tmp_path, APART.format(data=data, args=args), hardware=EIGHT))
        for data, args in ((4, "enable-dp-attention: true"), (1, "attn-dp-size: 4"))
    )
    assert old == new


def test_deepeps_buffers_stand_beyond_the_floor(tmp_path: Path) -> None:
    text = "extra: {args: {moe-a2a-backend: deepep, chunked-prefill-size: 2048}}\n"
    memory = planned(deployment(tmp_path, text, model=QWEN_MOE))
    assert memory.remarks[0] == ("the engine's own choice of 0.914: 1 - 12 GiB / 139.1 GiB")


def test_prefills_that_are_not_cut(tmp_path: Path) -> None:
    text = "extra: {args: {chunked-prefill-size: -1}}\n"
    memory = planned(deployment(tmp_path, text))
    assert "16,384 tokens x 1.5 MiB" in memory.remarks[0]
    assert "prefill sizes" not in memory.remarks[0]


def test_the_engine_limits_requests_by_itself(tmp_path: Path) -> None:
    memory = planned(deployment(tmp_path, "workload: {input_tokens: 90, output_tokens: 10}\n"))
    assert number(memory, "tokens") // 100 > 8000
    assert number(memory, "requests") == 4096
    assert memory.breaks_first == (
        "request 4097 of 100 tokens waits: without --max-running-requests the engine takes 4096"
    )


def test_states_of_groups(tmp_path: Path) -> None:
    text = "topology: {{tensor: 4, expert: 4}}\nextra: {{args: {{{}}}}}\n"
    model, four = "{name: ling-3.0-flash-fp4}", "{name: h200, gpus: 4}"
    slots = "max-mamba-cache-size: 64, max-running-requests: 8"
    one, groups = (
        planned(deployment(tmp_path, text.format(args), hardware=four, model=model))
        for args in (slots, f"{slots}, attn-dp-size: 4")
    )
    # Four times the heads of a state, a quarter of the slots.
    assert shares(one)["state"] == 65 * 18_995_200
    assert shares(groups)["state"] == 17 * 4 * 18_995_200
    assert number(one, "requests") == 8
    # Two of each group, as its limit is.
    assert number(groups, "requests") == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "extra: {args: {max-mamba-cache-size: 64}}\n",
        "extra: {args: {disable-radix-cache: true, max-running-requests: 4}}\n",
        "optimizations:\n  nextn-mtp: {draft: {same_checkpoint: true}, steps: 3, topk: 1, "
        "draft_tokens: 4}\n",
    ],
)
def test_one_request_fits_at_the_least_fraction_and_not_much_below(
    tmp_path: Path, text: str
) -> None:
    text += "topology: {tensor: 4, expert: 4}\nworkload: {context: 262144}\n"
    model, four = "{name: ling-3.0-flash-fp4}", "{name: h200, gpus: 4}"
    found = planned(deployment(tmp_path, text, hardware=four, model=model)).fraction
    assert found is not None
    held = []
    for fraction in (found.low, found.low - 0.003):
        asked = f"{text}memory: {{mem_fraction_static: {fraction}}}\n"
        memory = planned(deployment(tmp_path, asked, hardware=four, model=model))
        held.append(number(memory, "tokens") >= 262_144 and number(memory, "requests") >= 1)
    assert held == [True, False]


def test_rings_of_gated_delta_layers_are_of_requests(tmp_path: Path) -> None:
    shape = {
        "layers": 8, "hidden_size": 1024, "vocab_size": 32000, "heads": 8, "kv_heads": 2,
        "head_dim": 128, "intermediate_size": 4096, "nextn_layers": 1,
        "attention": [{"kind": "linear", "layers": 6}, {"kind": "full", "layers": 2}],
        "linear": {"heads": 8, "value_dim": 128, "key_heads": 8, "key_dim": 128, "conv_kernel": 4,
                   "gate": "gdn"},
    }  # fmt: skip
    model = json.dumps({"name": "unspecified", "overrides": shape})
    text = """\
extra: {args: {enable-linear-replayssm-spec: true, max-mamba-cache-size: 64,
  max-running-requests: 4, speculative-algorithm: NEXTN, speculative-num-draft-tokens: 4}}
"""
    state = 6 * (3 * 8 * 128 * 3 * 2 + 8 * 128 * 128 * 4)
    ring = 6 * 16 * (2 * 8 * 128 * 2 + 2 * 8 * 128 * 2 + 8 * 4)
    memory = planned(deployment(tmp_path, text, model=model))
    # SGLang 0.5.23, _handle_max_mamba_cache: replayssm_fixed_bytes, of requests and one more.
    assert shares(memory)["state"] == 65 * state + 5 * ring


@pytest.mark.parametrize(
    "args", ["mamba-full-memory-ratio: -1", "mamba-full-memory-ratio: 1.0e-300"]
)
def test_a_ratio_that_cannot_be_is_none_for_states_either(tmp_path: Path, args: str) -> None:
    model = "{name: ling-3.0-flash-fp4}"
    plain = planned(deployment(tmp_path, model=model))
    assert planned(deployment(tmp_path, f"extra: {{args: {{{args}}}}}\n", model=model)) == plain


def test_graphs_that_leave_nothing_of_unified_memory(tmp_path: Path) -> None:
    text = "extra: {args: {cuda-graph-max-bs: 1000000}}\n"
    spark = "{name: dgx-spark, gpus: 1}"
    assert planned(deployment(tmp_path, text, hardware=spark)).fits is False
