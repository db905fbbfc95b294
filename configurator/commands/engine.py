"""`configurator engine list | show | diff | where | add`"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from configurator.commands.options import format_option
from configurator.engine import changes
from configurator.engine.catalogue import (
    available_versions,
    history,
    load_catalogue,
    own_path,
    spans,
    stores,
    written,
)
from configurator.engine.records import Catalogue, NameKind, is_replacement
from configurator.engine.store import Store
from configurator.errors import ConfiguratorError, Problem, did_you_mean

if TYPE_CHECKING:
    from configurator.engine.changes import Change

ARCHITECTURE = changes.ARCHITECTURE
KINDS = (*get_args(NameKind), ARCHITECTURE)
# Names of options begin with dashes, so what looks like an unknown option is a name.
_NAMES: dict[str, Any] = {"ignore_unknown_options": True}
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@click.group("engine")
def command() -> None:
    """Say what each version of the engine knows, and since when.

    The catalogues of released versions come with this program; `add` makes those of other builds.
    """


@command.command("list")
@format_option
def list_versions(output: str) -> int:
    """List the versions that are known, with what each knows."""
    own = {v for store in stores()[:-1] for v in store.versions}
    rows = [
        counts(found) | {"own": version in own}
        for version in available_versions()
        if (found := load_catalogue(version))
    ]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return 0
    click.echo(f"{'version':<14} {'options':>8} {'variables':>10} {'architectures':>14}")
    for row in rows:
        numbers = f"{row['options']:>8} {row['variables']:>10} {row['architectures']:>14}"
        click.echo(f"{row['version']:<14} {numbers}{'  your own' if row['own'] else ''}")
    return 0


@command.command("show", context_settings=_NAMES)
@click.argument("version")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--flags", "section", flag_value="flags", default="flags", help="Options (default).")
@click.option("--env", "section", flag_value="env", help="Environment variables.")
@click.option("--names", "kind", type=click.Choice(KINDS), help="Names of one kind.")
@format_option
def show(version: str, names: tuple[str, ...], section: str, kind: str | None, output: str) -> int:
    """Show what a version knows: all of it in lines, or each NAME in full."""
    catalogue = catalogue_named(version)
    rows = rows_of(catalogue, kind or section)
    if names:
        chosen = asked(names, rows, f"{version} knows no", kind or section)
        rows = {name: rows[name] | {"versions": since(kind or section, name)} for name in chosen}
    if output == "json":
        click.echo(json.dumps({"version": version, kind or section: list(rows.values())}, indent=2))
        return 0
    for name, row in rows.items():
        click.echo(block(name, row) if names else line(name, row))
    return 0


@command.command("diff")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@format_option
def diff(old: str, new: str, output: str) -> int:
    """Show what B added, removed and changed against A."""
    found = changes.difference(catalogue_named(old), catalogue_named(new))
    if output == "json":
        rows = [{k: v for k, v in asdict(c).items() if v not in ("", None)} for c in found]
        click.echo(json.dumps({"from": old, "to": new, "changes": rows}, indent=2))
        return 0
    for section, title in (("flags", "options"), ("env", "variables"), ("names", "names")):
        mine = [change for change in found if change.section == section]
        parts = [f"{sum(c.action == a for c in mine)} {a}" for a in _SIGNS]
        click.echo(click.style(f"{title}: {', '.join(parts)}", bold=True))
        for change in mine:
            click.echo(f"  {told(change)}")
    return 0


@command.command("where", context_settings=_NAMES)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=click.UNPROCESSED)
@format_option
def where(names: tuple[str, ...], output: str) -> int:
    """Say in which versions a NAME is known: an option, a variable, a value, an architecture."""
    found = {name: changes.sightings(name) for name in names}
    if output == "json":
        rows = {
            name: [
                {"what": s.what, "versions": s.versions, "where": s.where, "notes": s.notes}
                for s in each
            ]
            for name, each in found.items()
        }
        click.echo(json.dumps(rows, indent=2))
    else:
        for name, each in found.items():
            for s in each:
                notes = f" ({'; '.join(s.notes)})" if s.notes else ""
                click.echo(f"{name}  {s.what}  {s.where}{notes}")
    unknown = [name for name, each in found.items() if not each]
    if unknown:
        everything = changes.known_names()
        raise ConfiguratorError(
            Problem(
                "REF005",
                f"no version from {available_versions()[0]} to {available_versions()[-1]} knows "
                f"{name!r}",
                suggestion(name, everything),
            )
            for name in unknown
        )
    return 0


@command.command("add")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--version", metavar="V", help="Its version, where it does not say or says another.")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where your own catalogues lie. Default: $CONFIGURATOR_ENGINES, else "
    "configurator/engines under your configuration directory.",
)
@format_option
def add(source: Path, version: str | None, into: Path | None, output: str) -> int:
    """Read the catalogue of a build out of SOURCE and keep it among your own.

    SOURCE is a wheel, an unpacked wheel, a git checkout, a virtual environment or its
    site-packages, or `installed` for the engine of this Python. Nothing in it is executed.
    """
    from configurator.engine.extract import extract

    path = own_path(into)
    if path is None:
        raise click.UsageError(
            "CONFIGURATOR_ENGINES is empty, so there is no place for it; name one with --into DIR"
        )
    found = extract(installed() if str(source) == "installed" else source, version)
    try:
        Store(path).write([found])
    except OSError as error:
        raise ConfiguratorError.single(
            "RND003", f"{path} cannot be written: {error.strerror}", "name another with --into DIR"
        ) from error
    row = counts(found) | {"file": str(path)}
    if output == "json":
        click.echo(json.dumps(row, indent=2))
    else:
        numbers = f"{row['options']} options, {row['variables']} variables"
        click.echo(f"{found.version}: {numbers}, {row['architectures']} architectures in {path}")
    return 0


def installed() -> Path:
    """The directory that the engine is installed in.

    Raises:
        ConfiguratorError: CAT001 when this Python has none.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return Path(str(distribution("sglang").locate_file("")))
    except PackageNotFoundError as error:
        raise ConfiguratorError.single(
            "CAT001",
            "the engine is not installed in the Python that runs this program",
            "give the directory of the virtual environment that has it",
        ) from error


