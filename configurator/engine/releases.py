"""Where a build stands in the order of the engine's releases."""

from __future__ import annotations

from configurator.engine.catalogue import Catalogue, order


def since(catalogue: Catalogue | None, version: str) -> bool:
    """The engine is this release or a later one; False when nobody can tell which it is.

    Args:
        catalogue: of a release, or of the release below a build.
        version: a release, for instance `0.5.14`.
    """
    return catalogue is not None and order(catalogue.version) >= order(version)


def before(catalogue: Catalogue | None, version: str) -> bool:
    """The engine is an earlier release; False when nobody can tell which it is."""
    return catalogue is not None and order(catalogue.version) < order(version)
