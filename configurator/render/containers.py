"""What the targets that run the engine in a container have in common.

In the container lie, read-only in `HOME`: the entry script, the profile, the probe. Written in
`RUN`: the log, the reports, and whether this start is proven (`STATE`). The checker, which has
configurator, shares `RUN` with the engine, collects over HTTP and judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from configurator import __version__
from configurator.deployment import Deployment, HostPlaceholder, Process
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import DIRECTORY
from configurator.render.common import checkpoints_of, heading, local_address, templates, url_of
from configurator.render.files import PROBE, REPORTS, RenderedFile
from configurator.render.instrument import loaded
from configurator.render.launches import (
    EngineLaunch,
    Folders,
    Secret,
    address_text,
    launches,
    secret_of,
    secret_places,
    secrets_of,
)
from configurator.render.quoting import comment
from configurator.schema.profile import SecretRef

BASH = ("bash", "-p")
"""How scripts start in a container: what BASH_ENV of its image names is not read before them, and
no function or option of its environment counts. The engine gets BASH_ENV and functions."""
HOME = "/configurator"
"""What the rendering brings along, in the container."""
RUN = "/var/configurator"
"""What a start leaves, in the container."""
STATE = f"{RUN}/state"
"""A folder a replica: `start` names the start of the engine, and `proven` holds the same name once
that is proven; what waits for a replica waits for `cmp -s start proven` and for its port."""
FOLDERS = Folders(probe=f"{HOME}/{PROBE}", reports=f"{RUN}/{REPORTS}")
KEYS = "CONFIGURATOR_KEYS"
LOG = "CONFIGURATOR_LOG"
STATE_VARIABLE = "CONFIGURATOR_STATE"
KEY = "CONFIGURATOR_KEY"
SETTINGS = "/etc/configurator"
"""In the container, what an operator sets of a cluster's deployment while it runs, a file each."""
CACHE = "/root/.cache"
"""In the container, the cache of its user."""
SHM = "/dev/shm"
EVIDENCE = "CONFIGURATOR_EVIDENCE"
CHECK_S = 300
"""Longest self-check that orchestrators wait for after a start."""
IMEX_CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
IN_IMAGE = {
    "for_python": "for python3 in the image",
    "engine_remedy": "set container.image to an image that has it",
}
"""What preflight says of an engine that is not there."""
KEY_SHOWN = "<key>"
"""Stands where the entry script puts a key."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host in the container."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Contained:
    """One launch as a container is given it."""

    launch: EngineLaunch
    command: tuple[str, ...]
    """The entry script and the engine's words; keys are `KEY_SHOWN`, addresses as asked."""
    env: dict[str, str]
    """The declared variables and those of the entry script."""
    keys: tuple[Secret, ...]
    """The keys that the container must have in their variables; the entry script takes them
    away."""


def contained(
    deployment: Deployment,
    address: Callable[[HostPlaceholder], str],
    key_place: Callable[[Secret], str] | None = None,
) -> Iterator[Contained]:
    """Every launch of the deployment for a container.

    Args:
        deployment: what is launched.
        address: the name of another host where these containers run.
        key_place: `env:NAME` or `file:PATH` of a key in the container; default: its variable.
    """
    found_at = key_place or _in_its_variable
    for launch in launches(deployment, FOLDERS):
        words: list[str] = []
        for word in launch.argv:
            if isinstance(word, SecretRef):
                words.append(KEY_SHOWN)
            elif isinstance(word, HostPlaceholder):
                words.append(address_text(word, address(word)))
            else:
                words.append(word)
        env = dict(launch.declared)
        env[LOG] = f"{RUN}/log/{launch.name}.log"
        if leads(launch.process):
            env[STATE_VARIABLE] = state_of(launch.process)
        keys = [
            (place, secret_of(deployment, reference))
            for place, reference in secret_places(deployment, launch.process)
        ]
        if keys:
            env[KEYS] = " ".join(f"{place}={found_at(key)}" for place, key in keys)
        command = (*BASH, f"{HOME}/entry.sh", *words)
        yield Contained(launch, command, env, tuple(dict.fromkeys(key for _, key in keys)))


def _in_its_variable(secret: Secret) -> str:
    return f"env:{secret.variable}"


def leads(process: Process) -> bool:
    """Whether it answers for its replica: its start is what is proven."""
    return process.role == "engine" and process.rank == 0


def state_of(process: Process) -> str:
    """The folder of the replica's state, in the container."""
    return f"{STATE}/replica-{process.replica}"


def health_of(deployment: Deployment, process: Process) -> str:
    """What bash must find true in the container of a replica that is ready: proven, and listening.

    Empty for the other ranks and the router, which nobody asks anything.
    """
    if not leads(process):
        return ""
    state = state_of(process)
    address = f"/dev/tcp/{local_address(deployment, process)}/{process.port}"
    return f"cmp -s {state}/start {state}/proven && exec 3<>{address}"


def start_period_of(deployment: Deployment) -> int:
    """Seconds in which a start need not be ready: to load, compile, capture and be proven."""
    return deployment.profile.startup.timeout_s + CHECK_S


def needs_gpus(deployment: Deployment) -> bool:
    """Whether the engine runs on GPUs; of a machine that says nothing it is assumed."""
    return deployment.hardware.arch != "cpu"


@dataclass(frozen=True, slots=True)
class Check:
    """What proves the starts of one replica, in a container beside it."""

    command: tuple[str, ...]
    env: dict[str, str]
    key: Secret | None
    """The key that the container must have in its variable."""


