"""Memory: pools, limits, the fraction that works, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan import tiny
from plan.deployments import LIBRARY, checkpoint, deployment, served, shipped

from configurator.deployment import Deployment
from configurator.plan.engine_memory import own_limit
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
    assert "request 4097 of 2,048 tokens waits: the engine's own" in memory.breaks_first


@pytest.mark.parametrize(
    ("tokens", "context", "most"),
    [(100_000, 4096, 4096), (100_000, 40_960, 2048), (1000, 4096, 500), (60_000, 10_240, 3000)],
)
def test_the_engines_own_limit_of_requests(tokens: int, context: int, most: int) -> None:
    assert own_limit(tokens, context) == most


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
                                  "page-size: -1", "swa-full-tokens-ratio: x"])  # fmt: skip
def test_arguments_that_make_no_sense_change_nothing(tmp_path: Path, args: str) -> None:
    plain = planned(deployment(tmp_path))
    memory = planned(deployment(tmp_path, f"extra: {{args: {{{args}}}}}\n"))
    assert memory.tokens == plain.tokens
