"""Reading files that anyone may name: regular ones of a limited size, and never for ever.

A pipe waits for a writer, /dev/zero never ends, and files of /proc say that they are empty.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_PROC = Path("/proc")


class NotRegularError(OSError):
    """What the path leads to is no file with contents of its own; `strerror` says what it is."""


class TooLargeError(OSError):
    """The file holds more than is read."""


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file, or of the one that a link leads to.

    Args:
        path: where it is.
        limit: the most bytes that it may hold.

    Raises:
        OSError: it cannot be read, among them NotRegularError and TooLargeError.
        ValueError: the path holds a NUL character.
    """
    check_regular(path, limit)
    # What the path leads to may change after the check: opening must not wait for anyone either.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        _check(os.fstat(handle), limit)
        found = file.read(limit + 1)
    if len(found) > limit:
        raise _too_large(limit)
    return found


def check_regular(path: Path, limit: int | None = None) -> None:
    """Refuse what `read_regular` would refuse, without reading it. Raises the same."""
    _check(path.stat(), limit)


def _check(found: os.stat_result, limit: int | None) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise NotRegularError(errno.EINVAL, f"is {_KINDS.get(kind, 'special')}, not a file")
    # The kernel makes these while they are read, and some wait for what happens next.
    if _PROC.is_mount() and found.st_dev == _PROC.stat().st_dev:
        raise NotRegularError(errno.EINVAL, "belongs to /proc and is not a file")
    if limit is not None and found.st_size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> TooLargeError:
    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
    return TooLargeError(errno.EFBIG, f"is larger than {size}")


def why_unread(name: str, error: OSError) -> str:
    """The fact for a message about a file that cannot be read."""
    if isinstance(error, NotRegularError | TooLargeError):
        return f"{name} {error.strerror}"
    return f"cannot read {name}: {error.strerror or error}"