def check_of(
    deployment: Deployment,
    launch: EngineLaunch,
    key_place: Callable[[Secret], str] | None = None,
) -> Check:
    """The checker of the replica that this launch leads; it reaches it as a process beside it."""
    process = launch.process
    number = process.replica
    words = ["--url", f"{number}={url_of(deployment, process)}"]
    words += ["--log", f"{number}={RUN}/log/{launch.name}.log"]
    env = {STATE_VARIABLE: state_of(process), EVIDENCE: f"{RUN}/evidence/replica-{number}"}
    reports = dict(launch.env).get(DIRECTORY)
    if reports is not None:
        words += ["--reports", f"{number}={reports}"]
        env[DIRECTORY] = reports
    words += ["--wait", str(deployment.profile.startup.timeout_s)]
    reference = deployment.profile.serving.api_key
    keys = [secret for secret in secrets_of(deployment) if secret.reference == reference]
    if keys:
        env[KEY] = (key_place or _in_its_variable)(keys[0])
    return Check((*BASH, f"{HOME}/check.sh", *words), env, keys[0] if keys else None)


def check_file(deployment: Deployment) -> RenderedFile:
    """The script that every checker runs."""
    text = templates().get_template("check.sh.j2").render(
        heading=heading(deployment), report_required=deployment.profile.evidence.require_report
    )  # fmt: skip
    return RenderedFile("check.sh", text, executable=True)


def entry_file(deployment: Deployment) -> RenderedFile:
    """The script that every container and unit starts the engine with."""
    template = templates().get_template("entry.sh.j2")
    text = template.render(heading=heading(deployment), plugins=loaded(deployment))
    return RenderedFile("entry.sh", text, executable=True)


def image_of(deployment: Deployment) -> str:
    """The engine's image.

    Raises:
        ConfiguratorError: RND004, no image is known.
    """
    image = engine_image(deployment)
    if image is None:
        raise ConfiguratorError.single(
            "RND004", f"no container image is known for engine build {deployment.engine.name}",
            "set container.image to an image by digest: registry/name@sha256:DIGEST",
            deployment.locate(("engine",)),
        )  # fmt: skip
    return image


def engine_image(deployment: Deployment) -> str | None:
    """The engine's image where one is known: the profile's, else the build's."""
    return deployment.profile.container.image or deployment.engine.image


def has_digest(image: str) -> bool:
    """Whether the image is the same at every start."""
    return re.search(r"@sha256:[0-9a-f]{64}\Z", image) is not None


def checker_of(deployment: Deployment) -> str:
    """The image that has configurator."""
    return deployment.profile.container.checker or f"serving-configurator:{__version__}"


def mounts_of(deployment: Deployment) -> list[Mount]:
    """The checkpoints, read-only where they are on the host, and the cache.

    Raises:
        ConfiguratorError: RND009, a checkpoint lies where no container can have it.
    """
    found = []
    for path, place in checkpoints_of(deployment).items():
        why = _why_no_mount(path)
        if why:
            raise ConfiguratorError.single(
                "RND009", f"{path} cannot be mounted into a container: {why}",
                "give the checkpoint another path, for instance /models/NAME",
                deployment.locate(place),
            )  # fmt: skip
        found.append(Mount(path, path, True))
    cache = deployment.profile.container.cache
    return [*found, Mount(cache, CACHE, False)] if cache else found


def _why_no_mount(path: str) -> str:
    """Why a folder cannot be where it is on the host too; empty when it can."""
    if ":" in path or ".." in path.split("/"):
        return "Kubernetes mounts no path with a colon or '..'"
    for own, below in ((HOME, True), (RUN, True), (SETTINGS, True), (CACHE, False), (SHM, False)):
        if f"{own}/".startswith(f"{normpath(path)}/".replace("//", "/")):
            return f"it would hide {own}, which the container has of its own"
        if below and normpath(path).startswith(f"{own}/"):
            return f"{own} is the container's own"
    return ""


def devices_of(deployment: Deployment) -> list[str]:
    """Devices besides the GPUs: the fabric, where one replica spans several hosts."""
    multi = deployment.hardware.multi_host
    return list(multi.devices) if multi and deployment.hosts_per_replica > 1 else []


def needs_imex(deployment: Deployment) -> bool:
    """The GPUs of one replica share memory over hosts, for which a container needs a channel."""
    multi = deployment.hardware.multi_host
    return bool(multi and multi.imex and deployment.hosts_per_replica > 1)


def container_context(deployment: Deployment) -> dict[str, Any]:
    """What templates know of the containers of a deployment on its hosts."""
    imex = [IMEX_CHANNEL] if needs_imex(deployment) else []
    return {
        "home": HOME,
        "run": RUN,
        "image": image_of(deployment),
        "gpus": needs_gpus(deployment),
        "devices": [*devices_of(deployment), *imex],
        "mounts": mounts_of(deployment),
        "shared_memory_gib": deployment.profile.container.shared_memory_gib,
        "unified_memory": deployment.hardware.unified_memory,
        "start_period_s": start_period_of(deployment),
        **IN_IMAGE,
    }


def container_notes(deployment: Deployment) -> Iterator[str]:
    """What the host must have for the containers, in sentences."""
    for mount in mounts_of(deployment):
        how = "read" if mount.read_only else "written"
        yield f"`{comment(mount.source)}` of the host is {how} as `{comment(mount.target)}`."
    if deployment.profile.container.cache is None:
        yield "Without `container.cache` every start compiles anew, for 8 to 20 minutes."
    if deployment.hardware.unified_memory:
        yield (
            "Host and GPU share one memory, and a container's memory limit does not bound what the "
            "driver allocates (sglang #35860): preflight asks for memory.min_available_gib instead."
        )
