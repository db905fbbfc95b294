"""Which release a git checkout is, read from the files under `.git`; git itself is not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from configurator.engine.store import order
from configurator.regular import read_regular

_MAX_BYTES = 16 << 20
"""More than the tags and branches of any repository take."""
_TAG = re.compile(r"refs/tags/v?(\d+(?:\.\d+)+(?:\.?(?:post|rc|a|b|dev)\d*)?)")


def tagged_version(root: Path) -> tuple[str | None, str | None]:
    """The release whose tag is checked out, and the newest release that has a tag.

    Args:
        root: the directory with `.git`; without one both are None.
    """
    git = root / ".git"
    if not git.is_dir():
        return None, None
    head = _resolved(git, _text(git / "HEAD"))
    tags: dict[str, set[str]] = {}
    for name, commit in _tags(git):
        tags.setdefault(name, set()).add(commit)
    newest = max(tags, key=order, default=None)
    here = [name for name, commits in tags.items() if head in commits]
    return max(here, key=order, default=None), newest


def _tags(git: Path) -> Iterator[tuple[str, str]]:
    """Versions with a commit; of an annotated tag also with the commit that it points to."""
    for file in sorted((git / "refs/tags").glob("*")):
        found = _TAG.fullmatch(f"refs/tags/{file.name}")
        if found and file.is_file():
            yield found[1], _text(file)
    name = None
    for line in _text(git / "packed-refs").splitlines():
        commit, _, reference = line.partition(" ")
        if line.startswith("^") and name:
            yield name, line[1:]
            continue
        found = _TAG.fullmatch(reference)
        name = found[1] if found else None
        if name:
            yield name, commit


def _resolved(git: Path, head: str) -> str:
    """The commit that `HEAD` names, itself or through a branch."""
    if not head.startswith("ref: "):
        return head
    branch = head.removeprefix("ref: ")
    loose = _text(git / branch)
    if loose:
        return loose
    lines = (line.split(" ") for line in _text(git / "packed-refs").splitlines())
    return next((line[0] for line in lines if line[1:] == [branch]), "")


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MAX_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
