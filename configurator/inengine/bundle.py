"""The probe bundle: a directory that the engine finds on PYTHONPATH and loads as a plugin.

It holds the probe's one file and the metadata of a distribution, whose entry point the engine
looks for. Nothing is installed: a container mounts the directory and puts it on PYTHONPATH.

The collector lies beside it, to record evidence where configurator is not installed. The engine
does not load it, and its name shadows no module of anybody.
"""

from __future__ import annotations

import os
from pathlib import Path

from configurator.errors import ConfiguratorError

MODULE = "configurator_probe"
"""Module of the probe, name of its entry point, and key of its report in /server_info."""
COLLECTOR = "configurator_collector"
"""Package of the collector: `python -m` this."""
GROUP = "sglang.srt.plugins"
"""Group of entry points that the engine loads plugins from."""
DIRECTORY = "CONFIGURATOR_PROBE_DIR"
"""Variable that names the directory of the reports."""
REQUIRED = "CONFIGURATOR_PROBE_REQUIRED"
"""Variable that stops the engine, when it is 1, if no report can be made."""

COLLECTOR_MARK = "Part of configurator's collector"
"""In the first line of every module of the collector in a bundle, of every version."""

_MARK = "Reports from inside SGLang"
# In the first line of the probe, of every version.
_HEAD = f"# {COLLECTOR_MARK}; it needs the standard library alone.\n"
_INFO = f"{MODULE}-1.dist-info"
_METADATA = f"Metadata-Version: 2.1\nName: {MODULE.replace('_', '-')}\nVersion: 1\n"
_ENTRY_POINTS = f"[{GROUP}]\n{MODULE} = {MODULE}:register\n"


def bundle_files() -> dict[str, str]:
    """Every file of the bundle by its path inside it; always the same text."""
    here = Path(__file__).parent
    collector = sorted((here.parent / "collector").glob("*.py"))
    return {
        f"{MODULE}.py": (here / f"{MODULE}.py").read_text(encoding="utf-8"),
        f"{_INFO}/METADATA": _METADATA,
        f"{_INFO}/entry_points.txt": _ENTRY_POINTS,
        **{f"{COLLECTOR}/{p.name}": _HEAD + p.read_text(encoding="utf-8") for p in collector},
    }


def write_bundle(directory: Path) -> tuple[Path, ...]:
    """Write the bundle, or refresh one that was written before; the files that it has.

    Raises:
        ConfiguratorError: RND002 (the directory holds files that no bundle has, or is a file),
            RND003 (it cannot be written).
    """
    files = bundle_files()
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
        for path in (directory / COLLECTOR).glob("*.py"):
            if path not in written:
                path.unlink()  # Of another version: all that is not ours was refused above.
    except OSError as error:
        raise ConfiguratorError.single(
            "RND003", f"{directory} cannot be written: {error.strerror or error}",
            "give a directory that you may write to with -o",
        ) from None  # fmt: skip
    return tuple(written)


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
    folder, _, file = name.rpartition("/")
    if folder == COLLECTOR and file.endswith(".py"):
        return _holds(path, COLLECTOR_MARK)
    return name in ours and (path.suffix != ".py" or _holds(path, _MARK))


def _holds(path: Path, mark: str) -> bool:
    try:
        return mark in path.read_text(encoding="utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return False
