"""What every target starts: one launch a process, the same words and variables everywhere.

A target may write them in its own way and add what belongs to it; what the engine receives in the
end is this. Where the files of a launch lie is the target's own: it comes in as `Folders`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.render.instrument import ALLOWED, SEARCH, joined, probe_variables
from configurator.schema.profile import SecretRef


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the launch finds and leaves files, as the engine's process sees them."""

    probe: str
    """The bundle of the in-engine probe."""
    reports: str
    """The reports; every replica has a folder of its own in it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret among the words of a launch."""

    name: str
    """`secret-1`: the same in every process of the deployment that is given this secret."""
    reference: SecretRef

    @property
    def variable(self) -> str:
        """The variable of a script, or of a container that is given it, which holds its value."""
        return f"CONFIGURATOR_{self.name.upper().replace('-', '_')}"

    @property
    def source(self) -> str:
        """Where the profile has it, as scripts are told: `env:NAME` or `file:PATH`."""
        named = self.reference.env
        return f"env:{named}" if named else f"file:{self.reference.file}"


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """One process with everything that it receives."""

    process: Process
    argv: tuple[Word, ...]
    env: tuple[tuple[str, str], ...]
    """What the engine has in the end, unless the place where it runs has more."""
    declared: tuple[tuple[str, str], ...]
    """The same without what `entry.sh` joins with what an image has: PYTHONPATH and
    SGLANG_PLUGINS are the profile's alone here."""

    @property
    def name(self) -> str:
        """`replica0-host0`, or `router`; the host counts within the replica, as ranks do."""
        if self.process.role == "router":
            return "router"
        return f"replica{self.process.replica}-host{self.process.rank}"


def launches(deployment: Deployment, folders: Folders) -> tuple[EngineLaunch, ...]:
    """One launch for every engine process, and the router last."""
    return tuple(_launch(deployment, process, folders) for process in deployment.processes)


def _launch(deployment: Deployment, process: Process, folders: Folders) -> EngineLaunch:
    held = dict(process.env)
    asked: dict[str, str] = {}
    if process.role == "engine":
        reports = f"{folders.reports}/replica-{process.replica}"
        asked = probe_variables(deployment, folders.probe, reports)
    apart = (SEARCH, ALLOWED)
    declared = {**held, **{name: text for name, text in asked.items() if name not in apart}}
    env = dict(declared)
    for name in apart:
        text = joined(name, asked[name], held.get(name)) if name in asked else None
        if text is not None:
            env[name] = text
    return EngineLaunch(process, process.argv, tuple(env.items()), tuple(declared.items()))


def secrets_of(deployment: Deployment, process: Process | None = None) -> tuple[Secret, ...]:
    """Every secret of the deployment once, words before variables; or those of one process."""
    words = (w for one in deployment.processes for w in one.argv if isinstance(w, SecretRef))
    found = dict.fromkeys((*words, *deployment.profile.extra.secrets.values()))
    secrets = (Secret(f"secret-{number}", one) for number, one in enumerate(found, 1))
    if process is None:
        return tuple(secrets)
    own = [reference for _, reference in secret_places(deployment, process)]
    return tuple(one for one in secrets if one.reference in own)


def secret_places(deployment: Deployment, process: Process) -> list[tuple[str, SecretRef]]:
    """Where a process has its secrets: the number of a word, or the name of a variable."""
    words = [(str(n), word) for n, word in enumerate(process.argv) if isinstance(word, SecretRef)]
    return [*words, *named_secrets(deployment, process).items()]


def named_secrets(deployment: Deployment, process: Process) -> dict[str, SecretRef]:
    """Variables of a process with secrets; the router has none."""
    return dict(deployment.profile.extra.secrets) if process.role == "engine" else {}


def secret_of(deployment: Deployment, reference: SecretRef) -> Secret:
    """The secret that a word of the deployment refers to."""
    return next(one for one in secrets_of(deployment) if one.reference == reference)


def address_variable(word: HostPlaceholder) -> str:
    """The variable with the address of a host, where the target has no name for the host."""
    return f"REPLICA{word.replica}_HOST{word.host}_ADDR"


def address_text(word: HostPlaceholder, address: str) -> str:
    """The word, once the address of the host is known or named."""
    scheme = f"{word.scheme}://" if word.scheme else ""
    port = f":{word.port}" if word.port else ""
    return f"{scheme}{address}{port}"


def addresses_of(process: Process) -> Iterator[HostPlaceholder]:
    """One placeholder for each host that the process must know."""
    seen = set()
    for word in process.argv:
        if isinstance(word, HostPlaceholder) and (word.replica, word.host) not in seen:
            seen.add((word.replica, word.host))
            yield word


def listing(deployment: Deployment, folders: Folders) -> str:
    """The launches for programs, as `render --print json`; documented in docs/json.md."""
    found = [_listed(deployment, one) for one in launches(deployment, folders)]
    return json.dumps(found, indent=2) + "\n"


def _listed(deployment: Deployment, launch: EngineLaunch) -> dict[str, Any]:
    process = launch.process
    secrets = named_secrets(deployment, process)
    return {
        "role": process.role,
        "host": process.host,
        "rank": process.rank,
        "replica": process.replica,
        "gpus": list(process.gpus),
        "port": process.port,
        "argv": [_word(word) for word in launch.argv],
        "env": dict(launch.env),
        "secrets": {name: _word(reference)["secret"] for name, reference in secrets.items()},
    }


def _word(word: Word) -> Any:
    if isinstance(word, SecretRef):
        return {"secret": word.model_dump(exclude_none=True)}
    if isinstance(word, HostPlaceholder):
        said = {"replica": word.replica, "host": word.host}
        text = address_text(word, "{address}")
        return {"address": said, "text": text}
    return word
