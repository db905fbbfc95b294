"""Reading single files of an evidence directory: plain or gzipped, and never a surprise."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path

from configurator.errors import ConfiguratorError
from configurator.evidence.model import Json


def read_bytes(path: Path) -> bytes | None:
    """The bytes of `path`, or of `path` with `.gz` added; None when neither is there."""
    packed = path.with_name(f"{path.name}.gz")
    try:
        if path.is_file():
            raw = path.read_bytes()
            return gzip.decompress(raw) if path.suffix == ".gz" else raw
        return gzip.decompress(packed.read_bytes()) if packed.is_file() else None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfiguratorError.single(
            "EVD002", f"{path} cannot be read: {error}", "record the evidence again"
        ) from error


def read_text(path: Path) -> str | None:
    """The text of a file; bytes that are not UTF-8 are replaced."""
    raw = read_bytes(path)
    return None if raw is None else raw.decode("utf-8", "replace")


def exists(path: Path) -> bool:
    """Whether the file is there, plain or gzipped."""
    return path.is_file() or path.with_name(f"{path.name}.gz").is_file()


def find(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` that match, sorted, each once and without the `.gz` of packed ones."""
    packed = (path.with_suffix("") for path in folder.glob(f"{pattern}.gz"))
    return sorted({*folder.glob(pattern), *packed})


def load(path: Path) -> Json:
    """The JSON of a file; None when it is not there.

    Raises:
        ConfiguratorError: EVD002, the file is there and is not JSON.
    """
    text = read_text(path)
    if text is None:
        return None
    try:
        return _clean(json.loads(text, parse_int=_whole), text)
    except (ValueError, RecursionError) as error:
        raise ConfiguratorError.single(
            "EVD002", f"{path} is not JSON: {error}", "record the evidence again"
        ) from error


_DIGITS = 300
"""A whole number of more digits cannot be made a float; it counts nothing."""


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _clean(data: Json, text: str) -> Json:
    """Data whose texts can be written out: half of a surrogate pair becomes U+FFFD."""
    # Only an escape can make one, so most files are left as they are.
    return _written(data) if _SURROGATE.search(text) else data


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _written(data: Json) -> Json:
    if isinstance(data, str):
        return data.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(data, list):
        return [_written(item) for item in data]
    if isinstance(data, dict):
        return {_written(name): _written(item) for name, item in data.items()}
    return data
