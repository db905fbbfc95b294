"""Suppressions: comments with a reason, on the line or above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.loader import Validators
from configurator.rules import Finding, rule
from configurator.validate import Validation, validate

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: example\n"
BASE = "extends: ling-3.0-flash-spark\n"


@rule("MEM901", "made-for-a-test", source="a test")
def made_for_a_test(deployment: Deployment) -> Iterator[Finding]:
    yield Finding(("memory", "mem_fraction_static"), "too much", "take less")


RULES = Validators({"MEM901": made_for_a_test}, {}, {})
Run = Callable[[str], Validation]


@pytest.fixture
def run(tmp_path: Path, library: Library) -> Run:
    def validated(text: str) -> Validation:
        path = tmp_path / "profile.yaml"
        path.write_text(HEAD + BASE + text)
        return validate(str(path), library, RULES)

    return validated


def summary(result: Validation) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.suppressed) for finding in result.findings]


@pytest.mark.parametrize(
    "text",
    [
        "memory:\n  mem_fraction_static: 0.7  # configurator: ignore[MEM901] measured, fits\n",
        "memory:\n  # configurator: ignore[MEM901] measured, fits\n  mem_fraction_static: 0.7\n",
        "memory:\n  # configurator: ignore[MEM901]: measured, fits\n  # more\n"
        "  mem_fraction_static: 0.7\n",
        "memory:\n  mem_fraction_static: 0.7  #configurator:ignore[ MEM901 ] measured, fits\n",
    ],
)
def test_a_comment_with_a_reason_silences(text: str, run: Run) -> None:
    result = run(text)
    assert summary(result) == [("MEM901", "measured, fits")]
    assert result.exit_code() == 0


@pytest.mark.parametrize(
    "text",
    [
        "# configurator: ignore[MEM901] too far away\nmemory:\n  mem_fraction_static: 0.7\n",
        "memory:  # configurator: ignore[MEM901] of the line above\n  mem_fraction_static: 0.7\n",
    ],
)
def test_elsewhere_it_silences_nothing_and_says_so(text: str, run: Run) -> None:
    result = run(text)
    assert sorted(summary(result)) == [("MEM901", None), ("SUP003", None)]
    assert result.exit_code() == 1


def test_several_codes_in_one_comment(run: Run) -> None:
    result = run("memory:\n  mem_fraction_static: 0.7  # configurator: ignore[MEM901,MEM910] why\n")
    silenced, unknown = result.findings
    assert silenced.suppressed == "why"
    assert (unknown.code, unknown.severity) == ("SUP002", "warning")
    assert unknown.remedy == "did you mean 'MEM901'?"


@pytest.mark.parametrize(
    "comment", ["ignore[MEM901]", "ignore[MEM901]   ", "ignore[]  why", "ignore"]
)
def test_without_reason_or_code_it_is_an_error_and_does_not_count(comment: str, run: Run) -> None:
    result = run(f"memory:\n  mem_fraction_static: 0.7  # configurator: {comment}\n")
    assert sorted(summary(result)) == [("MEM901", None), ("SUP001", None)]
    problem = next(finding for finding in result.findings if finding.code == "SUP001")
    assert problem.severity == "error"
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (6, 29)


def test_unusable_input_cannot_be_silenced(run: Run) -> None:
    result = run("memori: {}  # configurator: ignore[SCH005] known\n")
    assert summary(result) == [("SCH005", None)]
    assert result.exit_code() == 2


def test_a_null_that_removes_nothing_cannot_be_silenced(run: Run) -> None:
    result = run(
        "router: null  # configurator: ignore[SCH010] known\n"
        "memory:\n  # configurator: ignore[MEM901] fits\n  mem_fraction_static: 0.7\n"
    )
    assert sorted(summary(result)) == [("MEM901", "fits"), ("SCH010", None), ("SUP002", None)]


def test_a_layer_below_silences_its_own_line(tmp_path: Path, library: Library) -> None:
    (tmp_path / "base.yaml").write_text(
        HEAD + BASE + "memory:\n  mem_fraction_static: 0.7  # configurator: ignore[MEM901] fits\n"
        "# configurator: ignore[MEM901] unused here, but that is the base's business\n"
    )
    derived = tmp_path / "derived.yaml"
    derived.write_text(HEAD + "extends: ./base.yaml\n")
    assert summary(validate(str(derived), library, RULES)) == [("MEM901", "fits")]


@pytest.mark.parametrize(
    "text",
    [
        'description: "# configurator: ignore[MEM901] not a comment"\n',
        "description: |\n  # configurator: ignore[MEM901] not a comment\n",
        "description: a#configurator: ignore[MEM901] glued\n",
        "# configurator: ignorance[MEM901] is bliss\n",
    ],
)
def test_text_that_only_looks_like_one(text: str, run: Run) -> None:
    if "a#configurator: ignore" in text:
        text = 'description: "a#configurator: ignore[MEM901] glued"\n'
    assert summary(run(text)) == [("MEM901", None)]
