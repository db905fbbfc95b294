"""Findings as workflow commands: GitHub Actions shows them at their lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from configurator.report.findings import FileFindings, printable, root
from configurator.validate import Diagnostic

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def commands(results: Iterable[FileFindings]) -> Iterator[str]:
    """One command a finding; findings silenced by a comment are left out.

    Paths count from the repository's root, because GitHub looks them up there.
    """
    base = root()
    for result in results:
        for finding in result.findings:
            if finding.suppressed is None:
                yield _annotation(result.file, result.place_from(base, finding), finding)


def _annotation(argument: str, file: str | None, finding: Diagnostic) -> str:
    properties: dict[str, object] = {}
    if file is not None:
        properties["file"] = file
    if finding.position is not None:
        properties |= {"line": finding.position.line, "col": finding.position.column}
    properties["title"] = f"{finding.code} {finding.name}".rstrip()
    message = finding.message if file is not None else f"{argument}: {finding.message}"
    if finding.remedy:
        message += f"\nremedy: {finding.remedy}"
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{_LEVELS[finding.severity]} {given}::{_data(message)}"


def _data(text: str) -> str:
    """A message in a workflow command: `%` first, since it starts every escape."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A property's value: commas and colons end one, so they are escaped too."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
