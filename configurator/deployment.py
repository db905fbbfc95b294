"""The resolved launch as data: what render writes, what rules judge, what probes expect.

A `Deployment` is complete. Nothing that reads it needs the profile's files, the content
directories or the engine, so two render targets cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.errors import Position
from configurator.layers import Layers
from configurator.schema.base import Scalar
from configurator.schema.claims import Published
from configurator.schema.content import ByHand, Engine, From, Hardware, Kernel, Model
from configurator.schema.profile import Optimization, Profile, SecretRef
from configurator.source import DataPath


@dataclass(frozen=True, slots=True)
class HostPlaceholder:
    """The address of host `host` of replica `replica`, known only where it runs."""

    replica: int
    host: int
    """Host within the replica, counting from 0."""
    port: int | None = None
    scheme: str = ""
    """`http` makes it a URL."""


ArgValue = Scalar | tuple[Scalar, ...] | SecretRef | HostPlaceholder
"""Value of an argument: true is a bare flag, a tuple is several words."""


@dataclass(frozen=True, slots=True)
class Arg:
    """One engine argument and who asked for it."""

    name: str
    """Without the leading dashes."""
    value: ArgValue
    origin: str
    """Who set it: `topology`, `model entry ling-3.0-flash-fp4`, `kernel fp8-lm-head`, ..."""
    path: DataPath
    """Where in the profile the wish is written."""
    spelling: str = ""
    """As `extra.order` has it: `tp`, `tp=`, `mem-fraction-static 0.80`; empty: as `name`."""


@dataclass(frozen=True, slots=True)
class Env:
    """One environment variable of the engine's process and who asked for it."""

    name: str
    value: str
    origin: str
    path: DataPath


Word = str | SecretRef | HostPlaceholder
"""A word of an argument vector: literal, a secret by reference, or a host's address."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process to start: the argument vector and environment of one rank or router."""

    role: Literal["engine", "router"]
    replica: int
    """Replica it belongs to; the router is -1."""
    rank: int
    """Node rank within the replica, counting from 0."""
    host: int
    """Host it runs on, counting from 0 over the whole deployment."""
    gpus: tuple[int, ...]
    """GPU indices of that host it may use; all of the host's when it takes them all."""
    port: int
    argv: tuple[Word, ...]
    env: tuple[tuple[str, str], ...]
    groups: tuple[tuple[int, str], ...] = ()
    """Numbers of words of `argv` that belong together, and who asked for them."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One proposition to judge at start-up."""

    mechanism: str
    """Name of the verdict."""
    probe: str
    """Name of the probe that judges it."""
    kind: Literal["mechanism", "invariant"] = "mechanism"
    value: str | None = None
    """What the probe compares with, for instance the name of a MoE runner."""
    proof_rung: str = "built"
    on_refuted: Literal["fail", "drop", "warn"] = "fail"
    on_unproven: Literal["fail", "warn"] = "warn"
    floor: float | None = None
    """Acceptance length below which speculation is refuted."""
    verify_cost_ratio: float | None = None
    """Break-even acceptance length."""
    path: DataPath = ()

    @property
    def required(self) -> bool:
        """A refutation fails the launch."""
        return self.on_refuted != "warn"


@dataclass(frozen=True, slots=True)
class Carried:
    """A plugin that the launch brings along for the engine to load."""

    package: str
    """Its package, and the name of its entry point."""
    files: tuple[tuple[str, str], ...]
    """Name and text of each of its modules."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """An optimization of the profile with its kernel entry, options and draft."""

    name: str
    wish: Optimization
    kernel: Kernel
    options: dict[str, Scalar | list[int]]
    """Options with defaults filled in."""
    draft: Model | None = None
    """The draft model; the target's own entry when it is part of the same checkpoint."""
    draft_path: str | None = None
    plugin: Carried | None = None
    """What the launch brings along for it; None: the engine's environment has it."""

    @property
    def env(self) -> dict[str, Scalar | From]:
        """Environment it sets: that of its plugin where the launch brings one along."""
        brought = self.plugin and self.kernel.plugin
        return brought.env if brought else self.kernel.env

    @property
    def facts(self) -> list[str]:
        """Abilities that the engine build must have for it."""
        brought = self.plugin and self.kernel.plugin
        provided = brought.provides if brought else []
        return [fact for fact in self.kernel.needs.facts if fact not in provided]

    @property
    def entry_points(self) -> list[str]:
        """Plugins that the engine must find for it."""
        return [*self.kernel.needs.plugins, *([self.plugin.package] if self.plugin else [])]

    @property
    def path(self) -> DataPath:
        """Where the wish is written in the profile."""
        return ("optimizations", self.name)

    @property
    def separate_draft(self) -> bool:
        """The draft is a checkpoint of its own."""
        return self.wish.draft is not None and not self.wish.draft.same_checkpoint


@dataclass(frozen=True, slots=True)
class Deployment:
    """Everything about one launch."""

    profile: Profile
    layers: Layers
    hardware: Hardware
    model: Model
    engine: Engine
    mechanisms: dict[str, Mechanism]
    args: dict[str, Arg]
    """Arguments common to every rank of every replica, by name, in the order of the command."""
    env: dict[str, Env]
    """Environment common to every rank of every replica."""
    hosts_per_replica: int
    hosts: int
    processes: tuple[Process, ...]
    overridden: tuple[Arg | Env, ...] = ()
    """Arguments and variables that something later in line replaced with another value."""
    expectations: tuple[Expectation, ...] = ()
    claims: tuple[Published, ...] = ()
    """Published figures of its model or mechanisms, where the profile refers to any."""
    own_content: bool = False
    """It was resolved with a content directory besides ours, which who checks it needs too."""

    @property
    def name(self) -> str:
        """Name of the deployment."""
        return self.profile.name

    @property
    def gpus_per_replica(self) -> int:
        """Tensor times pipeline parallel size."""
        return self.profile.topology.tensor * self.profile.topology.pipeline

    def locate(self, path: DataPath) -> Position:
        """Where `path` of the profile is written."""
        return self.layers.locate(path)

    def of_family(self, family: str) -> list[Mechanism]:
        """The mechanisms of one kernel family."""
        return [m for m in self.mechanisms.values() if m.kernel.family == family]

    @property
    def plugins(self) -> tuple[Carried, ...]:
        """The plugins that the launch brings along, each once."""
        found = {m.plugin.package: m.plugin for m in self.mechanisms.values() if m.plugin}
        return tuple(found.values())

    @property
    def by_hand(self) -> tuple[tuple[DataPath, ByHand], ...]:
        """What people must change in the engine's environment, and what in the profile asks for
        it."""
        asked: list[tuple[DataPath, ByHand]] = []
        asked += [(("engine",), change) for change in self.engine.by_hand]
        for mechanism in self.mechanisms.values():
            asked += [(mechanism.path, change) for change in mechanism.kernel.by_hand]
        return tuple(
            (path, change)
            for path, change in asked
            if self.engine.facts.get(change.fact) != "yes"
            and (not change.arch or self.hardware.arch in change.arch)
            and (not change.architectures or self.model.architecture in change.architectures)
        )

    @property
    def speculation(self) -> Mechanism | None:
        """The mechanism that drafts, if any."""
        return next(iter(self.of_family("speculation")), None)

    def arg(self, name: str) -> ArgValue | None:
        """Value of an argument, or None when it is not on the command line."""
        found = self.args.get(name)
        return found.value if found else None
