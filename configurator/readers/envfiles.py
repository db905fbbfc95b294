"""Files of `NAME=value` lines: --env-file, env_file and EnvironmentFile."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from configurator.errors import Position, Problem
from configurator.regular import read_regular
from configurator.words import Setting, Word

_MAX_BYTES = 256 << 10
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=")


def read_env_file(
    path: Word, folder: Path | None, *, quotes: bool = False
) -> tuple[dict[str, Setting], tuple[Problem, ...]]:
    """The variables of a file that lies beside the one that names it; LNT004 if it does not.

    docker keeps quotes as a part of the value, compose and systemd (`quotes`) drop them.
    """
    file = _beside(path, folder)
    if file is None:
        message = f"the variables in `{path.text}` are not read"
        remedy = "put the file beside this one, or name its values here"
        return {}, (Problem("LNT004", message, remedy, path.position),)
    try:
        text = read_regular(file, _MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path.text} cannot be read: {error.__class__.__name__}"
        return {}, (Problem("LNT004", message, "save it as UTF-8 text", path.position),)
    return parse_env(text, str(file), quotes=quotes), ()


def parse_env(text: str, name: str, *, quotes: bool) -> dict[str, Setting]:
    """`NAME=value` lines; other lines and comments say nothing."""
    env: dict[str, Setting] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.match(line)
        if match is None:
            continue
        value = line[match.end() :].strip()
        if quotes and len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        env[match[1]] = Setting(match[1], value, Position(name, number, match.start(1) + 1))
    return env


def _beside(path: Word, folder: Path | None) -> Path | None:
    """The file, if it lies in the folder or below it and is of a reasonable size."""
    pure = PurePosixPath(path.text)
    if folder is None or path.unknown or pure.is_absolute() or ".." in pure.parts:
        return None
    try:
        root, file = folder.resolve(), (folder / pure).resolve()
        usable = file.is_file() and file.stat().st_size <= _MAX_BYTES
        return folder / pure if usable and file.is_relative_to(root) else None
    except (OSError, ValueError):
        return None
