"""What the engine's parser makes of a command line, every error at once.

The engine uses argparse, which stops at its first error. Reading the words by the same rules,
with the options of a catalogue, finds all of them, and says which words each is about. Source of
the rules: Lib/argparse.py of CPython 3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from configurator.engine.catalogue import Catalogue, Flag, Resolution

ErrorKind = Literal["unknown", "ambiguous", "value", "choice", "count", "refused", "required"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command line with its values."""

    name: str
    """As it is spelled, without the leading dashes and without `=value`."""
    index: int
    """Index of its word."""
    values: tuple[str, ...]
    """Texts of its values."""
    places: tuple[int, ...]
    """Index of each value's word: the option's own for `--name=value`."""
    joined: bool
    """Written `--name=value`."""
    resolution: Resolution | None = None
    """What the catalogue makes of the name; None without a catalogue."""

    @property
    def flag(self) -> Flag | None:
        """The flag meant; None when the name is unknown or ambiguous."""
        found = self.resolution
        return found.flags[0] if found and found.kind in ("exact", "alias", "prefix") else None

    @property
    def canonical(self) -> str:
        """The flag's own name, or the spelled one when no flag is known for it."""
        return self.flag.name if self.flag else self.name


@dataclass(frozen=True, slots=True)
class ArgvError:
    """One reason why the engine's parser refuses the command line."""

    kind: ErrorKind
    index: int | None
    """The word it is about; None for a missing option."""
    name: str
    """The option as spelled, without dashes; the word itself when it belongs to none."""
    fact: str
    """What is wrong, without the option's name."""
    flag: Flag | None = None
    value: str | None = None
    """The value that does not fit."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line as the engine's parser reads it."""

    options: tuple[Option, ...] = ()
    positionals: tuple[int, ...] = ()
    """Words that belong to no option and that the entry takes, for instance `serve MODEL`."""
    errors: tuple[ArgvError, ...] = ()

    def last(self, name: str) -> Option | None:
        """The option that counts: of several the last wins."""
        return next((o for o in reversed(self.options) if o.canonical == name), None)


def parse(
    words: Sequence[str], catalogue: Catalogue | None, unknown: frozenset[int] = frozenset()
) -> Parsed:
    """Read a command line.

    Args:
        words: the engine's arguments, without the program.
        catalogue: the options of the engine; None reads options without judging them.
        unknown: indexes of words whose text is known only where it runs; their values are not
            judged.
    """
    return _Reader(words, catalogue, unknown).read()
