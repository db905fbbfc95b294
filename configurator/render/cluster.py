"""What the targets for Kubernetes have in common besides pods: names, files, services, notes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.errors import ConfiguratorError
from configurator.render.bash import process_context, shared_context
from configurator.render.common import (
    heading,
    probe_files,
    profile_file,
    requirements_of,
    templates,
)
from configurator.render.containers import (
    IN_IMAGE,
    KEY_SHOWN,
    SETTINGS,
    check_file,
    container_notes,
    devices_of,
    entry_file,
    needs_gpus,
    needs_imex,
)
from configurator.render.demands import demands
from configurator.render.files import RenderedFile, fingerprint
from configurator.render.launches import Secret, address_text
from configurator.render.manifests import literal, stem_of
from configurator.render.prerequisites import Place, about_images, before_start
from configurator.render.quoting import comment, quote
from configurator.schema.profile import SecretRef

LARGEST = 1024 * 1024
"""Bytes that a ConfigMap may hold."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY = ("0.0.0.0", "::", "")
CLIQUE = "nvidia.com/gpu.clique"
"""Label of nodes, by GPU Feature Discovery: equal where GPUs share an NVLink domain."""


@dataclass(frozen=True)
class Cluster:
    """One rendering: the deployment, and what all of its objects refer to."""

    deployment: Deployment
    files: tuple[RenderedFile, ...]
    """What lies in `HOME` of every container."""
    text: Callable[[str], str] = literal
    """A word or value as the manifest has it."""

    @cached_property
    def stem(self) -> str:
        """What the name of every object begins with."""
        return stem_of(self.deployment)

    @property
    def files_name(self) -> str:
        """The ConfigMap; other files make another one, so that pods start anew with them."""
        return f"{self.stem}-files-{self.rendering}"

    @cached_property
    def rendering(self) -> str:
        """A digest of what lies in the containers, the profile too: another with every change."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.path}\0{file.text}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:8]

    @property
    def keys_name(self) -> str:
        """The Secret that the operator makes; nothing of it is rendered."""
        return f"{self.stem}-keys"

    @property
    def settings_name(self) -> str:
        """The ConfigMap that the operator may make, to let through what is refuted."""
        return f"{self.stem}-settings"

    @property
    def channel_name(self) -> str:
        """The template of the claims for an IMEX channel."""
        return f"{self.stem}-imex-channel"

    def labels(self, **more: object) -> dict[str, str]:
        """Labels of an object; what is more is of configurator's own."""
        own = {f"configurator/{name}": str(value) for name, value in more.items()}
        return {
            "app.kubernetes.io/managed-by": "configurator",
            "app.kubernetes.io/instance": self.stem,
            **own,
        }

    def metadata(self, name: str, **more: object) -> dict[str, Any]:
        """Metadata of an object that is not a pod, which must not start anew for a label.

        What an earlier rendering left behind is found by its own digest.
        """
        return {"name": name, "labels": self.labels(**more, rendering=self.rendering)}

    def annotations(self) -> dict[str, str]:
        """What tells one launch from the next."""
        found = {
            "configurator/launch": fingerprint(self.deployment),
            "configurator/demands": demands(self.deployment),
        }
        status = self.deployment.profile.status
        return {**found, "configurator/status": status} if status else found


def gpus_of(deployment: Deployment) -> int:
    """GPUs that one rank's pod asks for."""
    if not needs_gpus(deployment):
        return 0
    return deployment.gpus_per_replica // deployment.hosts_per_replica


def shared_files(deployment: Deployment, packages: Iterable[str] = ()) -> list[RenderedFile]:
    """What lies in every engine's container; `packages` are needed besides the profile's."""
    probe = probe_files(deployment)
    return [
        entry_file(deployment),
        preflight_file(deployment, packages),
        profile_file(deployment),
        *probe,
    ]


