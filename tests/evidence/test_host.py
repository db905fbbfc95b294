"""What a host says of itself, as it is written in a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.evidence.host import Gpu, host_of, parse_gpus


def test_gpus_whose_memory_is_not_told() -> None:
    lines = ["NVIDIA GB10, [N/A], 12.1, 580.95", "NVIDIA H200, 143771 MiB, 9.0, 570.1"]
    spark, hopper = parse_gpus(lines)
    assert spark == Gpu("NVIDIA GB10", "[N/A]", "sm_121", "580.95")
    assert hopper == Gpu("NVIDIA H200", "143771 MiB", "sm_90", "570.1")
    assert spark.memory_gib is None
    assert hopper.memory_gib == pytest.approx(140.4, abs=0.05)
    assert parse_gpus(["NVIDIA T, [N/A], [N/A], 1", "noise"]) == (
        Gpu("NVIDIA T", "[N/A]", "", "1"),
    )


def test_a_host_of_a_manifest() -> None:
    host = host_of(
        {"gpus": ["NVIDIA GB10, [N/A], 12.1, 580.95"], "memory_kib": 125_829_120,
         "memory_available_kib": 1_048_576, "engine_seen": True}
    )  # fmt: skip
    assert host is not None
    assert [gpu.product for gpu in host.gpus] == ["NVIDIA GB10"]
    assert (host.memory_gib, host.available_gib, host.engine_seen) == (120, 1, True)


@pytest.mark.parametrize("data", [None, [], {}, {"gpus": 3, "memory_kib": "much"}, {"gpus": []}])
def test_nothing_that_was_recorded_is_no_host(data: Any) -> None:
    assert host_of(data) is None
