"""The probe bundle: a directory that the engine finds on PYTHONPATH and loads as a plugin.

It holds the probe's package and the metadata of a distribution, whose entry point the engine
looks for. Nothing is installed: a container mounts the directory and puts it on PYTHONPATH.

The collector lies beside it, to record evidence where configurator is not installed. The engine
does not load it, and its name shadows no module of anybody. Beside them lie the plugins of kernel
entries that the profile leaves to configurator, and no others: the engine loads what it finds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from configurator.deployment import Carried
from configurator.errors import ConfiguratorError

MODULE = "configurator_probe"
"""Package of the probe, name of its entry point, and key of its report in /server_info."""
COLLECTOR = "configurator_collector"
"""Package of the collector: `python -m` this."""
GROUP = "sglang.srt.plugins"
"""Group of entry points that the engine loads plugins from."""
DIRECTORY = "CONFIGURATOR_PROBE_DIR"
"""Variable that names the directory of the reports."""
REQUIRED = "CONFIGURATOR_PROBE_REQUIRED"
"""Variable that stops the engine, when it is 1, if no report can be made."""

MARKS = {MODULE: "Reports from inside SGLang", COLLECTOR: "Part of configurator's collector"}
"""By package: what the first line of each of its modules in a bundle holds, of every version."""

CARRIED = "Made by configurator: a kernel entry's plugin"
"""What the first line of every file of a plugin in a bundle holds, of every version."""

_FORMER = f"{MODULE}.py"
# The probe was one file once, with the mark of its package.
_HEADS = {
    MODULE: f"# {MARKS[MODULE]}: part of the probe; it needs the standard library alone.\n",
    COLLECTOR: f"# {MARKS[COLLECTOR]}; it needs the standard library alone.\n",
}
_INFO = f"{MODULE}-1.dist-info"
_METADATA = f"Metadata-Version: 2.1\nName: {MODULE.replace('_', '-')}\nVersion: 1\n"
_ENTRY_POINTS = f"[{GROUP}]\n{MODULE} = {MODULE}:register\n"


def bundle_files(plugins: Iterable[Carried] = ()) -> dict[str, str]:
    """Every file of the bundle by its path inside it; always the same text.

    Args:
        plugins: what lies beside the probe.
    """
    here = Path(__file__).parent
    beside = {name: text for plugin in plugins for name, text in _plugin(plugin).items()}
    return {
        **_package(MODULE, here / MODULE),
        f"{_INFO}/METADATA": _METADATA,
        f"{_INFO}/entry_points.txt": _ENTRY_POINTS,
        **_package(COLLECTOR, here.parent / "collector"),
        **beside,
    }


def _plugin(plugin: Carried) -> dict[str, str]:
    """The modules of a plugin and its distribution, each with the mark in its first line."""
    name = plugin.package
    # As in `_package`: what makes it a package comes last.
    modules = sorted(plugin.files, key=lambda file: (file[0] == "__init__.py", file[0]))
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1\n"
    return {
        **{f"{name}/{module}": f"# {CARRIED}, {name}.\n{text}" for module, text in modules},
        f"{name}-1.dist-info/METADATA": f"Summary: {CARRIED}, {name}.\n{metadata}",
        f"{name}-1.dist-info/entry_points.txt":
            f"# {CARRIED}, {name}.\n[{GROUP}]\n{name} = {name}:register\n",
    }  # fmt: skip


def former_plugins(directory: Path, kept: Collection[Path]) -> Iterator[Path]:
    """Files of plugins in a bundle that are not among `kept`; the engine would load them."""
    for path in sorted(directory.rglob("*")):
        is_file = path.is_file() and not path.is_symlink()
        if is_file and path not in kept and _holds(path, CARRIED):
            yield path


def remove_former_plugins(directory: Path, kept: Collection[Path]) -> None:
    """Take plugins away that an earlier launch brought along and this one does not."""
    for path in list(former_plugins(directory, kept)):
        path.unlink(missing_ok=True)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def _package(name: str, source: Path) -> dict[str, str]:
    """The modules of a package under its name in the bundle."""
    # The one that makes it a package is written last: until then an older file of its name counts.
    paths = sorted(source.glob("*.py"), key=lambda path: (path.stem == "__init__", path.name))
    return {
        f"{name}/{path.name}": _HEADS[name] + path.read_text(encoding="utf-8") for path in paths
    }


def write_bundle(directory: Path, plugins: Iterable[Carried] = ()) -> tuple[Path, ...]:
    """Write the bundle, or refresh one that was written before; the files that it has.

    Args:
        directory: where it goes.
        plugins: what lies beside the probe; others of an earlier writing are removed.

    Raises:
        ConfiguratorError: RND002 (the directory holds files that no bundle has, or is a file),
            RND003 (it cannot be written).
    """
    files = bundle_files(plugins)
    _refuse_foreign(directory, set(files))
    written = []
    try:
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
            written.append(path)
        _remove_stale(directory, written)
    except OSError as error:
        raise ConfiguratorError.single(
            "RND003", f"{directory} cannot be written: {error.strerror or error}",
            "give a directory that you may write to with -o",
        ) from None  # fmt: skip
    return tuple(written)


def _remove_stale(directory: Path, written: list[Path]) -> None:
    """Modules of another version; what is not ours was refused before."""
    modules = (path for name in MARKS for path in (directory / name).glob("*.py"))
    for path in (directory / _FORMER, *modules):
        if path not in written:
            path.unlink(missing_ok=True)
    remove_former_plugins(directory, written)


def _refuse_foreign(directory: Path, ours: set[str]) -> None:
    """A directory with anything else on PYTHONPATH could shadow the engine's own modules."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ConfiguratorError.single(
            "RND002", f"{directory} is a file", "give a directory with -o"
        )
    foreign = sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        # Behind a link to a directory lie modules too, and writing would follow it.
        if (path.is_symlink() or not path.is_dir()) and "__pycache__" not in path.parts
        and not _is_ours(path, path.relative_to(directory).as_posix(), ours)
    )  # fmt: skip
    if foreign:
        raise ConfiguratorError.single(
            "RND002", f"{directory} holds {', '.join(foreign[:3])}, which no probe bundle has",
            "give an empty or a new directory with -o",
        )  # fmt: skip


def _is_ours(path: Path, name: str, ours: set[str]) -> bool:
    """Whether a bundle, of any version, had this file: other versions have other modules."""
    if _holds(path, CARRIED):
        return True
    if path.suffix != ".py":
        return name in ours
    package = MODULE if name == _FORMER else name.rpartition("/")[0]
    return package in MARKS and _holds(path, MARKS[package])


def _holds(path: Path, mark: str) -> bool:
    try:
        return mark in path.read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return False
