"""The order of the engine's releases, as rules ask for it."""

from __future__ import annotations

import pytest

from configurator.engine.catalogue import Catalogue, load_catalogue
from configurator.engine.releases import before, since


@pytest.mark.parametrize(
    ("of", "version", "later"),
    [
        ("0.5.17", "0.5.14", True),
        ("0.5.9", "0.5.14", False),
        ("0.5.14", "0.5.14", True),
        ("0.5.12.post1", "0.5.12", True),
        ("0.5.12", "0.5.12.post1", False),
    ],
)
def test_releases_have_an_order(of: str, version: str, later: bool) -> None:
    catalogue = load_catalogue(of)
    assert catalogue is not None
    assert since(catalogue, version) is later
    assert before(catalogue, version) is not later


def test_nothing_is_said_of_an_engine_nobody_knows() -> None:
    assert not since(None, "0.5.1")
    assert not before(None, "0.5.23")


def test_a_catalogue_need_not_be_a_shipped_one() -> None:
    assert since(Catalogue("0.6.0"), "0.5.23")
