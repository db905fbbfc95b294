"""What the launch asks of the plugin, and what it was written for."""

from __future__ import annotations

import os

NAME = "configurator_fp8_head"
GRANULARITY = "CONFIGURATOR_FP8_HEAD_GRANULARITY"
GRANULARITIES = ("per-tensor", "per-row")
RELEASES = ("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23")
"""Releases whose sources were read and that ran with it. The kernel entry has them too, for whoever
validates without an engine; a test compares the two."""


class RefusedError(RuntimeError):
    """The plugin cannot do what the launch asks: the launch must end."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(f"{NAME} refuses this launch:" + "".join(f"\n  - {r}" for r in reasons))


def granularity() -> str:
    """Scales of the weight, one for all of it or one a row.

    Raises:
        RefusedError: the variable has another value.
    """
    wanted = os.environ.get(GRANULARITY) or GRANULARITIES[0]
    if wanted not in GRANULARITIES:
        raise RefusedError([f"{GRANULARITY} is {wanted!r}: set it to {' or '.join(GRANULARITIES)}"])
    return wanted
