"""Suppressions: comments with a reason, on the line or above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import Position
from configurator.loader import Validators
from configurator.rules import Finding, rule
from configurator.suppress import Suppressions
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


def silenced(text: str, *, trailing: bool = True) -> dict[str, set[int]]:
    """Which lines each code is silenced on."""
    found = Suppressions.of_text("run.sh", text, trailing=trailing)
    result: dict[str, set[int]] = {}
    for code in ("ENG101", "MEM101"):
        lines = {
            line
            for line in range(1, text.count("\n") + 2)
            if found.reason(code, Position("run.sh", line, 1)) is not None
        }
        if lines:
            result[code] = lines
    return result


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nserve --x  # configurator: ignore[ENG101] known\nb\n", {2}),
        ("a\n# configurator: ignore[ENG101] known\n# more\nserve --x\nb\n", {2, 4}),
        ("# configurator: ignore[ENG101] known\r\nserve --x\r\nb\r\n", {1, 2}),
        ("args:  # configurator: ignore[ENG101] known\n  - --x\n", {1}),
        ("    # configurator: ignore[ENG101] known\n    - --x\n", {1, 2}),
        ('echo \'it\' "is # \\" so" # configurator: ignore[ENG101] known\n', {1}),
        ("echo don't; x # configurator: ignore[ENG101] known, isn't it\n", {1}),
        ('end of a text" # configurator: ignore[ENG101] known\n', {1}),
        ("echo ${#list} $# # note # configurator: ignore[ENG101] known\n", {1}),
    ],
)
def test_comments_of_any_text(text: str, lines: set[int]) -> None:
    assert silenced(text) == {"ENG101": lines}


@pytest.mark.parametrize(
    "text",
    [
        'echo "a # configurator: ignore[ENG101] known"\n',
        "echo 'a # configurator: ignore[ENG101] known'\n",
        "echo a#configurator: ignore[ENG101] glued\n",
        "echo a \\# configurator: ignore[ENG101] escaped\n",
        "# configurator: ignorance[ENG101] is bliss\n",
        "# configurator: ignore[ENG101]\nserve --x\n",
        "\n# configurator: ignore[ENG101] of an empty line\n\nserve --x\n",
    ],
)
def test_what_is_no_comment_of_ours_in_a_text(text: str) -> None:
    assert 4 not in silenced(text).get("ENG101", set())
    assert 1 not in silenced(text).get("ENG101", set())


@pytest.mark.parametrize(
    "text",
    [
        "# configurator: ignore[ENG101] known\nserve \\\n  --x \\\n  --y\nother\n",
        "echo\nserve \\\n  --x \\\n  --y  # configurator: ignore[ENG101] known\nother\n",
    ],
)
def test_a_command_over_several_lines_is_spoken_of_as_a_whole(text: str) -> None:
    lines = silenced(text)["ENG101"]
    assert {2, 3, 4} <= lines
    assert 5 not in lines


def test_a_line_that_ends_in_an_escaped_backslash_does_not_go_on() -> None:
    text = "# configurator: ignore[ENG101] known\necho a\\\\\nserve\n"
    assert silenced(text) == {"ENG101": {1, 2}}


def test_behind_words_of_a_unit_nothing_is_a_comment() -> None:
    text = "ExecStart=serve # configurator: ignore[ENG101] no\n"
    assert silenced(text, trailing=False) == {}
    text = "# configurator: ignore[ENG101] yes\nExecStart=serve\n"
    assert silenced(text, trailing=False) == {"ENG101": {1, 2}}


def test_problems_of_a_text_have_its_name_and_places() -> None:
    found = Suppressions.of_text(
        "run.sh",
        "a # configurator: ignore[ENG101]\nb # configurator: ignore[ENG999,MEM101] because\n",
    )
    assert found.reason("MEM101", Position("other.sh", 2, 1)) is None
    said = [
        (severity, problem.code, str(problem.position))
        for severity, problem in found.problems(["ENG101", "MEM101"])
    ]
    assert said == [
        ("error", "SUP001", "run.sh:1:3"),
        ("warning", "SUP002", "run.sh:2:3"),
        ("warning", "SUP003", "run.sh:2:3"),
    ]


def test_a_secret_in_a_reason_is_not_kept() -> None:
    found = Suppressions.of_text(
        "run.sh", "a # configurator: ignore[ENG101] as --api-key=sk-abcdefghijklmnopqrstuv needs\n"
    )
    reason = found.reason("ENG101", Position("run.sh", 1, 1))
    assert reason is not None
    assert "sk-abc" not in reason
    assert reason.startswith("as --api-key=")
