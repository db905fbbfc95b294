"""`configurator list [KIND]`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import (
    content_option,
    format_option,
    open_library,
    open_validators,
)

if TYPE_CHECKING:
    from configurator.content import Library

KINDS = (
    "deployments",
    "hardware",
    "models",
    "engines",
    "kernels",
    "measurements",
    "claims",
    "rules",
    "probes",
    "targets",
)
Rows = list[tuple[str, str]]


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@format_option
@content_option
def command(kind: str | None, output: str, content: tuple[Path, ...]) -> int:
    """List what can be named in a profile or on the command line."""
    library = open_library(content)
    tables = {each: rows(each, library) for each in ([kind] if kind else KINDS)}
    if output == "json":
        named = {
            each: [{"name": name, "summary": summary} for name, summary in table]
            for each, table in tables.items()
        }
        click.echo(json.dumps(named, indent=2))
        return 0
    for index, (each, table) in enumerate(tables.items()):
        if kind is None:
            click.echo(("\n" if index else "") + click.style(each, bold=True))
        width = max((len(name) for name, _ in table), default=0)
        for name, summary in table:
            click.echo(f"{'' if kind else '  '}{name:<{width}}  {summary}".rstrip())
    return 0


def rows(kind: str, library: Library) -> Rows:
    """Name and summary of everything of one kind."""
    if kind == "rules":
        rules = open_validators(library).rules.values()
        return [(rule.code, f"{rule.severity:<7}  {rule.name}") for rule in rules]
    if kind == "probes":
        probes = open_validators(library).probes.values()
        return [
            (f"{probe.name}={probe.takes}" if probe.takes else probe.name, probe.kind)
            for probe in probes
        ]
    if kind == "targets":
        from configurator.render import TARGETS

        return [(name, "") for name in TARGETS]
    if kind == "claims":
        return [(c.id, f"{c.shown}, {c.claim.figure}") for c in library.claims().values()]
    if kind == "deployments":
        return [(name, _deployment(library, name)) for name in library.names("deployment")]
    entry_kind = {"models": "model", "engines": "engine", "kernels": "kernel",
                  "measurements": "measurement"}.get(kind, kind)  # fmt: skip
    readers = {
        "hardware": library.hardware,
        "model": library.model,
        "engine": library.engine,
        "kernel": library.kernel,
        "measurement": library.measurement,
    }
    return [(name, readers[entry_kind](name).summary) for name in library.names(entry_kind)]


def _deployment(library: Library, name: str) -> str:
    profile, _ = library.profile(name)
    summary = " ".join(profile.description.split()).split(". ")[0].rstrip(".")
    return f"[{profile.status}] {summary}" if profile.status else summary
