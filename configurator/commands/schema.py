"""`configurator schema [KIND]`"""

from __future__ import annotations

import json
from pathlib import Path

import click

from configurator.commands.options import content_option, open_library


@click.command("schema")
@click.argument(
    "kind",
    type=click.Choice(
        ["deployment", "hardware", "model", "engine", "kernel", "measurement", "claims"]
    ),
    default="deployment",
)
@content_option
def command(kind: str, content: tuple[Path, ...]) -> int:
    """Print the JSON Schema of a kind of file, for editors.

    An editor with the YAML language server completes and checks a profile that starts with
    `# yaml-language-server: $schema=FILE`.
    """
    from configurator.json_schema import json_schema

    click.echo(json.dumps(json_schema(kind, open_library(content)), indent=2))
    return 0
