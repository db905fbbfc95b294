"""The table of the self-test, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from configurator.report.terminal import paragraph
from configurator.selftest.runner import Result, Table

NOT_EXERCISED = (
    "not exercised: CUDA kernels and CUDA graphs, Humming's kernels, a megakernel's kernels"
)
_COLOURS = {"clean": "green", "detected": "green", "alarm": "red", "missed": "red"}


def print_table(table: Table) -> None:
    """Twins, then cases, with what was said of each; the result in the last line."""
    for title, results in (
        ("healthy servers", table.of("clean", "alarm")),
        ("sabotaged servers", table.of("detected", "missed")),
    ):
        for label in dict.fromkeys(result.test.label for result in results):
            click.secho(f"{title} ({label})" if label else title, bold=True)
            for result in results:
                if result.test.label == label:
                    _print_result(result)
    click.echo(f"{len(table.results)} tests in {table.seconds:.0f} s; {NOT_EXERCISED}")
    for label, count in Counter(result.test.label for result in table.results).items():
        if label:
            click.echo(f"{count} of them are no run on a GPU: {label}")
    click.secho(table.last_line, bold=True, fg="red" if table.exit_code else "green")


def _print_result(result: Result) -> None:
    word = click.style(f"{result.outcome:<8}", fg=_COLOURS[result.outcome], bold=True)
    label = f" [{result.test.label}]" if result.test.label else ""
    click.echo(f"  {word} {result.test.name} ({result.seconds:.0f} s){label}: {result.test.about}")
    for fault in result.faults:
        paragraph(fault, "           WRONG: ")
    if result.test.healthy and not result.test.label:
        return
    if result.state != "ready":
        paragraph(f"server {result.state}", "           ")
    for said in result.seen:
        paragraph(said, "           ")


def as_json(table: Table) -> str:
    """The table as JSON."""
    data = {
        "detected": len(table.of("detected")),
        "cases": len(table.of("detected", "missed")),
        "false_alarms": len(table.of("alarm")),
        "twins": len(table.of("clean", "alarm")),
        "seconds": round(table.seconds, 1),
        "not_exercised": NOT_EXERCISED.partition(": ")[2].split(", "),
        "tests": [_as_data(result) for result in table.results],
    }
    return json.dumps(data, indent=2)


def _as_data(result: Result) -> dict[str, Any]:
    return {
        "name": result.test.name,
        "about": result.test.about,
        "twin": result.test.twin or None,
        "label": result.test.label or None,
        "outcome": result.outcome,
        "server": result.state,
        "seen": list(result.seen),
        "faults": list(result.faults),
        "seconds": round(result.seconds, 1),
    }
