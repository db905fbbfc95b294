"""What self-tests measured on a host, kept for plans (docs/kernels.md has the format).

One JSON file a host. A later run of a self-test replaces what it measured before; what other
self-tests measured stays. Of a self-test that came out wrong nothing is kept: its figures are no
measurement.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from configurator.collector.writing import write
from configurator.errors import ConfiguratorError
from configurator.kerneltests.model import Measured, Result, Verdict
from configurator.regular import NotRegularError, TooLargeError, read_regular

FORMAT: Literal[1] = 1
_MOST_BYTES = 1 << 20
_READS = "read_gb_s"
"""The figure of a self-test that reads more than the caches hold, in GB/s."""


class Kept(BaseModel):
    """What one self-test measured."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    measured_at: str
    """UTC, as 2026-11-30T14:05:00Z."""
    verdict: Verdict
    figures: dict[str, Measured]
    machine: dict[str, Any]
    """Versions, and the GPU."""


class HostFigures(BaseModel):
    """All that is kept of one host."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: Literal[1]
    host: str
    selftests: dict[str, Kept] = {}

    def figure(self, selftest: str, name: str) -> Measured | None:
        """A figure of a self-test; None: it was not measured here."""
        kept = self.selftests.get(selftest)
        return kept.figures.get(name) if kept else None

    def reads(self, product: str) -> tuple[str, Measured] | None:
        """The fastest read of memory that a self-test saw on GPUs of a product, with its name.

        None: none was measured on them.
        """
        found = [
            (kept.figures[_READS].value, name, kept.figures[_READS])
            for name, kept in self.selftests.items()
            if _READS in kept.figures and kept.machine.get("gpu") == product
        ]
        return max(found, key=lambda each: each[:2])[1:] if found else None


def read_figures(path: Path) -> HostFigures | None:
    """What is kept in a file; None: there is none.

    Raises:
        ConfiguratorError: KRN002, it cannot be read, or is something else.
    """
    try:
        return HostFigures.model_validate_json(read_regular(path, _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (NotRegularError, TooLargeError) as error:
        raise _unusable(path, str(error.strerror)) from error
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise _unusable(path, f"holds no figures of a host: {place}: {first['msg']}") from error


def keep(path: Path, results: Iterable[Result]) -> bool:
    """Add what was measured to a host's file; False: nothing was.

    Raises:
        ConfiguratorError: KRN002, the file is something else or cannot be written.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = {
        result.name: Kept(
            measured_at=now, verdict=result.verdict,
            figures=dict(result.figures), machine=dict(result.machine),
        )
        for result in results
        if result.figures and result.verdict != "wrong"
    }  # fmt: skip
    if not new:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path):
            before = read_figures(path)
            kept = dict(sorted({**(before.selftests if before else {}), **new}.items()))
            figures = HostFigures(format=FORMAT, host=platform.node(), selftests=kept)
            write(path, figures.model_dump(mode="json"), ())
    except OSError as error:
        raise _unusable(path, f"cannot be written: {error.strerror}") from error
    return True


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No two runs add to a file at a time, or one would lose what the other measured."""
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _unusable(path: Path, fact: str) -> ConfiguratorError:
    return ConfiguratorError.single("KRN002", f"{path} {fact}", "give another with --store FILE")