def serving_files(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """What lies in the containers of a target that has a checker, and maybe a router."""
    files = [*shared_files(deployment), check_file(deployment)]
    if deployment.profile.router:
        text = templates().get_template("wait.sh.j2").render(heading=heading(deployment))
        files.append(RenderedFile("wait.sh", text))
    return tuple(files)


def preflight_file(deployment: Deployment, more: Iterable[str] = ()) -> RenderedFile:
    """The script of the init container."""
    context = process_context(deployment, deployment.processes[0])
    packages = sorted({*context["packages"], *more})
    # A pod has ports of its own, its ConfigMap one profile, and the ComputeDomain runs IMEX.
    found = [
        name for name in context["checks"] if name not in ("profile", "port", "packages", "imex")
    ]
    if packages:
        found.insert(found.index("engine") + 1, "packages")
    text = templates().get_template("container_preflight.sh.j2").render(
        **shared_context(deployment), heads=[], held=[],
        **{
            **context,
            "checks": found,
            "packages": packages,
            "gpus_needed": gpus_of(deployment),
            "place": "pod",
            "settings": SETTINGS,
            **IN_IMAGE,
        },
    )  # fmt: skip
    return RenderedFile("preflight.sh", text)


def key_of_file(path: str) -> str:
    """The key of a file in the ConfigMap, where a key may not have a slash."""
    return path.replace("/", "--")


def config_map(cluster: Cluster) -> dict[str, Any]:
    """The files of every container.

    Raises:
        ConfiguratorError: RND007, they are more than a ConfigMap holds.
    """
    data = {key_of_file(file.path): file.text for file in cluster.files}
    size = sum(len(key) + len(text.encode("utf-8", "surrogatepass")) for key, text in data.items())
    if size >= LARGEST:
        raise ConfiguratorError.single(
            "RND007", f"the files for Kubernetes have {size} bytes, a ConfigMap holds {LARGEST}",
            "shorten what the profile holds in full, for instance workload.prompts",
            cluster.deployment.locate(("workload", "prompts")),
        )  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": cluster.metadata(cluster.files_name),
        "immutable": True,
        "data": data,
    }


def service(
    cluster: Cluster,
    name: str,
    selector: dict[str, str],
    ports: dict[str, int],
    *,
    for_ranks: bool = False,
) -> dict[str, Any]:
    """A service in front of pods that are ready, or for names of ranks: of all, and headless.

    The ports of pods are meant by name, for replicas on one host have different ones.
    """
    listed = [{"name": key, "port": port, "targetPort": key} for key, port in ports.items()]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True} if for_ranks else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": cluster.metadata(name),
        "spec": {**headless, "selector": selector, **({"ports": listed} if listed else {})},
    }


def compute_domain(cluster: Cluster, name: str, channel: str) -> dict[str, Any]:
    """NVIDIA's object that runs IMEX among the nodes of pods which claim a channel of it."""
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": cluster.metadata(name),
        # No number of nodes: its driver advises zero, and counts the pods that come.
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": channel}}},
    }


def listens_outside(deployment: Deployment, process: Process) -> bool:
    """Whether other pods can reach it."""
    return listening(deployment, process) not in LOOPBACK


def listening(deployment: Deployment, process: Process) -> str:
    """The address that the profile lets a process listen on."""
    profile = deployment.profile
    listen = profile.router.host if process.role == "router" and profile.router else None
    return (listen or profile.serving.host).strip("[]")


def entrance(deployment: Deployment) -> Process:
    """The process that clients speak to: the router, else the first rank of the first replica."""
    last = deployment.processes[-1]
    return last if last.role == "router" else deployment.processes[0]


def key_commands(cluster: Cluster, secrets: Iterable[Secret]) -> list[str]:
    """What makes the Secret, without a key on a command line or a line break in a key."""
    secrets = tuple(secrets)
    if not secrets:
        return []
    words = [f'  --from-file={one.name}=<(printf %s "{_read(one)}")' for one in secrets]
    return [f"kubectl create secret generic {cluster.keys_name} \\", *_continued(words)]


