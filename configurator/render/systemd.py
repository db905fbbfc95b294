"""The systemd target: one unit for every process of every host, started means proven.

A unit starts the engine's own words through the entry script. Before it, the rank's script looks at
the host; after it, the same script waits and proves, and `systemctl start` waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder, Word
from configurator.errors import ConfiguratorError
from configurator.render.bash import (
    ORIGINS,
    Line,
    lines,
    process_context,
    script_name,
    shared_context,
    told_addresses,
)
from configurator.render.common import probe_files, profile_file, templates
from configurator.render.containers import KEY_SHOWN, LOG, STATE_VARIABLE, entry_file, leads
from configurator.render.files import PROBE, REPORTS, RenderedFile
from configurator.render.launches import (
    EngineLaunch,
    Folders,
    Secret,
    address_text,
    address_variable,
    launches,
    secret_of,
    secret_places,
    secrets_of,
)
from configurator.render.prerequisites import CONFIGURATOR, Place, before_start
from configurator.render.quoting import comment
from configurator.render.unitwords import LONGEST_LINE, command_word, setting_path, setting_word
from configurator.schema.profile import SecretRef

CHECK_S = 600
"""Longest self-check, and what preflight takes besides, that a start waits for."""
STARTS = 5
"""Starts, by hand too, after which systemd ends a loop of crashes."""
RESERVE_GIB = 4
"""Memory that stays free where CPU and GPU share it. Chosen, not measured: what a driver needs to
end a process in order is not published."""


def home_of(deployment: Deployment) -> str:
    """Where a host keeps what was rendered for it."""
    return f"/opt/configurator/{deployment.name}"


def state_of(deployment: Deployment) -> str:
    """Where the units leave logs, reports and evidence."""
    return f"/var/lib/configurator/{deployment.name}"


def settings_of(deployment: Deployment) -> str:
    """Where a host keeps what belongs to it alone."""
    return f"/etc/configurator/{deployment.name}"


def unit_name(deployment: Deployment, launch: EngineLaunch) -> str:
    """`sglang-NAME-replica0-host0.service`, or `sglang-NAME-router.service`."""
    return f"sglang-{deployment.name}-{launch.name}.service"


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """For every host the units of its processes and what they run; a folder a host if several."""
    folders = Folders(f"{home_of(deployment)}/{PROBE}", f"{state_of(deployment)}/{REPORTS}")
    found = launches(deployment, folders)
    files: list[RenderedFile] = []
    for host in range(deployment.hosts):
        mine = [launch for launch in found if launch.process.host == host]
        into = f"host{host}/" if deployment.hosts > 1 else ""
        for file in _host_files(deployment, host, mine):
            files.append(replace(file, path=into + file.path))
    return tuple(files)


def _host_files(
    deployment: Deployment, host: int, mine: list[EngineLaunch]
) -> Iterator[RenderedFile]:
    environment = templates()
    common = {**shared_context(deployment), **_host_context(deployment, host, mine)}
    for launch in mine:
        context = {**common, **_unit_context(deployment, launch, mine)}
        text = environment.get_template("unit.service.j2").render(**context)
        yield RenderedFile(unit_name(deployment, launch), _within_limits(text))
        if launch.process.role == "engine":
            script = environment.get_template("unit.sh.j2")
            text = script.render(**{**context, **_script_context(deployment, launch)})
            yield RenderedFile(script_name(launch.process), text, executable=True)
    text = environment.get_template("unit.target.j2").render(**common)
    yield RenderedFile(f"sglang-{deployment.name}.target", text)
    if deployment.hardware.unified_memory:
        for name in ("reserve.service", "reserve.sh"):
            text = environment.get_template(f"unit_{name}.j2").render(**common)
            path = f"sglang-{deployment.name}-{name}" if name.endswith("service") else name
            yield RenderedFile(path, text, executable=name.endswith(".sh"))
    yield profile_file(deployment)
    yield entry_file(deployment)
    yield RenderedFile("START.md", environment.get_template("unit_start.md.j2").render(**common))
    yield from probe_files(deployment)


def _within_limits(text: str) -> str:
    # Continued lines count as one.
    if len(text.encode()) > LONGEST_LINE:
        raise ConfiguratorError.single(
            "RND006", "a unit of more than 1 MiB cannot be read by systemd",
            "shorten the values in extra.args and extra.env, or render another target",
        )  # fmt: skip
    return text


def _host_context(deployment: Deployment, host: int, mine: list[EngineLaunch]) -> dict[str, Any]:
    keys = dict.fromkeys(key for one in mine for key in secrets_of(deployment, one.process))
    told = {a.variable: a.what for one in mine for a in told_addresses(one.process)}
    start_s = deployment.profile.startup.timeout_s + CHECK_S
    place = Place(user="the unit's user")
    return {
        "deployment": deployment.name,
        "home": home_of(deployment),
        "state": state_of(deployment),
        "settings": settings_of(deployment),
        "host": host,
        "routed": deployment.profile.router is not None,
        "unified": deployment.hardware.unified_memory,
        "reserve_gib": RESERVE_GIB,
        "units": [unit_name(deployment, launch) for launch in mine],
        "heads": [unit_name(deployment, launch) for launch in mine if leads(launch.process)],
        "engines": [
            unit_name(deployment, launch) for launch in mine if launch.process.role == "engine"
        ],
        "told": list(told.items()) if deployment.hosts > 1 else [],
        "keys": [(key, credential_path(key), comment(_wish(key))) for key in keys],
        "folder_of": lambda path: str(PurePosixPath(path).parent),
        "before": [*before_start(deployment, place), CONFIGURATOR],
        "start_s": start_s,
        "check_s": CHECK_S,
        "starts": STARTS,
        # No more fit in than one besides.
        "limit_s": start_s * (STARTS + 1),
    }


def _wish(key: Secret) -> str:
    """Where the profile has the key."""
    return f"the file {key.reference.file}" if key.reference.file else f"${key.reference.env}"


def credential_path(key: Secret) -> str:
    """The file of the host that systemd passes on; a unit has no variables of a shell."""
    return key.reference.file or f"/etc/credstore/{key.reference.env}"


def _unit_context(
    deployment: Deployment, launch: EngineLaunch, mine: list[EngineLaunch]
) -> dict[str, Any]:
    process = launch.process
    is_router = process.role == "router"
    names = [name for name, _ in launch.declared]
    return {
        "process": process,
        "credentials": [
            f"{key.name}:{setting_path(credential_path(key))}"
            for key in secrets_of(deployment, process)
        ],
        "variables": list(_said_once(_variables(deployment, launch))),
        "words": list(_said_once(lines(process, lambda word: _text(deployment, word)))),
        "key_places": _key_places(deployment, launch),
        "told_here": list(told_addresses(process)) if deployment.hosts > 1 else [],
        "without": "".join(f" -u {name}" for name in names),
        "script": "" if is_router else script_name(process),
        "waits_for": [
            unit_name(deployment, one) for one in mine if is_router and one.process.role == "engine"
        ],
        "restart": deployment.hosts_per_replica == 1,
        "alone": deployment.hosts == 1,
    }


def _said_once(found: Iterable[Line]) -> Iterator[Line]:
    """An origin stands above the first of the lines that have it."""
    before = ""
    for line in found:
        yield Line(line.words, "" if line.origin == before else line.origin)
        before = line.origin


def _key_places(deployment: Deployment, launch: EngineLaunch) -> str:
    """What the entry script is told of the keys; the manager alone knows where they lie."""
    return " ".join(
        f"{place}=file:${{CREDENTIALS_DIRECTORY}}/{secret_of(deployment, reference).name}"
        for place, reference in secret_places(deployment, launch.process)
    )


def _variables(deployment: Deployment, launch: EngineLaunch) -> Iterator[Line]:
    """`NAME=VALUE` for `Environment=`, and who asked for it."""
    held = dict(launch.process.env)
    for name, value in launch.declared:
        known = deployment.env.get(name)
        own = "this process" if name in held else ORIGINS.get(name, "evidence.instrument")
        yield Line(setting_word(f"{name}={value}"), comment(known.origin) if known else own)
    for name, value in _of_the_entry(deployment, launch).items():
        yield Line(setting_word(f"{name}={value}"), "for entry.sh")


def _of_the_entry(deployment: Deployment, launch: EngineLaunch) -> dict[str, str]:
    state = state_of(deployment)
    own = {LOG: f"{state}/log/{launch.name}.log"}
    if leads(launch.process):
        own[STATE_VARIABLE] = f"{state}/state/replica-{launch.process.replica}"
    return own


def _text(deployment: Deployment, word: Word) -> str:
    if isinstance(word, SecretRef):
        return command_word(KEY_SHOWN)
    if isinstance(word, HostPlaceholder):
        if deployment.hosts == 1:
            return command_word(address_text(word, "127.0.0.1"))
        return f'"{address_text(word, f"${{{address_variable(word)}}}")}"'
    return command_word(word)


def _script_context(deployment: Deployment, launch: EngineLaunch) -> dict[str, Any]:
    """The rank's script, which launches nothing here."""
    wanted = deployment.profile.serving.api_key
    context = process_context(deployment, launch.process)
    return {
        **context,
        "for_python": "for the python3 of this unit",
        "engine_remedy": "name the folder of the engine's in PATH of "
        f"{settings_of(deployment)}/host.env",
        "unit": unit_name(deployment, launch),
        "serving_key": secret_of(deployment, wanted).name if wanted else "",
    }
