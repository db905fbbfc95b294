"""`configurator validate PROFILE...`"""

from __future__ import annotations

import gc
from pathlib import Path

import click

from configurator.commands.options import (
    content_option,
    format_option,
    open_library,
    open_validators,
)


@click.command("validate")
@click.argument("profiles", metavar="PROFILE...", nargs=-1, required=True)
@format_option
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity that makes the exit code 1.",
)
@click.option("--quiet", "-q", is_flag=True, help="Leave out findings of severity info.")
@content_option
def command(
    profiles: tuple[str, ...], output: str, fail_on: str, quiet: bool, content: tuple[Path, ...]
) -> int:
    """Judge profiles before a GPU is touched.

    Every finding has file:line:column, a code, the fact and the remedy; `configurator explain
    CODE` says more. Nothing is started and the network is never used.
    """
    from configurator.validate import validate

    # Profiles are trees without cycles, freed as they go: collecting garbage finds none.
    gc.set_threshold(100_000)
    library = open_library(content)
    validators = open_validators(library, "rules")
    results = (validate(profile, library, validators) for profile in profiles)
    if output == "json":
        from configurator.report.json_report import validations

        text, code = validations(results, fail_on)
        click.echo(text)
        return code
    from configurator.report.terminal import print_validations

    return print_validations(results, fail_on, quiet=quiet)
