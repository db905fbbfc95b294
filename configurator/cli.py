"""The command line: one verb, one module of `commands/`, one exit code.

Subcommands are imported when they are asked for, so that `--version` and `--help` of one verb do
not pay for the others.
"""

from __future__ import annotations

import errno
import importlib
import keyword
import os
import sys
import tempfile
import traceback
from typing import Any

import click

from configurator import __version__

COMMANDS = {
    "validate": "Judge profiles before a GPU is touched.",
    "lint": "Judge launch commands that exist already.",
    "import": "Turn a launch command into a profile.",
    "plan": "Say whether a profile fits, what bounds it, and which published figures apply.",
    "claims": "Show which published figures may be carried into a plan.",
    "render": "Write the files that launch a deployment.",
    "up": "Launch a deployment here, and prove that it is what was asked for.",
    "check": "Prove from evidence what took effect.",
    "predictions": "Say how wrong predictions of the decode step are.",
    "probe-bundle": "Write the plugin that reports from inside the engine.",
    "selftest": "Sabotage real engines and see whether it is noticed.",
    "kernels": "Try on this machine what kernels promise.",
    "explain": "Explain a finding's code, a probe, a mechanism or a published figure.",
    "engine": "Say what each version of the engine knows, and since when.",
    "list": "List what can be named in a profile or on the command line.",
    "schema": "Print the JSON Schema of a kind of file, for editors.",
    "demo": "Show the whole way on a recording, without GPU, network or engine.",
}
"""Every verb and its line in `--help`; held equal to the modules by a test."""

EXIT_UNUSABLE = 2
EXIT_BUG = 3
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that ended by SIGPIPE."""


def module_of(verb: str) -> str:
    """The module of a verb: its name as Python can spell it."""
    return f"{verb}_" if keyword.iskeyword(verb) else verb.replace("-", "_")


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one verb."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"configurator.commands.{module_of(cmd_name)}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion for a misspelt verb."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from configurator.errors import did_you_mean

            hint = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"{error.message} {hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their lines, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="configurator")
def cli() -> None:
    """Profile, validate, render and prove deployments of SGLang.

    PROFILE is the name of a deployment (see `configurator list deployments`), or a file when it
    contains a slash or ends in .yaml or .yml.

    Exit codes: 0 good; 1 a finding, a refuted or unproven required mechanism, or a server that
    is not ready; 2 unusable input; 3 a fault of this program.
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """Run the command line; the exit code instead of an exit."""
    try:
        result: Any = cli.main(args=argv, prog_name="configurator", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return EXIT_UNUSABLE
    except BrokenPipeError:
        # The reader has what it wanted (`| head`); Python would complain at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _explain_failure(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"cannot write the output: {error.strerror}", err=True)
        return EXIT_UNUSABLE
    except Exception as error:
        return _explain_failure(error)
    return result if isinstance(result, int) else 0


def _explain_failure(error: Exception) -> int:
    from configurator.errors import ConfiguratorError

    if isinstance(error, ConfiguratorError):
        for problem in error.problems:
            click.echo(f"{click.style('error', fg='red', bold=True)} {problem}", err=True)
        return EXIT_UNUSABLE
    with tempfile.NamedTemporaryFile(
        "w", prefix="configurator-", suffix=".log", delete=False
    ) as log:
        log.write(f"configurator {__version__}, Python {sys.version}\n{sys.argv}\n\n")
        traceback.print_exception(error, file=log)
    click.echo(
        f"a fault of configurator itself: {type(error).__name__}: {error}\n"
        f"please report it with {log.name}",
        err=True,
    )
    return EXIT_BUG
