"""The docker target: the scripts of the bash target, with every process in a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder, Word
from configurator.render.bash import (
    ORIGINS,
    Line,
    assigned,
    lines,
    process_context,
    script_name,
    shared_context,
    start_file,
)
from configurator.render.common import probe_files, profile_file, templates
from configurator.render.containers import (
    KEY_SHOWN,
    KEYS,
    LOG,
    STATE_VARIABLE,
    Contained,
    contained,
    container_context,
    container_notes,
    entry_file,
    health_of,
    image_of,
    mounts_of,
    needs_gpus,
)
from configurator.render.files import RenderedFile
from configurator.render.launches import address_text, address_variable
from configurator.render.prerequisites import CONFIGURATOR, Place, before_start
from configurator.render.quoting import comment, quote
from configurator.schema.profile import SecretRef

_TEMPLATES = {"engine": "docker.sh.j2", "router": "docker_router.sh.j2"}
_OF_THE_ENTRY = (LOG, KEYS, STATE_VARIABLE)


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """A script for every process, what its container is given, and what to run."""
    environment = templates()
    shared = shared_context(deployment)
    files = []
    for one in contained(deployment, lambda word: f"${address_variable(word)}"):
        process = one.launch.process
        template = environment.get_template(_TEMPLATES[process.role])
        text = template.render(**{**shared, **_context(deployment, one)})
        files.append(RenderedFile(script_name(process), text, executable=True))
    files += [profile_file(deployment), entry_file(deployment)]
    cached = deployment.profile.container.cache is not None
    place = Place(image_of(deployment), cached)
    before = [*before_start(deployment, place), CONFIGURATOR]
    files.append(start_file(deployment, shared, "docker", before, list(_notes(deployment))))
    return (*files, *probe_files(deployment))


def _context(deployment: Deployment, one: Contained) -> dict[str, Any]:
    """What a script knows of its process, with what a container has in other ways."""
    process = one.launch.process
    context = process_context(deployment, process)
    health = health_of(deployment, process)
    checks = context["checks"]
    caches = [mount.source for mount in mounts_of(deployment) if not mount.read_only]
    return {
        **context,
        **container_context(deployment),
        "container": f"{deployment.name}-{one.launch.name}",
        "lines": list(lines(process, _text)),
        "secrets": one.keys,
        "env": list(_variables(deployment, one)),
        # The host keeps the log, so that it belongs to whoever runs the script.
        "own_env": [
            Line(assigned(name, one.env[name]), "")
            for name in (KEYS, STATE_VARIABLE)
            if name in one.env
        ],
        "checks": [
            checks[0],
            "docker",
            "image",
            *(["cache"] if caches else []),
            "container",
            *checks[1:],
        ],
        "caches": caches,
        "own_checks": "docker_checks.sh.j2",
        "leader": "$(leader)",
        "key_prefix": "".join(f"{key.variable}=${key.variable} " for key in one.keys),
        "health": f'bash -p -c "{health}"' if health else "",
    }


def _variables(deployment: Deployment, one: Contained) -> Iterator[Line]:
    for name, value in one.env.items():
        if name in _OF_THE_ENTRY:
            continue
        known = deployment.env.get(name)
        held = name in dict(one.launch.process.env)
        own = "this process" if held else ORIGINS.get(name, "evidence.instrument")
        yield Line(assigned(name, value), comment(known.origin) if known else own)


def _text(word: Word) -> str:
    if isinstance(word, SecretRef):
        return quote(KEY_SHOWN)
    if isinstance(word, HostPlaceholder):
        return f'"{address_text(word, f"${address_variable(word)}")}"'
    return quote(word)


def _notes(deployment: Deployment) -> Iterator[str]:
    """What a reader must know of the containers."""
    yield "Docker on the host, and the right to use it."
    if needs_gpus(deployment):
        yield "The NVIDIA Container Toolkit, for `docker run --gpus all`."
    yield (
        "The engine has the environment of its image and of the script, not that of your shell: "
        "name in CONFIGURATOR_PASS what it shall have besides."
    )
    yield from container_notes(deployment)
