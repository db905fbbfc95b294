"""`extends`: profiles as layers, merged, with the origin of every value still known.

Maps merge, lists and scalars replace, null removes. A null that removes nothing is remembered,
because it is usually a misspelt key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from configurator.errors import Position
from configurator.source import DataPath, Source


@dataclass(frozen=True, slots=True)
class Layers:
    """A merged document and the sources it was merged from, most derived first."""

    data: dict[str, Any]
    sources: tuple[Source, ...]
    idle_nulls: tuple[DataPath, ...] = field(default=())

    def locate(self, path: DataPath) -> Position:
        """Where the value at `path` was written; for a missing one, where it would belong.

        Among layers that know equally much of the path the most derived wins, which is the
        layer whose value survived the merge.
        """
        best_length, best = -1, Position(self.sources[0].name, 1, 1)
        for source in self.sources:
            length, position = source.nearest(path)
            if length > best_length:
                best_length, best = length, position
            if length == len(path):
                break
        return best

    def text_of(self, file: str) -> str | None:
        """The text of one of the sources, for excerpts."""
        return next((s.text for s in self.sources if s.name == file), None)


def merge(sources: tuple[Source, ...]) -> Layers:
    """Merge `sources` (most derived first); every source's data must be a mapping."""
    data: dict[str, Any] = {}
    idle: list[DataPath] = []
    for index in range(len(sources) - 1, -1, -1):
        layer_idle: list[DataPath] = []
        data = overlay(data, sources[index].data, (), layer_idle)
        if index == 0:
            idle = layer_idle
    return Layers(data, sources, tuple(idle))


def overlay(
    base: dict[str, Any],
    patch: dict[str, Any],
    path: DataPath = (),
    idle_nulls: list[DataPath] | None = None,
) -> dict[str, Any]:
    """A new mapping: `patch` over `base`. Paths of nulls that removed nothing are collected."""
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            if key not in merged and idle_nulls is not None:
                idle_nulls.append((*path, key))
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            start = below if isinstance(below, dict) else {}
            merged[key] = overlay(start, value, (*path, key), idle_nulls)
        else:
            merged[key] = value
    return merged
