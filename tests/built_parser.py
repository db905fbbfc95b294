"""The standard library's own argparse with the options of a catalogue: an independent judge of
what our reading of a command line must say."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any, NoReturn

from configurator.engine.catalogue import Catalogue


class RefusedError(Exception):
    """What argparse says before it would exit."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)


def _size(text: str) -> int:
    if not re.fullmatch(r"-?\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i", text.strip()):
        raise ValueError(text)
    return 1


def _object(text: str) -> object:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


_TYPES: dict[str, Any] = {
    "int": int, "float": float, "json": json.loads, "json_object": _object, "size": _size,
    "str": str, "any": str, "bool": str,
}  # fmt: skip


def build(catalogue: Catalogue) -> argparse.ArgumentParser:
    """A parser with every option of a release."""
    parser = _Parser(prog="sglang", add_help=True)
    for flag in {flag.name: flag for flag in catalogue.flags.values()}.values():
        names = [f"--{name}" for name in (flag.name, *flag.aliases)]
        if flag.refused:
            parser.add_argument(*names, action=_Refusing, nargs=0 if flag.type is None else None)
        elif flag.type is None:
            parser.add_argument(*names, action="store_true", required=flag.required)
        else:
            nargs: Any = int(flag.nargs) if flag.nargs and flag.nargs.isdigit() else flag.nargs
            kind = _TYPES[flag.type]
            choices = [kind(choice) for choice in flag.choices] or None
            parser.add_argument(
                *names, type=kind, choices=choices, nargs=nargs, required=flag.required
            )
    return parser


class _Refusing(argparse.Action):
    def __call__(self, *_: Any) -> None:
        raise argparse.ArgumentError(self, "refused")


def verdict(parser: argparse.ArgumentParser, argv: list[str]) -> str | None:
    """Argparse's first complaint; None when it accepts."""
    try:
        parser.parse_args(argv)
    except RefusedError as refused:
        return str(refused)
    return None
