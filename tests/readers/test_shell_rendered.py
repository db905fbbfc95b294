"""The scripts that this package renders: the reader finds in each what was rendered."""

from __future__ import annotations

import pytest

from configurator.content import Library
from configurator.deployment import Process
from configurator.loader import Validators
from configurator.readers.files import read_text
from configurator.render import TARGETS
from configurator.render.instrument import probe_variables
from configurator.validate import validate
from configurator.words import Command

_RENDERED = {
    "ling-3.0-flash-spark": ["replica0-host0.sh"],
    "ling-3.0-flash-spark-baseline": ["replica0-host0.sh"],
    "ling-3.0-flash-spark-dspark": ["replica0-host0.sh"],
    "muse-spark-open-gb300x8": ["replica0-host0.sh", "replica1-host0.sh"],
    "muse-spark-open-gb300x8-tp8": ["replica0-host0.sh", "replica0-host1.sh"],
}


def _same(process: Process, command: Command, added: set[str]) -> None:
    expected = process.argv[process.argv.index("sglang.launch_server") + 1 :]
    assert len(command.argv) == len(expected)
    for word, wanted in zip(command.argv, expected, strict=True):
        assert word.unknown == (not isinstance(wanted, str)), word.text
        assert word.unknown or word.text == wanted
    env = {name: setting.value for name, setting in command.env.items()}
    wanted_env = dict(process.env)
    assert {name: env.get(name) for name in wanted_env} == wanted_env
    assert set(env) - set(wanted_env) <= added


@pytest.mark.parametrize("name", _RENDERED)
def test_rendered_scripts_are_read_as_they_were_meant(
    name: str, library: Library, validators: Validators
) -> None:
    deployment = validate(name, library, validators).deployment
    assert deployment is not None
    added = set(probe_variables(deployment, "probe", "reports"))
    engines = [process for process in deployment.processes if process.role == "engine"]
    scripts = [f for f in TARGETS["bash"](deployment) if f.path.startswith("replica")]
    assert [script.path for script in scripts] == _RENDERED[name]
    for script, process in zip(scripts, engines, strict=True):
        reading = read_text(script.text, script.path)
        assert reading.problems == ()
        assert len(reading.commands) == 1
        _same(process, reading.commands[0], added)
