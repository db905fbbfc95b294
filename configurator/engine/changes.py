"""What changed between two versions, and in which versions a name is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from configurator.engine.catalogue import (
    available_versions,
    history,
    known_records,
    load_catalogue,
    spans,
    written,
)
from configurator.engine.records import Architecture, Catalogue, Flag, Name, is_replacement

ARCHITECTURE = "architecture"
_FLAG_FIELDS = (
    "type", "default", "choices", "nargs", "aliases", "required", "refused", "deprecated",
)  # fmt: skip
_CHOICES: dict[str, str] = {
    "moe-runner-backend": "moe-runner-backend",
    "attention-backend": "attention-backend",
    "quantization": "quantization",
    "tool-call-parser": "tool-call-parser",
    "reasoning-parser": "reasoning-parser",
    "speculative-algorithm": "speculative-algorithm",
}
"""The flag whose choices a kind of names mostly repeats."""

Rows = list[tuple[tuple[str, ...], Any]]
"""Records with the versions that have exactly them."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two versions."""

    section: Literal["flags", "env", "names"]
    action: Literal["added", "removed", "changed"]
    name: str
    """A flag's without dashes."""
    kind: str = ""
    """Of a name: its kind."""
    field: str = ""
    """Of a change: what is different."""
    before: Any = None
    after: Any = None
    note: str = ""
    """Of what is removed: what the engine said to use instead, while it still said so."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that goes by a name."""

    what: str
    """As `option`, `value of --moe-runner-backend`, `variable`, `requirement ==0.1.12`."""
    versions: tuple[str, ...]
    """The versions that know it."""
    notes: tuple[str, ...] = ()
    """What changed for it, as `deprecated since 0.5.14: use --cuda-graph-bs-decode`."""

    @property
    def where(self) -> str:
        """The versions in words."""
        return written(spans(self.versions))


def difference(old: Catalogue, new: Catalogue) -> list[Change]:
    """Every difference, by section, action and name."""
    found = [*_flags(old, new), *_env(old, new), *_names(old, new)]
    return sorted(found, key=lambda c: (c.section, c.action, c.kind, c.name, c.field))


def sightings(name: str) -> list[Sighting]:
    """Everything that any version knows by this name.

    Args:
        name: of an option, with or without dashes; of a variable; of a value that an option takes;
            of an architecture, a requirement, a plugin group or a script.
    """
    found = list(_option_sightings(name.lstrip("-")))
    if name.startswith("-"):
        return found or list(_short_sightings(name.lstrip("-")))
    return [
        *found,
        *_value_sightings(name),
        *_variable_sightings(name),
        *_name_sightings(name),
        *_architecture_sightings(name),
    ]


def _short_sightings(name: str) -> Iterator[Sighting]:
    """Options that a version's parser takes the name as short for."""
    meant: dict[str, list[str]] = {}
    for version in available_versions():
        catalogue = load_catalogue(version)
        found = catalogue.resolve(name) if catalogue else None
        if found is not None and found.kind == "prefix":
            meant.setdefault(found.names[0], []).append(version)
    for full, versions in meant.items():
        yield Sighting(f"short for --{full}", tuple(versions))


def known_names() -> set[str]:
    """Everything that `sightings` can find, for suggestions; flags with their dashes."""
    names: set[str] = set()
    for _, flag in known_records("flags"):
        names.update(f"--{name}" for name in (flag.name, *flag.aliases))
        names.update(flag.choices)
    for section in ("variables", "retired", "names", "architectures"):
        names.update(record.name for _, record in known_records(section))
    names.update(name for _, name in known_records("env_read"))
    return names


def _flags(old: Catalogue, new: Catalogue) -> Iterator[Change]:
    before, after = _own(old), _own(new)
    for name in after.keys() - before.keys():
        if name not in old.flags:
            yield Change("flags", "added", name)
    for name in before.keys() - after.keys():
        if name not in new.flags:
            yield Change("flags", "removed", name, note=replacement(name))
    for name in before.keys() & after.keys():
        for field in _FLAG_FIELDS:
            was, now = getattr(before[name], field), getattr(after[name], field)
            same = set(was) == set(now) if isinstance(was, tuple) else was == now
            if not same or type(was) is not type(now):
                yield Change("flags", "changed", name, "", field, was, now)


def _own(catalogue: Catalogue) -> dict[str, Flag]:
    return {flag.name: flag for flag in catalogue.flags.values()}


def replacement(flag: str) -> str:
    """What the engine last said to use instead of a flag; empty when it never said anything."""
    said = [record.deprecated for _, record in history("flags", flag) if record.deprecated]
    return said[-1] if said else ""


def _env(old: Catalogue, new: Catalogue) -> Iterator[Change]:
    before, after = _variables(old), _variables(new)
    for name in after - before:
        yield Change("env", "added", name)
    for name in before - after:
        yield Change("env", "removed", name, note=_successor(name))
    for name in new.retired.keys() - old.retired.keys():
        if name in before:
            now = new.retired[name]
            yield Change("env", "changed", name, "", "retired", None, now.replacement or now.note)
    for name in old.variables.keys() & new.variables.keys():
        for field in ("type", "default"):
            was, now = (getattr(c.variables[name], field) for c in (old, new))
            if was != now or type(was) is not type(now):
                yield Change("env", "changed", name, "", field, was, now)


