"""Findings as JUnit XML, which GitLab, Jenkins and others show as test results.

A file is a test suite. A finding that makes the exit code 1 is a failure, a reason why the file
cannot be used an error, a silenced finding a skipped test; other findings pass and say their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from configurator.report.findings import FileFindings, Policy, root
from configurator.validate import Diagnostic

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a reference."""
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def document(results: Iterable[FileFindings], policy: Policy) -> str:
    """The whole document; `policy` says which findings are failures."""
    base = root()
    suites = Element("testsuites", name="configurator")
    for result in results:
        suite = SubElement(suites, "testsuite", name=_legal(result.file))
        for finding in result.findings:
            _case(suite, result, finding, policy, result.place_from(base, finding))
        if not result.findings:
            SubElement(suite, "testcase", classname=_legal(result.file), name="no findings")
        _count(suite)
    _count(suites)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _case(
    suite: Element, result: FileFindings, finding: Diagnostic, policy: Policy, file: str | None
) -> None:
    at = finding.position
    title = f"{finding.code} {finding.name}".rstrip()
    case = SubElement(
        suite,
        "testcase",
        classname=_legal(result.file),
        # The place keeps two findings of one rule apart: many readers merge equal names.
        name=_legal(f"{title} {at.line}:{at.column}" if at else title),
    )
    if file is not None:
        case.set("file", _legal(file))
    if at is not None:
        case.set("line", str(at.line))
    place = f"{file}:{at.line}:{at.column}: " if at else ""
    remedy = f"\nremedy: {finding.remedy}" if finding.remedy else ""
    text = _legal(f"{place}{finding.severity} {title}\n{finding.message}{remedy}")
    if finding.suppressed is not None:
        SubElement(case, "skipped", message=_legal(finding.suppressed))
        return
    broken = result.is_unusable(finding) or finding.code == "INT001"
    if broken or policy.counts(finding):
        kind = "error" if broken else "failure"
        said = SubElement(case, kind, type=finding.severity, message=_legal(finding.message))
    else:
        said = SubElement(case, "system-out")
    said.text = text


def _count(element: Element) -> None:
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for attribute, tag in _COUNTED.items():
        element.set(attribute, str(sum(1 for _ in element.iter(tag))))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", text)
