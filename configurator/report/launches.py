"""The launches of files for programs; the shape is documented in docs/json.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from configurator.collector.redaction import REDACTED, redact_text
from configurator.linted import Linted, LintedCommand
from configurator.report.findings import Policy
from configurator.report.json_report import plain
from configurator.secrets import holds_secret, is_secret_value, secret_options, stands_in
from configurator.validate import Diagnostic


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
        "conditions": [redact_text(condition) for condition in command.conditions],
        "engine": engine.version,
        "engine_because": linted.engine_because,
        "argv": _argv(linted),
        "env": {s.name: _shown(s.name, s.value) for s in command.env.values()},
        "unknown": [word.text for word in command.argv if word.unknown],
        "engine_accepts": linted.engine_accepts,
    }


def _argv(linted: LintedCommand) -> list[str]:
    """The words without secrets; what plainly stands in for one is kept."""
    words = [word.text for word in linted.command.argv]
    for option in secret_options(linted.launch):
        for place in option.places:
            name = f"--{option.name}=" if option.joined else ""
            words[place] = f"{name}{REDACTED}"
    return [REDACTED if holds_secret(w) and not stands_in(w) else w for w in words]


def _shown(name: str, value: str | None) -> str | None:
    return REDACTED if value is not None and is_secret_value(name, value) else value


def _finding(finding: Diagnostic) -> dict[str, Any]:
    return {**plain(finding, "subject"), "message": redact_text(finding.message)}
