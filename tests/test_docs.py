"""The generated reference equals what the code says now."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from configurator.cli import COMMANDS, module_of, run
from configurator.content import ROOT, Library
from configurator.docs import reference
from configurator.json_schema import json_schema
from configurator.loader import load_validators
from configurator.pages import INPUT_CODES

LIBRARY = Library()
VALIDATORS = load_validators(LIBRARY.roots)


@pytest.mark.parametrize(
    "name",
    ["rules.md", "probes.md", "profile.md", "content.md", "cli.md", "predictions.md", "plans.md"],
)
def test_reference_is_fresh(name: str) -> None:
    committed = (ROOT / "docs" / "reference" / name).read_text()
    made = reference(LIBRARY, VALIDATORS)[name]
    assert committed == made, "run: python -m configurator.docs"


def test_every_verb_has_its_module_and_line() -> None:
    for verb, line in COMMANDS.items():
        command = importlib.import_module(f"configurator.commands.{module_of(verb)}").command
        assert command.name == verb
        assert command.help.split("\n\n")[0].replace("\n", " ") == line


def test_every_input_code_of_the_source_is_explained() -> None:
    pattern = re.compile(
        r'"((?:SCH|REF|LOAD|INT|SUP|EVD|ENC|PLN|RND|COL|CAT|LNT|IMP|ORC|RUN|SLF)\d{3})"'
    )
    used = {
        code
        for path in (ROOT / "configurator").rglob("*.py")
        for code in pattern.findall(path.read_text())
    }
    assert used - set(INPUT_CODES) - set(VALIDATORS.rules) == set()


@pytest.mark.parametrize("kind", ["deployment", "hardware", "model", "engine", "kernel", "claims"])
def test_the_schema_describes_every_field(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == json.loads(json.dumps(json_schema(kind, LIBRARY)))
    for name, part in {"root": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key}"


def test_the_schema_knows_kernels_and_their_options() -> None:
    schema = json_schema("deployment", LIBRARY)
    wishes = schema["properties"]["optimizations"]["anyOf"][0]
    assert set(wishes["properties"]) == set(LIBRARY.names("kernel"))
    assert wishes["additionalProperties"] is False
    nextn = wishes["properties"]["nextn-mtp"]["anyOf"][0]
    assert nextn["properties"]["steps"]["anyOf"][0]["type"] == "integer"
