"""Every example works as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import ROOT, Library
from configurator.loader import load_validators
from configurator.validate import validate

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
OWN = ROOT / "examples" / "own-content"


def findings(path: Path, *content: Path) -> list[tuple[str, str]]:
    library = Library(content)
    result = validate(str(path), library, load_validators(library.roots))
    return [(f.severity, f.code) for f in result.findings if f.severity != "info"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_clean(path: Path) -> None:
    assert findings(path, OWN) == []


def test_the_machine_of_the_example_needs_its_content_directory() -> None:
    assert findings(ROOT / "examples" / "lab-box.yaml") == [("error", "REF001")]


def test_the_rule_of_the_example_fires(tmp_path: Path) -> None:
    path = tmp_path / "nameless.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: nameless\n"
        f"extends: {ROOT}/examples/qwen3-8b-h200.yaml\nserving: {{served_model_name: null}}\n"
    )
    assert findings(path, OWN) == [("warning", "SEC901")]
