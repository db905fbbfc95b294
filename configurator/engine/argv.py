"""What the engine's parser makes of a command line, every error at once.

The engine uses argparse, which stops at its first error. Reading the words by the same rules,
with the options of a catalogue, finds all of them, and says which words each is about. Source of
the rules: Lib/argparse.py of CPython 3.12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from configurator.engine.catalogue import Catalogue, Flag, Resolution
from configurator.engine.records import Entry

_SIZE = re.compile(r"\s*(-?\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i)\s*")
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_JSON: dict[str | None, type] = {"json": object, "json_object": dict}
_HELP = Flag("help")

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

    @property
    def names(self) -> tuple[str, ...]:
        """The flag's name and aliases; which of them is the name differs over releases."""
        return (self.flag.name, *self.flag.aliases) if self.flag else (self.name,)


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


@dataclass(frozen=True)
class Parsed:
    """A command line as the engine's parser reads it."""

    options: tuple[Option, ...] = ()
    positionals: tuple[int, ...] = ()
    """Words that belong to no option and that the entry takes: the model of `serve MODEL`."""
    errors: tuple[ArgvError, ...] = ()

    def last(self, name: str) -> Option | None:
        """The option that counts: of several the last wins.

        Args:
            name: the flag's name or an alias; which of them is the name differs over releases.
        """
        return self._last.get(name)

    @cached_property
    def _last(self) -> dict[str, Option]:
        return {name: option for option in self.options for name in option.names}

    @property
    def accepted(self) -> bool:
        """The engine's parser takes the command line."""
        return not self.errors


def parse(
    words: Sequence[str],
    catalogue: Catalogue | None,
    unknown: frozenset[int] = frozenset(),
    *,
    serve: bool = False,
) -> Parsed:
    """Read a command line.

    Args:
        words: the engine's arguments, without the program.
        catalogue: the options of the engine; None reads options without judging them.
        unknown: indexes of words whose text is known only where it runs; their values are not
            judged.
        serve: it is started by `sglang serve`, which takes some words for itself (see `Entry`).
    """
    return _Reader(words, catalogue, unknown, serve).read()


def value_error(flag: Flag, values: Sequence[str]) -> tuple[ErrorKind, str, str | None] | None:
    """Why the engine's parser refuses these values of a flag: kind, fact, and the value."""
    if not _fits_count(flag, len(values)):
        return "count", f"takes {_wanted(flag)}, and is given {len(values) or 'none'}", None
    for value in values:
        if not _parses(flag.type, value):
            return "value", f"takes {_kind(flag)}, not {value!r}", value
        if flag.choices and not _chosen(flag, value):
            return "choice", f"does not take {value!r}", value
    return None


