"""The words of a launch: arguments, environment and processes, from what a profile resolved to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from configurator.deployment import Arg, ArgValue, Env, HostPlaceholder, Mechanism, Process, Word
from configurator.engine.catalogue import Catalogue, catalogue_of
from configurator.schema.base import Scalar
from configurator.schema.content import Engine, From, Hardware, Model
from configurator.schema.profile import Profile, SecretRef
from configurator.source import DataPath

LAUNCH = ("python3", "-m", "sglang.launch_server")
ROUTER = ("python3", "-m", "sglang_router.launch_router")
EXPOSE = "SGLANG_EXPOSE_OWN_ENV_VARS"
"""Makes the engine show its own environment in /server_info, since 0.5.19."""
RENDEZVOUS_PORT = 20000
"""Port of --dist-init-addr of the first replica; below the usual ephemeral range."""

OWN = "this process"
"""Origin of what tells one process from the others."""
_SPELLING = re.compile(r"([^ =]*)([ =]?)(.*)", re.DOTALL)

Item = TypeVar("Item", Arg, Env)


def last_wins(items: Iterator[Item]) -> tuple[dict[str, Item], list[Item]]:
    """The last item of every name, and what it replaced with another value."""
    kept: dict[str, Item] = {}
    lost: list[Item] = []
    for item in items:
        before = kept.get(item.name)
        if before is not None and before.value != item.value:
            lost.append(before)
        kept[item.name] = item
    return kept, lost


def arguments(
    profile: Profile,
    hardware: Hardware,
    model: Model,
    mechanisms: dict[str, Mechanism],
    known: Catalogue | None,
) -> Iterator[Arg]:
    """Every argument in the order of the command; a later one of the same name wins."""
    ordered = {name for entry in profile.extra.order for name in names_of(entry, known)}
    yield from _base_arguments(profile, model, ordered)
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


def _base_arguments(profile: Profile, model: Model, ordered: set[str]) -> Iterator[Arg]:
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
    yield from _parallel_arguments(profile, model, ordered)
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


def _parallel_arguments(profile: Profile, model: Model, ordered: set[str]) -> Iterator[Arg]:
    topology = profile.topology
    sizes = (
        ("tp-size", "tensor", topology.tensor, True),
        ("pp-size", "pipeline", topology.pipeline, False),
        ("ep-size", "expert", topology.expert, model.moe is not None),
        ("dp-size", "data", topology.data, False),
    )
    for name, key, size, always in sizes:
        if always or size > 1 or name in ordered:
            yield Arg(name, size, "topology", ("topology", key))


def _from(mechanism: Mechanism, wanted: ArgValue | From | list[Scalar]) -> ArgValue | None:
    if not isinstance(wanted, From):
        return tuple(wanted) if isinstance(wanted, list) else wanted
    if wanted.draft:
        return mechanism.draft_path
    value = mechanism.options.get(wanted.option or "")
    return tuple(value) if isinstance(value, list) else value


def environment(
    profile: Profile,
    engine: Engine,
    hardware: Hardware,
    mechanisms: dict[str, Mechanism],
    hosts_per_replica: int,
) -> Iterator[Env]:
    """Every variable; a later one of the same name wins."""
    if hosts_per_replica > 1 and hardware.multi_host:
        for name, text in hardware.multi_host.env.items():
            yield Env(name, text, f"hardware entry {hardware.name}", ("hardware", "name"))
    for mechanism in mechanisms.values():
        for name, wanted in mechanism.env.items():
            value = _from(mechanism, wanted)
            if value is not None:
                yield Env(name, env_text(value), f"kernel {mechanism.name}", mechanism.path)
    if profile.evidence.instrument == "standard" and _knows(engine, EXPOSE):
        where: DataPath = ("evidence", "instrument")
        yield Env(EXPOSE, "1", "evidence.instrument", where)
    for name, scalar in profile.extra.env.items():
        yield Env(name, env_text(scalar), "extra.env", ("extra", "env", name))


def _knows(engine: Engine, variable: str) -> bool:
    """A build without a catalogue gets the benefit of the doubt: a variable costs nothing."""
    catalogue = catalogue_of(engine)
    return catalogue is None or catalogue.knows_env(variable)


def env_text(value: ArgValue) -> str:
    """A value as the engine's environment parser reads it: booleans are 1 and 0."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def processes_of(
    profile: Profile,
    hardware: Hardware,
    args: dict[str, Arg],
    env: dict[str, Env],
    hosts_per_replica: int,
    known: Catalogue | None,
) -> tuple[tuple[Process, ...], int]:
    """Every process of every replica, the router last, and the number of hosts."""
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
            process = Process(
                role="engine",
                replica=replica,
                rank=rank,
                host=first_host + rank,
                gpus=() if whole else gpus,
                port=port,
                argv=LAUNCH,
                env=tuple(variables.items()),
            )
            own = (*args.values(), *_own_args(args, process, hosts_per_replica))
            processes.append(_with_words(process, in_order(own, profile.extra.order, known)))
    hosts = processes[-1].host + 1
    if profile.router:
        processes.append(_router(profile, args, processes))
    return tuple(processes), hosts


