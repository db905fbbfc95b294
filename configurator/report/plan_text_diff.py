"""Differences of two plans, or of a plan and a server, for people and for programs."""

from __future__ import annotations

import click

from configurator.plan.diff import Diff, Difference, Section, Value, in_section
from configurator.plan.figures import Figure
from configurator.report.json_report import document
from configurator.report.plan_json import plain
from configurator.report.plan_rows import Row, Sources, print_rows
from configurator.report.plan_text import print_sources
from configurator.report.plan_values import UNKNOWN, said
from configurator.report.terminal import heading, paragraph

_HEADINGS: dict[Section, str] = {
    "deployment": "deployment",
    "arguments": "arguments of the engine",
    "environment": "environment of the engine",
    "resolved": "what the server resolved",
    "memory": "memory of one GPU",
    "step": "decode step",
}


def print_diff(found: Diff) -> None:
    """Every difference with both values, `first -> second`."""
    click.secho(f"{found.first} -> {found.second}", bold=True)
    sources = Sources()
    for section, title in _HEADINGS.items():
        rows = [
            Row(difference.name, _both(difference), _note(difference, sources))
            for difference in in_section(found.differences, section)
        ]
        if rows:
            heading(title)
            print_rows(rows)
    if not found.differences:
        click.echo("no difference" if not found.open else "no difference in what was compared")
    if found.open:
        heading("not compared")
        for text in found.open:
            paragraph(text, "  - ")
    print_sources(sources)


def _both(difference: Difference) -> str:
    figures = difference.section in ("memory", "step")
    first, second = (_text(v, figures) for v in (difference.first, difference.second))
    return f"{first} -> {second}"


def _text(value: Value, is_figure: bool) -> str:
    if isinstance(value, Figure):
        return said(value)
    if value is None:
        return UNKNOWN if is_figure else "not set"
    return value


def _note(difference: Difference, sources: Sources) -> str:
    """How far apart two figures are, and where the second was read."""
    first, second = difference.first, difference.second
    if not isinstance(second, Figure):
        return ""
    parts = []
    if isinstance(first, Figure) and first.unit == second.unit and first.value:
        parts.append(f"{100 * (second.value / first.value - 1):+.1f} %")
        if not first.exact and second.exact:
            within = first.low <= second.value <= first.high
            parts.append("within the range" if within else "outside of the range")
    return f"{', '.join(parts)}{sources.mark(second.source)}".strip()


def diff_json(found: Diff, exit_code: int) -> str:
    """The same as a document."""
    return document({
        "first": found.first,
        "second": found.second,
        "differences": [plain(difference) for difference in found.differences],
        "not_compared": list(found.open),
        "exit_code": exit_code,
    })  # fmt: skip