def catalogue_named(version: str) -> Catalogue:
    """The catalogue of a version.

    Raises:
        ConfiguratorError: REF005 when there is none.
    """
    found = load_catalogue(version)
    if found is None:
        raise ConfiguratorError.single(
            "REF005",
            f"there is no catalogue of {version!r}",
            f"{did_you_mean(version, available_versions())} Make one with `configurator engine "
            f"add SOURCE --version {version}`".strip(),
        )
    return found


def counts(catalogue: Catalogue) -> dict[str, Any]:
    """How much a version knows."""
    return {
        "version": catalogue.version,
        "options": len({flag.name for flag in catalogue.flags.values()}),
        "variables": len(catalogue.variables) + len(catalogue.env_read),
        "retired": len(catalogue.retired),
        "names": len(catalogue.names),
        "architectures": len(catalogue.architectures),
    }


def rows_of(catalogue: Catalogue, section: str) -> dict[str, dict[str, Any]]:
    """Everything of a section by name, as plain data; options with their dashes."""
    if section == "flags":
        flags = sorted({flag.name: flag for flag in catalogue.flags.values()}.items())
        return {f"--{name}": asdict(flag) for name, flag in flags}
    if section == "env":
        variables: dict[str, dict[str, Any]] = {n: {"name": n} for n in catalogue.env_read}
        variables |= {n: asdict(v) for n, v in catalogue.variables.items()}
        retired = {n: {"retired": True} | asdict(old) for n, old in catalogue.retired.items()}
        return dict(sorted((variables | retired).items()))
    if section == ARCHITECTURE:
        return {name: asdict(a) for name, a in sorted(catalogue.architectures.items())}
    kinds: dict[str, NameKind] = {kind: kind for kind in get_args(NameKind)}
    return {name: asdict(n) for name, n in catalogue.named(kinds[section]).items()}


