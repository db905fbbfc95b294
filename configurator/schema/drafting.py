"""The forward passes of speculation, as a kernel entry tells them."""

from __future__ import annotations

from configurator.schema.base import StrictModel, Text
from configurator.schema.shapes import PositiveInt


class OfOption(StrictModel):
    """A number taken from an option of the mechanism."""

    option: Text
    """The option."""
    plus: int = 0
    """Added to it."""


class Drafting(StrictModel):
    """The forward passes of one round of speculation."""

    passes: PositiveInt | OfOption = 1
    """Passes of the draft in one round."""
    tokens: PositiveInt | OfOption = 1
    """Tokens of a sequence in one draft pass."""
    extends: bool = False
    """The last draft pass runs over the verified tokens instead."""
    verify: OfOption | None = None
    """Tokens of a sequence in the verify pass; null: the draft entry's verify_width."""