def _read(secret: Secret) -> str:
    reference = secret.reference
    return f"$(cat -- {quote(reference.file)})" if reference.file else f"${reference.env}"


def _continued(lines: list[str]) -> list[str]:
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def head(cluster: Cluster, what: str, differences: Iterable[str]) -> list[str]:
    """The lines of comment that a file of manifests begins with."""
    deployment = cluster.deployment
    lines = [f"{heading(deployment)}. Change the profile and render again; do not edit this file."]
    lines.append(f"{comment(deployment.name)}: {what}; START.md says how to use it.")
    if deployment.profile.status == "unverified":
        lines.append("STATUS: UNVERIFIED. Nobody has yet run this composition as a whole.")
    for line in differences:
        lines += ["", comment(line)]
    first = deployment.processes[0]
    lines += [
        "",
        f"Arguments of replica {first.replica}, rank {first.rank}, and who asked for them:",
    ]
    return [*lines, *_origins(first)]


def _origins(process: Process) -> list[str]:
    lines, place = [], len(process.argv) - sum(count for count, _ in process.groups)
    for count, origin in process.groups:
        words = " ".join(_shown(word) for word in process.argv[place : place + count])
        lines.append(f"  {comment(words)[:120]}  ({comment(origin)})")
        place += count
    return lines


def _shown(word: Word) -> str:
    if isinstance(word, SecretRef):
        return KEY_SHOWN
    return address_text(word, "<address>") if isinstance(word, HostPlaceholder) else word


def notes(deployment: Deployment, image: str, *, served: bool = True) -> list[str]:
    """What whoever applies a manifest must know.

    Args:
        deployment: what is launched.
        image: the image of the engine.
        served: SGLang's own servers listen, and are proven.
    """
    found = list(_about_addresses(deployment)) if served else []
    drops = [m.name for m in deployment.mechanisms.values() if m.wish.on_refuted == "drop"]
    if drops and served:
        found.append(
            f"on_refuted: drop of {', '.join(drops)} is treated as fail: a manifest cannot launch "
            "another set."
        )
    if devices_of(deployment):
        found.append(
            f"{', '.join(devices_of(deployment))} is mounted from the node and the container is "
            "privileged, for a mount alone does not let it open the devices, and NCCL would take "
            "sockets without a word. With an RDMA device plugin ask for its resource (its name is "
            "the site's) and remove `privileged` and the mount."
        )
    if needs_imex(deployment):
        found.append(
            "GPUs of one replica share memory over hosts: this needs NVIDIA's DRA driver, whose "
            "ComputeDomain brings the IMEX daemons and channels, and nodes that GPU Feature "
            f"Discovery has labelled {CLIQUE}."
        )
    asked = [
        f"The machine's entry asks of every host: {line}" for line in requirements_of(deployment)
    ]
    cached = deployment.profile.container.cache is not None
    place = Place(image, cached, hosts="every node that may run it")
    brought = [
        *about_images(deployment, image, checked=served),
        *before_start(deployment, place),
    ]
    return [*found, *brought, *asked, *container_notes(deployment)]


def _about_addresses(deployment: Deployment) -> Iterator[str]:
    door = entrance(deployment)
    for process in {
        deployment.processes[0].role: deployment.processes[0],
        door.role: door,
    }.values():
        key = "router.host" if process.role == "router" else "serving.host"
        listen = listening(deployment, process)
        if listen in LOOPBACK and process is door:
            yield (
                f"{key} is {listen}: only its own pod reaches the server, and `kubectl "
                f"port-forward`. For clients in the cluster set {key}: 0.0.0.0 (and a key)."
            )
        elif listen in LOOPBACK:
            yield (
                f"{key} is {listen}: the router cannot reach the replicas, which have pods of "
                f"their own. Set {key}: 0.0.0.0 (and a key)."
            )
        elif listen not in ANY:
            yield (
                f"{key} is {listen}, which is no address of a pod: the server cannot listen there. "
                f"Set {key}: 0.0.0.0."
            )
