"""The ranks of a server: how many there are, which are on a host, and what a line's prefix says."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.content import Library
from configurator.evidence.model import LogLine, Replica, ServerState
from configurator.ranks import World, ranks_in_prefix, world_of
from configurator.resolve import resolve

STAMP = "2026-11-30 09:00:00"


@pytest.mark.parametrize(
    ("prefix", "ranks"),
    [
        (f"[{STAMP}]", (None, None, None)),
        (f"[{STAMP} TP3]", (3, None, None)),
        (f"[{STAMP}.123 DP1 PP0 TP2 EP1]", (2, 0, 1)),
        (f"[{STAMP} DP1 TP2 PP0]", (2, 0, 1)),
        (f"[{STAMP} DP1]", (None, None, 1)),
        (f"[{STAMP} ATTN_CP1 MOE_DP2 TP0]", (0, None, None)),
        ("TP3]", (None, None, None)),
        ("TP1 then [TP3]", (None, None, None)),
    ],
)
def test_ranks_in_the_prefix_of_a_line(prefix: str, ranks: tuple[int | None, ...]) -> None:
    assert ranks_in_prefix(LogLine(1, f"{prefix} Decode batch")) == ranks


@pytest.mark.parametrize(
    ("info", "world"),
    [
        ({}, World(1, 1, 1)),
        ({"tp_size": 4, "nnodes": 2}, World(4, 1, 1, hosts=2)),
        ({"tp_size": 2, "dp_size": 3}, World(2, 1, 3, groups=3)),
        ({"tp_size": 4, "dp_size": 2, "enable_dp_attention": True}, World(4, 1, 1, groups=2)),
        ({"tp_size": "x"}, None),
        ({"nnodes": "x"}, World(1, 1, 1)),
    ],
)
def test_how_many_ranks_there_are(info: dict[str, Any], world: World | None) -> None:
    assert world_of(Replica(0, ServerState("ready"), server_info=info)) == world


def test_ranks_of_a_host() -> None:
    assert World(4, 1, 1, hosts=2).on_host(1) == {(2, 0, 0), (3, 0, 0)}
    assert World(2, 2, 1, hosts=2).on_host(0) == {(0, 0, 0), (1, 0, 0)}
    assert World(4, 2, 1, hosts=4).on_host(3) == {(2, 1, 0), (3, 1, 0)}
    assert World(2, 1, 2).on_host(0) == World(2, 1, 2).places


def test_the_profile_says_how_many_ranks_there_are_to_be() -> None:
    library = Library()
    deployment = resolve(*library.profile("muse-spark-open-gb300x8"), library)
    assert deployment.profile.topology.tensor == 4
    silent = Replica(0, ServerState("ready"), server_info={"tp_size": 2})
    assert world_of(silent, deployment) == World(4, 1, 1, hosts=deployment.hosts_per_replica)
    assert world_of(silent) == World(2, 1, 1)


def test_ranks_are_named_by_the_dimensions_that_there_are() -> None:
    assert World(4, 1, 1).named([(2, 0, 0), (1, 0, 0)]) == "tensor parallel ranks 1, 2"
    assert World(1, 2, 1).named([(0, 1, 0)]) == "pipeline rank 1"
    assert World(2, 2, 1).named([(1, 1, 0)]) == "rank tp1-pp1-dp0"
    assert World(20, 1, 1).named(World(20, 1, 1).places).endswith("6, 7 and 12 more")


def test_a_place_needs_every_dimension_of_several() -> None:
    assert World(4, 1, 1).place(3, None, None) == {(3, 0, 0)}
    assert World(4, 2, 1).place(3, None, None) == frozenset()
    assert World(4, 1, 1, groups=2).place(3, None, 1) == {(3, 0, 0)}
    assert World(2, 1, 2).group(1) == {(0, 0, 1), (1, 0, 1)}
    assert World(4, 1, 1, groups=2).group(1) == {(2, 0, 0), (3, 0, 0)}
