"""Self-tests as kernel entries name them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configurator.schema.base import Name, StrictModel, Text


class SelfTest(StrictModel):
    """A program that tries the mechanism on this machine before a long start."""

    name: Name
    """Name of the self-test: of `a-b` the program is kernels/a_b_selftest.py."""
    minimum: dict[Text, Annotated[float, Field(gt=0)] | Annotated[int, Field(gt=0)]] = {}
    """Figures of it that must be at least this, for instance `speedup: 1.7`."""
