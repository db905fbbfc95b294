"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.loader import Validators, Wanted

F = TypeVar("F", bound=Callable[..., Any])

CONTENT_VARIABLE = "CONFIGURATOR_CONTENT"


def content_option(function: F) -> F:
    """`--content DIR`, repeatable; also CONFIGURATOR_CONTENT, separated like PATH."""
    return click.option(
        "--content",
        "content",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="A content directory of your own (profiles/, kernels/, validators/), laid over the "
        f"built-in one; repeatable. Default: ${CONTENT_VARIABLE}.",
    )(function)


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


def open_library(content: tuple[Path, ...]) -> Library:
    """The library over the built-in content and `content`, or the variable's directories."""
    from configurator.content import Library

    named = os.environ.get(CONTENT_VARIABLE, "")
    return Library(content or tuple(Path(part) for part in named.split(os.pathsep) if part))


def open_validators(library: Library, wanted: Wanted = "all") -> Validators:
    """The rules and probes of a library's directories."""
    from configurator.loader import load_validators

    return load_validators(library.roots, wanted)
