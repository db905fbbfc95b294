"""`configurator render PROFILE -o DIR`"""

from __future__ import annotations

from pathlib import Path

import click

from configurator.commands.options import content_option, open_library, open_validators


@click.command("render")
@click.argument("profile", metavar="PROFILE")
@click.option("--target", default="bash", show_default=True, help="What to render to.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder to write to.",
)
@content_option
def command(profile: str, target: str, out: Path, content: tuple[Path, ...]) -> int:
    """Write the files that launch a deployment.

    The profile is validated first; with an error nothing is written. Every script checks its
    host, launches, waits with progress, and checks the server from evidence.
    """
    from configurator.errors import ConfiguratorError, did_you_mean
    from configurator.render import TARGETS, write
    from configurator.report.terminal import print_validations
    from configurator.validate import validate

    if target not in TARGETS:
        raise ConfiguratorError.single(
            "REF005", f"no render target is named {target!r}", did_you_mean(target, TARGETS)
        )
    library = open_library(content)
    result = validate(profile, library, open_validators(library, "rules"))
    code = result.exit_code("error")
    if code or result.deployment is None:
        print_validations([result], quiet=True)
        click.echo(f"nothing rendered: {profile} has errors", err=True)
        return code
    files = TARGETS[target](result.deployment)
    for path in write(files, out):
        click.echo(path)
    if result.deployment.profile.status == "unverified":
        click.echo("unverified: nobody has yet run this composition as a whole", err=True)
    return 0