def asked(
    names: Iterable[str], rows: dict[str, dict[str, Any]], fact: str, section: str
) -> list[str]:
    """The rows that names stand for: an option also by its other names and without dashes.

    Raises:
        ConfiguratorError: REF005 for every name that is not there.
    """
    spelled = {name: name for name in rows}
    if section == "flags":
        for name, row in rows.items():
            spelled |= {f"--{alias}": name for alias in row["aliases"]}
        spelled |= {full.lstrip("-"): name for full, name in spelled.items()}
    unknown = [name for name in names if name not in spelled]
    if unknown:
        raise ConfiguratorError(
            Problem("REF005", f"{fact} {name!r}", suggestion(name, spelled)) for name in unknown
        )
    return [spelled[name] for name in names]


def suggestion(name: str, known: Iterable[str]) -> str:
    """What was meant, or where to look."""
    return did_you_mean(name, known) or "`configurator engine show VERSION` lists what one knows"


def since(section: str, name: str) -> str:
    """The versions that know something, in words."""
    bare = name.lstrip("-")
    if section == "env":
        rows = [
            *history("variables", bare), *history("retired", bare), *history("env_read", bare)
        ]  # fmt: skip
    elif section in ("flags", ARCHITECTURE):
        rows = history("flags" if section == "flags" else "architectures", bare)
    else:
        rows = [row for row in history("names", bare) if row[1].kind == section]
    return written(spans({version for versions, _ in rows for version in versions}))


def line(name: str, row: dict[str, Any]) -> str:
    """One thing on one line: what it takes, and its default."""
    parts = [row.get("type") or "", "required" if row.get("required") else ""]
    if row.get("default") is not None:
        parts.append(f"default {said(row['default'])}")
    if row.get("retired"):
        parts.append(f"retired {row['replacement'] or row['note']}".rstrip())
    if row.get("deprecated") is not None:
        parts.append(
            f"{'refused' if row['refused'] else 'deprecated'} {row['deprecated']}".rstrip()
        )
    parts += [row.get("detail", ""), " or ".join(row.get("drafts", ()))]
    return f"{name:<44} {'  '.join(part for part in parts if part)}".rstrip()


def block(name: str, row: dict[str, Any]) -> str:
    """One thing in full."""
    told_of = {key: value for key, value in row.items() if value not in (None, (), "", False)}
    if row.get("default") is False:
        told_of["default"] = False
    width = max(len(key) for key in told_of)
    return "\n".join(
        [click.style(name, bold=True)]
        + [f"  {key:<{width}}  {said(value)}" for key, value in told_of.items() if key != "name"]
    )


def told(change: Change) -> str:
    """A difference on one line."""
    dashes = "--" if change.section == "flags" else ""
    kind = f"{change.kind} " if change.kind else ""
    head = f"{_SIGNS[change.action]} {kind}{dashes}{change.name}"
    if change.action == "changed":
        if isinstance(change.before, tuple) and isinstance(change.after, tuple):
            return f"{head}  {change.field} {moved(change.before, change.after)}"
        return f"{head}  {change.field} {said(change.before)} -> {said(change.after)}"
    detail = change.note or change.after or change.before
    use = "use " if is_replacement(str(detail)) else ""
    return f"{head}  ({use}{detail})" if detail else head


def moved(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """What came and what went of a list of choices."""
    came = [f"+{each}" for each in after if each not in before]
    return " ".join([*came, *(f"-{each}" for each in before if each not in after)])


def said(value: object) -> str:
    """A value as a message says it."""
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value)
    return json.dumps(value) if isinstance(value, bool | list | dict | None) else str(value)
