"""What a caller gives: usable, or one clear line."""

from __future__ import annotations

import re
import urllib.parse
from pathlib import Path
from typing import Any

from .redaction import redact_text


class CollectError(Exception):
    """Input that cannot be used: one clear line, exit code 2."""


def usable_url(url: str) -> str:
    """The base of a server's URL; `CollectError` when it is not one."""
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", url):
        raise CollectError(f"{redact_text(url)!r} is not a server's URL; "
                           "write it like http://127.0.0.1:30000")  # fmt: skip
    if "@" in parts.netloc:
        raise CollectError("the URL holds a user or password; give the key by --api-key-env")
    return url.rstrip("/")


def existing(path: Any, kind: str) -> Path | None:
    """The log file or directory of reports at `path`; None where none is given."""
    if path is None:
        return None
    found = Path(path)
    if not (found.is_dir() if kind == "reports" else found.is_file()):
        wanted = "a directory" if kind == "reports" else "a file"
        raise CollectError(f"{kind} {found} is not {wanted}; give an existing one or leave it out")
    return found


def empty_directory(out: Path) -> Path:
    """The new directory of the evidence."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CollectError(f"{out} is not empty; give a new directory, evidence is not mixed")
    except OSError as error:
        raise CollectError(f"{out} cannot be used: {error.strerror or error}") from error
    return out
