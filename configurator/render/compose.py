"""The compose target: one file for every host, with what proves the replicas beside them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.render.bash import (
    ORIGINS,
    Line,
    lines,
    process_context,
    shared_context,
    told_addresses,
)
from configurator.render.by_hand import example_address, told_hosts
from configurator.render.common import probe_files, profile_file, templates
from configurator.render.containers import (
    BASH,
    KEY_SHOWN,
    Contained,
    check_file,
    check_of,
    checker_of,
    contained,
    container_context,
    container_notes,
    entry_file,
    health_of,
    image_of,
    leads,
    needs_gpus,
    state_of,
)
from configurator.render.files import RenderedFile
from configurator.render.launches import Secret, address_text, address_variable, secrets_of
from configurator.render.prerequisites import Place, before_start
from configurator.render.quoting import comment, yaml_string
from configurator.schema.profile import SecretRef

_HELD = ("memory", "port")
"""Checks that find what a running deployment itself holds."""


@dataclass(frozen=True, slots=True)
class _Service:
    """One service as the template writes it."""

    name: str
    role: str
    image: str
    script: str
    lines: list[Line]
    env: list[tuple[str, str, str]]
    """Name, value, and who asked for it."""
    keys: tuple[Secret, ...]
    needs: list[tuple[str, str]]
    """Another service, and the condition it must meet first."""
    health: str = ""

    @property
    def key_names(self) -> list[str]:
        """Variables that bring keys."""
        return _key_names(self.keys)

    @property
    def key_files(self) -> list[str]:
        """Secrets of compose that bring keys."""
        return [key.name for key in self.keys if key.reference.file]


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """A folder for every host that is whole by itself, or one for all; and what to run."""
    launched = list(contained(deployment, address_variable, _key_place))
    hosts = [
        (number, [one for one in launched if one.launch.process.host == number])
        for number in range(deployment.hosts)
    ]
    files: list[RenderedFile] = []
    for number, here in hosts:
        own = _host_files(deployment, number, here)
        folder = _folder(deployment, number)
        files += [replace(file, path=f"{folder}{file.path}") for file in own]
    return (*files, _start_file(deployment, hosts))


def _folder(deployment: Deployment, number: int) -> str:
    return f"host{number}/" if deployment.hosts > 1 else ""


def _host_files(
    deployment: Deployment, number: int, here: list[Contained]
) -> Iterator[RenderedFile]:
    context = _host_context(deployment, number, here)
    written = [
        ("compose.yaml", "compose.yaml.j2", False),
        ("preflight.sh", "container_preflight.sh.j2", True),
    ]
    for name, template, executable in written:
        text = _templates().get_template(template).render(**context)
        yield RenderedFile(name, text, executable)
    if context["addresses_to_set"]:
        text = _templates().get_template("addresses.env.j2").render(**context)
        yield RenderedFile(".env.example", text)
    if context["key_names"]:
        text = _templates().get_template("keys.env.j2").render(**context)
        yield RenderedFile("keys.env.example", text, private=True)
    yield entry_file(deployment)
    yield check_file(deployment)
    yield profile_file(deployment)
    yield from probe_files(deployment)


def _templates() -> Any:
    environment = templates()
    environment.filters["compose"] = _literal
    environment.filters["comment"] = comment
    return environment


def _literal(value: str) -> str:
    """A value that compose leaves as it is: it would replace what begins with a dollar."""
    return yaml_string(value.replace("$", "$$"))


def _host_context(deployment: Deployment, number: int, here: list[Contained]) -> dict[str, Any]:
    engines = [one for one in here if one.launch.process.role == "engine"]
    first = process_context(deployment, engines[0].launch.process)
    heads = [one.launch.process for one in engines if leads(one.launch.process)]
    # The container of the checks has no nvidia-imex-ctl.
    checks = [c for c in first["checks"] if c != "imex" and (c != "port" or heads)]
    if heads and "port" not in checks:
        checks.append("port")
    keys = dict.fromkeys(key for one in here for key in one.keys)
    if keys:
        checks.insert(1, "keys")
    addresses = {a.variable: a for one in here for a in told_addresses(one.launch.process)}
    return {
        **shared_context(deployment),
        **first,
        **container_context(deployment),
        "number": number,
        "project": project_of(deployment),
        "gpus_needed": max((_gpus(deployment, one.launch.process) for one in engines), default=0),
        "addresses": list(addresses.values()),
        "addresses_to_set": list(addresses.values()) if deployment.hosts > 1 else [],
        "key_names": _key_names(keys),
        "key_files": [(key.name, key.reference.file) for key in keys if key.reference.file],
        "checks": checks,
        "own_checks": "compose_checks.sh.j2",
        "held": [check for check in checks if check in _HELD],
        "ports": [process.port for process in heads],
        "heads": [(state_of(process), process.port) for process in heads],
        "preflight_env": engines[0].launch.declared,
        "services": list(_services(deployment, here)),
    }


def _gpus(deployment: Deployment, process: Process) -> int:
    return max(process.gpus, default=-1) + 1 or deployment.hardware.gpus_per_host


def _services(deployment: Deployment, here: list[Contained]) -> Iterator[_Service]:
    ready = [
        (_service_name(one.launch.process), "service_healthy")
        for one in here
        if leads(one.launch.process)
    ]
    for one in here:
        process = one.launch.process
        needs = [("preflight", "service_completed_successfully")]
        yield _Service(
            name=_service_name(process),
            role=process.role,
            image=image_of(deployment),
            script=one.command[len(BASH)],
            lines=list(lines(process, lambda word: _word(deployment, word), ", ")),
            env=list(_variables(deployment, one)),
            keys=one.keys,
            needs=needs if process.role == "engine" else ready or needs,
            health=health_of(deployment, process),
        )
        if leads(process):
            yield _check_service(deployment, one)


def _check_service(deployment: Deployment, one: Contained) -> _Service:
    name = _service_name(one.launch.process)
    check = check_of(deployment, one.launch, _key_place)
    words = check.command[len(BASH) + 1 :]
    return _Service(
        name=f"{name}-check",
        role="check",
        image=checker_of(deployment),
        script=check.command[len(BASH)],
        lines=[
            Line(f"{_literal(option)}, {_literal(value)}", "")
            for option, value in zip(words[::2], words[1::2], strict=True)
        ],
        env=[(variable, value, "") for variable, value in check.env.items()],
        keys=(check.key,) if check.key else (),
        needs=[(name, "service_started")],
    )


def _service_name(process: Process) -> str:
    """`replica0`; the other ranks of a replica are told apart by their host within it."""
    if process.role == "router":
        return "router"
    return f"replica{process.replica}" + (f"-host{process.rank}" if process.rank else "")


def _variables(deployment: Deployment, one: Contained) -> Iterator[tuple[str, str, str]]:
    own = dict(one.launch.process.env)
    for name, value in one.env.items():
        known = deployment.env.get(name)
        asked = ORIGINS.get(name, "evidence.instrument") if name in declared(one) else ""
        origin = known.origin if known else "this process" if name in own else asked
        yield name, value, comment(origin)


def declared(one: Contained) -> dict[str, str]:
    """The engine's variables, without those of the entry script."""
    return dict(one.launch.declared)


