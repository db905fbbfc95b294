"""Where content lies, and how entries are found: built-in and a user's, through one reader.

A content directory has the layout of this repository: `profiles/hardware`, `profiles/models`,
`profiles/engines`, `profiles/deployments`, `profiles/measurements`, `profiles/claims`, `kernels`,
`validators`. A user's directory lies over ours: an entry of the same name replaces the built-in
one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from configurator.deployment import Carried
from configurator.engine.catalogue import available_versions, load_catalogue
from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.layers import Layers, merge, overlay
from configurator.regular import read_regular
from configurator.schema.base import dotted, parse
from configurator.schema.claims import Claims, Differing, Published, published
from configurator.schema.content import (
    Engine,
    EngineBase,
    Entry,
    Hardware,
    Kernel,
    KernelFamilies,
    Model,
)
from configurator.schema.kernel_names import Family
from configurator.schema.measurement import Measurement
from configurator.schema.profile import Profile
from configurator.source import DataPath, Source, read_source

_PACKAGE = Path(__file__).resolve().parent
# In a wheel the content lies inside the package; one level up would be site-packages, where
# `validators` and `kernels` are other projects' packages. Only a checkout has pyproject.toml.
_IN_CHECKOUT = (_PACKAGE.parent / "pyproject.toml").is_file()
ROOT = _PACKAGE.parent if _IN_CHECKOUT else _PACKAGE
"""The built-in content directory."""

FOLDERS = {
    "hardware": "profiles/hardware",
    "model": "profiles/models",
    "engine": "profiles/engines",
    "deployment": "profiles/deployments",
    "kernel": "kernels",
    "measurement": "profiles/measurements",
    "claims": "profiles/claims",
    "families": "kernels/families",
}
"""Kinds of entries and the folder each lies in."""

_MAX_EXTENDS = 16
_SELFTEST = "_selftest.py"
_PLUGINS = "kernels/plugins"
_MAX_MODULE_BYTES = 1 << 18
"""More than any module of a plugin: it travels in manifests too."""
EntryT = TypeVar("EntryT", bound=Entry)
At = Callable[[], Position | None] | None
"""Where a name was asked for; looked up only when it does not exist."""


def release_entry(version: str) -> Engine:
    """The entry of a release of which nothing beyond its catalogue is known."""
    return Engine(
        apiVersion="configurator/v1",
        kind="Engine",
        name=f"sglang-{version}",
        summary=f"SGLang {version}, as released",
        engine="sglang",
        version=version,
        released=True,
        base=EngineBase(release=version),
    )


class Library:
    """Entries of the content directories, read once each when first asked for."""

    def __init__(self, directories: Sequence[Path] = ()) -> None:
        """`directories`: a user's content directories; a later one lies over an earlier."""
        for directory in directories:
            if not directory.is_dir():
                fact = "is not a directory" if directory.exists() else "does not exist"
                raise ConfiguratorError.single(
                    "REF002", f"content directory {directory} {fact}", "check --content"
                )
        self.roots = (ROOT, *directories)
        self._entries: dict[tuple[str, str], Entry] = {}
        self._sources: dict[Path, Source] = {}
        self._paths: dict[str, dict[str, Path]] = {}
        self._claims: dict[str, Published] | None = None

    def names(self, kind: str) -> list[str]:
        """Names of all entries of one kind, sorted."""
        return sorted(self._index(kind))

    def hardware(self, name: str, at: At = None) -> Hardware:
        """The hardware entry `name`; `at` is where it was asked for."""
        return self._entry("hardware", Hardware, name, at)

    def model(self, name: str, at: At = None) -> Model:
        """The model entry `name`."""
        return self._entry("model", Model, name, at)

    def models_named(self, path: str) -> Iterator[str]:
        """Entries of the targets that a path or repository names."""
        last = Path(path).name.lower()
        for name in self.names("model"):
            entry = self.model(name)
            names = (entry.repository.lower(), Path(entry.repository).name.lower(), name.lower())
            if entry.role == "target" and path and (path.lower() in names or last in names):
                yield name

    def engine(self, name: str, at: At = None) -> Engine:
        """The engine build `name`; of a release without an entry, what its catalogue tells."""
        release = name.removeprefix("sglang-")
        if name not in self._index("engine") and load_catalogue(release) is not None:
            return release_entry(release)
        if name != release and name not in self._index("engine"):
            raise ConfiguratorError.single(
                "REF001", f"no release {release!r} of SGLang is known",
                did_you_mean(release, available_versions()), at() if at else None,
            )  # fmt: skip
        return self._entry("engine", Engine, name, at)

    def kernel(self, name: str, at: At = None) -> Kernel:
        """The kernel entry `name`."""
        return self._entry("kernel", Kernel, name, at)

    def selftests(self) -> dict[str, Path]:
        """The kernels' self-tests by name: `a-b` for a_b_selftest.py in a folder `kernels`."""
        found: dict[str, Path] = {}
        for root in self.roots:
            for path in (root / FOLDERS["kernel"]).glob(f"*{_SELFTEST}"):
                found[path.name.removesuffix(_SELFTEST).replace("_", "-")] = path
        return dict(sorted(found.items()))

    def plugin(self, package: str, at: At = None) -> Carried:
        """The plugin `package` with its modules, as a launch brings it along.

        Raises:
            ConfiguratorError: REF001 (there is none), REF008 (a module cannot be carried).
        """
        folders = [root / _PLUGINS / package for root in self.roots]
        folder = next((f for f in reversed(folders) if (f / "__init__.py").is_file()), None)
        place = at() if at else None
        if folder is None:
            found = (path.parent.name for r in self.roots for path in
                     (r / _PLUGINS).glob("*/__init__.py"))  # fmt: skip
            raise ConfiguratorError.single(
                "REF001", f"no plugin is named {package!r}",
                did_you_mean(package, sorted(found)) + f"; it is looked for in {_PLUGINS}/", place,
            )  # fmt: skip
        try:
            modules = (
                (path.name, read_regular(path, _MAX_MODULE_BYTES).decode())
                for path in sorted(folder.glob("*.py"))
            )
            return Carried(package, tuple(modules))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfiguratorError.single(
                "REF008", f"plugin {package} cannot be carried: {error}",
                "keep it to modules of text, without folders in it", place,
            ) from None  # fmt: skip

    def measurement(self, name: str, at: At = None) -> Measurement:
        """The measured step `name`."""
        return self._entry("measurement", Measurement, name, at)

    def claims_of(self, name: str) -> Claims:
        """The file of published figures `name`."""
        return self._entry("claims", Claims, name, None)

    def claims(self) -> dict[str, Published]:
        """Every published figure by id, file by file; reads all of their files.

        Raises:
            ConfiguratorError: a figure of a run that its file does not have, a baseline that no
                file has, a mechanism without an entry, or two figures of one id.
        """
        if self._claims is None:
            self._claims = self._all_claims()
        return self._claims

    def place(self, kind: str, name: str, path: DataPath) -> Position:
        """Where `path` of an entry is written, or the nearest above it."""
        return self._read(self._index(kind)[name]).nearest(path)[1]

    def _all_claims(self) -> dict[str, Published]:
        found: dict[str, Published] = {}
        places: dict[str, Position] = {}
        problems: list[Problem] = []
        for name in self.names("claims"):
            entry = self.claims_of(name)
            for each, run in entry.runs.items():
                problems += self._unknown_mechanisms(name, ("runs", each), run.conditions)
            for index, claim in enumerate(entry.claims):
                at = self.place("claims", name, ("claims", index, "run"))
                problems += self._unknown_mechanisms(name, ("claims", index), claim.conditions)
                if claim.run not in entry.runs:
                    remedy = did_you_mean(claim.run, entry.runs)
                    problems.append(Problem("REF001", f"no run is named {claim.run!r}", remedy, at))
                elif claim.id in found:
                    fact = f"claim {claim.id!r} is also in {places[claim.id]}"
                    problems.append(Problem("REF006", fact, "give one of them another id", at))
                else:
                    found[claim.id], places[claim.id] = published(entry, claim), at
        for one in found.values():
            base = one.claim.baseline
            if base is not None and base not in found and not problems:
                problems.append(Problem("REF001", f"the baseline {base!r} of {one.id} is no claim",
                                        did_you_mean(base, found), places[one.id]))  # fmt: skip
        if problems:
            raise ConfiguratorError(problems)
        return found

    def _unknown_mechanisms(
        self, name: str, path: DataPath, conditions: Differing | None
    ) -> Iterator[Problem]:
        """A misspelt mechanism would only look like a figure that applies nowhere."""
        for key in ("mechanisms", "without") if conditions else ():
            for index, kernel in enumerate(getattr(conditions, key) or ()):
                if kernel not in self._index("kernel"):
                    yield Problem(
                        "REF001", f"no kernel is named {kernel!r}",
                        did_you_mean(kernel, self._index("kernel")),
                        self.place("claims", name, (*path, "conditions", key, index)),
                    )  # fmt: skip

    def families(self) -> tuple[Family, ...]:
        """Families of kernels in the order in which they are tried.

        All of a user's directory come before ours, and in each those of mechanisms before others.
        """
        found: list[Family] = []
        for root in reversed(self.roots):
            for name in self._below(root, "kernel"):
                found += self.kernel(name).trace
            for name in self._below(root, "families"):
                found += self._entry("families", KernelFamilies, name, None).families
        return tuple(found)

    def _below(self, root: Path, kind: str) -> list[str]:
        """Names of the entries that one directory brings."""
        folder = root / FOLDERS[kind]
        return sorted(name for name, path in self._index(kind).items() if path.parent == folder)

    def override(self, entry: EntryT, overrides: dict[str, object], origin: Layers,
                 path: tuple[str | int, ...]) -> EntryT:  # fmt: skip
        """`entry` with the profile's `overrides`, which stand at `path` of the profile."""
        if not overrides:
            return entry
        data = overlay(entry.model_dump(by_alias=True, exclude_unset=True), overrides)
        return parse(type(entry), data, lambda below: origin.locate((*path, *below)))

    def profile(self, argument: str) -> tuple[Profile, Layers]:
        """The profile that a command's PROFILE argument names, with all it extends merged.

        An argument with a slash or ending in .yaml or .yml is a file, else a name.
        """
        layers = self.layers(self._profile_path(argument, None))
        return parse(Profile, layers.data, layers.locate), layers

    def layers(self, path: Path) -> Layers:
        """The document at `path` merged over everything it extends."""
        return self._extend(read_source(path), path)

    def extend(self, source: Source) -> Layers:
        """`source` merged over everything it extends."""
        return self._extend(source, Path(source.name))

    def _extend(self, source: Source, path: Path) -> Layers:
        chain: list[Source] = []
        seen: list[str] = []
        while True:
            if not isinstance(source.data, dict):
                raise ConfiguratorError.single(
                    "SCH008", f"{source.name} is not a mapping", "start with 'apiVersion:'",
                    Position(source.name, 1, 1),
                )  # fmt: skip
            chain.append(source)
            seen.append(os.path.abspath(path))
            base = source.data.get("extends")
            if not isinstance(base, str):
                return merge(tuple(chain))
            at = source.locate(("extends",))
            path = self._profile_path(base, at, beside=path.parent)
            if os.path.abspath(path) in seen or len(chain) >= _MAX_EXTENDS:
                raise ConfiguratorError.single(
                    "REF003", f"'extends: {base}' leads back to itself", "break the circle", at
                )
            source = self._read(path)

    def _profile_path(self, argument: str, at: Position | None, beside: Path | None = None) -> Path:
        if "\0" in argument:
            raise ConfiguratorError.single(
                "SCH001", f"cannot read {argument!r}: a path holds no NUL", "check the path", at
            )
        if "/" in argument or argument.endswith((".yaml", ".yml")):
            path = Path(argument)
            return path if beside is None or path.is_absolute() else beside / path
        found = self._index("deployment").get(argument)
        if found is None:
            raise ConfiguratorError.single(
                "REF001",
                f"no deployment is named {argument!r}",
                did_you_mean(argument, self._index("deployment")),
                at,
            )
        return found

    def _entry(self, kind: str, model: type[EntryT], name: str, at: At) -> EntryT:
        entry = self._entries.get((kind, name))
        if entry is None:
            path = self._index(kind).get(name)
            if path is None:
                remedy = did_you_mean(name, self._index(kind))
                if remedy.startswith("known"):
                    remedy += f"; one of your own: a file in {FOLDERS[kind]}/ below --content DIR"
                raise ConfiguratorError.single(
                    "REF001", f"no {kind} is named {name!r}", remedy, at() if at else None
                )
            source = self._read(path)
            entry = parse(model, source.data, lambda below: source.nearest(below)[1])
            if entry.name != path.stem:
                raise ConfiguratorError([Problem(
                    "REF004", f"{kind} entry is named {entry.name!r} in file {path.name!r}",
                    f"name one as the other: {path.stem} here, or {entry.name}.yaml there",
                    source.locate(("name",)),
                )])  # fmt: skip
            self._entries[kind, name] = entry
        assert isinstance(entry, model), dotted((kind, name))
        return entry

    def _read(self, path: Path) -> Source:
        source = self._sources.get(path)
        if source is None:
            source = self._sources[path] = read_source(path)
        return source

    def _index(self, kind: str) -> dict[str, Path]:
        index = self._paths.get(kind)
        if index is None:
            index = {}
            for root in self.roots:
                folder = root / FOLDERS[kind]
                index.update({p.stem: p for p in sorted(folder.glob("*.yaml"))})
            self._paths[kind] = index
        return index
