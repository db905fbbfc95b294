"""Findings and verdicts for people in a terminal."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from configurator.errors import Position
from configurator.report.findings import FileFindings, Policy, printable
from configurator.validate import Diagnostic, FailOn, Validation
from configurator.verdicts import Answer, Observation, Verdict

if TYPE_CHECKING:
    from configurator.judge import Judgement

_SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_ANSWER_COLOURS = {
    Answer.PROVEN: "green",
    Answer.REFUTED: "red",
    Answer.INCONCLUSIVE: "yellow",
    Answer.NOT_APPLICABLE: "white",
}
_SHOWN_OBSERVATIONS = 4
# A value in clear under the key of a secret, which an excerpt must not repeat.
_KEY = re.compile(
    r"""(?i)^(.*?(?:api[-_]?ke?y?|(?:hf|auth|access|api)[-_]token|secret\w*|passw(?:or)?d)"""
    r"""["']?\s*[:=]).*\S.*$"""
)
"""A line with the name of a key in it is shown up to there."""
_AROUND = 78
"""Characters of a long line that are shown before a place."""
_LONGEST = 4000
"""Characters of one text of the evidence; --format json has more."""
UNVERIFIED = "unverified: nobody has yet run this composition as a whole"


def print_validations(
    results: Iterable[Validation], fail_on: str = "error", *, quiet: bool = False
) -> int:
    """The same as `print_findings`, of profiles and with every finding in it."""
    policy = Policy(cast("FailOn", fail_on))
    return print_findings(map(policy.of_validation, results), quiet=quiet)


def print_findings(results: Iterable[FileFindings], *, quiet: bool = False) -> int:
    """Every finding with its line, then one line for each file; the highest exit code.

    Results are shown as they come and not kept: a thousand profiles need the memory of one.
    """
    texts = _Texts()
    summaries: list[str] = []
    code = 0
    for result in results:
        for finding in result.findings:
            if finding.suppressed is None and not (quiet and finding.severity == "info"):
                _print_finding(finding, texts, result.secrets)
        summaries.append(_summary(result))
        code = max(code, result.exit_code)
    click.echo("\n".join(summaries))
    return code


def _print_finding(finding: Diagnostic, texts: _Texts, secrets: tuple[str, ...]) -> None:
    colour = _SEVERITY_COLOURS[finding.severity]
    severity = click.style(finding.severity, fg=colour, bold=True)
    place = f"{_shown(finding.position)}: " if finding.position else ""
    click.echo(f"{place}{severity} {click.style(finding.code, bold=True)} {finding.name}".rstrip())
    excerpt = texts.excerpt(finding.position, secrets) if finding.position else None
    if finding.position and excerpt is not None:
        line, caret = excerpt
        number = str(finding.position.line)
        click.secho(f"  {number} | {line}", dim=True)
        click.secho(f"  {' ' * len(number)} | {' ' * caret}^", fg=colour)
    paragraph(finding.message, "  ")
    if finding.remedy:
        paragraph(finding.remedy, "  remedy: ")
    click.echo()


def _summary(result: FileFindings) -> str:
    counts = {"error": 0, "warning": 0, "info": 0}
    suppressed = 0
    for finding in result.findings:
        if finding.suppressed is None:
            counts[finding.severity] += 1
        else:
            suppressed += 1
    bad = counts["error"] or counts["warning"]
    parts = [f"{number} {_plural(name, number)}" for name, number in counts.items() if number]
    if suppressed:
        parts.append(f"{suppressed} suppressed")
    if result.ignored:
        parts.append(f"{result.ignored} ignored")
    good = "nothing to judge" if result.note == "no launch" else "clean"
    state = ", ".join(parts) if bad else good + (f" ({', '.join(parts)})" if parts else "")
    colour = "red" if counts["error"] else "yellow" if counts["warning"] else "green"
    note = f" [{UNVERIFIED}]" if result.status == "unverified" else ""
    note += f" ({result.note})" if result.note else ""
    return f"{printable(result.file)}: {click.style(state, fg=colour, bold=True)}{note}"


def _plural(name: str, number: int) -> str:
    return name if number == 1 or name == "info" else f"{name}s"


def print_judgement(judgement: Judgement, title: str, status: str | None) -> None:
    """The state of every server, then every verdict with what it stands on."""
    note = f" [{UNVERIFIED}]" if status == "unverified" else ""
    click.secho(printable(title) + note, bold=True)
    for index, state in judgement.states.items():
        good = state.state == "ready"
        word = click.style(state.state, fg="green" if good else "red", bold=True)
        phase = f" in phase: {_told(state.phase)}" if state.phase and not good else ""
        click.echo(f"  server {index}: {word}{phase}")
        if state.reason and not good:
            paragraph(_told(state.reason), "    reason: ")
        if state.remedy and not good:
            paragraph(_told(state.remedy), "    remedy: ")
    for index in judgement.unseen:
        click.echo(f"  server {index}: {click.style('not looked at', fg='yellow', bold=True)}")
    width = max((len(verdict.mechanism) for verdict in judgement.verdicts), default=0)
    for verdict in judgement.verdicts:
        _print_verdict(verdict, width)
    click.echo(_outcome(judgement))


def answer_style(answer: Answer, width: int = 14) -> str:
    """An answer in its colour, padded to `width`: the longest by default."""
    return click.style(f"{answer:<{width}}", fg=_ANSWER_COLOURS[answer], bold=True)


def _print_verdict(verdict: Verdict, width: int) -> None:
    rung = str(verdict.rung) if verdict.rung is not None else "-"
    note = "" if verdict.required else " (not required)"
    click.echo(f"  {answer_style(verdict.answer)} {verdict.mechanism:<{width}}  {rung}{note}")
    paragraph(_told(verdict.summary), "      ")
    if verdict.answer in (Answer.REFUTED, Answer.INCONCLUSIVE) and verdict.remedy:
        paragraph(_told(verdict.remedy), "      remedy: ")
    for conflict in verdict.conflicts:
        paragraph(_told(conflict), "      conflict: ")
    if verdict.answer is Answer.REFUTED or verdict.kind == "mechanism":
        for observation in verdict.evidence[:_SHOWN_OBSERVATIONS]:
            paragraph(_observation(observation), "      - ", dim=True)
        more = len(verdict.evidence) - _SHOWN_OBSERVATIONS
        if more > 0:
            click.secho(f"      - and {more} more (--format json)", dim=True)


def _observation(observation: Observation) -> str:
    where = _told(observation.locator or observation.source)
    window = f" [{_told(observation.window)}]" if observation.window else ""
    value = _told(f"{observation.subject} = {observation.value}")
    return f"{value}{window} ({where})"


def _told(text: str) -> str:
    """What evidence says: without secrets, for evidence may be of anybody, and not endless."""
    from configurator.collector.redaction import redact_text

    # Of what is far behind the cut, nothing that the redaction needs is shown.
    told = " ".join(printable(redact_text(text[: 3 * _LONGEST])[:_LONGEST]).split())
    more = len(text) - _LONGEST
    return f"{told}... ({more} characters more)" if more > 0 else told


def _outcome(judgement: Judgement) -> str:
    if judgement.exit_code == 0:
        if judgement.reservations:
            left = "; ".join(judgement.reservations)
            return f"{click.style('good so far, but', fg='yellow', bold=True)} {left}"
        return click.style("good", fg="green", bold=True)
    failing = [v.mechanism for v in judgement.verdicts if v.fails]
    reasons = [
        f"server {i} is {s.state}" for i, s in judgement.states.items() if s.state != "ready"
    ]
    what = "; ".join([*reasons, *([f"{', '.join(failing)}"] if failing else [])])
    return click.style(f"not good: {what}" if what else "not good", fg="red", bold=True)


def heading(text: str) -> None:
    """A line over a part of a report, wrapped as a paragraph is."""
    click.echo()
    paragraph(text, "", bold=True)


def paragraph(
    text: str, lead: str, *, dim: bool = False, bold: bool = False, fg: str | None = None
) -> None:
    """Text wrapped to the terminal, its first line led in by `lead`, the others aligned.

    Control characters of the text become spaces: they would steer the terminal.
    """
    width = max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))
    wrapped = textwrap.wrap(
        " ".join(printable(text).split()),
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    click.secho("\n".join(wrapped), dim=dim or None, bold=bold or None, fg=fg)


def _shown(position: Position) -> str:
    """The position with a path relative to the working directory where that is shorter."""
    relative = os.path.relpath(position.file)
    file = relative if not relative.startswith("..") else position.file
    return f"{printable(file)}:{position.line}:{position.column}"


class _Texts:
    """Lines of the files that findings point into, each file read once."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def excerpt(self, position: Position, secrets: tuple[str, ...] = ()) -> tuple[str, int] | None:
        """The line at `position` around its column, without secrets, and where the caret stands.

        None when the line cannot be read.
        """
        # Imported here: only findings with a place pay for the patterns of secrets.
        from configurator.collector.redaction import redact_text

        lines = self._lines.get(position.file)
        if lines is None:
            lines = self._lines[position.file] = _lines(Path(position.file))
        if not 0 < position.line <= len(lines):
            return None
        whole = lines[position.line - 1]
        # A line may be as long as a file: what is far from the place is left out before anything
        # else looks at it.
        first = max(0, position.column - 1 - _AROUND)
        part = whole[first : position.column - 1 + 2 * _AROUND]
        for secret in secrets:
            part = part.replace(secret, "...")
        part = redact_text(_KEY.sub(r"\1 ...", part))
        lead = "..." if first else ""
        shown = "".join(c if c.isprintable() else " " for c in part)
        return f"{lead}{shown}"[:160], min(len(lead) + position.column - 1 - first, 159)


def _lines(path: Path) -> list[str]:
    """Lines as positions count them: only line feeds end one."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace") if path.is_file() else ""
    except OSError:
        text = ""
    return [line.removesuffix("\r") for line in text.split("\n")] if text else []
