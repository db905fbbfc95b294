"""Values that break careless quoting, and a port."""

from __future__ import annotations

import pytest
import stand_in
from render.generated import HOSTILE


@pytest.fixture
def hostile() -> list[str]:
    """Words that must arrive byte for byte."""
    return HOSTILE


@pytest.fixture
def free_port() -> int:
    """A port nobody listens on."""
    return stand_in.free_port()
