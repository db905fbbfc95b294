"""Files of a checkpoint directory that say what is in it, read with care.

Nothing outside the directory is opened, whatever a file or a link inside names. The exception is
the layout of the Hugging Face cache, whose snapshots consist of links into the `blobs` beside them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from configurator.errors import ConfiguratorError, Position, Problem
from configurator.safetensors_header import Tensor, read_header

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
MODELOPT = "hf_quant_config.json"
_FORGOTTEN = "mtp.safetensors"
_LONGEST = 300
LIMIT = 64_000_000
"""Bytes of a JSON file; indexes of the largest models have about 20 MB."""


@dataclass
class Contents:
    """What the files say, as far as they can be read."""

    config: dict[str, Any] = field(default_factory=dict)
    modelopt: dict[str, Any] = field(default_factory=dict)
    """hf_quant_config.json, where ModelOpt writes how it quantized."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Names of all files that are there."""
    missing: tuple[str, ...] = ()
    """Shards that the index names and that are not there."""
    indexed_bytes: int = 0
    """What the index says of the whole; 0 when it says nothing."""
    problems: list[Problem] = field(default_factory=list)


def read_contents(path: Path) -> Contents:
    """Read a checkpoint directory.

    Raises:
        ConfiguratorError: CKPT001 when the path is no directory that can be listed.
    """
    try:
        root = path.resolve(strict=True)
        names = tuple(sorted(entry.name for entry in root.iterdir()))
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfiguratorError.single(
            "CKPT001", f"{path} is no directory that can be read", "name a checkpoint's directory"
        ) from error
    contents = Contents(files=names)
    contents.config = _json(root, CONFIG, contents)
    contents.modelopt = _json(root, MODELOPT, contents)
    index = _json(root, INDEX, contents)
    _read_tensors(root, index, contents)
    return contents


def _read_tensors(root: Path, index: dict[str, Any], contents: Contents) -> None:
    named = _weight_map(index, contents)
    contents.indexed_bytes = _total_size(index)
    contents.tensors.update({name: Tensor(name, "") for name in named if presentable(name)})
    missing = []
    for shard in _shards(named, contents):
        # A link to nowhere is listed, and is as missing as a file that is not.
        if shard not in contents.files or not _reachable(root / shard):
            missing.append(shard)
            continue
        file = _inside(root, shard, contents)
        if file is not None:
            _add(file, contents)
    contents.missing = tuple(missing)


def _shards(named: dict[str, str], contents: Contents) -> list[str]:
    """Names of the files that the engine loads."""
    there = [n for n in contents.files if n.endswith(".safetensors") and presentable(n)]
    if not named:
        # Mistral's own copy of the same weights, under its own names.
        others = [name for name in there if not name.startswith("consolidated")]
        return others or there
    names = contents.config.get("architectures")
    glm = isinstance(names, list) and any(str(name).startswith("Glm4Moe") for name in names)
    # For this model the engine adds a file that some indexes forget.
    extra = [_FORGOTTEN] if glm and _FORGOTTEN in there else []
    return sorted({*named.values(), *extra})


def _add(file: Path, contents: Contents) -> None:
    try:
        found = read_header(file)
        contents.tensors.update({n: tensor for n, tensor in found.items() if presentable(n)})
    except ConfiguratorError as error:
        contents.problems += error.problems


def _weight_map(index: dict[str, Any], contents: Contents) -> dict[str, str]:
    """Names of tensors with their shards; a shard that is no plain file name is a problem."""
    entries = index.get("weight_map", {})
    named: dict[str, str] = {}
    strange: set[str] = set()
    for tensor, shard in entries.items() if isinstance(entries, dict) else ():
        if isinstance(shard, str) and _plain(shard):
            named[tensor] = shard
        else:
            strange.add(str(shard)[:80])
    for shard in sorted(strange)[:5]:
        contents.problems.append(
            Problem(
                "CKPT002",
                f"{INDEX} names {shard!r}, which is no file of the directory",
                "write the plain name of a shard",
            )
        )
    return named


def _plain(name: str) -> bool:
    """A name of a file in a directory, and of nothing above or below."""
    return name not in ("", ".", "..") and PurePath(name).name == name and presentable(name)


def presentable(name: str) -> bool:
    """A name that a message may show: others are none that a model has, and could hide text."""
    return len(name) <= _LONGEST and name.isprintable()


def _total_size(index: dict[str, Any]) -> int:
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(size) if isinstance(size, int | float) and 0 < size < 1e18 else 0


def _json(root: Path, name: str, contents: Contents) -> dict[str, Any]:
    """A JSON file of the directory; empty when it is absent, or a problem."""
    file = _inside(root, name, contents) if name in contents.files else None
    if file is None:
        return {}
    fact, position = f"{name} is no mapping", None
    try:
        if file.stat().st_size > LIMIT:
            fact = f"{name} has {file.stat().st_size} bytes"
        else:
            data = json.loads(file.read_bytes())
            if isinstance(data, dict):
                return data
    except json.JSONDecodeError as error:
        fact = f"{name} is no JSON: {error.msg}"
        position = Position(str(root / name), error.lineno, error.colno)
    except (ValueError, RecursionError):
        fact = f"{name} is no JSON"
    except OSError as error:
        fact = f"{name} cannot be read: {error.strerror}"
    contents.problems.append(Problem("CKPT001", fact, "fetch the file again", position))
    return {}


def _reachable(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:
        return False


def _inside(root: Path, name: str, contents: Contents) -> Path | None:
    """The regular file of this name; None with a problem when it must not be opened."""
    try:
        file = (root / name).resolve(strict=True)
    except (OSError, RuntimeError):
        fact = "is a link to nowhere"
    else:
        homes = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
        if not any(file.is_relative_to(home) for home in homes):
            fact = "is a link out of the directory and was not read"
        elif file.is_file():
            return file
        else:
            fact = "is no regular file"
    code = "CKPT002" if name.endswith(".safetensors") else "CKPT001"
    contents.problems.append(Problem(code, f"{name} {fact}", "put the file itself there"))
    return None
