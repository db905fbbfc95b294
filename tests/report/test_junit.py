"""JUnit XML: what fails, what passes, and that any XML reader can read it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from configurator.errors import Position
from configurator.report.findings import Policy
from configurator.report.junit import document
from configurator.validate import Diagnostic

PLACE = Position("mine.yaml", 2, 3)


def finding(
    severity: Literal["error", "warning", "info"] = "error",
    *,
    code: str = "MEM901",
    message: str = "0.97 is too much",
    position: Position | None = PLACE,
    suppressed: str | None = None,
) -> Diagnostic:
    return Diagnostic(
        code, "too-much", severity, message, "set 0.88", position, "", "", suppressed
    )  # fmt: skip


def parsed(*findings: Diagnostic, policy: Policy | None = None, usable: bool = True) -> Element:
    policy = policy or Policy()
    text = document([policy.over("my file.yaml", findings, usable=usable)], policy)
    return ElementTree.fromstring(text.encode())


def counts(element: Element) -> tuple[str | None, ...]:
    return tuple(element.get(name) for name in ("tests", "failures", "errors", "skipped"))


def test_a_clean_file_is_a_passing_test() -> None:
    suites = parsed()
    assert (suites.tag, counts(suites)) == ("testsuites", ("1", "0", "0", "0"))
    (suite,) = suites
    assert (suite.tag, suite.get("name"), counts(suite)) == (
        "testsuite", "my file.yaml", ("1", "0", "0", "0"),
    )  # fmt: skip
    (case,) = suite
    assert (case.tag, case.get("name"), case.get("classname")) == (
        "testcase", "no findings", "my file.yaml",
    )  # fmt: skip
    assert len(case) == 0


def test_a_finding_is_a_failing_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (case,) = parsed(finding())[0]
    assert case.attrib == {
        "classname": "my file.yaml",
        "name": "MEM901 too-much 2:3",
        "file": "mine.yaml",
        "line": "2",
    }
    (failure,) = case
    assert failure.tag == "failure"
    assert failure.attrib == {"type": "error", "message": "0.97 is too much"}
    assert failure.text == (
        "mine.yaml:2:3: error MEM901 too-much\n0.97 is too much\nremedy: set 0.88"
    )


def test_only_what_makes_the_exit_code_1_fails() -> None:
    findings = (finding("warning"), finding("info"), finding(suppressed="known"))
    suites = parsed(*findings)
    assert counts(suites) == counts(suites[0]) == ("3", "0", "0", "1")
    warning, info, silenced = suites[0]
    assert warning[0].tag == info[0].tag == "system-out"
    assert "warning MEM901 too-much\n0.97 is too much" in (warning[0].text or "")
    assert (silenced[0].tag, silenced[0].get("message")) == ("skipped", "known")
    assert counts(parsed(*findings, policy=Policy("warning"))) == ("3", "1", "0", "1")
    assert counts(parsed(*findings, policy=Policy("info"))) == ("3", "2", "0", "1")
    assert counts(parsed(finding(), policy=Policy("never"))) == ("1", "0", "0", "0")


def test_unusable_input_and_a_crash_are_errors_whatever_fails() -> None:
    suites = parsed(
        finding(code="SCH005"),
        finding("warning", code="SCH010"),
        policy=Policy("never"),
        usable=False,
    )
    assert counts(suites) == ("2", "0", "1", "0")
    assert [child.tag for child in suites.iter() if child.tag in ("error", "system-out")] == [
        "error",
        "system-out",
    ]
    assert counts(parsed(finding(code="INT001"), policy=Policy("never"))) == ("1", "0", "1", "0")


def test_equal_findings_at_other_places_have_other_names() -> None:
    first, second = parsed(finding(), finding(position=Position("mine.yaml", 9, 1)))[0]
    assert first.get("name") != second.get("name")


def test_characters_no_xml_may_hold_are_removed_and_others_kept() -> None:
    message = "a\x00\x08\x0b\x1b[31m\ud800\ufffe <b> & \"c\" ]]> 'd'\tä\U0001f600"
    suites = parsed(finding(message=message))
    (failure,) = suites[0][0]
    kept = "a[31m <b> & \"c\" ]]> 'd'\tä\U0001f600"
    assert failure.get("message") == kept
    assert kept in (failure.text or "")


def test_without_a_place() -> None:
    (case,) = parsed(finding(position=None))[0]
    assert case.attrib == {"classname": "my file.yaml", "name": "MEM901 too-much"}
    assert (case[0].text or "").startswith("error MEM901 too-much\n")
