"""The catalogue of one engine version: its flags and environment variables."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from configurator.errors import ConfiguratorError

if TYPE_CHECKING:
    from configurator.schema.content import Engine

SHIPPED = Path(__file__).with_name("catalogue.json.xz")
"""The catalogue of released versions that comes with this package."""

FORMAT = 1
_LEGACY_PREFIX, _PREFIX = "SGL_", "SGLANG_"


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line option."""

    name: str
    """Without the leading dashes."""
    aliases: tuple[str, ...] = ()
    type: str | None = None
    """`int`, `size` (an int that may end in k, M, Gi, ...), `float`, `str`, `bool`, `json`, or
    `any` when that is not known; None when it takes no value."""
    default: Any = None
    """None also when only a running engine could tell."""
    choices: tuple[str, ...] = ()
    nargs: str | None = None
    deprecated: str | None = None
    """What the engine says to use instead; empty when it says nothing."""
    required: bool = False
    """The parser refuses a command line without it."""
    refused: bool = False
    """The parser knows it only to refuse it, with `deprecated` as the reason."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of the engine's registry."""

    name: str
    type: str
    """`bool`, `int`, `float`, `str`, `tuple` or `json`."""
    default: Any = None
    """None also when only a running engine could tell."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A variable that the engine still notices, and warns of."""

    name: str
    replacement: str | None = None
    """The variable that the engine sets instead; None when the value is dropped."""
    note: str = ""
    """What the engine says beyond that."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the engine's parser makes of a name."""

    kind: Literal["exact", "alias", "prefix", "ambiguous", "unknown"]
    flags: tuple[Flag, ...] = ()
    """The flag meant; several when the name is ambiguous, none when it is unknown."""
    names: tuple[str, ...] = ()
    """The full spellings that the name is short for."""


@dataclass(frozen=True)
class Catalogue:
    """What one engine version knows."""

    version: str
    flags: dict[str, Flag] = field(default_factory=dict)
    """By name and by alias."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables declared in the engine's registry."""
    retired: dict[str, Retired] = field(default_factory=dict)
    """Variables that are renamed or have no effect any more."""
    env_read: frozenset[str] = frozenset()
    """Further variables read outside the registry; `SGLANG_X_` stands for all that begin so."""

    @classmethod
    def of(
        cls,
        version: str,
        flags: Iterable[Flag],
        variables: Iterable[Variable] = (),
        retired: Iterable[Retired] = (),
        env_read: Iterable[str] = (),
    ) -> Catalogue:
        """A catalogue with its indexes."""
        by_name: dict[str, Flag] = {}
        for flag in flags:
            by_name.update(dict.fromkeys((flag.name, *flag.aliases), flag))
        return cls(
            version,
            by_name,
            {variable.name: variable for variable in variables},
            {old.name: old for old in retired},
            frozenset(env_read),
        )

    @cached_property
    def env(self) -> frozenset[str]:
        """Names of the declared variables."""
        return frozenset(self.variables)

    @cached_property
    def _families(self) -> tuple[str, ...]:
        return tuple(name for name in self.env_read if name.endswith("_"))

    def knows_env(self, name: str) -> bool:
        """The engine reads this variable somewhere, or rewrites it to one that it reads."""
        return (
            name in self.variables
            or name in self.env_read
            or name in self.retired
            or name.startswith(self._families)
            or (name.startswith(_LEGACY_PREFIX) and self.renamed(name) in self.env)
        )

    def renamed(self, name: str) -> str | None:
        """The present name of a renamed variable; the engine rewrites SGL_ to SGLANG_."""
        if name in self.retired:
            return self.retired[name].replacement
        if name.startswith(_LEGACY_PREFIX) and name not in self.env_read:
            return name.replace(_LEGACY_PREFIX, _PREFIX, 1)
        return None

    def flag(self, name: str) -> Flag | None:
        """The flag of a name or alias, with or without dashes."""
        return self.flags.get(name.lstrip("-"))

    def resolve(self, name: str) -> Resolution:
        """What argparse makes of a name: it also accepts prefixes of one flag only."""
        bare = name.lstrip("-")
        exact = self.flags.get(bare)
        if exact is not None:
            return Resolution("exact" if exact.name == bare else "alias", (exact,), (bare,))
        names = tuple(sorted(full for full in self.flags if bare and full.startswith(bare)))
        # argparse counts spellings, not flags: two aliases of one flag are ambiguous to it.
        meant = tuple({self.flags[full].name: self.flags[full] for full in names}.values())
        kind: Literal["prefix", "ambiguous", "unknown"] = (
            "ambiguous" if len(names) > 1 else "prefix" if names else "unknown"
        )
        return Resolution(kind, meant, names)


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

        def of(kind: str) -> list[Any]:
            return [record for mask, record in self._data[kind] if mask >> bit & 1]

        return Catalogue.of(
            version,
            [_flag(record) for record in of("flags")],
            [Variable(**record) for record in of("variables")],
            [Retired(**record) for record in of("retired")],
            of("env_read"),
        )

    def having(self, kind: Literal["flags", "env"], name: str) -> tuple[str, ...]:
        """The versions that know a flag or a variable of this name, oldest first."""
        seen = 0
        for section in ("flags",) if kind == "flags" else ("variables", "retired", "env_read"):
            for mask, record in self._data[section]:
                if name in _names(record):
                    seen |= mask
        return tuple(v for bit, v in enumerate(self.versions) if seen >> bit & 1)

    def write(self, catalogues: Iterable[Catalogue]) -> None:
        """Write these catalogues and those inside, a newer one in place of an older."""
        merged = {v: self.load(v) for v in self.versions}
        merged.update({catalogue.version: catalogue for catalogue in catalogues})
        ordered = sorted((c for c in merged.values() if c), key=lambda c: order(c.version))
        self._data = _pack(ordered)
        text = json.dumps(self._data, separators=(",", ":"), ensure_ascii=False)
        self.path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def order(version: str) -> tuple[tuple[int, ...], int, str]:
    """A key that sorts releases, with a post-release after its release."""
    base, _, post = version.partition(".post")
    numbers = tuple(int(part) if part.isdigit() else 0 for part in base.split("."))
    return numbers, int(post) if post.isdigit() else 0, version


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return _pack([])
    try:
        data: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
        found = data.get("format")
    except (OSError, lzma.LZMAError, EOFError, ValueError, AttributeError) as error:
        raise ConfiguratorError.single(
            "CAT004", f"{path} is no catalogue: {error}", "write it again with --into"
        ) from error
    if found != FORMAT:
        raise ConfiguratorError.single(
            "CAT004", f"{path} has format {found}, this version reads {FORMAT}", "write it again"
        )
    return data


