"""The files of a target for Kubernetes: manifests, the profile, and START.md with the commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from configurator.render.cluster import Cluster, entrance, head, key_commands, listens_outside
from configurator.render.common import heading, profile_file, templates
from configurator.render.containers import needs_imex, start_period_of
from configurator.render.files import RenderedFile
from configurator.render.launches import Secret
from configurator.render.manifests import documents
from configurator.render.pods import AGAIN_S
from configurator.render.quoting import comment


def manifest_files(
    cluster: Cluster,
    target: str,
    what: str,
    objects: Iterable[dict[str, Any]],
    *,
    differences: Iterable[str],
    notes: Iterable[str],
    secrets: Iterable[Secret],
    **known: Any,
) -> tuple[RenderedFile, ...]:
    """One file of manifests, the profile that it checks, and how to start it.

    Args:
        cluster: the rendering.
        target: its name, which the file of manifests has too.
        what: what the manifests make of the deployment.
        objects: the manifests.
        differences: what is not as elsewhere.
        notes: what whoever applies them must know.
        secrets: what the Secret must hold.
        known: what the target's START.md names besides.
    """
    told, noted = list(differences), list(notes)
    text = documents(head(cluster, what, (*told, *noted)), objects)
    start = _start_file(
        cluster, target, differences=told, notes=noted, keys=key_commands(cluster, secrets), **known
    )
    return (RenderedFile(f"{target}.yaml", text), profile_file(cluster.deployment), start)


def _start_file(cluster: Cluster, target: str, notes: list[str], **known: Any) -> RenderedFile:
    deployment = cluster.deployment
    profile = deployment.profile
    door = entrance(deployment)
    text = templates().get_template(f"START-{target}.md.j2").render(
        heading=heading(deployment),
        name=comment(deployment.name),
        status=profile.status,
        stem=cluster.stem,
        rendering=cluster.rendering,
        notes=[comment(note) for note in notes],
        port=door.port,
        outside=listens_outside(deployment, door),
        router=profile.router is not None,
        imex=needs_imex(deployment),
        replicas=profile.topology.replicas,
        hosts=deployment.hosts_per_replica,
        timeout_s=profile.startup.timeout_s,
        ready_s=start_period_of(deployment),
        again_s=AGAIN_S,
        **known,
    )  # fmt: skip
    return RenderedFile("START.md", text)