class _Reader:
    """One pass over the words; argparse calls words that begin an option O, all others A."""

    def __init__(
        self,
        words: Sequence[str],
        catalogue: Catalogue | None,
        unknown: frozenset[int],
        serve: bool,
    ) -> None:
        self.words = words
        self.catalogue = catalogue
        self.unknown = unknown
        self.serve = serve
        self.entry = catalogue.entry if catalogue else Entry(positional_model=True)
        self.options: list[Option] = []
        self.positionals: list[int] = []
        self.errors: list[ArgvError] = []
        self.end = next((i for i, word in enumerate(words) if word == "--"), len(words))
        self.starts = frozenset(i for i in range(self.end) if self._begins_option(i))

    def read(self) -> Parsed:
        at = 0
        while at < len(self.words):
            if at in self.starts:
                at = self._option(at)
            else:
                self._stray(at)
                at += 1
        self._missing()
        self.errors.sort(key=lambda error: len(self.words) if error.index is None else error.index)
        return Parsed(tuple(self.options), tuple(self.positionals), tuple(self.errors))

    def _begins_option(self, index: int) -> bool:
        word = self.words[index]
        if len(word) < 2 or word[0] != "-":
            return False
        if word.startswith("--") and self._resolve(word).kind != "unknown":
            return True
        # Words with a space or of a negative number are values, whatever they begin with.
        name = word.partition("=")[0]
        return not _NEGATIVE_NUMBER.fullmatch(word) and " " not in (
            name if index in self.unknown else word
        )

    def _resolve(self, word: str) -> Resolution:
        name = word.partition("=")[0].removeprefix("--")
        if word in ("-h", "--help"):
            return Resolution("exact", (_HELP,), ("help",))
        if self.serve and name in self.entry.serve_options and word.startswith("--"):
            return Resolution("exact", (Flag(name, type="str"),), (name,))
        if self.catalogue is None or not word.startswith("--") or word.startswith("---"):
            return Resolution("unknown")
        return self.catalogue.resolve(name)

    def _option(self, at: int) -> int:
        """Read the option at `at`; the index after its last word."""
        word = self.words[at]
        spelled, joined, explicit = word.partition("=")
        name = spelled if spelled.startswith("---") else spelled.removeprefix("--")
        found = self._resolve(word) if self.catalogue else None
        end = at + 1
        while end < len(self.words) and end not in self.starts and self.words[end] != "--":
            end += 1
        taken = 0 if joined else self._taken(found, end - at - 1)
        places = (at,) if joined else tuple(range(at + 1, at + 1 + taken))
        values = (explicit,) if joined else tuple(self.words[i] for i in places)
        option = Option(name, at, values, places, bool(joined), found)
        self.options.append(option)
        if self.catalogue is not None:
            self._judge(option)
        return at + 1 + taken

    def _taken(self, found: Resolution | None, available: int) -> int:
        """How many of the words after an option are its values."""
        if found is None or len(found.flags) != 1:
            # Nobody knows: the words up to the next option are counted to it, so that one
            # mistyped name gives one error and not one for every value too.
            return available
        flag = found.flags[0]
        if flag.type is None:
            return 0
        if flag.nargs in ("+", "*"):
            return available
        return min(available, int(flag.nargs) if flag.nargs and flag.nargs.isdigit() else 1)

    def _judge(self, option: Option) -> None:
        found = option.resolution
        assert found is not None
        flag = option.flag
        if found.kind == "ambiguous":
            fact = f"is short for each of {', '.join('--' + name for name in found.names)}"
            self._error("ambiguous", option, fact)
        elif flag is None:
            self._error("unknown", option, "is unknown")
        elif flag.refused:
            self._error("refused", option, f"is refused: {flag.deprecated or 'it is gone'}")
        elif flag.type is None:
            if option.joined:
                self._error("count", option, f"takes no value, and is given {option.values[0]!r}")
        elif not self.unknown.intersection(option.places):
            problem = value_error(flag, option.values)
            if problem is not None:
                kind, fact, value = problem
                self._error(kind, option, fact, value)

    def _error(self, kind: ErrorKind, option: Option, fact: str, value: str | None = None) -> None:
        places = [i for i, v in zip(option.places, option.values, strict=True) if v == value]
        index = places[0] if value is not None and places else option.index
        self.errors.append(ArgvError(kind, index, option.name, fact, option.flag, value))

    def _stray(self, at: int) -> None:
        word = self.words[at]
        first = not self.positionals and all(
            option.name in self.entry.serve_options for option in self.options
        )
        if first and self.serve and self.entry.positional_model:
            self.positionals.append(at)
        elif at not in self.unknown and self.catalogue is not None and not self._is_barrier(at):
            self.errors.append(ArgvError("unknown", at, word, self._after(at)))

    def _is_barrier(self, at: int) -> bool:
        """The first `--`, which argparse itself takes away where words follow it."""
        return self.words[at] == "--" and at == self.end and at + 1 < len(self.words)

    def _after(self, at: int) -> str:
        """Why a word belongs to no option, by the option before it."""
        before = self.options[-1] if self.options else None
        flag = before.flag if before else None
        if before is None or flag is None or before.joined:
            return "belongs to no option"
        wanted = "no value" if flag.type is None else _wanted(flag)
        return f"belongs to no option: --{before.name} takes {wanted}"

    def _missing(self) -> None:
        if self.catalogue is None or self.positionals or self.unknown.difference(self._used()):
            return
        given = {option.canonical for option in self.options if self._counts(option)}
        # What is required may stand in the file.
        if "config" in given and self.entry.merges_config and not self.serve:
            return
        flags = {flag.name: flag for flag in self.catalogue.flags.values() if flag.required}
        for name, flag in flags.items():
            if name not in given:
                self.errors.append(ArgvError("required", None, name, "is missing", flag))

    def _counts(self, option: Option) -> bool:
        """`sglang serve` looks for the model before the parser, by some full names only."""
        if not self.serve or self.entry.model_options == () or option.flag is None:
            return True
        return not option.flag.required or option.name in self.entry.model_options

    def _used(self) -> set[int]:
        """Words that are an option or a value of a known one; any other may hold options."""
        known = [o for o in self.options if o.flag is not None]
        return {i for o in known for i in (o.index, *o.places)}


def _fits_count(flag: Flag, count: int) -> bool:
    if flag.nargs in ("+", "*"):
        return count > 0 or flag.nargs == "*"
    if flag.nargs == "?":
        return count <= 1
    return count == (int(flag.nargs) if flag.nargs and flag.nargs.isdigit() else 1)


def _wanted(flag: Flag) -> str:
    return {None: "one value", "+": "at least one value", "?": "at most one value"}.get(
        flag.nargs, f"{flag.nargs} values"
    )


def _kind(flag: Flag) -> str:
    names = {
        "int": "a whole number", "float": "a number", "json": "JSON",
        "json_object": "a JSON object",
        "size": "a whole number, or one with k, M, G or Ki, Mi, Gi",
    }  # fmt: skip
    return names.get(flag.type or "", flag.type or "nothing")


def _parses(kind: str | None, word: str) -> bool:
    """Whether the engine's parser of this type accepts the word."""
    if kind == "size":
        return _SIZE.fullmatch(word) is not None
    try:
        if kind in ("int", "float"):
            int(word) if kind == "int" else float(word)
        elif kind in _JSON:
            return isinstance(json.loads(word), _JSON[kind])
    except (ValueError, RecursionError):
        return False
    return True


def _chosen(flag: Flag, value: str) -> bool:
    if flag.type == "int":
        return int(value) in {int(c) for c in flag.choices if c.lstrip("-").isdigit()}
    return value in flag.choices