def _pack(catalogues: Iterable[Catalogue]) -> dict[str, Any]:
    versions: list[str] = []
    masks: dict[str, dict[str, int]] = {
        kind: {} for kind in ("flags", "variables", "retired", "env_read")
    }
    for bit, catalogue in enumerate(catalogues):
        versions.append(catalogue.version)
        flags = {flag.name: flag for flag in catalogue.flags.values()}
        for kind, records in (
            ("flags", [_lean(flag) for flag in flags.values()]),
            ("variables", [_lean(variable) for variable in catalogue.variables.values()]),
            ("retired", [_lean(old) for old in catalogue.retired.values()]),
            ("env_read", sorted(catalogue.env_read)),
        ):
            for record in records:
                key = json.dumps(record, sort_keys=True)
                masks[kind][key] = masks[kind].get(key, 0) | 1 << bit
    packed = {
        kind: [[mask, json.loads(key)] for key, mask in sorted(found.items())]
        for kind, found in masks.items()
    }
    return {"format": FORMAT, "versions": versions, **packed}


_UNSAID = (("note", ""), ("required", False), ("refused", False))


def _lean(record: Flag | Variable | Retired) -> dict[str, Any]:
    """Fields that say something; the others have their defaults when read."""
    return {
        key: value
        for key, value in asdict(record).items()
        if value not in (None, ()) and (key, value) not in _UNSAID
    }


def _flag(record: dict[str, Any]) -> Flag:
    lists: dict[str, Any] = {k: tuple(record[k]) for k in ("aliases", "choices") if k in record}
    return Flag(**(record | lists))


def _names(record: Any) -> tuple[str, ...]:
    if isinstance(record, str):
        return (record,)
    return (record["name"], *record.get("aliases", ()))


@cache
def shipped() -> Store:
    """The catalogues that come with this package, read once."""
    return Store()


def available_versions() -> tuple[str, ...]:
    """Released versions with a shipped catalogue, oldest first."""
    return shipped().versions


@cache
def load_catalogue(version: str) -> Catalogue | None:
    """The shipped catalogue of a released version; None when there is none."""
    return shipped().load(version)


def catalogue_of(engine: Engine) -> Catalogue | None:
    """What a build knows: the catalogue of its release, with what the build adds and removes.

    None when neither the build nor its base is a release with a shipped catalogue.
    """
    release = engine.version if engine.released else engine.base.release
    base = load_catalogue(release) if release else None
    if base is None:
        return None
    added, removed = engine.adds, engine.removes
    if not (added.args or added.env or removed.args or removed.env):
        return base
    new: dict[str, Flag] = {name: Flag(name, type="any") for name in added.args}
    return replace(
        base,
        flags={n: flag for n, flag in (base.flags | new).items() if n not in removed.args},
        variables={n: v for n, v in base.variables.items() if n not in removed.env},
        retired={n: v for n, v in base.retired.items() if n not in (*added.env, *removed.env)},
        env_read=(base.env_read | set(added.env)) - set(removed.env),
    )


def versions_with(kind: Literal["flags", "env"], name: str) -> str:
    """The released versions that know a name, as `0.5.1 to 0.5.19`; empty when none does."""
    having = set(shipped().having(kind, name))
    spans: list[list[str]] = []
    previous = False
    for version in available_versions():
        if version in having:
            if not previous:
                spans.append([version])
            spans[-1] = [spans[-1][0], version]
        previous = version in having
    return ", ".join(a if a == b else f"{a} to {b}" for a, b in spans)
