"""The launches of files for programs; the shape is documented in docs/json.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from configurator.evidence.collect import is_secret, redact_json, redact_text
from configurator.lint import Linted, LintedCommand
from configurator.report.findings import Policy
from configurator.validate import Diagnostic

_STAND_IN = re.compile(r"(?i).*(placeholder|changeme|example|your[-_ ]).*|\$\{?\w+\}?")
"""What plainly stands in for a key and is none, a variable among it."""


def launches(results: Iterable[Linted], policy: Policy, *, quiet: bool = False) -> tuple[str, int]:
    """The result of `lint`, and its exit code; `quiet` leaves out findings of severity info."""

    def chosen(findings: Iterable[Diagnostic], usable: bool = True) -> list[dict[str, Any]]:
        kept = policy.over("", findings, usable=usable).findings
        return [_finding(f) for f in kept if not (quiet and f.severity == "info")]

    files: list[dict[str, Any]] = []
    code = 0
    for result in results:
        commands = [{**_command(c), "findings": chosen(c.findings)} for c in result.commands]
        own = policy.of_lint(result).exit_code
        code = max(code, own)
        files.append(
            {
                "file": result.file,
                "format": result.format,
                "commands": commands,
                "findings": chosen(result.others, not result.unusable),
                "exit_code": own,
            }
        )
    data = {"files": files, "exit_code": code}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n", code


def _command(linted: LintedCommand) -> dict[str, Any]:
    command = linted.command
    engine = linted.launch.engine
    return {
        "line": command.position.line,
        "column": command.position.column,
        "entry": command.entry,
        "image": command.image,
        "conditions": list(command.conditions),
        "engine": engine.version,
        "engine_because": linted.engine_because,
        "argv": shown_argv([word.text for word in command.argv]),
        "env": {s.name: _shown(s.name, s.value) for s in command.env.values()},
        "unknown": [word.text for word in command.argv if word.unknown],
        "engine_accepts": linted.engine_accepts,
    }


def shown_argv(words: list[str]) -> list[str]:
    """The words without secrets; what plainly stands in for one is kept."""
    hidden: list[str] = redact_json(words)
    return [
        word if _STAND_IN.fullmatch(word) else safe
        for word, safe in zip(words, hidden, strict=True)
    ]


def _shown(name: str, value: str | None) -> str | None:
    if value is None or not is_secret(name, value):
        return redact_text(value) if value is not None else None
    hidden: str = redact_json({name: value})[name]
    return value if _STAND_IN.fullmatch(value) else hidden


def _finding(finding: Diagnostic) -> dict[str, Any]:
    at = finding.position
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": redact_text(finding.message),
        "remedy": finding.remedy,
        "file": at.file if at else None,
        "line": at.line if at else None,
        "column": at.column if at else None,
        "subject": finding.path,
        "source": finding.source,
        "suppressed": finding.suppressed,
    }
