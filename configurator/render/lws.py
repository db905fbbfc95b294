"""The lws target: a LeaderWorkerSet, whose groups are the replicas and start again as one."""

from __future__ import annotations

import re
from typing import Any

from configurator.deployment import Deployment, HostPlaceholder
from configurator.render.cluster import (
    Cluster,
    compute_domain,
    config_map,
    notes,
    service,
    serving_files,
)
from configurator.render.containers import Contained, image_of, needs_imex
from configurator.render.files import RenderedFile
from configurator.render.k8s import front
from configurator.render.launches import secrets_of
from configurator.render.manifests import literal
from configurator.render.pods import PORT, containers_of, engine_pod, router
from configurator.render.starting import manifest_files

GROUP = "leaderworkerset.sigs.k8s.io"
DIFFERENCES = (
    "Every group is launched as replica 0: a template is the same for all of them, and each has "
    "pods of its own, so port, rendezvous and folders of replica 0 are right in every one.",
    "What LeaderWorkerSet puts in: --node-rank is $(LWS_WORKER_INDEX), the host of "
    "--dist-init-addr is $(LWS_LEADER_ADDRESS); it adds LWS_* to the variables of every container.",
)

# NUL cannot be part of a word, so that no word of the profile is taken for these.
_LEADER, _RANK = "\0leader\0", "\0rank\0"


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """One file of manifests, how to start it, and the profile that it checks."""
    cluster = Cluster(deployment, serving_files(deployment), _text)
    return manifest_files(
        cluster, "lws", "every replica as a group", _objects(cluster),
        differences=DIFFERENCES, notes=notes(deployment, image_of(deployment)),
        secrets=secrets_of(deployment),
        first=f"{cluster.stem}-0",
    )  # fmt: skip


def _text(word: str) -> str:
    """A word as the manifest has it, with the references to what LeaderWorkerSet knows."""
    parts = re.split(f"({_LEADER}|{_RANK})", word)
    known = {_LEADER: "$(LWS_LEADER_ADDRESS)", _RANK: "$(LWS_WORKER_INDEX)"}
    return "".join(known.get(part) or literal(part) for part in parts)


def _objects(cluster: Cluster) -> list[dict[str, Any]]:
    deployment, stem = cluster.deployment, cluster.stem
    port = deployment.processes[0].port
    replicas = range(deployment.profile.topology.replicas)

    def address(word: HostPlaceholder) -> str:
        return f"{stem}-g{word.replica}-api" if word.scheme else _LEADER

    launched = containers_of(cluster, address)
    ranks = [one for one in launched if one.launch.process.replica == 0]
    found = [config_map(cluster)]
    if needs_imex(deployment):
        found.append(compute_domain(cluster, stem, cluster.channel_name))
    leaders = {f"{GROUP}/name": stem, f"{GROUP}/worker-index": "0"}
    if deployment.profile.router:
        for replica in replicas:
            group = {**leaders, f"{GROUP}/group-index": str(replica)}
            found.append(service(cluster, f"{stem}-g{replica}-api", group, {PORT: port}))
        one = _with_one_port(launched[-1], deployment)
        found.append(
            router(cluster, one, [f"{stem}-g{replica}-api:{port}" for replica in replicas])
        )
    found.append(_set(cluster, ranks))
    return [*found, *front(cluster, leaders)]


def _with_one_port(router: Contained, deployment: Deployment) -> Contained:
    """The router's words, with the port that every group has."""
    port = deployment.processes[0].port
    words = list(router.command)
    offset = len(words) - len(router.launch.argv)
    for place, word in enumerate(router.launch.argv, offset):
        if isinstance(word, HostPlaceholder) and word.port != port:
            words[place] = words[place].removesuffix(f":{word.port}") + f":{port}"
    return Contained(router.launch, tuple(words), router.env, router.keys)


def _set(cluster: Cluster, ranks: list[Contained]) -> dict[str, Any]:
    first = _for_every_rank(ranks)
    one_group = {
        "labelSelector": {"matchLabels": {f"{GROUP}/name": cluster.stem}},
        "matchLabelKeys": [f"{GROUP}/group-index"],
    }
    templates = {
        name: {
            "metadata": {
                "labels": cluster.labels(role="engine"),
                "annotations": cluster.annotations(),
            },
            "spec": engine_pod(cluster, one, one_group, again=True),
        }
        for name, one in first.items()
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": cluster.metadata(cluster.stem),
        "spec": {
            "replicas": cluster.deployment.profile.topology.replicas,
            "startupPolicy": "LeaderCreated",
            # One group after another: the next once this one is proven.
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
            },
            # Names of all pods below one headless service, which LeaderWorkerSet makes.
            "networkConfig": {"subdomainPolicy": "Shared"},
            "leaderWorkerTemplate": {
                "size": len(ranks),
                "restartPolicy": "RecreateGroupOnPodRestart",
                **templates,
            },
        },
    }


def _for_every_rank(ranks: list[Contained]) -> dict[str, Contained]:
    """The leader's launch and one for all the others, or one for a group of one."""
    if len(ranks) == 1:
        return {"workerTemplate": ranks[0]}
    words = list(ranks[0].command)
    for place, column in enumerate(zip(*(one.command for one in ranks), strict=True)):
        if len(set(column)) == 1:
            continue
        common = column[0].removesuffix("0")
        ranks_only = [f"{common}{rank}" for rank in range(len(ranks))]
        assert list(column) == ranks_only, "ranks of a replica differ in their number alone"
        words[place] = f"{common}{_RANK}"
    leader = Contained(ranks[0].launch, tuple(words), ranks[0].env, ranks[0].keys)
    # Their logs have one name, each in its own pod.
    worker = Contained(ranks[1].launch, tuple(words), ranks[1].env, ranks[1].keys)
    return {"leaderTemplate": leader, "workerTemplate": worker}
