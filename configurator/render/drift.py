"""Whether a folder holds what a deployment renders to: what is missing, changed or left over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from configurator.render.files import MARK, RenderedFile


@dataclass(frozen=True, slots=True)
class Drift:
    """One file that is not as rendered."""

    path: str
    """Relative to the folder."""
    how: Literal["missing", "changed", "left over"]
    line: int | None = None
    """The first line that differs, of the file on disk."""

    def __str__(self) -> str:
        where = f" from line {self.line}" if self.line else ""
        return f"{self.path} is {self.how}{where}"


def drift(files: Iterable[RenderedFile], folder: Path) -> tuple[Drift, ...]:
    """Every difference between the rendered files and those in the folder, in their order.

    Files that we did not make are no drift; one of ours that is no longer rendered is.
    """
    wanted = {file.path: file for file in files}
    found = [one for file in wanted.values() for one in _of_file(file, folder)]
    return (*found, *_left_over(set(wanted), folder))


def _of_file(file: RenderedFile, folder: Path) -> Iterator[Drift]:
    try:
        held = (folder / file.path).read_bytes()
    except OSError:
        yield Drift(file.path, "missing")
        return
    wanted = file.text.encode("utf-8", "surrogatepass")
    if held != wanted:
        yield Drift(file.path, "changed", _first_difference(held, wanted))


def _first_difference(held: bytes, wanted: bytes) -> int:
    ours, theirs = held.splitlines(True), wanted.splitlines(True)
    pairs = enumerate(zip(ours, theirs, strict=False), 1)
    same = min(len(ours), len(theirs))
    return next((number for number, (one, other) in pairs if one != other), same + 1)


def _left_over(wanted: set[str], folder: Path) -> Iterator[Drift]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = path.relative_to(folder).as_posix()
        # A copy of an example, filled in for this host, is the operator's.
        if (
            not {name, f"{name}.example"} & wanted
            and path.is_file()
            and not path.is_symlink()
            and _is_ours(path)
        ):
            yield Drift(name, "left over")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(4096)
    except OSError:
        return False
