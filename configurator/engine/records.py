"""What one version of the engine knows, as records: flags, variables, names, architectures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

_LEGACY_PREFIX, _PREFIX = "SGL_", "SGLANG_"

NameKind = Literal[
    "moe-runner-backend",
    "attention-backend",
    "quantization",
    "speculative-algorithm",
    "tool-call-parser",
    "reasoning-parser",
    "plugin-group",
    "requirement",
    "script",
]
SharesHead = Literal["module", "weight"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One command-line option."""

    name: str
    """Without the leading dashes."""
    aliases: tuple[str, ...] = ()
    type: str | None = None
    """`int`, `size` (an int that may end in k, M, Gi, ...), `float`, `str`, `bool`, `json`,
    `json_object`, or `any` when that is not known; None when it takes no value."""
    default: Any = None
    """None also when only a running engine could tell."""
    choices: tuple[str, ...] = ()
    nargs: str | None = None
    deprecated: str | None = None
    """What the engine says to use instead; empty when it says nothing."""
    required: bool = False
    """The parser refuses a command line without it."""
    refused: bool = False
    """The parser knows it only to refuse it, with `deprecated` as the reason."""

    @property
    def replaced(self) -> bool:
        """`deprecated` is the option to use instead, and no sentence."""
        return is_replacement(self.deprecated or "")


def is_replacement(said: str) -> bool:
    """Whether what an engine says of an option that goes is another option, and no sentence."""
    return re.fullmatch(r"--\S+( <[^>]*>)?", said) is not None


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of the engine's registry."""

    name: str
    type: str
    """`bool`, `int`, `float`, `str`, `tuple` or `json`."""
    default: Any = None
    """None also when only a running engine could tell."""
    unread: bool = False
    """Declared, and named nowhere else in the engine: nothing can read it."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A variable that the engine still notices, and warns of."""

    name: str
    replacement: str | None = None
    """The variable that the engine sets instead; None when the value is dropped."""
    note: str = ""
    """What the engine says beyond that."""
    change: str = ""
    """The engine's own function that makes the new value of the old: `invert_bool`, `ms_to_s`."""


@dataclass(frozen=True, slots=True)
class Name:
    """One thing that the engine can be asked for, or that it asks for, by its name."""

    kind: NameKind
    name: str
    detail: str = ""
    """Of a speculative algorithm: the one that it is another name for. Of a requirement: its
    version and marker. Of a script: `module:function`. Of a backend or quantization: `unlisted`
    when the engine registers it and its flag does not offer it. Empty otherwise."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One model class that the engine loads, by the name in a checkpoint's `architectures`."""

    name: str
    module: str = ""
    """The module under `sglang.srt.models` that offers it."""
    drafts: tuple[str, ...] = ()
    """Classes that the engine loads instead when a checkpoint of this one is the draft; which of
    several is decided by the algorithm and the checkpoint."""
    shares_head: SharesHead | None = None
    """How the class takes over the target's output head when it is the draft: the whole `module`,
    with scales and quantization method, or the `weight` alone; None when its source does not say,
    and for EAGLE3, which takes it only where the checkpoint has no head of its own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How the words of a command line reach the engine's parser.

    `python -m sglang.launch_server` hands all of them over. `sglang serve` (there since 0.5.5)
    first takes `serve_options` out, each with its value, wherever they stand. Then, where it has
    `positional_model`, a first word that does not begin with a dash is the model; a word at any
    other place is not (`sglang serve MODEL --tp 2` starts, `sglang serve --tp 2 MODEL` does not).
    It also looks for the model itself, under the full spellings of `model_options` (`--model m`
    and `--model=m`, not `--model-pa m`), and gives up without one before the engine's parser sees
    anything, even where a `--config` file names the model. Source: `cli/serve.py` and
    `cli/utils.py` of 0.5.5 to 0.5.23.

    Where it `merges_config`, the word `--config` (not `--config=FILE`, which has no effect) and
    the next one are replaced by the file's settings, put before all other words, so that the
    command line wins; what is required may stand in the file. It must end in .yaml or .yml.
    Source: `prepare_server_args` and `ConfigArgumentMerger`.
    """

    serve: bool = False
    """There is a command `sglang serve`."""
    positional_model: bool = False
    """It takes the model as its first word."""
    serve_options: tuple[str, ...] = ()
    """Options that it takes for itself, without dashes; each has one value."""
    model_options: tuple[str, ...] = ()
    """Spellings under which it finds the model, without dashes."""
    merges_config: bool = False
    """`--config FILE` is read."""
    abbreviations: bool = True
    """The parser accepts the beginning of an option's name."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the engine's parser makes of a name."""

    kind: Literal["exact", "alias", "prefix", "ambiguous", "unknown"]
    flags: tuple[Flag, ...] = ()
    """The flag meant; several when the name is ambiguous, none when it is unknown."""
    names: tuple[str, ...] = ()
    """The full spellings that the name is short for."""