def _word(deployment: Deployment, word: Word) -> str:
    if isinstance(word, SecretRef):
        return f"{_literal(KEY_SHOWN)}"
    if isinstance(word, HostPlaceholder):
        what = f"host {word.host} of replica {word.replica}"
        otherwise = ":-127.0.0.1" if deployment.hosts == 1 else f":?set it to the address of {what}"
        return yaml_string(address_text(word, f"${{{address_variable(word)}{otherwise}}}"))
    return _literal(word)


def project_of(deployment: Deployment) -> str:
    """The project's name, one for each deployment: compose takes a few characters alone."""
    name = deployment.name
    plain = re.sub(r"[^a-z0-9_-]", "-", name.lower()).lstrip("_-")
    if plain == name:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{plain.rstrip('_-')}-{digest}".lstrip("-")


def _key_place(secret: Secret) -> str:
    """A variable keeps its name, which compose passes on; a file is a secret of compose."""
    if secret.reference.env:
        return f"env:{secret.reference.env}"
    return f"file:/run/secrets/{secret.name}"


def _key_names(keys: Any) -> list[str]:
    return [key.reference.env for key in keys if key.reference.env]


def _start_file(deployment: Deployment, hosts: list[tuple[int, list[Contained]]]) -> RenderedFile:
    shared = shared_context(deployment)
    folders = []
    for number, here in hosts:
        folder = _folder(deployment, number).rstrip("/")
        names = [service.name for service in _services(deployment, here)]
        told = {pair for one in here for pair in told_hosts(deployment, one.launch.process)}
        addresses = [f"{name}={example_address(host)}" for name, host in sorted(told)]
        folders.append((folder, number, ["preflight", *names], addresses))
    routers = [number for number, here in hosts for one in here if one.launch.name == "router"]
    keys = secrets_of(deployment)
    cached = deployment.profile.container.cache is not None
    text = _templates().get_template("compose_start.md.j2").render(
        **shared,
        folders=folders,
        router_host=routers[0] if routers else None,
        before=before_start(deployment, Place(image_of(deployment), cached)),
        key_names=_key_names(keys),
        key_files=[(key.name, key.reference.file) for key in keys if key.reference.file],
        notes=list(_notes(deployment)),
        checker=checker_of(deployment),
        build_checker=deployment.profile.container.checker is None,
    )  # fmt: skip
    return RenderedFile("START.md", text)


def _notes(deployment: Deployment) -> Iterator[str]:
    checker = checker_of(deployment)
    yield f"The checks run in `{checker}`, an image with bash, coreutils and serving-configurator."
    if needs_gpus(deployment):
        yield "The NVIDIA Container Toolkit, for GPUs in containers."
    yield (
        "What belongs to one host alone, for instance SGLANG_HOST_IP, goes into a "
        "compose.override.yaml beside compose.yaml, as `environment` of the engine."
    )
    yield from container_notes(deployment)
