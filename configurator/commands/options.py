"""Options that several verbs share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.loader import Validators, Wanted
    from configurator.oracle.client import Oracle
    from configurator.report.findings import Policy
    from configurator.validate import FailOn

F = TypeVar("F", bound=Callable[..., Any])

CONTENT_VARIABLE = "CONFIGURATOR_CONTENT"


def content_option(function: F) -> F:
    """`--content DIR`, repeatable; also CONFIGURATOR_CONTENT, separated like PATH."""
    return click.option(
        "--content",
        "content",
        multiple=True,
        callback=_directories,
        metavar="DIR",
        help="A content directory of your own (profiles/, kernels/, validators/), laid over the "
        f"built-in one; repeatable. Default: ${CONTENT_VARIABLE}.",
    )(function)


def _directories(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[Path, ...]:
    if not all(values):
        # Path("") would be the directory that one happens to be in.
        raise click.BadParameter("an empty name is no directory; write . for the one you are in")
    return tuple(Path(value) for value in values)


def format_option(function: F) -> F:
    """`--format terminal|json`."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(["terminal", "json"]),
        default="terminal",
        show_default=True,
        help="For people, or for programs.",
    )(function)


def findings_format_option(function: F) -> F:
    """`--format terminal|json|github|sarif|junit`, for verbs that report findings."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["terminal", "json", "github", "sarif", "junit"]),
        default="terminal",
        show_default=True,
        help="For people, for programs, as GitHub Actions annotations, as SARIF 2.1.0, or as "
        "JUnit XML.",
    )(function)


def output_option(function: F) -> F:
    """`--output FILE`."""
    return click.option(
        "--output",
        "-o",
        "target",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write there instead of to the standard output.",
    )(function)


def fail_on_option(function: F) -> F:
    """`--fail-on error|warning|info|never`."""
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "info", "never"]),
        default="error",
        show_default=True,
        help="Lowest severity that makes the exit code 1. Unusable input is 2 all the same.",
    )(function)


def selection_options(function: F) -> F:
    """`--select CODES` and `--ignore CODES`, repeatable, separated by commas."""
    for name, help_text in (
        ("--ignore", "Leave out these findings; what makes a file unusable is always said."),
        ("--select", "Report only these findings: codes, or prefixes such as ENV or ENV1."),
    ):
        function = click.option(
            name, multiple=True, metavar="CODE[,CODE]", callback=_codes,
            help=f"{help_text} Repeatable.",
        )(function)  # fmt: skip
    return function


def _codes(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(","))


def policy_of(
    fail_on: str, select: tuple[str, ...], ignore: tuple[str, ...], validators: Validators
) -> Policy:
    """What the options say of findings.

    Raises:
        ConfiguratorError: REF005, a code that no rule has.
    """
    from configurator.report.findings import Policy, check_codes

    check_codes("--select", select, validators.rules)
    check_codes("--ignore", ignore, validators.rules)
    return Policy(cast("FailOn", fail_on), select, ignore)


def open_library(content: tuple[Path, ...]) -> Library:
    """The library over the built-in content and `content`, or the variable's directories."""
    from configurator.content import Library

    named = os.environ.get(CONTENT_VARIABLE, "")
    return Library(content or tuple(Path(part) for part in named.split(os.pathsep) if part))


def open_validators(library: Library, wanted: Wanted = "all") -> Validators:
    """The rules and probes of a library's directories."""
    from configurator.loader import load_validators

    return load_validators(library.roots, wanted)


def oracle_option(function: F) -> F:
    """`--oracle PYTHON`: also ask the engine itself."""
    return click.option(
        "--oracle",
        metavar="PYTHON",
        help="A Python that can import sglang: the engine itself resolves the arguments too, on "
        "a CPU with the GPU simulated.",
    )(function)


def open_oracle(python: str) -> Oracle:
    """The oracle of an interpreter, telling on a terminal what it does."""
    from configurator.oracle.client import Oracle

    def progress(text: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[Kasking the engine: {text}", err=True, nl=False)

    return Oracle(Path(shutil.which(python) or python), progress=progress)
