"""What a caller gives: usable, or one clear line."""

from __future__ import annotations

import os
import re
import stat
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


_LONGEST_KEY = 4096
_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("latin-1")


def read_key(variable: str | None, file: str | None) -> str:
    """The key that stands alone in a variable, or else in a file.

    `CollectError` when it cannot be read, is empty, or no request could carry it. A line break at
    its end is none of it.
    """
    where, text, why = f"variable {variable}", "", ""
    if variable is not None:
        text = os.environ.get(variable, "")
        why = "" if variable in os.environ else "it is not set"
    else:
        where = f"file {file}"
        try:
            # A pipe that nobody writes to would be waited for; of a shell's <(...) somebody does.
            if stat.S_ISFIFO(os.stat(file or "").st_mode) and not (file or "").startswith("/dev/"):
                raise OSError("it is a pipe, and no file")
            with Path(file or "").open("rb") as opened:
                text = opened.read(_LONGEST_KEY + 2).decode("latin-1")
        except OSError as error:
            why = error.strerror or str(error)
    text = text.removesuffix("\n").removesuffix("\r")
    why = why or why_no_key(text)
    if why:
        raise CollectError(f"the secret in {where} cannot be used: {why}")
    return text


def why_no_key(text: str) -> str:
    """Why no header of a request can carry it; empty when one can."""
    if not text.strip():
        return "it is empty"
    if len(text) > _LONGEST_KEY:
        return f"it is longer than {_LONGEST_KEY} characters"
    if "\n" in text or "\r" in text:
        count = len(text.splitlines())
        return f"it has {count} lines" if count > 1 else "it has an empty line at its end"
    if text.startswith(_BYTE_ORDER_MARK):
        return "it begins with a byte order mark"
    if not text.isascii():
        return "it has characters that are not ASCII"
    if any(character <= " " or character == "\x7f" for character in text):
        return "it has a space or a control character"
    return ""


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
