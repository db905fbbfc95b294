"""Variables of rendered scripts, and those that a profile may name beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.errors import ConfiguratorError
from configurator.render import TARGETS
from configurator.resolve import resolve

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: ling-3.0-flash-spark\n"
ASSIGNED = re.compile(
    r"^\s*(?:export |local |readonly |declare -A )?([A-Za-z_][A-Za-z0-9_]*)="
    r"|\b(?:read -r?a|mapfile -t) ([A-Za-z_][A-Za-z0-9_]*)",
    re.MULTILINE,
)


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + text)
    try:
        LIBRARY.profile(str(path))
    except ConfiguratorError as error:
        return "; ".join(f"{problem.message}: {problem.remedy}" for problem in error.problems)
    return ""


def names_of_scripts() -> set[str]:
    """Every variable that a rendered script gives a value."""
    found: set[str] = set()
    for name in ("ling-3.0-flash-spark", "muse-spark-open-gb300x8", "muse-spark-open-gb300x8-tp8"):
        deployment = resolve(*LIBRARY.profile(name), LIBRARY)
        for target in TARGETS.values():
            files = [file for file in target(deployment) if file.path.endswith((".sh", ".sbatch"))]
            groups = [names for file in files for names in ASSIGNED.findall(file.text)]
            found |= {one or other for one, other in groups}
    return found


def test_a_key_may_not_be_in_a_variable_that_a_script_sets(tmp_path: Path) -> None:
    names = names_of_scripts()
    assert {"HERE", "LOG", "ENGINE_PID", "STATE", "PASSED", "NODES", "STEPS"} <= names
    for name in sorted(names):
        said = refused(tmp_path, f"serving: {{api_key: {{env: {name}}}}}\n")
        assert re.search("rendered scripts have one of this name|steer the shell", said), name


@pytest.mark.parametrize(
    "name", ["LING_API_KEY", "SGLANG_API_KEY", "MY_KEY", "SERVING_KEY", "SECRETS"]
)
def test_other_variables_may_hold_a_key(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, f"serving: {{api_key: {{env: {name}}}}}\n") == ""


@pytest.mark.parametrize(
    "name", ["BASH_ENV", "ENV", "SHELLOPTS", "PS4", "CDPATH", "CONFIGURATOR_SKIP", "BASH_FUNC_x"]
)
def test_an_engine_may_not_have_what_steers_its_shell(tmp_path: Path, name: str) -> None:
    said = refused(tmp_path, f"extra: {{env: {{{name}: x}}}}\n")
    assert "steer the shell that starts the engine" in said


@pytest.mark.parametrize(
    "name",
    ["log", "value", "HERE", "NCCL_DEBUG", "PYTHONPATH", "BASHFUL", "CONFIGURATOR_PROBE_DIR"],
)
def test_other_variables_are_the_engines(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, f"extra: {{env: {{{name}: x}}}}\n") == ""
