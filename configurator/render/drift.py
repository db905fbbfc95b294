"""Whether a folder holds what a deployment renders to: what is missing, changed or left over."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from configurator.render.files import (
    MARK,
    RenderedFile,
    beside_the_probe,
    holds,
    of_another_version,
)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Drift:
    """One file that is not as rendered."""

    path: str
    """Relative to the folder, which is `.` itself."""
    how: Literal[
        "missing", "not a file", "unreadable", "changed", "not executable", "writable by everyone",
        "open to others, and for keys", "left over",
        "foreign in the probe's folder, where the engine looks for modules",
    ]  # fmt: skip
    line: int | None = None
    """The first line that differs, of the file on disk."""

    def __str__(self) -> str:
        where = f" from line {self.line}" if self.line else ""
        return f"{self.path} is {self.how}{where}"


def drift(files: Iterable[RenderedFile], folder: Path) -> tuple[Drift, ...]:
    """Every difference between the rendered files and those in the folder, in their order.

    Files that we did not make are no drift, save beside the probe's modules; one of ours that is
    no longer rendered is.
    """
    wanted = {file.path: file for file in files}
    found = [one for file in wanted.values() for one in _of_file(file, folder)]
    found += _of_folders(wanted, folder)
    found += [one for file in wanted.values() if file.private for one in _of_copy(file, folder)]
    foreign = [
        Drift(
            path.relative_to(folder).as_posix(),
            "foreign in the probe's folder, where the engine looks for modules",
        )
        for path in beside_the_probe([(folder / name, wanted[name]) for name in wanted], folder)
    ]
    told = {one.path for one in foreign}
    left = (one for one in left_over(wanted.values(), folder) if one.path not in told)
    return (*found, *left, *foreign)


def _of_file(file: RenderedFile, folder: Path) -> Iterator[Drift]:
    path = folder / file.path
    try:
        mode = path.stat().st_mode
        # Nothing else is opened: a pipe would wait.
        held = path.read_bytes() if stat.S_ISREG(mode) else None
    except (FileNotFoundError, NotADirectoryError):
        yield Drift(file.path, "not a file" if path.is_symlink() else "missing")
        return
    except OSError:
        yield Drift(file.path, "unreadable")
        return
    if held is None:
        yield Drift(file.path, "not a file")
        return
    wanted = file.text.encode("utf-8", "surrogatepass")
    if held != wanted:
        yield Drift(file.path, "changed", _first_difference(held, wanted))
    if file.executable and not mode & stat.S_IXUSR:
        yield Drift(file.path, "not executable")
    # That its group may write is usual where every user has a group of their own.
    if mode & stat.S_IWOTH:
        yield Drift(file.path, "writable by everyone")
    if file.private and mode & _OTHERS:
        yield Drift(file.path, "open to others, and for keys")


def _of_folders(paths: Iterable[str], folder: Path) -> Iterator[Drift]:
    """Who may write in a folder may put another file in the place of any."""
    inner = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    for name in sorted(inner):
        place = folder / name
        if place.is_dir() and place.stat().st_mode & stat.S_IWOTH:
            yield Drift(name, "writable by everyone")


def _of_copy(file: RenderedFile, folder: Path) -> Iterator[Drift]:
    """The copy of an example that an operator has filled in, if it is there."""
    name = file.path.removesuffix(".example")
    try:
        mode = (folder / name).stat().st_mode
    except OSError:
        return
    if name != file.path and mode & _OTHERS:
        yield Drift(name, "open to others, and for keys")


def _first_difference(held: bytes, wanted: bytes) -> int:
    ours, theirs = held.splitlines(True), wanted.splitlines(True)
    pairs = enumerate(zip(ours, theirs, strict=False), 1)
    same = min(len(ours), len(theirs))
    return next((number for number, (one, other) in pairs if one != other), same + 1)


def left_over(files: Iterable[RenderedFile], folder: Path) -> Iterator[Drift]:
    """Files that a rendering of ours made and this one does not."""
    marks = {folder / file.path: file.mark for file in files}
    for path in sorted(_files_below(folder)):
        name = path.relative_to(folder).as_posix()
        # A copy of an example, filled in for this host, is the operator's.
        if folder / f"{name}.example" in marks:
            continue
        if path not in marks and (holds(path, MARK) or of_another_version(path, marks)):
            yield Drift(name, "left over")


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths = (Path(place, name) for name in names)
        yield from (path for path in paths if not path.is_symlink())
