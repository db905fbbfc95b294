"""Profile -> `Deployment`: references looked up, options checked, arguments put together.

Later origins win: topology and model, hardware, mechanisms, workload, instrumentation, and last
the profile's `extra`. What was replaced is kept in `Deployment.overridden`, so that a rule can
speak of it: nothing the user wrote is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TypeVar

from configurator.content import Library
from configurator.deployment import (
    Arg,
    ArgValue,
    Deployment,
    Env,
    Expectation,
    HostPlaceholder,
    Mechanism,
    Process,
    Word,
)
from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.layers import Layers
from configurator.schema.base import Scalar, short
from configurator.schema.content import Engine, EvidenceOf, From, Hardware, Kernel, Model, Option
from configurator.schema.profile import Optimization, Profile, SecretRef
from configurator.source import DataPath

LAUNCH = ("python3", "-m", "sglang.launch_server")
ROUTER = ("python3", "-m", "sglang_router.launch_router")
RENDEZVOUS_PORT = 20000
"""Port of --dist-init-addr of the first replica; below the usual ephemeral range."""

MAX_GPUS = 4096
"""Most GPUs of one deployment."""

Item = TypeVar("Item", Arg, Env)


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
    args, lost_args = _last_wins(_arguments(profile, hardware, model, mechanisms))
    env, lost_env = _last_wins(_environment(profile, hardware, mechanisms, hosts_per_replica))
    args = {name: arg for name, arg in args.items() if arg.value is not False}
    processes, hosts = _processes(profile, hardware, args, env, hosts_per_replica)
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
    )


def _refuse_absurd_size(gpus: int, layers: Layers) -> None:
    """Every host becomes a process below, so a mistyped size must not fill the memory."""
    if gpus > MAX_GPUS:
        raise ConfiguratorError.single(
            "SCH007",
            f"topology asks for {gpus:,} GPUs",
            f"replicas x tensor x pipeline may be at most {MAX_GPUS:,}",
            layers.locate(("topology",)),
        )


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
            except ConfiguratorError as error:
                self.problems += error.problems
                continue
            found[name] = Mechanism(name, wish, kernel, options, draft, draft_path)
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


def _last_wins(items: Iterator[Item]) -> tuple[dict[str, Item], list[Item]]:
    kept: dict[str, Item] = {}
    lost: list[Item] = []
    for item in items:
        before = kept.get(item.name)
        if before is not None and before.value != item.value:
            lost.append(before)
        kept[item.name] = item
    return kept, lost


def _arguments(
    profile: Profile, hardware: Hardware, model: Model, mechanisms: dict[str, Mechanism]
) -> Iterator[Arg]:
    yield from _base_arguments(profile, model)
    for name, scalar in hardware.args.items():
        yield Arg(name, scalar, f"hardware entry {hardware.name}", ("hardware", "name"))
    for mechanism in mechanisms.values():
        for name, wanted in mechanism.kernel.args.items():
            value = _from(mechanism, wanted)
            if value is not None:
                yield Arg(name, value, f"kernel {mechanism.name}", mechanism.path)
    if profile.evidence.instrument == "standard":
        yield Arg("enable-metrics", True, "evidence.instrument", ("evidence", "instrument"))
    for name, given in profile.extra.args.items():
        words = tuple(given) if isinstance(given, list) else given
        yield Arg(name.lstrip("-"), words, "extra.args", ("extra", "args", name))


def _base_arguments(profile: Profile, model: Model) -> Iterator[Arg]:
    path = profile.model.path or model.repository
    yield Arg("model-path", path, "model", ("model", "path"))
    if profile.model.revision:
        yield Arg("revision", profile.model.revision, "model", ("model", "revision"))
    serving = profile.serving
    if serving.served_model_name:
        where: DataPath = ("serving", "served_model_name")
        yield Arg("served-model-name", serving.served_model_name, "serving", where)
    for name, scalar in model.args.items():
        yield Arg(name, scalar, f"model entry {model.name}", ("model", "name"))
    yield from _parallel_arguments(profile, model)
    if profile.workload.context:
        context = profile.workload.context
        yield Arg("context-length", context, "workload", ("workload", "context"))
    if profile.memory.mem_fraction_static:
        fraction = profile.memory.mem_fraction_static
        where = ("memory", "mem_fraction_static")
        yield Arg("mem-fraction-static", fraction, "memory", where)
    for name, parser in (
        ("reasoning-parser", model.parsers.reasoning),
        ("tool-call-parser", model.parsers.tool_call),
    ):
        if parser:
            yield Arg(name, parser, f"model entry {model.name}", ("model", "name"))
    yield Arg("host", serving.host, "serving", ("serving", "host"))
    for name, secret in (("api-key", serving.api_key), ("admin-api-key", serving.admin_api_key)):
        if secret:
            yield Arg(name, secret, "serving", ("serving", name.replace("-", "_")))


def _parallel_arguments(profile: Profile, model: Model) -> Iterator[Arg]:
    topology = profile.topology
    sizes = (
        ("tp-size", "tensor", topology.tensor, True),
        ("pp-size", "pipeline", topology.pipeline, False),
        ("ep-size", "expert", topology.expert, model.moe is not None),
        ("dp-size", "data", topology.data, False),
    )
    for name, key, size, always in sizes:
        if always or size > 1:
            yield Arg(name, size, "topology", ("topology", key))


def _from(mechanism: Mechanism, wanted: ArgValue | From | list[Scalar]) -> ArgValue | None:
    if not isinstance(wanted, From):
        return tuple(wanted) if isinstance(wanted, list) else wanted
    if wanted.draft:
        return mechanism.draft_path
    value = mechanism.options.get(wanted.option or "")
    return tuple(value) if isinstance(value, list) else value


def _environment(
    profile: Profile,
    hardware: Hardware,
    mechanisms: dict[str, Mechanism],
    hosts_per_replica: int,
) -> Iterator[Env]:
    if hosts_per_replica > 1 and hardware.multi_host:
        for name, text in hardware.multi_host.env.items():
            yield Env(name, text, f"hardware entry {hardware.name}", ("hardware", "name"))
    for mechanism in mechanisms.values():
        for name, wanted in mechanism.kernel.env.items():
            value = _from(mechanism, wanted)
            if value is not None:
                yield Env(name, env_text(value), f"kernel {mechanism.name}", mechanism.path)
    if profile.evidence.instrument == "standard":
        where: DataPath = ("evidence", "instrument")
        yield Env("SGLANG_EXPOSE_OWN_ENV_VARS", "1", "evidence.instrument", where)
    for name, scalar in profile.extra.env.items():
        yield Env(name, env_text(scalar), "extra.env", ("extra", "env", name))


def env_text(value: ArgValue) -> str:
    """A value as the engine's environment parser reads it: booleans are 1 and 0."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _processes(
    profile: Profile,
    hardware: Hardware,
    args: dict[str, Arg],
    env: dict[str, Env],
    hosts_per_replica: int,
) -> tuple[tuple[Process, ...], int]:
    per_replica = profile.topology.tensor * profile.topology.pipeline
    per_host = max(1, hardware.gpus_per_host // per_replica)
    processes: list[Process] = []
    for replica in range(profile.topology.replicas):
        slot = replica % per_host
        first_host = replica * hosts_per_replica if per_host == 1 else replica // per_host
        port = profile.serving.port + slot
        gpus = tuple(range(slot * per_replica, (slot + 1) * per_replica))
        whole = per_replica >= hardware.gpus_per_host or hardware.product is None
        for rank in range(hosts_per_replica):
            variables = {item.name: item.value for item in env.values()}
            if not whole:
                variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, gpus)))
            processes.append(
                Process(
                    role="engine",
                    replica=replica,
                    rank=rank,
                    host=first_host + rank,
                    gpus=() if whole else gpus,
                    port=port,
                    argv=tuple(_engine_words(args, replica, rank, port, hosts_per_replica)),
                    env=tuple(variables.items()),
                )
            )
    hosts = processes[-1].host + 1
    if profile.router:
        processes.append(_router(profile, args, processes))
    return tuple(processes), hosts