def _variables(catalogue: Catalogue) -> set[str]:
    return {*catalogue.variables, *catalogue.retired, *catalogue.env_read}


def _successor(variable: str) -> str:
    said = [r.replacement or r.note for _, r in history("retired", variable)]
    return said[-1] if said else ""


def _names(old: Catalogue, new: Catalogue) -> Iterator[Change]:
    before, after = _details(old), _details(new)
    for kind, name in after.keys() - before.keys():
        yield Change("names", "added", name, kind, after=after[kind, name] or None)
    for kind, name in before.keys() - after.keys():
        yield Change("names", "removed", name, kind, before=before[kind, name] or None)
    for key in before.keys() & after.keys():
        if before[key] != after[key]:
            kind, name = key
            yield Change("names", "changed", name, kind, "detail", before[key], after[key])


def _details(catalogue: Catalogue) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {(n.kind, n.name): n.detail for n in catalogue.names}
    for each in catalogue.architectures.values():
        found[ARCHITECTURE, each.name] = describe(each)
    return found


def describe(architecture: Architecture) -> str:
    """An architecture in words."""
    drafts = " or ".join(architecture.drafts)
    head = architecture.shares_head
    parts = (f"draft {drafts}" if drafts else "", f"shares the head's {head}" if head else "")
    return ", ".join(part for part in parts if part)


def _option_sightings(name: str) -> Iterator[Sighting]:
    rows = history("flags", name)
    if rows:
        others = dict.fromkeys(record.name for _, record in rows if record.name != name)
        notes = [
            f"another name of --{other} in "
            + written(spans(_versions([row for row in rows if row[1].name == other])))
            for other in others
        ]
        kept = [(versions, flag) for versions, flag in rows if not flag.refused]
        notes += _states(rows, kept, "deprecated")
        notes += _states(rows, [row for row in rows if row[1].refused], "refused")
        yield Sighting("option", _versions(rows), tuple(notes))


def _states(rows: Rows, having: Rows, state: str) -> Iterator[str]:
    """`deprecated since 0.5.14: use X`, or `in 0.5.14 to 0.5.17` where it ended before the flag."""
    having = [(versions, flag) for versions, flag in having if flag.deprecated is not None]
    if having:
        runs = spans(_versions(having))
        to_the_end = len(runs) == 1 and runs[0][1] == _versions(rows)[-1]
        when = f"since {runs[0][0]}" if to_the_end else f"in {written(runs)}"
        said = next((flag.deprecated for _, flag in reversed(having) if flag.deprecated), "")
        use = "use " if is_replacement(said) else ""
        yield f"{state} {when}{': ' if said else ''}{use}{said}"


def _versions(rows: Rows) -> tuple[str, ...]:
    having = {version for versions, _ in rows for version in versions}
    return tuple(version for version in available_versions() if version in having)


def _value_sightings(value: str) -> Iterator[Sighting]:
    by_flag: dict[str, Rows] = {}
    for versions, flag in known_records("flags"):
        if value in flag.choices:
            by_flag.setdefault(flag.name, []).append((versions, flag))
    for name in sorted(by_flag):
        yield Sighting(f"value of --{name}", _versions(by_flag[name]))


def _variable_sightings(name: str) -> Iterator[Sighting]:
    declared = history("variables", name)
    if declared:
        yield Sighting("variable", _versions(declared))
    for versions, record in history("retired", name):
        said = record.replacement or record.note
        yield Sighting("retired variable", versions, (f"use {said}",) if said else ())
    read = [
        (versions, found)
        for versions, found in known_records("env_read")
        if found == name or (found.endswith("_") and name.startswith(found))
    ]
    if read:
        yield Sighting("variable read outside the registry", _versions(read))
    present = name.replace("SGL_", "SGLANG_", 1)
    if name.startswith("SGL_") and not (declared or read):
        for found in _variable_sightings(present):
            yield Sighting(f"{found.what}, read as {present}", found.versions, found.notes)


def _name_sightings(name: str) -> Iterator[Sighting]:
    offered = {flag.name for _, flag in known_records("flags") if name in flag.choices}
    for versions, record in history("names", name):
        if _CHOICES.get(record.kind) in offered and not record.detail:
            continue  # told as a value of the option
        yield Sighting(_titled(record), versions)


def _titled(record: Name) -> str:
    kind = record.kind.replace("-", " ")
    if record.kind == "speculative-algorithm" and record.detail:
        return f"{kind}, another name of {record.detail}"
    return f"{kind} {record.detail}".rstrip()


def _architecture_sightings(name: str) -> Iterator[Sighting]:
    for versions, record in history("architectures", name):
        said = describe(record)
        yield Sighting(f"architecture{f' ({said})' if said else ''}", versions)
