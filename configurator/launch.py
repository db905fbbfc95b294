"""One engine process as it is started: what the rules about command lines judge.

A profile resolves to one, and every launch command that people already have is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from configurator.assemble import words_of
from configurator.deployment import Deployment
from configurator.engine.argv import Option, Parsed, parse
from configurator.engine.catalogue import Catalogue, catalogue_of
from configurator.schema.content import Engine, Hardware, Model
from configurator.source import DataPath

if TYPE_CHECKING:
    from configurator.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class LaunchWord:
    """One word of the engine's arguments and who asked for it."""

    text: str
    path: DataPath
    """Where it is written, for `Finding.path`."""
    origin: str = ""
    """Who set it: `topology`, `kernel fp8-lm-head`; empty when a person wrote it there."""
    unknown: bool = False
    """A secret, or a value known only where it runs."""


@dataclass(frozen=True, slots=True)
class LaunchEnv:
    """One environment variable of the engine's process and who asked for it."""

    name: str
    value: str | None
    """None when it is known only where it runs."""
    path: DataPath
    origin: str = ""


@dataclass(frozen=True)
class Launch:
    """One engine process: its arguments, environment, engine, and what is known around it."""

    engine: Engine
    words: tuple[LaunchWord, ...]
    env: dict[str, LaunchEnv]
    hardware: Hardware | None = None
    """None when nobody said which machine it is."""
    checkpoint: Checkpoint | None = None
    """The target's checkpoint, when it is on this machine."""
    draft: Checkpoint | None = None
    """The draft's checkpoint, when it is one of its own and on this machine."""
    serve: bool = False
    """It is started by `sglang serve`, which takes some words for itself."""
    entry: Model | None = None
    """The entry of the target; None when it has none, or nobody looked."""

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """What the engine knows; None when nobody can tell."""
        return catalogue_of(self.engine)

    @cached_property
    def parsed(self) -> Parsed:
        """The arguments as the engine's parser reads them."""
        unknown = frozenset(i for i, word in enumerate(self.words) if word.unknown)
        return parse(
            [word.text for word in self.words],
            self.catalogue,
            unknown,
            serve=self.serve,
        )

    @property
    def model(self) -> str | None:
        """Path or repository of the target; None when it is not given or not known here."""
        first = self.parsed.positionals[:1]
        if first and not self.words[first[0]].unknown:
            return self.words[first[0]].text
        return self.text("model-path")

    def option_at(self, index: int) -> str | None:
        """The option, with its dashes, that a word belongs to; None when it belongs to none."""
        for option in self.parsed.options:
            if index == option.index or index in option.places:
                dashes = "" if option.name.startswith("-") else "--"
                return f"{dashes}{option.name}"
        return None

    def path(self, option: Option) -> DataPath:
        """Where an option is written."""
        return self.words[option.index].path

    def said(self, option: Option) -> str:
        """An option as a message names it: with its spelling and who set it."""
        origin = self.words[option.index].origin
        return f"--{option.name} (from {origin})" if origin else f"--{option.name}"

    def option(self, name: str) -> Option | None:
        """The option of this flag that counts, under whatever spelling; None when not given."""
        return self.parsed.last(name)

    def on(self, name: str) -> bool:
        """The flag is given."""
        return self.option(name) is not None

    def text(self, name: str) -> str | None:
        """The flag's single value; None when it is not given, or known only where it runs."""
        option = self.option(name)
        if option is None or len(option.values) != 1 or self.words[option.places[0]].unknown:
            return None
        return option.values[0]

    def integer(self, name: str) -> int | None:
        """The flag's single value as an int; None when it is not given or is none."""
        text = self.text(name)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None

    def number(self, name: str) -> float | None:
        """The flag's single value as a float; None when it is not given or is none."""
        text = self.text(name)
        try:
            return float(text) if text is not None else None
        except ValueError:
            return None

    def options(self) -> Iterator[Option]:
        """All options in the order of the command line."""
        yield from self.parsed.options


def launch_of(deployment: Deployment) -> Launch:
    """What every rank of a deployment is started with, before its place in the whole."""
    words: list[LaunchWord] = []
    for arg in deployment.args.values():
        for word in words_of(arg):
            known = isinstance(word, str)
            text = word if isinstance(word, str) else "..."
            words.append(LaunchWord(text, arg.path, arg.origin, unknown=not known))
    env = {e.name: LaunchEnv(e.name, e.value, e.path, e.origin) for e in deployment.env.values()}
    drafts = [m for m in deployment.mechanisms.values() if m.separate_draft]
    target = deployment.profile.model.path
    return Launch(
        deployment.engine,
        tuple(words),
        env,
        deployment.hardware,
        checkpoint_at(target),
        checkpoint_at(drafts[0].draft_path) if drafts else None,
        entry=deployment.model,
    )


def checkpoint_at(path: str | None) -> Checkpoint | None:
    """The checkpoint of a path; None when it is not a directory of this machine."""
    # Not of Path, whose is_dir raises where a name is too long to be one.
    if not path or not os.path.isdir(path):
        return None
    from configurator.checkpoint import read_checkpoint

    return read_checkpoint(Path(path))
