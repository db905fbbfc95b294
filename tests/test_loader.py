"""Loading rules and probes by path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError
from configurator.loader import load_validators

RULE = '''
from __future__ import annotations
from dataclasses import dataclass
from configurator import Finding, rule

@dataclass
class Limit:
    value: int

@rule("MEM901", "{name}", source="a test")
def check(deployment):
    """A rule."""
    yield Finding(("name",), str(Limit(3).value))
'''


def write(root: Path, file: str, text: str) -> Path:
    path = root / "validators" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_rules_are_found_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path, "memory.py", RULE.format(name="one"))
    validators = load_validators([tmp_path])
    assert list(validators.rules) == ["MEM901"]
    assert validators.rules["MEM901"].name == "one"
    assert validators.rules["MEM901"].severity == "error"
    assert validators.origins["MEM901"].file == str(path)


def test_files_of_the_same_name_live_side_by_side(tmp_path: Path) -> None:
    write(tmp_path / "a", "memory.py", RULE.format(name="one"))
    write(tmp_path / "b", "memory.py", RULE.format(name="two").replace("MEM901", "MEM902"))
    validators = load_validators([tmp_path / "a", tmp_path / "b"])
    assert [rule.name for rule in validators.rules.values()] == ["one", "two"]


def test_a_code_defined_twice_names_both_places(tmp_path: Path) -> None:
    write(tmp_path / "a", "memory.py", RULE.format(name="one"))
    write(tmp_path / "b", "other.py", RULE.format(name="two"))
    with pytest.raises(ConfiguratorError, match=r"LOAD002 MEM901 is defined twice: .*a/.*b/"):
        load_validators([tmp_path / "a", tmp_path / "b"])


def test_an_imported_rule_is_not_found_again(tmp_path: Path) -> None:
    write(tmp_path, "memory.py", RULE.format(name="one"))
    write(
        tmp_path,
        "user.py",
        "import sys\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.endswith('_memory') and hasattr(module, 'check'): borrowed = module.check\n",
    )
    assert list(load_validators([tmp_path]).rules) == ["MEM901"]


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        ("x = 1\nraise RuntimeError('no')\n", 2, "RuntimeError: no"),
        ("x = 1\n\ndef broken(:\n", 3, "SyntaxError"),
        ("import no_such_module\n", 1, "ModuleNotFoundError"),
    ],
)
def test_a_broken_module_is_placed_and_leaves_nothing(
    tmp_path: Path, text: str, line: int, fact: str
) -> None:
    path = write(tmp_path, "broken.py", text)
    before = set(sys.modules)
    with pytest.raises(ConfiguratorError, match=fact) as caught:
        load_validators([tmp_path])
    (problem,) = caught.value.problems
    assert (problem.code, problem.position.file, problem.position.line) == (  # type: ignore[union-attr]
        "LOAD001",
        str(path),
        line,
    )
    assert not [name for name in set(sys.modules) - before if "broken" in name]
