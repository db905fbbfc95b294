"""Faults that are not ours, of a disk or of an answer of the engine, and how they end a run."""

from __future__ import annotations

import errno

from configurator.errors import ConfiguratorError
from configurator.up.waiting import Ended

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)


def end_of(error: OSError) -> BaseException:
    """The end of a run that cannot write what it needs; the error itself where it is another."""
    if error.errno not in _OF_DISKS:
        return error
    where = f" at {error.filename}" if error.filename else ""
    return Ended(
        1, f"it cannot go on: {error.strerror}{where}; make room, or give another --report"
    )


def unchecked(error: BaseException) -> BaseException:
    """The end of a run whose self-check could not be made; the error itself where it is ours."""
    if isinstance(error, RecursionError):
        why = "an answer of the engine is nested too deeply to be read"
    elif isinstance(error, ConfiguratorError) and error.problems[0].code == "COL001":
        # A log or folder that vanished under the collector: nobody has given one.
        why = error.problems[0].message
    elif isinstance(error, OSError):
        why = f"its evidence cannot be kept: {error.strerror or error}"
    else:
        return error
    return Ended(1, f"nothing is proven, the self-check could not be made: {why}; it is stopped")
