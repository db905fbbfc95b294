"""`configurator lint FILE...`"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import (
    content_option,
    fail_on_option,
    findings_format_option,
    open_library,
    open_oracle,
    open_validators,
    oracle_option,
    output_option,
    policy_of,
    selection_options,
)

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.lint import Around
    from configurator.linted import Linted
    from configurator.readers.reading import Reading
    from configurator.rules import Rule

STDIN = "-"


@click.command("lint")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option(
    "--argv-json",
    "argv_files",
    multiple=True,
    metavar="FILE",
    help='Launches as JSON: {"argv": [...], "env": {...}}, a list of such, or one a line.',
)
@click.option(
    "--engine",
    metavar="VERSION",
    help="Release or engine entry to judge for. Default: the image's tag, else the newest release.",
)
@click.option("--hardware", metavar="NAME", help="Machine it runs on; else its rules are silent.")
@click.option("--checkpoint", metavar="DIR", help="Where the target's checkpoint is here.")
@click.option("--draft-checkpoint", metavar="DIR", help="Where the draft's checkpoint is here.")
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="What the caller of a script sets."
)
@click.option("--fix", is_flag=True, help="Make the changes that keep the meaning, in place.")
@findings_format_option
@output_option
@fail_on_option
@selection_options
@oracle_option
@click.option("--quiet", "-q", is_flag=True, help="Leave out findings of severity info.")
@content_option
def command(
    files: tuple[str, ...],
    argv_files: tuple[str, ...],
    engine: str | None,
    hardware: str | None,
    checkpoint: str | None,
    draft_checkpoint: str | None,
    given: tuple[str, ...],
    fix: bool,
    form: str,
    target: Path | None,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    oracle: str | None,
    quiet: bool,
    content: tuple[Path, ...],
) -> int:
    """Judge launch commands that exist already.

    They are judged for the release they run. FILE is a shell script, a compose file, Kubernetes
    objects, a systemd unit or a Dockerfile; `-` reads a script from the standard input. Nothing
    in it is executed. What cannot be resolved is said, not guessed.
    """
    from configurator.lint import Around, engine_named

    if not files and not argv_files:
        raise click.UsageError("give at least one FILE, or --argv-json FILE")
    if target is not None and any(_same(target, name) for name in (*files, *argv_files)):
        raise click.UsageError(f"-o {target} is one of the files to read")
    library = open_library(content)
    validators = open_validators(library, "rules")
    policy = policy_of(fail_on, select, ignore, validators)
    around = Around(
        engine_named(engine, library) if engine else None,
        library.hardware(hardware) if hardware else None,
        _directory(checkpoint),
        _directory(draft_checkpoint),
    )
    rules = tuple(validators.rules.values())
    results = _linted(files, argv_files, assignments(given), around, library, rules)
    if fix:
        again = partial(
            _linted, given=assignments(given), around=around, library=library, rules=rules
        )
        results = (_fixed(result, again) for result in results)
    if oracle:
        from configurator.oracle.asking import ask_about_files

        results = iter(ask_about_files(list(results), open_oracle(oracle)))
    if form == "json":
        from configurator.report.formats import write
        from configurator.report.launches import launches

        text, code = launches(results, policy, quiet=quiet)
        write(text, target)
        return code
    from configurator.report.formats import write_findings

    chosen = (policy.of_lint(result) for result in results)
    return write_findings(
        chosen, form, validators.rules, policy, quiet=quiet, target=target, subject="file"
    )


def _same(path: Path, name: str) -> bool:
    return path.exists() and Path(name).exists() and path.samefile(name)


def _directory(text: str | None) -> str | None:
    if text is not None and not Path(text).is_dir():
        raise click.UsageError(f"{text} is no directory")
    return text


def assignments(given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` pairs of a command line."""
    pairs = [pair.partition("=") for pair in given]
    wrong = next((pair[0] for pair in pairs if not pair[1] or not pair[0].isidentifier()), None)
    if wrong is not None:
        raise click.UsageError(f"--set takes NAME=VALUE, not {wrong!r}")
    return {name: value for name, _, value in pairs}


def _linted(
    files: tuple[str, ...],
    argv_files: tuple[str, ...],
    given: dict[str, str],
    around: Around,
    library: Library,
    rules: tuple[Rule, ...],
) -> Iterator[Linted]:
    from configurator.errors import ConfiguratorError
    from configurator.lint import lint, unreadable

    for name, is_json in (*((f, False) for f in files), *((f, True) for f in argv_files)):
        try:
            reading, text = _read(name, given, is_json=is_json)
        except ConfiguratorError as error:
            yield unreadable(name, error)
            continue
        yield lint(reading, text, around, library, rules)


def _read(name: str, given: dict[str, str], *, is_json: bool) -> tuple[Reading, str]:
    from configurator.readers.files import load, read_argv_json

    if name == STDIN and is_json:
        text = read_stdin()
        return read_argv_json(text, "<stdin>"), text
    if name == STDIN:
        text = read_stdin()
        return read(name, given, text), text
    text = load(Path(name))
    return read_argv_json(text, name) if is_json else read(name, given), text


def read_stdin() -> str:
    """The standard input, as far as any launch can reasonably go; the reader refuses more."""
    from configurator.readers.files import MAX_BYTES

    return sys.stdin.read(MAX_BYTES + 1)


def read(name: str, given: dict[str, str], text: str | None = None) -> Reading:
    """The launches of a file, or of the standard input for `-`."""
    from configurator.readers.files import read_commands, read_text

    if name == STDIN:
        return read_text(read_stdin() if text is None else text, "<stdin>", given)
    return read_commands(Path(name), given)


def _fixed(result: Linted, judged: Callable[..., Iterator[Linted]]) -> Linted:
    """The file after its fixes: written, and judged again."""
    from configurator.fixes import fix_file

    made = 0 if result.unusable else fix_file(Path(result.file), result.findings)
    if not made:
        return result
    click.echo(f"{result.file}: {made} fixed", err=True)
    names = ((), (result.file,)) if result.format == "argv" else ((result.file,), ())
    return next(judged(*names))
