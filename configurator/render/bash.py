"""The bash target: one readable script for every engine process, and one for the router."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from configurator.assemble import LAUNCH, OWN
from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.inengine.bundle import GROUP, MODULE, REQUIRED
from configurator.render.by_hand import started
from configurator.render.common import (
    checkpoints_of,
    heading,
    identity,
    local_address,
    probe_files,
    profile_file,
    requirements_of,
    templates,
)
from configurator.render.containers import needs_imex
from configurator.render.files import PROBE, REPORTS, RenderedFile
from configurator.render.instrument import ALLOWED, SEARCH, instrumented, joined, probe_variables
from configurator.render.launches import (
    address_text,
    address_variable,
    addresses_of,
    named_secrets,
    secret_of,
    secrets_of,
)
from configurator.render.prerequisites import CONFIGURATOR, Place, before_start
from configurator.render.quoting import comment, quote
from configurator.schema.profile import SecretRef

_BUNDLE = f"$HERE/{PROBE}"
ORIGINS = {REQUIRED: "evidence.require_report"}


@dataclass(frozen=True, slots=True)
class Line:
    """Words that belong together on one line of a script, and who asked for them."""

    words: str
    origin: str


@dataclass(frozen=True, slots=True)
class Address:
    """A host's address, known only where the deployment runs."""

    variable: str
    what: str


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """Scripts for every host and rank, the router, the profile they check, and what to run."""
    environment = templates()
    shared = shared_context(deployment)
    files = []
    for process in deployment.processes:
        template = environment.get_template(f"{process.role}.sh.j2")
        text = template.render(**shared, **process_context(deployment, process))
        files.append(RenderedFile(script_name(process), text, executable=True))
    files.append(profile_file(deployment))
    place = Place()
    before = [*before_start(deployment, place), CONFIGURATOR]
    files.append(start_file(deployment, shared, "bash", before, []))
    files += probe_files(deployment)
    return tuple(files)


def start_file(
    deployment: Deployment,
    shared: dict[str, Any],
    target: str,
    before: list[str],
    notes: list[str],
) -> RenderedFile:
    """What a person runs, in which order, and what must be there before."""
    scripts = [started(deployment, script_name(p), p) for p in deployment.processes]
    references = [secret.reference for secret in secrets_of(deployment)]
    text = templates().get_template("START.md.j2").render(
        **shared,
        target=target,
        before=before,
        notes=notes,
        scripts=scripts,
        addressed=any(one.addresses for one in scripts),
        keys=list(dict.fromkeys(key for one in scripts for key in one.keys)),
        key_files=[comment(reference.file) for reference in references if reference.file],
        routed=deployment.profile.router is not None,
    )  # fmt: skip
    return RenderedFile("START.md", text)


def script_name(process: Process) -> str:
    """`replica0-host0.sh`; the host counts within the replica, as ranks do."""
    if process.role == "router":
        return "router.sh"
    return f"replica{process.replica}-host{process.rank}.sh"


def shared_context(deployment: Deployment) -> dict[str, Any]:
    """What the templates know of the deployment."""
    profile = deployment.profile
    return {
        "heading": heading(deployment),
        "identity": identity(deployment),
        "name": comment(deployment.name),
        "status": profile.status,
        "description": textwrap.wrap(comment(profile.description), 96),
        "deviations": [
            comment(f"{d.published} -> {d.here}: {d.reason}") for d in profile.deviations
        ],
        "claims": [comment(claim) for claim in profile.claims],
        "drops": [m.name for m in deployment.mechanisms.values() if m.wish.on_refuted == "drop"],
        "replicas": profile.topology.replicas,
        "ranks": deployment.hosts_per_replica,
        "hosts": deployment.hosts,
        "requirements": [comment(text) for text in requirements_of(deployment)],
        "probe": {"folder": PROBE, "reports": REPORTS, "group": GROUP, "module": MODULE},
        "report_required": profile.evidence.require_report,
    }


