"""What the host says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from collector.stub import Stub

from configurator.collector import host as module
from configurator.collector.collecting import collect


def test_facts_of_the_host_beside_the_engine(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA GB10, [N/A], 12.1, 580.95'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(module, "NVIDIA_SMI", (str(tool),))
    host = collect({0: stub.url}, tmp_path / "out")["host"]
    assert host["gpus"] == ["NVIDIA GB10, [N/A], 12.1, 580.95"]
    assert 0 < host["memory_available_kib"] < host["memory_kib"]
    assert host["engine_seen"] is False
    assert module.host_facts(["http://192.0.2.1:30000"], []) == {}
    monkeypatch.setattr(module, "NVIDIA_SMI", (str(tmp_path / "none"),))
    beside = module.host_facts([], [os.getpid()])
    assert set(beside) == {"engine_seen", "memory_kib", "memory_available_kib"}
    assert beside["engine_seen"] is True
