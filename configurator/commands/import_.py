"""`configurator import FILE`"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.lint import assignments, read
from configurator.commands.options import content_option, open_library

if TYPE_CHECKING:
    from configurator.readers.reading import Reading
    from configurator.words import Command


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="PROFILE",
              help="File to write. Default: the standard output.")  # fmt: skip
@click.option("--engine", metavar="VERSION",
              help="Release it runs. Default: the image's tag, else the newest.")  # fmt: skip
@click.option("--hardware", metavar="NAME", help="Machine it runs on, of `list hardware`.")
@click.option("--name", metavar="NAME", help="Name of the deployment. Default: the file's.")
@click.option("--number", type=click.IntRange(min=1), metavar="N",
              help="Which launch, where a file has several.")  # fmt: skip
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE",
              help="What the caller of a script sets.")  # fmt: skip
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@content_option
def command(
    file: Path,
    out: Path | None,
    engine: str | None,
    hardware: str | None,
    name: str | None,
    number: int | None,
    given: tuple[str, ...],
    force: bool,
    content: tuple[Path, ...],
) -> int:
    """Turn a launch command into a profile.

    The profile renders back to the same launch. FILE is what `lint` reads, `-` a script from the
    standard input. Nothing in it is executed, and a secret in clear is not copied. What could not
    be kept is said, and stands at the head of the profile.
    """
    from configurator.errors import ConfiguratorError
    from configurator.importing import import_command
    from configurator.lint import Around, engine_named, engine_of, launch_of_command

    if out is not None and out.exists() and not force:
        raise ConfiguratorError.single(
            "IMP006", f"{out} exists already", "give another name, or --force"
        )
    library = open_library(content)
    reading = read(str(file), assignments(given))
    chosen = _chosen(reading, number)
    around = Around(engine_named(engine, library) if engine else None)
    found, because = engine_of(chosen, around, library)
    launch = launch_of_command(chosen, found, around)
    imported = import_command(chosen, launch, library, name or _name(file), hardware)
    if out is None:
        click.echo(imported.text, nl=False)
    else:
        out.write_bytes(imported.text.encode("utf-8", "replace"))
        click.echo(out)
    about = [problem for problem in reading.problems if problem.code != "LNT008"]
    for problem in dict.fromkeys((*about, *imported.problems)):
        click.echo(problem, err=True)
    click.echo(f"for sglang {found.version} ({because}); "
               + (f"recognized: {', '.join(imported.mechanisms)}" if imported.mechanisms
                  else "no mechanism recognized"), err=True)  # fmt: skip
    return 0 if imported.exact else 1


def _chosen(reading: Reading, number: int | None) -> Command:
    from configurator.errors import ConfiguratorError

    commands = reading.commands
    if not commands:
        raise ConfiguratorError(reading.problems)
    if number is None and len(commands) > 1:
        lines = ", ".join(f"{i} (line {c.position.line})" for i, c in enumerate(commands, 1))
        raise ConfiguratorError.single(
            "IMP007", f"{reading.file} has {len(commands)} launches: {lines}",
            "choose one with --number", commands[1].position,
        )  # fmt: skip
    if (number or 1) > len(commands):
        raise ConfiguratorError.single(
            "IMP007", f"{reading.file} has {len(commands)} launches, not {number}",
            f"choose 1 to {len(commands)}",
        )  # fmt: skip
    return commands[(number or 1) - 1]


def _name(file: Path) -> str:
    """The file's name as a deployment may be called."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._")
    return name if name and name[0].isalnum() else "imported"
