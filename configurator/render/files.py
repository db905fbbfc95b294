"""Rendered files, and putting them where the operator wants them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.errors import ConfiguratorError

MARK = "Made by configurator"
"""Every rendered file says so; a file that does not is never overwritten."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """One file of a target."""

    path: str
    """Relative to the output folder."""
    text: str
    executable: bool = False


Target = Callable[[Deployment], tuple[RenderedFile, ...]]


def fingerprint(deployment: Deployment) -> str:
    """SHA-256 over what is launched: name, argument vectors, environment; 16 digits of it.

    Two profiles with the same fingerprint launch the same thing; secrets enter by reference.
    """
    launched = {
        "name": deployment.name,
        "engine": deployment.engine.name,
        "processes": [_process(process) for process in deployment.processes],
    }
    text = json.dumps(launched, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _process(process: Process) -> dict[str, object]:
    return {
        "role": process.role,
        "replica": process.replica,
        "rank": process.rank,
        "host": process.host,
        "argv": [_word(word) for word in process.argv],
        "env": sorted(process.env),
    }


def _word(word: Word) -> object:
    if isinstance(word, str):
        return word
    if isinstance(word, HostPlaceholder):
        return dataclasses.asdict(word)
    return word.model_dump()


def write(files: Iterable[RenderedFile], folder: Path) -> list[Path]:
    """Write `files` below `folder`, each in one step; the paths written.

    Raises:
        ConfiguratorError: RND002 when a file in the way was not made by us, RND003 when the
            folder cannot be written. Nothing is written then.
    """
    wanted = [(folder / file.path, file) for file in files]
    for path, _ in wanted:
        if path.exists() and not _ours(path):
            raise ConfiguratorError.single(
                "RND002", f"{path} exists and was not made by configurator",
                "choose an empty folder, or move the file away",
            )  # fmt: skip
    try:
        for path, file in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.partial")
            partial.write_text(file.text, encoding="utf-8", newline="\n")
            partial.chmod(0o755 if file.executable else 0o644)
            os.replace(partial, path)
    except OSError as error:
        raise ConfiguratorError.single(
            "RND003", f"cannot write to {folder}: {error.strerror or error}", "check the folder"
        ) from error
    return [path for path, _ in wanted]


def _ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(4096)
    except OSError:
        return False
