"""What must hold before anything is started: each check one function, each finding a remedy."""

from __future__ import annotations

import errno
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from configurator.deployment import Deployment
from configurator.evidence.host import Gpu
from configurator.inengine.bundle import MODULE as PLUGIN
from configurator.render.instrument import ALLOWED, allows, instrumented
from configurator.up import proc
from configurator.up.engine_python import EnginePython, normalized
from configurator.up.launching import Command
from configurator.up.required import why_not_instrumented

_ROOM_GIB = 0.25
"""Logs of a week of serving, and evidence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold here, and what to do about it."""

    check: str
    severity: Literal["error", "warning"]
    fact: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Host:
    """This host and what is to run on it."""

    deployment: Deployment
    commands: tuple[Command, ...]
    engine: EnginePython
    gpus: tuple[Gpu, ...] | None
    """None: nvidia-smi does not answer."""
    report: Path
    instrumented: bool
    """The bundle of the in-engine probe is on the engine's path."""


def check_ports(host: Host) -> Iterator[Finding]:
    """Every port that is to be listened on is free."""
    for command in host.commands:
        if command.answers:
            where = "serving" if command.is_engine else "router"
            settings = (f"{where}.host", f"{where}.port")
            yield from _port(command.host, command.port, command.name, settings)
        if command.answers and command.rendezvous is not None:
            name = f"{command.name}, --dist-init-addr"
            settings = ("--address", "extra.args dist-init-addr")
            yield from _port(*command.rendezvous, name, settings)


def _port(address: str, port: int, name: str, settings: tuple[str, str]) -> Iterator[Finding]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            where = f"{address}:{port} ({name})"
            if error.errno == errno.EADDRINUSE:
                who = ", ".join(proc.holders(port))
                held = f", held by process {who}" if who else ""
                remedy = f"stop what listens there, or change {settings[1]}"
                yield Finding("port", "error", f"{where} is taken{held}", remedy)
            else:
                yield Finding(
                    "port", "error", f"{where} cannot be listened on: {error.strerror or error}",
                    f"give {settings[0]} an address of this machine, for instance 127.0.0.1",
                )  # fmt: skip


def check_memory(host: Host) -> Iterator[Finding]:
    """The host has the memory that the profile asks for; on unified memory the GPU takes it too."""
    wanted, found = host.deployment.profile.memory.min_available_gib, proc.available_gib()
    if wanted is None or found is None or found >= wanted:
        return
    shared = " (host and GPU share it)" if host.deployment.hardware.unified_memory else ""
    yield Finding(
        "memory", "error",
        f"{found:.1f} GiB of memory are available{shared}, the profile needs {wanted:g}",
        "stop other users of it, or drop the page cache: sync; echo 3 > /proc/sys/vm/drop_caches",
    )  # fmt: skip


def check_gpu(host: Host) -> Iterator[Finding]:
    """Enough GPUs of the profile's product and architecture are here."""
    hardware = host.deployment.hardware
    if hardware.product is None:
        return
    if host.gpus is None:
        yield Finding(
            "gpu", "warning",
            f"nvidia-smi does not answer, so {hardware.product} cannot be looked for",
            "check the driver, or how the container gets its GPUs",
        )  # fmt: skip
        return
    needed = max((max(c.process.gpus, default=-1) + 1 for c in host.commands), default=0)
    needed = needed or hardware.gpus_per_host
    fitting = [gpu for gpu in host.gpus if gpu.product == hardware.product]
    counted = Counter(gpu.product for gpu in host.gpus)
    there = ", ".join(f"{count} x {product}" for product, count in counted.items()) or "no GPU"
    if len(fitting) < needed:
        yield Finding(
            "gpu", "error", f"this host has {there}; the profile needs {needed} {hardware.product}",
            "start it where they are, or change hardware.name",
        )  # fmt: skip
    for arch in sorted({gpu.arch for gpu in fitting if gpu.arch} - {hardware.arch or ""}):
        if hardware.arch is not None:
            yield Finding(
                "gpu", "error", f"{hardware.product} is {arch} here, the profile says "
                f"{hardware.arch}", "mend `arch` in the hardware entry",
            )  # fmt: skip


def check_engine(host: Host) -> Iterator[Finding]:
    """The engine's Python answers and has the version of the engine that the profile is for."""
    if not any(command.is_engine for command in host.commands):
        return
    if host.engine.error:
        yield Finding(
            "engine", "error", f"the engine's Python does not answer: {host.engine.error}",
            "give the interpreter that has sglang: --python PATH",
        )  # fmt: skip
        return
    wanted, found = host.deployment.engine, host.engine.packages.get("sglang")
    if found is None:
        yield Finding(
            "engine", "error", f"sglang is not installed for {host.engine.executable}",
            "give the interpreter that has it: --python PATH",
        )  # fmt: skip
    elif found != wanted.version:
        severity: Literal["error", "warning"] = "error" if wanted.released else "warning"
        yield Finding(
            "engine", severity,
            f"sglang is {found}, the profile is for {wanted.version}; flags differ between them",
            f"install sglang=={wanted.version}, or change engine in the profile",
        )  # fmt: skip


