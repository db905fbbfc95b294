"""The catalogue of one engine version: its flags and environment variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line option."""

    name: str
    """Without the leading dashes."""
    aliases: tuple[str, ...] = ()
    type: str | None = None
    """`int`, `float`, `str`, `bool`, `json`; None when it takes no value."""
    default: Any = None
    choices: tuple[str, ...] = ()
    nargs: str | None = None
    deprecated: str | None = None
    """What the engine says to use instead; empty when it says nothing."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What one engine version knows."""

    version: str
    flags: dict[str, Flag] = field(default_factory=dict)
    """By name and by alias."""
    env: frozenset[str] = frozenset()
    """Variables declared in the engine's registry."""
    env_read: frozenset[str] = frozenset()
    """Further variables read outside the registry."""

    def knows_env(self, name: str) -> bool:
        """The engine reads this variable somewhere."""
        return name in self.env or name in self.env_read


def load_catalogue(version: str) -> Catalogue | None:
    """The shipped catalogue of a released version; None when there is none."""
    raise NotImplementedError