def _with_words(process: Process, args: Iterable[Arg]) -> Process:
    groups = [(words_of(arg), arg.origin) for arg in args]
    argv = (*process.argv, *(word for words, _ in groups for word in words))
    return replace(process, argv=argv, groups=tuple((len(w), origin) for w, origin in groups))


def _own_args(args: dict[str, Arg], process: Process, hosts_per_replica: int) -> Iterator[Arg]:
    """Arguments that tell one process from the others."""
    if "port" not in args:
        yield Arg("port", process.port, OWN, ("serving", "port"))
    if hosts_per_replica > 1:
        where: DataPath = ("hardware", "gpus")
        yield Arg("nnodes", hosts_per_replica, OWN, where)
        yield Arg("node-rank", process.rank, OWN, where)
        if "dist-init-addr" not in args:
            first = HostPlaceholder(process.replica, 0, RENDEZVOUS_PORT + process.replica)
            yield Arg("dist-init-addr", first, OWN, where)


def in_order(args: Iterable[Arg], order: Sequence[str], known: Catalogue | None) -> list[Arg]:
    """Arguments in the order and spelling of `extra.order`; the others after them.

    What the order does not name is left out where it says only what the engine does anyway, so
    that an imported command gets back the words it had.
    """
    left = {arg.name: arg for arg in args}
    if not order:
        return list(left.values())
    found: list[Arg] = []
    for spelling in order:
        meant = [name for name in names_of(spelling, known) if name in left]
        if meant:
            found.append(replace(left.pop(meant[0]), spelling=spelling))
    return found + [arg for arg in left.values() if not _is_default(arg, known)]


def names_of(spelling: str, known: Catalogue | None) -> tuple[str, ...]:
    """Every name of the flag that an entry of `extra.order` means; the one as spelled first."""
    spelled = re.split("[ =]", spelling, maxsplit=1)[0]
    flags = known.resolve(spelled).flags if known else ()
    flag = flags[0] if len(flags) == 1 else None
    return (spelled, flag.name, *flag.aliases) if flag else (spelled,)


def _is_default(arg: Arg, known: Catalogue | None) -> bool:
    flag = known.flag(arg.name) if known else None
    return flag is not None and flag.default is not None and arg.value == flag.default


def words_of(arg: Arg) -> tuple[Word, ...]:
    """An argument as it stands on the command line."""
    values = arg_words(arg.value)
    name, separator, text = _SPELLING.fullmatch(arg.spelling or arg.name).groups()  # type: ignore[union-attr]  # matches any text
    if text and len(values) == 1 and isinstance(values[0], str) and _same(text, values[0]):
        values = (text,)
    value = values[0] if len(values) == 1 and isinstance(values[0], str) else None
    # A value that looks like an option would be taken for one.
    if value is not None and (separator == "=" or _looks_like_option(value)):
        return (f"--{name}={value}",)
    return (f"--{name}", *values)


def _looks_like_option(value: str) -> bool:
    return value.startswith("-") and not re.fullmatch(r"-(\d+|\d*\.\d+)?", value)


def _same(text: str, value: str) -> bool:
    """Both are one number: `0.80` and `0.8`."""
    try:
        return float(text) == float(value)
    except ValueError:
        return False


def arg_words(value: ArgValue) -> tuple[Word, ...]:
    """The words after the argument's name; none for a bare flag."""
    if value is True:
        return ()
    if isinstance(value, SecretRef | HostPlaceholder):
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
