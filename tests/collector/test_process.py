"""What is read of an engine's process."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from collector.stub import Stub, everything

from configurator.collector.collecting import collect


def test_the_environment_of_the_process(stub: Stub, tmp_path: Path) -> None:
    env = {"SGLANG_Y": "2", "HF_TOKEN": "plain-but-secret", "MY_PASSWORD": "open-sesame-1"}
    log = tmp_path / "server.log"
    log.write_text("using open-sesame-1 for the store\n")
    child = subprocess.Popen(["sleep", "30"], env=env)
    try:
        # Between fork and exec the child still shows our own environment.
        while b"SGLANG_Y" not in Path(f"/proc/{child.pid}/environ").read_bytes():
            time.sleep(0.01)
        manifest = collect({0: stub.url}, tmp_path / "out", pids={0: child.pid}, logs={0: log})
    finally:
        child.kill()
        child.wait()
    assert manifest["environment"] == {
        "SGLANG_X": "1", "SGLANG_Y": "2", "HF_TOKEN": "<redacted>",
    }  # fmt: skip
    written = everything(tmp_path / "out")
    assert "open-sesame-1" not in written
    assert "plain-but-secret" not in written
