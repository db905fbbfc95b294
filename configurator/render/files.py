"""Rendered files, and putting them where the operator wants them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.errors import ConfiguratorError
from configurator.render.instrument import probe_variables

MARK = "Made by configurator"
"""Every rendered file says so; a file that does not is never overwritten."""
PROBE = "probe"
"""Folder of the in-engine probe; nothing but the probe may lie there."""
REPORTS = "reports"
"""Folder of the in-engine reports, by replica."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """One file of a target."""

    path: str
    """Relative to the output folder."""
    text: str
    executable: bool = False
    mark: str = MARK
    """What a file in its place holds near its head if it was made by us, of any version."""


Target = Callable[[Deployment], tuple[RenderedFile, ...]]


def fingerprint(deployment: Deployment) -> str:
    """SHA-256 over what is launched: name, argument vectors, environment; 16 digits of it.

    Two profiles with the same fingerprint launch the same thing; secrets enter by reference.
    """
    launched = {
        "name": deployment.name,
        "engine": deployment.engine.name,
        "processes": [_process(process) for process in deployment.processes],
        "probe": probe_variables(deployment, PROBE, REPORTS),
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
    for path in (*_foreign(wanted), *_beside_the_probe(wanted, folder)):
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


def _foreign(wanted: Iterable[tuple[Path, RenderedFile]]) -> Iterator[Path]:
    """What is in the way of our files and not ours."""
    return (path for path, file in wanted if path.exists() and not _holds(path, file.mark))


def _beside_the_probe(wanted: Iterable[tuple[Path, RenderedFile]], folder: Path) -> Iterator[Path]:
    """Files in a folder of the probe: on the engine's search path they could shadow a module."""
    ours = {path: file.mark for path, file in wanted}
    within = (parent for path in ours for parent in path.parents if folder in parent.parents)
    for probe in sorted({parent for parent in within if parent.name == PROBE}):
        for path in sorted(probe.rglob("*")):
            hidden = path.name.startswith(".") or "__pycache__" in path.parts
            # Behind a link to a folder lie modules too.
            is_folder = path.is_dir() and not path.is_symlink()
            if not (path in ours or hidden or is_folder or _of_another_version(path, ours)):
                yield path


def _of_another_version(path: Path, ours: Mapping[Path, str]) -> bool:
    """A module that a package of ours had once or will have, or that the package was once.

    Where both lie beside each other, Python takes the package.
    """
    packages = (path.parent, path.with_suffix(""))
    marks = (ours.get(package / "__init__.py") for package in packages)
    return path.suffix == ".py" and any(mark is not None and _holds(path, mark) for mark in marks)


def _holds(path: Path, mark: str) -> bool:
    try:
        with path.open("rb") as file:
            return mark.encode() in file.read(4096)
    except OSError:
        return False
