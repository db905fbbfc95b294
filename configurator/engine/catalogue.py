"""What each engine version knows: the catalogues that come with this package, and one's own."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from configurator.engine.records import (
    Architecture,
    Catalogue,
    Entry,
    Flag,
    Name,
    NameKind,
    Resolution,
    Retired,
    Variable,
)
from configurator.engine.store import FORMAT, SHIPPED, Section, Store, order

if TYPE_CHECKING:
    from configurator.schema.content import Engine

__all__ = [
    "FORMAT",
    "SHIPPED",
    "Architecture",
    "Catalogue",
    "Entry",
    "Flag",
    "Name",
    "NameKind",
    "Resolution",
    "Retired",
    "Store",
    "Variable",
    "available_versions",
    "catalogue_of",
    "history",
    "known_records",
    "load_catalogue",
    "order",
    "own_path",
    "shipped",
    "spans",
    "stores",
    "versions_with",
    "written",
]

OWN_VARIABLE = "CONFIGURATOR_ENGINES"
_FILE = "catalogue.json.xz"


@cache
def shipped() -> Store:
    """The catalogues that come with this package, read once."""
    return Store()


def own_path(directory: Path | None = None) -> Path | None:
    """The file of a person's own catalogues; it need not exist.

    In `directory`, else in the directory that CONFIGURATOR_ENGINES names, else in
    `configurator/engines` under XDG_CONFIG_HOME or `~/.config`. None when the variable is set and
    empty: then there are none.
    """
    if directory is not None:
        return directory / _FILE
    named = os.environ.get(OWN_VARIABLE)
    if named is not None:
        return Path(named).expanduser() / _FILE if named else None
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "configurator/engines" / _FILE


def stores() -> tuple[Store, ...]:
    """One's own catalogues, when there are any, before the shipped ones.

    Raises:
        ConfiguratorError: CAT004 when the file of one's own is no catalogue.
    """
    path = own_path()
    try:
        state = path.stat() if path else None
    except OSError:
        state = None
    if path is None or state is None:
        return (shipped(),)
    return _own(path, state.st_mtime_ns, state.st_size), shipped()


@cache
def _own(path: Path, _changed: int, _size: int) -> Store:
    """Read again when the file has changed."""
    return Store(path)


def available_versions() -> tuple[str, ...]:
    """Versions with a catalogue, shipped or one's own, oldest first."""
    return tuple(sorted({v for store in stores() for v in store.versions}, key=order))


def load_catalogue(version: str) -> Catalogue | None:
    """The catalogue of a version, one's own before a shipped one; None when there is none."""
    for store in stores():
        if version in store.versions:
            return _loaded(store, version)
    return None


@cache
def _loaded(store: Store, version: str) -> Catalogue | None:
    return store.load(version)


def catalogue_of(engine: Engine) -> Catalogue | None:
    """What a build knows: the catalogue of its release, with what the build adds and removes.

    None when neither the build nor its base is a version with a catalogue.
    """
    release = engine.version if engine.released else engine.base.release
    base = load_catalogue(release) if release else None
    if base is None:
        return None
    added, removed = engine.adds, engine.removes
    if not (added.args or added.env or removed.args or removed.env):
        return base
    new: dict[str, Flag] = {name: Flag(name, type="any", nargs="*") for name in added.args}
    return replace(
        base,
        flags={n: flag for n, flag in (base.flags | new).items() if n not in removed.args},
        variables={n: v for n, v in base.variables.items() if n not in removed.env},
        retired={n: v for n, v in base.retired.items() if n not in (*added.env, *removed.env)},
        env_read=(base.env_read | set(added.env)) - set(removed.env),
    )


def history(section: Section, name: str) -> list[tuple[tuple[str, ...], Any]]:
    """Every distinct record of a name or alias with the versions that have exactly it.

    As `Store.history`, over all versions: of a version that is in two stores, one's own counts.
    """
    found = [
        (kept, record)
        for mine, store in _shares()
        for versions, record in store.history(section, name)
        if (kept := tuple(v for v in versions if v in mine))
    ]
    return sorted(found, key=lambda each: order(each[0][0]))


def known_records(section: Section) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every distinct record of a section with the versions that have exactly it."""
    for mine, store in _shares():
        for versions, record in store.records(section):
            kept = tuple(v for v in versions if v in mine)
            if kept:
                yield kept, record


def _shares() -> Iterator[tuple[frozenset[str], Store]]:
    """Each store with the versions that are taken from it."""
    seen: frozenset[str] = frozenset()
    for store in stores():
        yield frozenset(store.versions) - seen, store
        seen |= frozenset(store.versions)


def spans(having: Collection[str]) -> list[tuple[str, str]]:
    """First and last version of each unbroken run of these among the available versions."""
    found: list[tuple[str, str]] = []
    previous = False
    for version in available_versions():
        if version in having:
            first = found.pop()[0] if previous else version
            found.append((first, version))
        previous = version in having
    return found


def versions_with(kind: Literal["flags", "env"], name: str) -> str:
    """The versions that know a name, as `0.5.1 to 0.5.19`; empty when none does."""
    having = {v for mine, store in _shares() for v in store.having(kind, name) if v in mine}
    return written(spans(having))


def written(runs: list[tuple[str, str]]) -> str:
    """Runs of versions in words: `0.5.1 to 0.5.19, 0.5.23`."""
    return ", ".join(a if a == b else f"{a} to {b}" for a, b in runs)
