"""What the real parser of an installed engine holds, to compare the catalogue with.

    python tests/real_parser.py FILE

runs where the engine can be imported (it needs nothing of this project) and adds its version to
FILE, an xz-compressed JSON of the options of several versions.
"""

from __future__ import annotations

import argparse
import enum
import json
import lzma
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Options = dict[str, dict[str, Any]]


def plain(value: Any) -> Any:
    """A value as JSON data."""
    match value:
        case enum.Enum():
            return plain(value.value)
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case str() | int() | float() | None:
            return value
        case dict():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
        case _:
            return {"unknown": type(value).__name__}


def refused(action: argparse.Action) -> bool:
    """Whether giving the option ends the parser."""

    class RefusalError(Exception):
        pass

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise RefusalError(message)

    if not type(action).__name__.startswith("Deprecated"):
        return False
    try:
        action(Parser(), argparse.Namespace(), [], action.option_strings[0])
    except (RefusalError, ValueError):
        return True
    return False


def options(parser: argparse.ArgumentParser) -> Options:
    """Every option of a parser by its first long name."""
    found: Options = {}
    for action in parser._actions:
        names = [name[2:] for name in action.option_strings if name.startswith("--")]
        if action.dest != "help":
            found[names[0]] = {
                "names": names,
                "type": getattr(action.type, "__name__", None),
                "takes_value": action.nargs != 0,
                "choices": plain(action.choices),
                "nargs": action.nargs,
                "default": None if action.default is argparse.SUPPRESS else plain(action.default),
                "required": action.required,
                "refused": refused(action),
            }
    return found


def read(path: Path) -> dict[str, Options]:
    """Options by version, as `main` has written them."""
    found: dict[str, Options] = json.loads(lzma.decompress(path.read_bytes()))
    return found


def main(path: Path) -> None:
    """Add the version that can be imported here."""
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found,unused-ignore]
    from sglang.version import __version__  # type: ignore[import-not-found,unused-ignore]

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    versions = read(path) if path.is_file() else {}
    versions[__version__] = options(parser)
    text = json.dumps(versions, separators=(",", ":"), sort_keys=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