def check_packages(host: Host) -> Iterator[Finding]:
    """The packages that mechanisms need are there, in the versions that come with the build."""
    packages = host.engine.packages
    if not packages:
        return
    # `unknown` is the entry's word for a version that is not public.
    known = host.deployment.engine.packages.items()
    versions = {normalized(n): v for n, v in known if v != "unknown"}
    for mechanism in host.deployment.mechanisms.values():
        for name in mechanism.kernel.needs.packages:
            wanted, found = versions.get(normalized(name)), packages.get(normalized(name))
            if found is None:
                pinned = f"{name}=={wanted}" if wanted else name
                yield Finding(
                    "packages", "error", f"{mechanism.name} needs {name}, which is not installed",
                    f"install {pinned} for {host.engine.executable}",
                )  # fmt: skip
            elif wanted is not None and found != wanted:
                yield Finding(
                    "packages", "warning", f"{name} is {found}, the engine build has {wanted}",
                    f"install {name}=={wanted}",
                )  # fmt: skip


def check_kernels(host: Host) -> Iterator[Finding]:
    """The plugins that bring kernels are installed and allowed, before any weights load."""
    if host.engine.error or not host.engine.version:
        return
    for mechanism in host.deployment.mechanisms.values():
        for name in mechanism.entry_points:
            if name not in host.engine.plugins:
                carried = mechanism.plugin is not None and name == mechanism.plugin.package
                why = "which is not installed"
                source = mechanism.kernel.provider or name
                remedy = f"install {source} for {host.engine.executable}"
                if carried:
                    why = "which this launch brings along and the engine's Python does not see"
                    remedy = "it must read PYTHONPATH: leave out -I and -E"
                fact = f"{mechanism.name} needs the plugin {name}, {why}"
                yield Finding("kernels", "error", fact, remedy)
            elif allowed := _left_out(host, name):
                yield Finding(
                    "kernels", "error",
                    f"SGLANG_PLUGINS is {allowed!r}, so {name} is not loaded, and with it the "
                    f"kernels of {mechanism.name}", f"set it to {allowed},{name}",
                )  # fmt: skip


def check_plugins(host: Host) -> Iterator[Finding]:
    """The in-engine probe can be loaded: its entry point is seen, and the allow-list lets it."""
    required = host.deployment.profile.evidence.require_report
    if required and not instrumented(host.deployment):
        fact, remedy = why_not_instrumented(host.deployment)
        yield Finding("plugins", "error", f"a report is required, but {fact}", remedy)
    if not host.instrumented or host.engine.error:
        return
    severity: Literal["error", "warning"] = "error" if required else "warning"
    if PLUGIN not in host.engine.plugins:
        yield Finding(
            "plugins", severity, f"the engine's Python does not see the entry point {PLUGIN}",
            "it must read PYTHONPATH: leave out -I and -E, and PYTHONSAFEPATH wrappers",
        )  # fmt: skip
    if allowed := _left_out(host, PLUGIN):
        yield Finding(
            "plugins", severity,
            f"SGLANG_PLUGINS is {allowed!r}, so {PLUGIN} is not loaded and no report is made",
            f"set it to {allowed},{PLUGIN}",
        )  # fmt: skip


def _left_out(host: Host, plugin: str) -> str | None:
    """The first engine's list of plugins that leaves this one out."""
    lists = (c.env.get(ALLOWED, "") for c in host.commands if c.is_engine)
    return next((names for names in lists if not allows(names, plugin)), None)


def check_model(host: Host) -> Iterator[Finding]:
    """Checkpoints with an absolute path are there; other names are repositories."""
    deployment = host.deployment
    drafts = (m.draft_path for m in deployment.mechanisms.values())
    paths = dict.fromkeys((deployment.profile.model.path, *drafts))
    for path in paths:
        if path is None or not path.startswith("/"):
            continue
        if not Path(path).exists():
            fact, remedy = f"there is no checkpoint at {path}", "download it, or change the path"
            yield Finding("model", "error", fact, remedy)
        elif not (Path(path) / "config.json").is_file() and not path.endswith(".gguf"):
            yield Finding(
                "model", "error", f"{path} has no config.json, so it is not a whole checkpoint",
                "download it again, or change the path",
            )  # fmt: skip


def check_disk(host: Host) -> Iterator[Finding]:
    """There is room for logs and evidence."""
    stat = os.statvfs(host.report)
    free = stat.f_bavail * stat.f_frsize / (1 << 30)
    if free < _ROOM_GIB:
        yield Finding(
            "disk", "error", f"{free:.2f} GiB are free in {host.report}, {_ROOM_GIB} are needed",
            "give a --report directory with more room",
        )  # fmt: skip


CHECKS: dict[str, Callable[[Host], Iterator[Finding]]] = {
    "engine": check_engine,
    "packages": check_packages,
    "kernels": check_kernels,
    "plugins": check_plugins,
    "gpu": check_gpu,
    "memory": check_memory,
    "port": check_ports,
    "model": check_model,
    "disk": check_disk,
}
"""Every check by the name that `--skip` takes."""


def preflight(host: Host, skip: frozenset[str]) -> list[Finding]:
    """What every check but the skipped ones finds."""
    return [
        finding for name, check in CHECKS.items() if name not in skip for finding in check(host)
    ]
