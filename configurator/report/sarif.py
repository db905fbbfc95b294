"""Findings as SARIF 2.1.0, which code scanning services read.

Shape: OASIS Static Analysis Results Interchange Format 2.1.0. One run; the rules that found
something with their pages; a result a finding; those silenced by a comment carry a suppression.
Why a file cannot be used stands also among the notifications of the invocation, which then was
not successful.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from configurator import __version__
from configurator.pages import INPUT_CODES, docstring, rule_page
from configurator.report.findings import FileFindings, printable, relative, root
from configurator.rules import Rule
from configurator.validate import Diagnostic

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT_ID = "%SRCROOT%"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_SEVERITIES = {"error": "error", "warning": "warning", "info": "recommendation"}

# What a reader of SARIF would take for a placeholder, and for a link.
_PLACEHOLDER = re.compile(r"\{(\d+)\}")
_LINK = re.compile(r"\[(?=[^\]]*\]\()")


def document(results: Iterable[FileFindings], rules: Mapping[str, Rule]) -> str:
    """The whole document.

    Args:
        results: the findings of every file; the exit code is the highest of theirs.
        rules: the loaded rules by code, whose pages become the descriptions.
    """
    files = list(results)
    base = root()
    pairs = [(file, finding) for file in files for finding in file.findings]
    first = {finding.code: finding for _, finding in reversed(pairs)}
    codes = sorted(first)
    index = {code: position for position, code in enumerate(codes)}
    run = {
        "tool": {
            "driver": {
                "name": "configurator",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_descriptor(first[code], rules.get(code)) for code in codes],
            }
        },
        "invocations": [_invocation(files, base)],
        "originalUriBaseIds": {
            ROOT_ID: {"description": {"text": "The root of the repository that was looked at."}}
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(file, finding, index, base) for file, finding in pairs],
    }
    data = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(data, indent=2, ensure_ascii=False)


def _descriptor(finding: Diagnostic, rule: Rule | None) -> dict[str, Any]:
    """A rule's identity and page; codes without a rule have one line in `INPUT_CODES`."""
    if rule is None:
        severity = finding.severity
        short = full = help_text = INPUT_CODES.get(finding.code, finding.message)
        name = finding.name or finding.code
    else:
        severity, name, help_text = rule.severity, rule.name, rule_page(rule)
        full = _prose(docstring(rule.doc)) or name
        short = full.split("\n\n")[0]
    return {
        "id": finding.code,
        "name": name,
        "shortDescription": {"text": _one_line(short)},
        "fullDescription": {"text": _one_line(full)},
        "help": {"text": help_text, "markdown": f"```text\n{help_text}\n```"},
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {
            "problem.severity": _GITHUB_SEVERITIES[severity],
            "tags": [finding.code.rstrip("0123456789")],
        },
    }


def _prose(page: str) -> str:
    """A rule's page up to its examples."""
    lines = page.splitlines()
    end = next((i for i, line in enumerate(lines) if line in ("Bad:", "Good:")), len(lines))
    return "\n".join(lines[:end]).strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _result(
    file: FileFindings, finding: Diagnostic, index: Mapping[str, int], base: Path
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_location(file, finding, base)],
    }
    if finding.suppressed is not None:
        suppression = {"kind": "inSource", "status": "accepted"}
        result["suppressions"] = [suppression | {"justification": printable(finding.suppressed)}]
    return result


def _message(finding: Diagnostic) -> str:
    text = f"{finding.message}\nremedy: {finding.remedy}" if finding.remedy else finding.message
    return _LINK.sub(r"\\[", _PLACEHOLDER.sub(r"{{\1}}", printable(text)))


def _location(file: FileFindings, finding: Diagnostic, base: Path) -> dict[str, Any]:
    place = file.place(finding)
    location: dict[str, Any] = {}
    if place is not None:
        at = finding.position
        # Code scanning services want a line: a finding about a whole file stands at the first.
        region = {"startLine": at.line, "startColumn": at.column} if at else {"startLine": 1}
        location["physicalLocation"] = {
            "artifactLocation": _artifact(place, base),
            "region": region,
        }
    name = finding.path or (file.file if place is None else "")
    if name:
        location["logicalLocations"] = [{"fullyQualifiedName": name}]
    return location


def _artifact(place: str, base: Path) -> dict[str, str]:
    seen = relative(place, base)
    if seen is None:
        return {"uri": f"file://{_quoted(os.path.abspath(place))}"}
    return {"uri": _quoted(seen), "uriBaseId": ROOT_ID}


def _quoted(path: str) -> str:
    # Names of files are bytes: those that are no UTF-8 must survive.
    return quote(os.fsencode(path))


def _invocation(files: list[FileFindings], base: Path) -> dict[str, Any]:
    notifications = [
        {
            "descriptor": {"id": finding.code},
            "level": "error",
            "message": {"text": _message(finding)},
            "locations": [_location(file, finding, base)],
        }
        for file in files
        for finding in file.findings
        if file.is_unusable(finding) or finding.code == "INT001"
    ]
    return {
        "executionSuccessful": not notifications,
        "exitCode": max((file.exit_code for file in files), default=0),
        "toolExecutionNotifications": notifications,
    }
