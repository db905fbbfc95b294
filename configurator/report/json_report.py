"""Findings and verdicts for programs. The shapes are documented in docs/json.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from configurator.report.findings import FileFindings
from configurator.validate import Diagnostic
from configurator.verdicts import Observation, Verdict

if TYPE_CHECKING:
    from configurator.judge import Judgement

_STEERING = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What JSON may hold as it is, and what steers a terminal, turns text around or cannot be encoded.

Only strings hold such characters, so each can be written by its number.
"""


def findings(results: Iterable[FileFindings], subject: str = "profile") -> str:
    """The result of `validate`, or of another verb that judges files.

    Args:
        results: the findings of every file.
        subject: what a file is called in the document; its plural holds the list.
    """
    entries = [_entry(result, subject) for result in results]
    code = max((result["exit_code"] for result in entries), default=0)
    return _dump({f"{subject}s": entries, "exit_code": code})


def _entry(result: FileFindings, subject: str) -> dict[str, Any]:
    return {
        subject: result.file,
        "name": result.name,
        "status": result.status,
        "usable": result.usable,
        "findings": [plain(finding) for finding in result.findings],
        "exit_code": result.exit_code,
    }


def plain(finding: Diagnostic, about: str = "path") -> dict[str, Any]:
    """A finding as it stands in a document; `about` is what its place in the input is called."""
    position = finding.position
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "remedy": finding.remedy,
        "file": position.file if position else None,
        "line": position.line if position else None,
        "column": position.column if position else None,
        about: finding.path,
        "source": finding.source,
        "suppressed": finding.suppressed,
    }


def judgement(result: Judgement, name: str | None, status: str | None) -> str:
    """The result of `check`."""
    states = list(result.states.values())
    worst = next((state for state in states if state.state != "ready"), states[0])
    return document({
        "deployment": name,
        "status": status,
        "server": {
            "state": worst.state,
            "phase": worst.phase,
            "reason": worst.reason,
            "remedy": worst.remedy,
            "replicas": [
                {
                    "replica": index,
                    "state": state.state,
                    "phase": state.phase,
                    "reason": state.reason,
                    "remedy": state.remedy,
                    "locator": state.locator,
                }
                for index, state in result.states.items()
            ],
            "unseen": list(result.unseen),
        },
        "verdicts": [_verdict(verdict) for verdict in result.verdicts],
        "exit_code": result.exit_code,
    })  # fmt: skip


def document(data: dict[str, Any], known: dict[str, Any] | None = None) -> str:
    """Any document, redacted: what stands in it may be a launch of anybody.

    Args:
        data: what is redacted.
        known: what is added as it is, for it is content and of no launch.
    """
    return _dump({**_without_secrets(data), **(known or {})})


def _without_secrets(data: dict[str, Any]) -> dict[str, Any]:
    """The document with secrets redacted: recorded evidence may be of anybody."""
    from configurator.collector.redaction import redact_json

    return dict(redact_json(data))


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "mechanism": verdict.mechanism,
        "kind": verdict.kind,
        "verdict": str(verdict.answer),
        "rung": str(verdict.rung) if verdict.rung is not None else None,
        "required": verdict.required,
        "fails": verdict.fails,
        "summary": verdict.summary,
        "remedy": verdict.remedy,
        "depends_on_text": verdict.depends_on_text,
        "conflicts": list(verdict.conflicts),
        "evidence": [_observation(observation) for observation in verdict.evidence],
    }


def _observation(observation: Observation) -> dict[str, Any]:
    from configurator.collector.redaction import REDACTED, is_secret

    secret = is_secret(observation.subject, observation.value)
    return {
        "source": observation.source,
        "subject": observation.subject,
        "value": REDACTED if secret else observation.value,
        "rung": str(observation.rung),
        "locator": observation.locator,
        "excerpt": observation.excerpt,
        "replica": observation.replica,
        "rank": observation.rank,
        "window": observation.window,
        "absence_meaningful": observation.absence_meaningful,
    }


def _dump(data: dict[str, Any]) -> str:
    text = json.dumps(data, indent=2, ensure_ascii=False, default=str)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