def process_context(deployment: Deployment, process: Process) -> dict[str, Any]:
    """What the template of a script knows of its process."""
    profile = deployment.profile
    hardware = deployment.hardware
    local = local_address(deployment, process)
    needed = sorted({p for m in deployment.mechanisms.values() for p in m.entry_points})
    packages = sorted({p for m in deployment.mechanisms.values() for p in m.kernel.needs.packages})
    checkpoints = list(checkpoints_of(deployment))
    return {
        "process": process,
        "lines": list(lines(process, lambda word: _text(deployment, word))),
        "secrets": secrets_of(deployment, process),
        "addresses": list(told_addresses(process)),
        "env": list(_variables(deployment, process)),
        "secret_env": "".join(
            f"{name}=${secret_of(deployment, reference).variable} "
            for name, reference in named_secrets(deployment, process).items()
        ),
        "checks": list(_checks(deployment, process, packages, checkpoints)),
        "own_checks": "",
        "ports": [process.port],
        "leader": "$ENGINE_PID",
        "serving_key": "",
        "place": "host",
        "settings": "",
        "for_python": "for python3",
        "engine_remedy": "activate its environment",
        "engine_version": deployment.engine.version,
        "engine_released": deployment.engine.released,
        "product": hardware.product,
        "whole_gpus": _takes_whole_gpus(deployment),
        "gpus_needed": max(process.gpus, default=-1) + 1 or hardware.gpus_per_host,
        "min_available_gib": int(profile.memory.min_available_gib or 0),
        "packages": packages,
        "needed_plugins": needed,
        "carried_plugins": [plugin.package for plugin in deployment.plugins],
        "checkpoints": checkpoints,
        "local_host": local,
        "url_host": f"[{local}]" if ":" in local else local,
        "timeout_s": profile.startup.timeout_s,
    }


def _checks(
    deployment: Deployment, process: Process, packages: list[str], checkpoints: list[str]
) -> Iterator[str]:
    """What preflight looks at, in this order."""
    checks = {
        "profile": True,
        "engine": True,
        "packages": bool(packages),
        "kernels": any(m.entry_points for m in deployment.mechanisms.values()),
        "plugins": instrumented(deployment),
        "gpu": deployment.hardware.product is not None,
        "imex": needs_imex(deployment),
        "memory": deployment.profile.memory.min_available_gib is not None,
        "port": process.rank == 0,
        "model": bool(checkpoints),
    }
    return (name for name, wanted in checks.items() if wanted)


def _takes_whole_gpus(deployment: Deployment) -> bool:
    """A mechanism is known to hold more multiprocessors than a part of a GPU has."""
    here = (deployment.model.architecture, deployment.hardware.product)
    return any(
        row.sms and row.architecture == here[0] and here[1] in row.products
        for mechanism in deployment.mechanisms.values()
        for row in mechanism.kernel.coverage
    )


def _variables(deployment: Deployment, process: Process) -> Iterator[Line]:
    """The engine's environment: `NAME=VALUE`, always quoted, so that it reads as one word."""
    held = dict(process.env)
    asked = probe_variables(deployment, _BUNDLE, "$REPORTS") if process.role == "engine" else {}
    origins = {
        name: comment(deployment.env[name].origin) if name in deployment.env else "this process"
        for name in held
    }
    for name, value in held.items():
        if name not in asked:
            yield Line(assigned(name, value), origins[name])
    for name, value in asked.items():
        added = ORIGINS.get(name, "evidence.instrument")
        origin = f"{origins[name]}, {added}" if name in held else added
        yield Line(_with_probe(name, value, held.get(name)), origin)


def assigned(name: str, value: str) -> str:
    """`NAME=VALUE` in quotes, so that it reads as one word."""
    word = quote(f"{name}={value}")
    return word if word.endswith("'") else f"'{word}'"


def _with_probe(name: str, value: str, held: str | None) -> str:
    """As `joined`, in bash; what the profile leaves open is in the environment of the script."""
    if name == ALLOWED and held is None:
        return f'${{{name}:+"{name}=${name},{value}"}}'
    if name == ALLOWED:
        return assigned(name, joined(name, value, held) or held or "")
    if name == SEARCH and held is None:
        return f'"{name}={value}${{{name}:+:${name}}}"'
    return f'"{name}={value}:"{quote(held)}' if name == SEARCH and held else f'"{name}={value}"'


def told_addresses(process: Process) -> Iterator[Address]:
    """Variables for the hosts that this process must know; none when all is on one host."""
    for word in addresses_of(process):
        yield Address(address_variable(word), f"host {word.host} of replica {word.replica}")


def lines(process: Process, text: Callable[[Word], str], between: str = " ") -> Iterator[Line]:
    """The words of a process, what belongs together on one line."""
    place = len(LAUNCH)
    argv = process.argv
    yield Line(between.join(map(text, argv[:place])), "")
    for count, origin in process.groups:
        words = between.join(map(text, argv[place : place + count]))
        yield Line(words, origin if origin == OWN else comment(origin))
        place += count
    # A router has no groups: its words come from the resolver, so a leading dash starts one.
    group: list[Word] = []
    for word in argv[place:]:
        if isinstance(word, str) and word.startswith("--") and group:
            yield Line(between.join(map(text, group)), OWN)
            group = []
        group.append(word)
    if group:
        yield Line(between.join(map(text, group)), OWN)


def _text(deployment: Deployment, word: Word) -> str:
    if isinstance(word, SecretRef):
        return f'"${secret_of(deployment, word).variable}"'
    if isinstance(word, HostPlaceholder):
        return f'"{address_text(word, f"${address_variable(word)}")}"'
    return quote(word)
