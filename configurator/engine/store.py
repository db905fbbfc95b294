"""Catalogues of many engine versions in one file."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Literal

from configurator.engine.records import (
    Architecture,
    Catalogue,
    Entry,
    Flag,
    Name,
    Retired,
    Variable,
)
from configurator.errors import ConfiguratorError

SHIPPED = Path(__file__).with_name("catalogue.json.xz")
"""The catalogue of released versions that comes with this package."""

FORMAT = 2

Section = Literal["flags", "variables", "retired", "env_read", "names", "architectures", "entry"]
Record = Flag | Variable | Retired | Name | Architecture | Entry
_CLASSES: dict[str, type[Any]] = {
    "flags": Flag, "variables": Variable, "retired": Retired, "names": Name,
    "architectures": Architecture, "entry": Entry,
}  # fmt: skip
_SECTIONS: tuple[Section, ...] = (
    "flags", "variables", "retired", "env_read", "names", "architectures", "entry",
)  # fmt: skip
_ENV: tuple[Section, ...] = ("variables", "retired", "env_read")
_TUPLES = ("aliases", "choices", "drafts", "serve_options", "model_options")
_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:\.?(a|b|rc|dev|post)(\d*))?")
_PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0, "post": 1}


class Store:
    """Many versions in one file.

    Each distinct record is kept once, with a bit for every version that has exactly it. Versions
    differ little, so this is a tenth of a record per version, loads in milliseconds, and answers
    where a name exists without building the catalogues.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        """Read a file of catalogues; one that does not exist holds no version."""
        self.path = path
        self._data = _read(path)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions inside, oldest first."""
        return tuple(self._data["versions"])

    def load(self, version: str) -> Catalogue | None:
        """The catalogue of one version."""
        if version not in self.versions:
            return None
        bit = self.versions.index(version)

        def of(section: Section) -> Iterator[Any]:
            make = _maker(section)
            return (make(record) for mask, record in self._data[section] if mask >> bit & 1)

        return Catalogue.of(
            version,
            of("flags"),
            of("variables"),
            of("retired"),
            of("env_read"),
            of("names"),
            of("architectures"),
            next(of("entry"), None),
        )

    def having(self, kind: Literal["flags", "env"], name: str) -> tuple[str, ...]:
        """The versions that know a flag or a variable of this name, oldest first."""
        seen = 0
        for section in ("flags",) if kind == "flags" else _ENV:
            for mask, record in self._data[section]:
                if name in _names(record):
                    seen |= mask
        return self._of(seen)

    def history(self, section: Section, name: str) -> list[tuple[tuple[str, ...], Any]]:
        """Every distinct record of a name or alias, with the versions that have exactly it.

        Records are of the section's class; of `env_read` they are the name itself. The order is
        that of the first version.
        """
        make = _maker(section)
        found = [
            (self._of(mask), make(record))
            for mask, record in self._data[section]
            if name in _names(record)
        ]
        return sorted(found, key=lambda each: order(each[0][0]))

    def records(self, section: Section) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Every distinct record of a section, with the versions that have exactly it."""
        make = _maker(section)
        for mask, record in self._data[section]:
            yield self._of(mask), make(record)

    def write(self, catalogues: Iterable[Catalogue]) -> None:
        """Write these catalogues and those inside, a newer one in place of an older.

        The bytes depend on the catalogues alone, not on their order, the day or the machine.
        """
        merged = {v: self.load(v) for v in self.versions}
        merged.update({catalogue.version: catalogue for catalogue in catalogues})
        ordered = sorted((c for c in merged.values() if c), key=lambda c: order(c.version))
        self._data = _pack(ordered)
        text = json.dumps(self._data, separators=(",", ":"), ensure_ascii=False)
        packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(packed)

    def _of(self, mask: int) -> tuple[str, ...]:
        return tuple(v for bit, v in enumerate(self.versions) if mask >> bit & 1)


def order(version: str) -> tuple[tuple[int, ...], int, int, str]:
    """A key that sorts releases: what comes before a release, the release, its post-releases."""
    found = _VERSION.match(version)
    if found is None:
        return (), 0, 0, version
    numbers = tuple(int(part) for part in found[1].split("."))
    return numbers, _PHASES[found[2]], int(found[3] or 0), version


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return _pack([])
    try:
        data: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
        found = data.get("format")
    except (OSError, lzma.LZMAError, EOFError, ValueError, AttributeError) as error:
        raise ConfiguratorError.single(
            "CAT004", f"{path} is no catalogue: {error}", "remove it and add its sources again"
        ) from error
    if found != FORMAT:
        raise ConfiguratorError.single(
            "CAT004",
            f"{path} has format {found}, this version reads {FORMAT}",
            "remove it and add its sources again",
        )
    return data


def _pack(catalogues: Iterable[Catalogue]) -> dict[str, Any]:
    versions: list[str] = []
    masks: dict[str, dict[str, int]] = {section: {} for section in _SECTIONS}
    for bit, catalogue in enumerate(catalogues):
        versions.append(catalogue.version)
        for section, record in _records(catalogue):
            key = json.dumps(record, sort_keys=True)
            masks[section][key] = masks[section].get(key, 0) | 1 << bit
    packed = {
        section: [[mask, json.loads(key)] for key, mask in sorted(found.items())]
        for section, found in masks.items()
    }
    return {"format": FORMAT, "versions": versions, **packed}


def _records(catalogue: Catalogue) -> Iterator[tuple[Section, Any]]:
    sections: dict[Section, Iterable[Record]] = {
        "flags": {flag.name: flag for flag in catalogue.flags.values()}.values(),
        "variables": catalogue.variables.values(),
        "retired": catalogue.retired.values(),
        "names": catalogue.names,
        "architectures": catalogue.architectures.values(),
        "entry": (catalogue.entry,),
    }
    for section, records in sections.items():
        yield from ((section, _lean(record)) for record in records)
    yield from (("env_read", name) for name in sorted(catalogue.env_read))


def _lean(record: Record) -> dict[str, Any]:
    """Fields that say something; the others have their defaults when read."""
    unsaid = {f.name: f.default for f in fields(record) if f.default is not MISSING}
    return {
        key: value
        for key, value in asdict(record).items()
        # False is not None, and 0 is not False.
        if key not in unsaid or value != unsaid[key] or type(value) is not type(unsaid[key])
    }


def _maker(section: Section) -> Any:
    """What makes a record of its JSON."""
    made = _CLASSES.get(section)
    if made is None:
        return str

    def make(record: dict[str, Any]) -> Any:
        lists = {key: tuple(record[key]) for key in _TUPLES if key in record}
        return made(**(record | lists)) if lists else made(**record)

    return make


def _names(record: Any) -> tuple[str, ...]:
    if isinstance(record, str):
        return (record,)
    return (record.get("name", ""), *record.get("aliases", ()))
