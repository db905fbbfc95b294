"""The sabotages of our own probe bite: on the bundle's package, in a process as the engine's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configurator.inengine.bundle import write_bundle
from configurator.selftest.engine import RIG

# As much of the engine as the two plugins use, then what it does with them in a start.
ENGINE = {
    "sglang/__init__.py": "__version__ = '0'\n",
    "sglang/srt/__init__.py": "",
    "sglang/srt/environ.py": "class Envs:\n    pass\n",
    "sglang/srt/managers/__init__.py": "",
    "sglang/srt/managers/scheduler.py": (
        "class Scheduler:\n"
        "    def get_init_info(self):\n        pass\n"
        "    def init_all_attention_backends(self):\n        pass\n"
        "    def get_internal_state(self):\n        pass\n"
    ),
    "sglang/srt/plugins/__init__.py": "",
    "sglang/srt/plugins/hook_registry.py": (
        "from enum import Enum\n\n\n"
        "class HookType(Enum):\n    AFTER = 1\n    REPLACE = 2\n\n\n"
        "class HookRegistry:\n    hooks = {}\n\n"
        "    @classmethod\n    def register(cls, target, function, kind):\n"
        "        cls.hooks[target] = function\n"
    ),
}
START = """
import json
from importlib.metadata import entry_points
from sglang.srt.plugins.hook_registry import HookRegistry
for name in ("configurator_sabotage", "configurator_probe"):
    [one.load()() for one in entry_points(group="sglang.srt.plugins") if one.name == name]
info = {}
after = HookRegistry.hooks.get("sglang.srt.managers.scheduler.Scheduler.get_init_info")
if after is not None:
    after(info, object())
print(json.dumps({"hooks": sorted(HookRegistry.hooks), "info": info}))
"""


def started(folder: Path, sabotage: str) -> dict[str, Any]:
    write_bundle(folder / "bundle")
    for name, text in ENGINE.items():
        path = folder / "engine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # The metadata of the sabotage: the launcher of the self-test writes it beside a copy.
    plugin = folder / "plugin" / "configurator_sabotage-1.dist-info"
    plugin.mkdir(parents=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: sabotage\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text(
        "[sglang.srt.plugins]\nconfigurator_sabotage = configurator_sabotage:register\n"
    )
    paths = (folder / "bundle", folder / "engine", folder / "plugin", RIG / "sabotage")
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", START], capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": ":".join(map(str, paths)), "CONFIGURATOR_SABOTAGE": sabotage},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("sabotage", ["", "report-fails", "hooks-renamed"])
def test_the_sabotage_reaches_the_probe_and_nothing_else_does(
    tmp_path: Path, sabotage: str
) -> None:
    told = started(tmp_path, sabotage)
    ours = [name for name in told["hooks"] if name.startswith("sglang.srt.managers.scheduler.")]
    assert len(ours) == 3
    assert {name.endswith("_renamed") for name in ours} == {sabotage == "hooks-renamed"}
    # The stand-ins' own hook keeps its name.
    (other,) = set(told["hooks"]) - set(ours)
    assert other.endswith(".register_fake_ops")
    report = told["info"].get("configurator_probe")
    if sabotage == "hooks-renamed":
        assert report is None
    elif sabotage:
        said = "RuntimeError: sabotage: nothing can be reported"
        assert report["errors"] == [{"part": "all", "error": said}]
    else:
        assert (report["stage"], report["versions"]["engine"]) == ("ready", "0")
        assert [one["part"] for one in report["errors"]] == ["target"]
