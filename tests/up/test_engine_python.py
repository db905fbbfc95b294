"""What the engine's Python and nvidia-smi say, and programs that do not answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from configurator.evidence.host import Gpu
from configurator.signals import Stop
from configurator.up.engine_python import EnginePython, ask_python, versions


def test_an_interpreter_says_what_it_has(tmp_path: Path) -> None:
    info = tmp_path / "Some_Thing-3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some_Thing\nVersion: 3\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nmine = a:b\n")
    found = ask_python(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)}, Stop())
    assert found.error == ""
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.packages["some-thing"] == "3"
    assert "mine" in found.plugins


def test_interpreters_that_do_not_answer() -> None:
    assert ask_python("/no/such/python", {}, Stop()).error == "No such file or directory"
    assert ask_python("/bin/false", {}, Stop()).error == "exit code 1"


@pytest.mark.parametrize("answer", ["[" * 200_000, "[1]", '{"python": 1}'])
def test_an_answer_that_cannot_be_read(tmp_path: Path, answer: str) -> None:
    python = tmp_path / "python3"
    (tmp_path / "answer").write_text(f"configurator:{answer}")
    python.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    python.chmod(0o755)
    error = ask_python(str(python), os.environ, Stop()).error
    assert error == "exit code 0; its answer cannot be read"


def test_the_lock_of_versions() -> None:
    engine = EnginePython("3.12.3", "/venv/python", {"torch": "2.9", "sglang": "0.5.23"})
    gpus = (Gpu("NVIDIA H200", "1", "sm_90", "570.1"),) * 2
    found = versions(engine, gpus, "image@sha256:1", "sglang 0.5.23")
    assert found["engine"] == {"wanted": "sglang 0.5.23", "found": "0.5.23"}
    assert found["packages"] == {"sglang": "0.5.23", "torch": "2.9"}
    assert (found["gpus"], found["driver"]) == (["NVIDIA H200"] * 2, "570.1")
    assert found["image"] == "image@sha256:1"
    host = found["host"]
    assert isinstance(host, dict)
    assert host["kernel"] == os.uname().release
    assert versions(EnginePython(), None, None, "x")["driver"] is None
