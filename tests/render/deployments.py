"""The deployments that every target is tried with: all that is shipped, and 100 generated."""

from __future__ import annotations

from pathlib import Path

from render.generated import KEY, generated
from stand_in import LIBRARY

from configurator.deployment import Deployment, HostPlaceholder
from configurator.render.launches import address_variable
from configurator.resolve import resolve

CLEAN = [
    "ling-3.0-flash-spark",
    "ling-3.0-flash-spark-baseline",
    "ling-3.0-flash-spark-dspark",
    "ling-3.0-flash-spark-plugin",
    "muse-spark-open-gb300x8",
    "muse-spark-open-gb300x8-tp8",
]
REFUSED = ["ling-3.0-flash-spark-upstream", "muse-spark-open-paper"]
"""Validation refuses them; they can be rendered all the same."""
SHIPPED = [*CLEAN, *REFUSED]


def shipped(name: str) -> Deployment:
    """One that is shipped."""
    return resolve(*LIBRARY.profile(name), LIBRARY)


def every(folder: Path) -> list[Deployment]:
    """All of them; the files of their keys are in the folder."""
    return [*map(shipped, SHIPPED), *generated(folder)]


def address(word: HostPlaceholder) -> str:
    """Of a host, as an operator gives it."""
    return f"10.0.{word.replica}.{word.host}"


def surroundings(deployment: Deployment) -> dict[str, str]:
    """What an operator sets: addresses of hosts, and keys."""
    found = {}
    for process in deployment.processes:
        for word in process.argv:
            if isinstance(word, HostPlaceholder):
                found[address_variable(word)] = address(word)
            elif not isinstance(word, str) and word.env:
                found[word.env] = KEY
    return found
