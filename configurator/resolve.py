"""Profile -> `Deployment`: references looked up, options checked, arguments put together.

Later origins win: topology and model, hardware, mechanisms, workload, instrumentation, and last
the profile's `extra`. What was replaced is kept in `Deployment.overridden`, so that a rule can
speak of it: nothing the user wrote is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from configurator.assemble import arguments, environment, last_wins, processes_of
from configurator.content import Library
from configurator.deployment import (
    Carried,
    Deployment,
    Env,
    Expectation,
    Mechanism,
    Process,
)
from configurator.engine.catalogue import catalogue_of
from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.layers import Layers
from configurator.schema.base import Scalar, dotted, short
from configurator.schema.claims import Published
from configurator.schema.content import Engine, EvidenceOf, Hardware, Kernel, Model, Option
from configurator.schema.profile import Optimization, Profile, SecretRef
from configurator.source import DataPath

MAX_GPUS = 4096
"""Most GPUs of one deployment."""


def resolve(profile: Profile, layers: Layers, library: Library) -> Deployment:
    """The launch that `profile` asks for.

    Raises:
        ConfiguratorError: every reference that does not exist and every option that is not
            usable, each with its position.
    """
    resolver = _Resolver(profile, layers, library)
    hardware, model, engine = resolver.references()
    mechanisms = resolver.mechanisms(model)
    resolver.stop_on_problems()
    assert hardware is not None
    assert model is not None
    assert engine is not None
    topology = profile.topology
    per_replica = topology.tensor * topology.pipeline
    _refuse_absurd_size(topology.replicas * per_replica, layers)
    hosts_per_replica = math.ceil(per_replica / hardware.gpus_per_host)
    known = catalogue_of(engine)
    args, lost_args = last_wins(arguments(profile, hardware, model, mechanisms, known))
    env, lost_env = last_wins(environment(profile, engine, hardware, mechanisms, hosts_per_replica))
    args = {name: arg for name, arg in args.items() if arg.value is not False}
    processes, hosts = processes_of(profile, hardware, args, env, hosts_per_replica, known)
    _refuse_taken_variables(profile, env, processes, layers)
    return Deployment(
        profile=profile,
        layers=layers,
        hardware=hardware,
        model=model,
        engine=engine,
        mechanisms=mechanisms,
        args=args,
        env=env,
        hosts_per_replica=hosts_per_replica,
        hosts=hosts,
        processes=processes,
        overridden=(*lost_args, *lost_env),
        expectations=tuple(_expectations(profile, mechanisms)),
        claims=tuple(_claims(profile, model, mechanisms, library)),
        own_content=len(library.roots) > 1,
    )


def _claims(
    profile: Profile, model: Model, mechanisms: dict[str, Mechanism], library: Library
) -> Iterator[Published]:
    """Figures that `profile.claims` may name; their files are read only where it names any."""
    if profile.claims:
        for claim in library.claims().values():
            if claim.concerns((model.name, model.repository), mechanisms):
                yield claim


def _refuse_absurd_size(gpus: int, layers: Layers) -> None:
    """Every host becomes a process below, so a mistyped size must not fill the memory."""
    if gpus > MAX_GPUS:
        raise ConfiguratorError.single(
            "SCH007",
            f"topology asks for {gpus:,} GPUs",
            f"replicas x tensor x pipeline may be at most {MAX_GPUS:,}",
            layers.locate(("topology",)),
        )


def _refuse_taken_variables(
    profile: Profile, env: dict[str, Env], processes: tuple[Process, ...], layers: Layers
) -> None:
    """A variable of the engine has one value: no key is in it, or comes into it, besides."""
    engine = {name for process in processes for name, _ in process.env}
    serving = profile.serving
    kept: dict[DataPath, SecretRef | None] = {
        ("serving", "api_key"): serving.api_key,
        ("serving", "admin_api_key"): serving.admin_api_key,
        **{("extra", "secrets", name): one for name, one in profile.extra.secrets.items()},
    }
    found = [
        (path, name)
        for path, one in kept.items()
        for name in dict.fromkeys((path[-1] if path[0] == "extra" else None, one and one.env))
        if name in engine
    ]
    if found:
        raise ConfiguratorError(
            Problem(
                "SCH007", f"{dotted(path)} takes the variable {name}, which "
                f"{env[str(name)].origin if name in env else 'this process'} gives the engine",
                "keep the secret in a variable of another name, or leave the other one out",
                layers.locate(path),
            )
            for path, name in found
        )  # fmt: skip


class _Resolver:
    """Looks up what a profile refers to, and collects what does not exist."""

    def __init__(self, profile: Profile, layers: Layers, library: Library) -> None:
        self.profile = profile
        self.layers = layers
        self.library = library
        self.problems: list[Problem] = []

    def stop_on_problems(self) -> None:
        if self.problems:
            raise ConfiguratorError(self.problems)

    def _at(self, *path: str | int) -> partial[Position]:
        return partial(self.layers.locate, path)

    def references(self) -> tuple[Hardware | None, Model | None, Engine | None]:
        hardware = model = engine = None
        wanted = self.profile
        try:
            at = self._at("hardware", "name")
            hardware = self.library.hardware(wanted.hardware.name, at)
            hardware = self.library.override(
                hardware, wanted.hardware.overrides, self.layers, ("hardware", "overrides")
            )
        except ConfiguratorError as error:
            self.problems += error.problems
        try:
            model = self.library.model(wanted.model.name, self._at("model", "name"))
            model = self.library.override(
                model, wanted.model.overrides, self.layers, ("model", "overrides")
            )
        except ConfiguratorError as error:
            self.problems += error.problems
        try:
            engine = self._engine()
        except ConfiguratorError as error:
            self.problems += error.problems
        return hardware, model, engine

    def _engine(self) -> Engine:
        wanted = self.profile.engine
        key = "build" if wanted.build else "version"
        name = wanted.build or f"{wanted.name}-{wanted.version}"
        engine = self.library.engine(name, self._at("engine", key))
        return self.library.override(engine, wanted.overrides, self.layers, ("engine", "overrides"))

    def mechanisms(self, model: Model | None) -> dict[str, Mechanism]:
        found: dict[str, Mechanism] = {}
        for name, wish in self.profile.optimizations.items():
            path: DataPath = ("optimizations", name)
            try:
                kernel = self.library.kernel(name, self._at(*path))
                kernel = self.library.override(
                    kernel, wish.overrides, self.layers, (*path, "overrides")
                )
                options = self._options(path, wish, kernel)
                draft, draft_path = self._draft(path, wish, model)
                plugin = self._plugin(path, wish, kernel)
            except ConfiguratorError as error:
                self.problems += error.problems
                continue
            found[name] = Mechanism(name, wish, kernel, options, draft, draft_path, plugin)
        return found

    def _options(
        self, path: DataPath, wish: Optimization, kernel: Kernel
    ) -> dict[str, Scalar | list[int]]:
        options = {
            name: option.default
            for name, option in kernel.options.items()
            if option.default is not None
        }
        known = [*kernel.options, *Optimization.model_fields]
        for key, value in wish.options.items():
            option = kernel.options.get(key)
            at = partial(self.layers.locate, (*path, key))
            if option is None:
                self.problems.append(
                    Problem(
                        "SCH005",
                        f"{kernel.name} has no option {key!r}",
                        did_you_mean(key, known),
                        at(),
                    )
                )
            elif reason := _unfit(value, option):
                fact = f"optimizations.{kernel.name}.{key} is {short(value)}"
                self.problems.append(Problem("SCH007", fact, reason, at()))
            else:
                options[key] = value  # type: ignore[assignment]  # _unfit checked the type
        return options

    def _plugin(self, path: DataPath, wish: Optimization, kernel: Kernel) -> Carried | None:
        """What the launch brings along, where the profile leaves that to us."""
        if wish.provider != "configurator":
            return None
        at = self._at(*path, "provider")
        if kernel.plugin is None:
            raise ConfiguratorError.single(
                "SCH007", f"{kernel.name} has no plugin that a launch could bring along",
                "use provider build or plugin", at(),
            )  # fmt: skip
        if self.profile.evidence.instrument != "standard":
            raise ConfiguratorError.single(
                "SCH007",
                f"the plugin of {kernel.name} travels with the in-engine probe, and "
                f"evidence.instrument is {self.profile.evidence.instrument}",
                "set evidence.instrument to standard", at(),
            )  # fmt: skip
        return self.library.plugin(kernel.plugin.package, at)

    def _draft(
        self, path: DataPath, wish: Optimization, model: Model | None
    ) -> tuple[Model | None, str | None]:
        if wish.draft is None or model is None:
            return None, None
        if wish.draft.name is None:
            return model, wish.draft.path or self.profile.model.path or model.repository
        at = self._at(*path, "draft", "name")
        draft = self.library.model(wish.draft.name, at)
        return draft, wish.draft.path or draft.repository


def _unfit(value: object, option: Option) -> str:
    """Why `value` does not fit `option`, as a remedy; empty when it does."""
    types: dict[str, tuple[type, ...]] = {
        "int": (int,), "float": (float, int), "bool": (bool,), "str": (str,), "int_list": (list,),
    }  # fmt: skip
    wrong_type = not isinstance(value, types[option.type])
    if wrong_type or (isinstance(value, bool) and option.type != "bool"):
        return f"give {'a list of whole numbers' if option.type == 'int_list' else option.type}"
    if isinstance(value, list):
        whole = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        if not whole or not value:
            return "give a list of whole numbers, for instance [1, 2, 4]"
    if option.choices and value not in option.choices:
        return f"use one of {', '.join(map(str, option.choices))}"
    for number in value if isinstance(value, list) else [value]:
        if isinstance(number, int | float) and not isinstance(number, bool):
            if option.min is not None and number < option.min:
                return f"the smallest is {option.min}"
            if option.max is not None and number > option.max:
                return f"the largest is {option.max}"
    return ""


def _expectations(profile: Profile, mechanisms: dict[str, Mechanism]) -> Iterator[Expectation]:
    drafts = any(mechanism.draft is not None for mechanism in mechanisms.values())
    for mechanism in mechanisms.values():
        for wanted in mechanism.kernel.evidence:
            if wanted.when == "draft" and not drafts:
                continue
            yield _expectation(profile, mechanism, wanted)


def _expectation(profile: Profile, mechanism: Mechanism, wanted: EvidenceOf) -> Expectation:
    wish = mechanism.wish
    value = mechanism.options.get(wanted.value_option or "", wanted.value)
    text = ",".join(map(str, value)) if isinstance(value, list) else value
    by_report = wanted.proof_rung == "built" and profile.evidence.require_report
    acceptance = wish.acceptance
    return Expectation(
        mechanism=wanted.mechanism,
        probe=wanted.probe,
        value=None if text is None else str(text),
        proof_rung=wanted.proof_rung,
        on_refuted=wish.on_refuted,
        on_unproven="fail" if by_report else wish.on_unproven,
        floor=acceptance.floor if acceptance else None,
        verify_cost_ratio=acceptance.verify_cost_ratio if acceptance else None,
        path=mechanism.path,
    )
