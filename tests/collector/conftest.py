"""The stub server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from collector.stub import Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.close()
