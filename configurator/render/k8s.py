"""The k8s target: a StatefulSet for every rank, with words that nothing in the cluster changes."""

from __future__ import annotations

from typing import Any

from configurator.deployment import Deployment, HostPlaceholder
from configurator.render.cluster import (
    Cluster,
    compute_domain,
    config_map,
    entrance,
    listens_outside,
    notes,
    service,
    serving_files,
)
from configurator.render.containers import Contained, image_of, needs_imex
from configurator.render.files import RenderedFile
from configurator.render.launches import secrets_of
from configurator.render.pods import PORT, containers_of, engine_pod, heads_of, router
from configurator.render.starting import manifest_files

DIFFERENCES = (
    "Every rank has a StatefulSet of one pod, so that its words stand here in full. Where a "
    "replica takes some GPUs of a host, CUDA_VISIBLE_DEVICES counts from 0: a pod sees its own.",
)


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """One file of manifests, how to start it, and the profile that it checks."""
    cluster = Cluster(deployment, serving_files(deployment))
    return manifest_files(
        cluster, "k8s", "every rank as a StatefulSet", _objects(cluster),
        differences=DIFFERENCES, notes=notes(deployment, image_of(deployment)),
        secrets=secrets_of(deployment),
        first=f"{name_of(cluster.stem, 0, 0)}-0",
    )  # fmt: skip


def name_of(stem: str, replica: int, rank: int) -> str:
    """The StatefulSet of a rank."""
    return f"{stem}-r{replica}-h{rank}"


def _objects(cluster: Cluster) -> list[dict[str, Any]]:
    deployment = cluster.deployment
    stem = cluster.stem

    def address(word: HostPlaceholder) -> str:
        """A rank by the name of its pod; for the router a service, which waits for the proof."""
        if word.scheme:
            return f"{stem}-r{word.replica}-api"
        return f"{name_of(stem, word.replica, word.host)}-0.{stem}-r{word.replica}"

    launched = containers_of(cluster, address)
    found = [config_map(cluster)]
    for process in heads_of(deployment):
        replica = process.replica
        ranks = cluster.labels(role="engine", replica=replica)
        found.append(service(cluster, f"{stem}-r{replica}", ranks, {}, for_ranks=True))
        if deployment.profile.router:
            leader = cluster.labels(role="engine", replica=replica, rank=0)
            found.append(service(cluster, f"{stem}-r{replica}-api", leader, {PORT: process.port}))
        if needs_imex(deployment):
            name = f"{stem}-r{replica}"
            found.append(compute_domain(cluster, name, f"{name}-imex-channel"))
    for one in launched:
        if one.launch.process.role == "router":
            heads = [
                (p, HostPlaceholder(p.replica, 0, p.port, "http")) for p in heads_of(deployment)
            ]
            places = [f"{address(word)}:{process.port}" for process, word in heads]
            found.append(router(cluster, one, places))
        else:
            found.append(_stateful_set(cluster, one))
    return [*found, *front(cluster, cluster.labels(role="engine", rank=0))]


def front(cluster: Cluster, leaders: dict[str, str]) -> list[dict[str, Any]]:
    """The service for clients, where other pods reach what is behind it."""
    door = entrance(cluster.deployment)
    if not listens_outside(cluster.deployment, door):
        return []
    selector = cluster.labels(role="router") if door.role == "router" else leaders
    return [service(cluster, f"{cluster.stem}-clients", selector, {PORT: door.port})]


def _stateful_set(cluster: Cluster, one: Contained) -> dict[str, Any]:
    process = one.launch.process
    name = name_of(cluster.stem, process.replica, process.rank)
    labels = cluster.labels(role="engine", replica=process.replica, rank=process.rank)
    together = cluster.labels(role="engine", replica=process.replica)
    spec = engine_pod(cluster, one, {"labelSelector": {"matchLabels": together}})
    for claim in spec.get("resourceClaims", ()):
        # Every replica has an IMEX domain of its own.
        claim["resourceClaimTemplateName"] = f"{cluster.stem}-r{process.replica}-imex-channel"
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": cluster.metadata(name, replica=process.replica, rank=process.rank),
        "spec": {
            "replicas": 1,
            "serviceName": f"{cluster.stem}-r{process.replica}",
            "podManagementPolicy": "Parallel",
            # A change restarts nothing by itself: the ranks of a replica must start together, and
            # one replica after another. START.md has the commands.
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": cluster.annotations()},
                "spec": spec,
            },
        },
    }