@dataclass(frozen=True)
class Catalogue:
    """What one engine version knows."""

    version: str
    flags: dict[str, Flag] = field(default_factory=dict)
    """By name and by alias."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables declared in the engine's registry."""
    retired: dict[str, Retired] = field(default_factory=dict)
    """Variables that are renamed or have no effect any more."""
    env_read: frozenset[str] = frozenset()
    """Further variables read outside the registry; `SGLANG_X_` stands for all that begin so."""
    names: tuple[Name, ...] = ()
    """Backends, algorithms, parsers, plugin groups, requirements and scripts, by kind and name."""
    architectures: dict[str, Architecture] = field(default_factory=dict)
    """Model classes by name."""
    entry: Entry = Entry()
    """How words reach the parser."""

    @classmethod
    def of(
        cls,
        version: str,
        flags: Iterable[Flag],
        variables: Iterable[Variable] = (),
        retired: Iterable[Retired] = (),
        env_read: Iterable[str] = (),
        names: Iterable[Name] = (),
        architectures: Iterable[Architecture] = (),
        entry: Entry | None = None,
    ) -> Catalogue:
        """A catalogue with its indexes."""
        by_name: dict[str, Flag] = {}
        for flag in flags:
            by_name.update(dict.fromkeys((flag.name, *flag.aliases), flag))
        return cls(
            version,
            by_name,
            {variable.name: variable for variable in variables},
            {old.name: old for old in retired},
            frozenset(env_read),
            tuple(sorted(names, key=lambda name: (name.kind, name.name))),
            {architecture.name: architecture for architecture in architectures},
            entry or Entry(),
        )

    @property
    def positional_model(self) -> bool:
        """`sglang serve` takes the model as its first word."""
        return self.entry.positional_model

    def named(self, kind: NameKind) -> dict[str, Name]:
        """Names of one kind; empty when the catalogue has none of it."""
        return {name.name: name for name in self.names if name.kind == kind}

    @cached_property
    def env(self) -> frozenset[str]:
        """Names of the declared variables."""
        return frozenset(self.variables)

    @cached_property
    def _families(self) -> tuple[str, ...]:
        return tuple(name for name in self.env_read if name.endswith("_"))

    def knows_env(self, name: str) -> bool:
        """The engine reads this variable somewhere, or rewrites it to one that it reads."""
        return (
            name in self.variables
            or name in self.env_read
            or name in self.retired
            or name.startswith(self._families)
            or (name.startswith(_LEGACY_PREFIX) and self.renamed(name) in self.env)
        )

    def renamed(self, name: str) -> str | None:
        """The present name of a renamed variable; the engine rewrites SGL_ to SGLANG_."""
        if name in self.retired:
            return self.retired[name].replacement
        if name.startswith(_LEGACY_PREFIX) and name not in self.env_read:
            return name.replace(_LEGACY_PREFIX, _PREFIX, 1)
        return None

    def flag(self, name: str) -> Flag | None:
        """The flag of a name or alias, with or without dashes."""
        return self.flags.get(name.lstrip("-"))

    def resolve(self, name: str) -> Resolution:
        """What argparse makes of a name: it also accepts prefixes of one flag only."""
        bare = name.lstrip("-")
        exact = self.flags.get(bare)
        if exact is not None:
            return Resolution("exact" if exact.name == bare else "alias", (exact,), (bare,))
        names = tuple(sorted(full for full in self.flags if bare and full.startswith(bare)))
        # argparse counts spellings, not flags: two aliases of one flag are ambiguous to it.
        meant = tuple({self.flags[full].name: self.flags[full] for full in names}.values())
        kind: Literal["prefix", "ambiguous", "unknown"] = (
            "ambiguous" if len(names) > 1 else "prefix" if names else "unknown"
        )
        return Resolution(kind, meant, names)
