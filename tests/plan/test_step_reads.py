"""Bytes that a pass reads: experts, heads, caches, and how GPUs share them."""

from __future__ import annotations

import pytest
from plan.geometries import part, size

from configurator.plan.model import Cache, Geometry, Part
from configurator.plan.sharing import Ranks
from configurator.plan.step_passes import Forward
from configurator.plan.step_reads import Load, distinct_experts, operations_of, reads_of

ONE = Ranks()


def load(
    batch: int = 1, context: int = 1000, ranks: Ranks = ONE, experts: float | None = None
) -> Load:
    return Load(batch, context, ranks, 1000, experts)


def target(tokens: int = 1) -> Forward:
    return Forward("plain decode" if tokens == 1 else "verify", "target", tokens, 1, 10)


def sizes(geometry: Geometry, forward: Forward, of: Load) -> dict[str, float]:
    return {read.name: read.size.value for read in reads_of(geometry, forward, of)}


def of(*parts: Part, caches: tuple[Cache, ...] = ()) -> Geometry:
    return Geometry(parts, caches, size(1), None)


@pytest.mark.parametrize(
    ("experts", "chosen", "tokens", "expected"),
    [(512, 8, 1, 8.0), (512, 8, 4, 31.3), (256, 8, 16, 102.0), (128, 8, 1000, 128.0)],
)
def test_distinct_experts_under_uniform_routing(
    experts: int, chosen: int, tokens: int, expected: float
) -> None:
    assert distinct_experts(experts, chosen, tokens) == pytest.approx(expected, abs=0.1)


def experts(pieces: int = 1) -> Part:
    return part("routed experts", 256e6, "bf16", 2, split="expert", reads="experts", layers=10,
                experts=256, chosen=8, pieces=pieces)  # fmt: skip


def test_a_measured_count_replaces_uniform_routing_where_it_is_smaller() -> None:
    one = 512e6 / 256
    assert sizes(of(experts()), target(16), load())["routed experts"] == pytest.approx(
        102.0 * one, rel=1e-3
    )
    assert sizes(of(experts()), target(16), load(experts=49))["routed experts"] == 49 * one
    # A plain step reads its eight, whatever was counted in a wider pass.
    assert sizes(of(experts()), target(), load(experts=49))["routed experts"] == pytest.approx(
        8 * one
    )


def test_the_fullest_of_several_gpus_with_whole_experts_is_the_upper_end() -> None:
    ranks = Ranks(tensor=4, expert=4)
    read = reads_of(of(experts(4)), target(), load(ranks=ranks))[0].size
    one = 512e6 / 256 / 4
    assert read.low == read.value == pytest.approx(8 * one)
    assert 8 * one < read.high <= 32 * one
    alone = reads_of(of(experts(4)), target(), load(ranks=Ranks(tensor=4)))[0].size
    assert alone.exact


def test_a_draft_reads_the_targets_head_unless_it_has_one() -> None:
    head, layer = part("LM head", 100, "fp8", 1), part("attention", 50, "bf16", 2, owner="draft")
    draft = Forward("draft", "draft", 1, 3, 1)
    assert sizes(of(head, layer), draft, load()) == {"LM head": 100, "attention": 100}
    own = part("LM head", 10, "bf16", 2, owner="draft")
    assert sizes(of(head, layer, own), draft, load()) == {"LM head": 20, "attention": 100}


def test_logits_of_tied_embeddings_read_all_of_the_embedding() -> None:
    embedding = part("embedding", 1000, "bf16", 2, reads="rows")
    tied = part("LM head", 0, "bf16", 2)
    assert sizes(of(embedding, tied), target(), load()) == {"LM head": 2000, "embedding": 2}
    assert sizes(of(embedding), target(), load()) == {"LM head": 2000, "embedding": 2}
    apart = part("LM head", 1000, "bf16", 2)
    assert sizes(of(embedding, apart), target(4), load()) == {"LM head": 2000, "embedding": 8}


