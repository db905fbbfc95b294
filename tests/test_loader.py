"""Loading rules and probes by path."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError, Position
from configurator.loader import Wanted, load_validators

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
        ("import sys\nsys.exit(0)\n", 2, "SystemExit: 0"),
        ("\nraise SystemExit\n", 2, "SystemExit"),
        ("\n\nraise GeneratorExit('x')\n", 3, "GeneratorExit: x"),
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


def test_an_interrupted_module_stays_an_interrupt(tmp_path: Path) -> None:
    write(tmp_path, "slow.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_validators([tmp_path])


@pytest.mark.parametrize("wanted", ["all", "rules"])
@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda path: os.mkfifo(path), "is a pipe, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
        (lambda path: path.mkdir(), "is a directory, not a file"),
        (lambda path: path.symlink_to("absent"), "cannot read .*: No such file"),
        (lambda path: path.write_text("#" * (1 << 20) + "##"), "is larger than 1 MiB"),
    ],
)
def test_what_is_no_file_is_not_read(
    tmp_path: Path, make: Callable[[Path], None], fact: str, wanted: Wanted
) -> None:
    (tmp_path / "validators").mkdir()
    make(tmp_path / "validators/odd.py")
    with pytest.raises(ConfiguratorError, match=f"LOAD001 .*{fact}"):
        load_validators([tmp_path], wanted)


@pytest.mark.parametrize(
    "code",
    ["bad code", "", "MEM90", "MEM9011", "mem901", "MEM901 ", "901", "MEM\u0669\u0660\u0661"],
)
def test_a_code_that_nothing_could_name_is_refused(tmp_path: Path, code: str) -> None:
    path = write(tmp_path, "m.py", RULE.format(name="n").replace('"MEM901"', repr(code)))
    with pytest.raises(ConfiguratorError, match="capital letters and three digits") as caught:
        load_validators([tmp_path])
    (problem,) = caught.value.problems
    assert problem.message == f"{code!r} cannot be the code of a rule"
    assert problem.position == Position(str(path), 10, 1)


def test_the_code_of_a_crash_is_ours(tmp_path: Path) -> None:
    write(tmp_path, "m.py", RULE.format(name="n").replace("MEM901", "INT001"))
    with pytest.raises(ConfiguratorError, match=r"LOAD001 'INT001' cannot be .*not INT"):
        load_validators([tmp_path])


def test_a_severity_that_counts_nowhere_is_refused(tmp_path: Path) -> None:
    text = RULE.format(name="n").replace('source="a test"', 'source="a test", severity="{}"')
    write(tmp_path / "bad", "m.py", text.format("fatal"))
    with pytest.raises(ConfiguratorError, match="'fatal' is no severity of rule MEM901") as caught:
        load_validators([tmp_path / "bad"])
    assert caught.value.problems[0].remedy == "write one of error, warning, info"
    write(tmp_path / "good", "m.py", text.format("info"))
    assert load_validators([tmp_path / "good"]).rules["MEM901"].severity == "info"
