"""The one way out for findings, and the policy that chooses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError
from configurator.report.findings import FileFindings, Policy, check_codes, matches
from configurator.report.formats import write_findings
from configurator.rules import Severity
from configurator.validate import Diagnostic

Capture = pytest.CaptureFixture[str]


def finding(code: str, severity: Severity = "error", suppressed: str | None = None) -> Diagnostic:
    return Diagnostic(code, "", severity, f"\x1b[2J{code}", "", None, "", "", suppressed)


def test_other_verbs_call_a_file_what_they_like(capsys: Capture) -> None:
    policy = Policy()
    results = [policy.over("run.sh", [finding("ENG101")]), policy.over("b.sh", [], usable=False)]
    assert write_findings(results, "json", {}, policy, subject="file") == 2
    data = json.loads(capsys.readouterr().out)
    assert [(entry["file"], entry["exit_code"]) for entry in data["files"]] == [
        ("run.sh", 1),
        ("b.sh", 2),
    ]
    assert (data["exit_code"], data["files"][0]["name"]) == (2, None)


@pytest.mark.parametrize("form", ["terminal", "json", "github", "sarif", "junit"])
def test_without_files_there_is_nothing_to_say(form: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert write_findings([], form, {}, Policy(), target=target) == 0
    assert "error " not in target.read_text()


@pytest.mark.parametrize("form", ["terminal", "json", "github", "sarif", "junit"])
def test_neither_escapes_nor_broken_names_reach_an_output(
    form: str, tmp_path: Path, capsys: Capture
) -> None:
    results = [Policy().over("\udcff.sh", [finding("ENG101")])]
    write_findings(results, form, {}, Policy())
    out = capsys.readouterr().out
    assert "ENG101" in out
    assert "\x1b[2J" not in out
    write_findings(results, form, {}, Policy(), target=tmp_path / "out")
    assert (tmp_path / "out").read_bytes().decode("utf-8") == out


def test_the_terminal_shows_files_as_they_come(capsys: Capture) -> None:
    seen: list[str] = []

    def results() -> Iterator[FileFindings]:
        yield Policy().over("a.sh", [finding("ENG101")])
        seen.append(capsys.readouterr().out)

    assert write_findings(results(), "terminal", {}, Policy()) == 1
    assert "ENG101" in seen[0]


@pytest.mark.parametrize(
    ("policy", "findings", "usable", "expected"),
    [
        (Policy(), [finding("A1", "warning")], True, (0, 1, 0)),
        (Policy("warning"), [finding("A1", "warning")], True, (1, 1, 0)),
        (Policy("info"), [finding("A1", "error", "known")], True, (0, 1, 0)),
        (Policy("never"), [finding("A1")], True, (0, 1, 0)),
        (Policy("never"), [finding("INT001")], True, (3, 1, 0)),
        (Policy(ignore=("INT",)), [finding("INT001")], False, (3, 1, 0)),
        (Policy(ignore=("SCH",)), [finding("SCH005")], False, (2, 1, 0)),
        (Policy(ignore=("SCH",)), [finding("SCH010", "warning")], False, (2, 0, 1)),
        (Policy(ignore=("SUP",)), [finding("SUP001")], True, (0, 0, 1)),
        (Policy(select=("ENV",)), [finding("A1"), finding("ENV101")], True, (1, 1, 1)),
    ],
)
def test_a_policy(
    policy: Policy, findings: list[Diagnostic], usable: bool, expected: tuple[int, int, int]
) -> None:
    result = policy.over("f", findings, usable=usable)
    assert (result.exit_code, len(result.findings), result.ignored) == expected


@pytest.mark.parametrize(
    ("entry", "code", "same"),
    [
        ("ENV", "ENV101", True),
        ("ENV1", "ENV101", True),
        ("ENV101", "ENV101", True),
        ("ENV1012", "ENV101", False),
        ("EN", "ENV101", False),
        ("MEM", "MEMO101", False),
        ("env", "ENV101", False),
        ("", "ENV101", False),
        ("101", "ENV101", False),
    ],
)
def test_prefixes(entry: str, code: str, same: bool) -> None:
    assert matches(entry, code) is same


def test_codes_of_rules_and_of_input_are_known() -> None:
    check_codes("--ignore", ["ENV101", "ENV", "SCH010", "SUP"], ["ENV101"])
    with pytest.raises(ConfiguratorError, match="REF005 --ignore 'ENV2' is no code"):
        check_codes("--ignore", ["ENV101", "ENV2"], ["ENV101"])
