"""Bytes a token against the pools that recorded servers report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from plan.deployments import LIBRARY, checkpoint, served

from configurator.content import ROOT
from configurator.plan.geometry import geometry_of

RECORDINGS = ROOT / "tests" / "fixtures" / "recordings"
GIB = 2**30
BASE: dict[str, Any] = {
    "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("h200/dense_default", 4),
        ("h200/dense_triton_attn", 4),
        ("h200/moe_triton", 2),
        ("h200/nextn_good", 2),
        ("h200-probe/dense", 4),
    ],
)
def test_the_pool_of_a_recorded_server(tmp_path: Path, name: str, layers: int) -> None:
    with gzip.open(RECORDINGS / name / "server_info.json.gz") as file:
        usage = json.load(file)["internal_states"][0]["memory_usage"]
    path = checkpoint(tmp_path / "m", BASE | {"num_hidden_layers": layers}, {})
    (cache,) = geometry_of(served(tmp_path, path), LIBRARY).caches
    size = cache.per_token.value * usage["token_capacity"] / GIB
    assert size == pytest.approx(usage["kvcache"], rel=0.02)