def _engine_words(
    args: dict[str, Arg], replica: int, rank: int, port: int, hosts_per_replica: int
) -> Iterator[Word]:
    yield from LAUNCH
    for arg in args.values():
        yield f"--{arg.name}"
        yield from arg_words(arg.value)
    if "port" not in args:
        yield from ("--port", str(port))
    if hosts_per_replica > 1:
        yield from ("--nnodes", str(hosts_per_replica), "--node-rank", str(rank))
        yield "--dist-init-addr"
        yield HostPlaceholder(replica, 0, RENDEZVOUS_PORT + replica)


def arg_words(value: ArgValue) -> tuple[Word, ...]:
    """The words after the argument's name; none for a bare flag."""
    if value is True:
        return ()
    if isinstance(value, SecretRef):
        return (value,)
    if isinstance(value, tuple):
        return tuple(str(item) for item in value)
    return (str(value),)


def _router(profile: Profile, args: dict[str, Arg], engines: list[Process]) -> Process:
    router = profile.router
    assert router is not None
    heads = [process for process in engines if process.rank == 0]
    workers = [HostPlaceholder(p.replica, 0, p.port, "http") for p in heads]
    words: list[Word] = [*ROUTER, "--worker-urls", *workers]
    words += ["--policy", router.policy, "--host", router.host, "--port", str(router.port)]
    key = args.get("api-key")
    if key is not None:
        words += ["--api-key", *arg_words(key.value)]
    return Process("router", -1, 0, 0, (), router.port, tuple(words), ())


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