def test_towers_are_not_read() -> None:
    towers = part("towers", 1e9, "bf16", 2, reads="never")
    head = part("LM head", 100, "bf16", 2)
    assert sizes(of(towers, head), target(), load()) == {"LM head": 200}
    assert operations_of(of(towers, head), target(), load()) == {"bf16": 200}


def test_parts_are_shared_by_their_pieces() -> None:
    whole, shared = part("router", 100, "bf16", 2), part("attention", 100, "bf16", 2, pieces=4)
    ranks = Ranks(tensor=4)
    assert sizes(of(whole, shared, part("LM head", 4, "bf16", 2, pieces=4)), target(),
                 load(ranks=ranks)) == {"router": 200, "attention": 50, "LM head": 2}  # fmt: skip


def test_caches_are_read_at_the_context_and_windows_bound_them() -> None:
    full = Cache("full", "target", 2, size(10), size(0))
    sliding = Cache("sliding", "target", 2, size(10), size(0), window=300)
    found = sizes(of(caches=(full, sliding)), target(), load(batch=3))
    assert found == {"full KV cache": 30_000, "sliding KV cache": 9_000}
    short = sizes(of(caches=(full, sliding)), target(), load(batch=3, context=100))
    assert short == {"full KV cache": 3_000, "sliding KV cache": 3_000}


def test_a_verify_pass_reads_the_cache_once_for_all_its_tokens() -> None:
    full = Cache("full", "target", 2, size(10), size(0))
    assert sizes(of(caches=(full,)), target(8), load()) == {"full KV cache": 10_000}


def test_data_parallel_attention_divides_the_sequences() -> None:
    full = Cache("full", "target", 2, size(10), size(0))
    found = sizes(of(caches=(full,)), target(), load(batch=5, ranks=Ranks(tensor=4, data=4)))
    assert found == {"full KV cache": 20_000}


def test_states_are_read_and_written_and_kept_for_every_verified_token() -> None:
    state = Cache("linear", "target", 2, size(0), size(100))
    assert sizes(of(caches=(state,)), target(), load(batch=2)) == {"linear state": 400}
    verify = reads_of(of(caches=(state,)), target(4), load(batch=2))[0].size
    assert (verify.low, verify.value, verify.high) == (400, 1000, 1400)
    ring = Cache("linear", "target", 2, size(0), size(100), ring=size(10))
    replayed = reads_of(of(caches=(ring,)), target(4), load(batch=2))[0].size
    assert (replayed.low, replayed.value, replayed.high) == (400, 400, 600)


def test_caches_of_the_draft_are_its_own() -> None:
    mine = Cache("full", "target", 2, size(10), size(0))
    its = Cache("full", "draft", 1, size(1), size(0))
    draft = Forward("draft", "draft", 1, 1, 1)
    assert sizes(of(caches=(mine, its)), draft, load()) == {"full KV cache": 1000}


def test_operations_are_two_a_parameter_and_token_of_the_experts_chosen() -> None:
    dense = part("attention", 100, "fp8", 1)
    head = part("LM head", 10, "bf16", 2)
    found = operations_of(of(dense, head, experts()), target(4), load(batch=2))
    assert found["fp8"] == 2 * 100 * 8
    assert found["bf16"] == pytest.approx(2 * (10 + 256e6 * 8 / 256) * 8)


def test_a_config_whose_tokens_choose_more_experts_than_there_are() -> None:
    assert distinct_experts(8, 128, 3) == 8


def test_a_groups_own_weights_work_on_its_own_tokens() -> None:
    ranks = Ranks(8, data=4)
    parts = of(part("attention", 1e9, "bf16", 2, pieces=2), part("dense", 1e9, "fp8", 1, pieces=8))
    found = operations_of(parts, target(), load(batch=64, ranks=ranks))
    assert found == {"bf16": 2e9 * 16 / 2, "fp8": 2e9 * 64 / 8}
