"""`configurator claims [PROFILE]`"""

from __future__ import annotations

from pathlib import Path

import click

from configurator.commands.options import content_option, format_option, open_library


@click.command("claims")
@click.argument("profile", metavar="[PROFILE]", required=False)
@format_option
@content_option
def command(profile: str | None, output: str, content: tuple[Path, ...]) -> int:
    """Show which published figures may be carried into a plan.

    Without PROFILE: every published figure with its conditions, and whether figures that belong
    together agree. With PROFILE: which apply to it, which nearly do and which do not, with every
    condition that differs or is not known. No figure is ever scaled. A difference is no error: the
    exit code is 0.
    """
    from configurator.plan.consistency import consistency, of_claims
    from configurator.report import claims, claims_json

    library = open_library(content)
    known = library.claims()
    sets = [library.claims_of(name) for name in library.names("claims")]
    checked = consistency(library)
    if profile is None:
        if output == "json":
            click.echo(claims_json.library_json(sets, known, checked))
        else:
            claims.print_library(sets, known, checked)
        return 0

    from configurator.plan.claims import match
    from configurator.resolve import resolve

    read, layers = library.profile(profile)
    matches = match(resolve(read, layers, library), known.values())
    if output == "json":
        click.echo(claims_json.matches_json(read.name, read.status, matches, checked, sets))
        return 0
    shown = [m.published for m in matches if not m.other_model]
    about = {published.entry for published in shown}
    claims.print_matches(
        read.name,
        read.status,
        matches,
        known,
        of_claims((published.id for published in shown), checked),
        [entry for entry in sets if entry.name in about],
    )
    return 0
