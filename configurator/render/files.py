"""Rendered files, and putting them where the operator wants them."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import former_plugins, remove_former_plugins
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
    private: bool = False
    """For its owner alone, as copies of it must be that are filled in with keys."""
    mark: str = MARK
    """What a file in its place holds near its head if it was made by us, of any version."""

    @property
    def mode(self) -> int:
        """Its permissions."""
        if self.private:
            return 0o600
        return 0o755 if self.executable else 0o644


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
    if deployment.plugins:
        launched["plugins"] = [dataclasses.astuple(plugin) for plugin in deployment.plugins]
    secrets = deployment.profile.extra.secrets
    if secrets:
        launched["secrets"] = {name: reference.model_dump() for name, reference in secrets.items()}
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
    former = {
        path
        for probe in _probes([path for path, _ in wanted], folder)
        for path in former_plugins(probe, ())
    }
    beside = (path for path in beside_the_probe(wanted, folder) if path not in former)
    for path in (*_foreign(wanted), *beside):
        raise ConfiguratorError.single(
            "RND002", f"{path} exists and was not made by configurator",
            "choose an empty folder, or move the file away",
        )  # fmt: skip
    try:
        # Every folder is made and tried before the first file is written.
        for parent in dict.fromkeys(path.parent for path, _ in wanted):
            _no_file_in_the_way(parent)
        for parent in dict.fromkeys(path.parent for path, _ in wanted):
            parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=parent).close()
        for path, file in wanted:
            _replace(path, file)
        for probe in _probes([path for path, _ in wanted], folder):
            remove_former_plugins(probe, [path for path, _ in wanted])
    except OSError as error:
        why = error.strerror or error
        raise ConfiguratorError.single(
            "RND003", f"cannot write to {error.filename or folder}: {why}", "check the folder"
        ) from error
    return [path for path, _ in wanted]


def _no_file_in_the_way(folder: Path) -> None:
    """Raise if `folder` can be none, before any folder is made."""
    places = (folder, *folder.parents)
    found = next((place for place in places if os.path.lexists(place)), folder)
    if not found.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(found))


def _replace(path: Path, file: RenderedFile) -> None:
    """Write in one step, by way of a new file that no link can have been laid for."""
    handle, partial = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as fresh:
            fresh.write(file.text)
            os.fchmod(handle, file.mode)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _foreign(wanted: Iterable[tuple[Path, RenderedFile]]) -> Iterator[Path]:
    """What is in the way of our files and not ours; a link to nothing is, too."""
    return (path for path, file in wanted if os.path.lexists(path) and not holds(path, file.mark))


def _probes(paths: Iterable[Path], folder: Path) -> list[Path]:
    """The folders of the probe that hold any of these files."""
    # Hundreds of files lie in a few folders.
    holding = {path.parent for path in paths}
    above = {each for parent in holding for each in (parent, *parent.parents)}
    return sorted(each for each in above if each.name == PROBE and folder in each.parents)


def beside_the_probe(wanted: Iterable[tuple[Path, RenderedFile]], folder: Path) -> Iterator[Path]:
    """Files in a folder of the probe: on the engine's search path they could shadow a module."""
    ours = {path: file.mark for path, file in wanted}
    for probe in _probes(ours, folder):
        for path in sorted(probe.rglob("*")):
            hidden = path.name.startswith(".") or "__pycache__" in path.parts
            # Behind a link to a folder lie modules too.
            is_folder = path.is_dir() and not path.is_symlink()
            if not (path in ours or hidden or is_folder or of_another_version(path, ours)):
                yield path


def of_another_version(path: Path, ours: Mapping[Path, str]) -> bool:
    """A module that a package of ours had once or will have, or that the package was once.

    Where both lie beside each other, Python takes the package.
    """
    packages = (path.parent, path.with_suffix(""))
    marks = (ours.get(package / "__init__.py") for package in packages)
    return path.suffix == ".py" and any(mark is not None and holds(path, mark) for mark in marks)


def holds(path: Path, mark: str) -> bool:
    """Whether the head of a file has this mark; what is no file, or cannot be read, has none."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return mark.encode() in file.read(4096)
    except OSError:
        return False
