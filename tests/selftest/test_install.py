"""The commands that make the engine environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.selftest import install
from configurator.selftest.engine import ENGINE_VERSION


def test_the_engine_comes_without_its_dependencies() -> None:
    requirements, torch, engine = install.steps(Path("python"), None)
    assert torch[-1] == "torch==2.13.0"
    assert "--index-url" not in torch
    assert requirements[-2:] == ["-r", str(install.REQUIREMENTS)]
    assert engine[-3:] == ["--no-deps", f"sglang=={ENGINE_VERSION}", "xgrammar==0.2.7"]


def test_torch_can_come_from_another_index() -> None:
    torch = install.steps(Path("python"), install.CPU_INDEX)[1]
    assert torch[torch.index("--index-url") + 1] == install.CPU_INDEX


def test_every_requirement_is_pinned_and_none_is_for_a_gpu() -> None:
    lines = [
        line for line in install.REQUIREMENTS.read_text().splitlines() if not line.startswith("#")
    ]
    assert len(lines) > 90
    assert all(line.count("==") == 1 for line in lines)
    names = {line.partition("==")[0].lower() for line in lines}
    assert not names & {"triton", "sglang", "sgl-kernel", "flashinfer-python", "torch"}
    assert {"transformers", "tokenizers", "safetensors"} <= names


def test_a_directory_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "something").touch()
    assert install.main([str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
