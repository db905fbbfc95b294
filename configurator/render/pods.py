"""The pods of an engine, its checker and the router, for every target on Kubernetes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from configurator.deployment import Deployment, Process
from configurator.render.cluster import CLIQUE, Cluster, gpus_of, key_of_file
from configurator.render.common import local_address
from configurator.render.containers import (
    BASH,
    HOME,
    KEYS,
    LOG,
    RUN,
    SETTINGS,
    STATE_VARIABLE,
    Contained,
    check_of,
    checker_of,
    contained,
    devices_of,
    health_of,
    image_of,
    leads,
    mounts_of,
    needs_imex,
)
from configurator.render.launches import Secret

VISIBLE = "CUDA_VISIBLE_DEVICES"
GPU = "nvidia.com/gpu"
PERIOD_S = 10
PORT = "http"
"""The name of the port that a process listens on."""
SETTINGS_MOUNT = {"name": "settings", "mountPath": SETTINGS, "readOnly": True}
CHECK_MODE = "hold"
"""A checker that ended would be started again and again, and with LWS take the engine along."""
AGAIN_S = 30
_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
_ONE_FILE = (".gguf", ".safetensors")


def containers_of(cluster: Cluster, address: Any) -> list[Contained]:
    """The launches; each sees only the GPUs that its pod is given, which count from 0 there."""
    found = []
    for one in contained(cluster.deployment, address):
        process = one.launch.process
        if process.gpus and VISIBLE not in cluster.deployment.env:
            one.env[VISIBLE] = ",".join(map(str, range(len(process.gpus))))
        found.append(one)
    return found


def engine_pod(
    cluster: Cluster, one: Contained, affinity: dict[str, Any] | None, *, again: bool = False
) -> dict[str, Any]:
    """The pod of one rank; beside the rank that leads its replica a checker.

    `again`: preflight does not fail but waits until all is good.
    """
    main = engine_container(cluster, "engine", one)
    process = one.launch.process
    if leads(process):
        main["ports"] = [{"name": PORT, "containerPort": process.port}]
        main.update(probes(cluster, process))
    containers = [main]
    if leads(process):
        containers.append(checker(cluster, one))
    return {
        **pod_of(cluster, affinity),
        "initContainers": [preflight(cluster, one, again=again)],
        "containers": containers,
        "volumes": volumes(cluster),
    }


def pod_of(cluster: Cluster, affinity: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a pod of an engine has besides containers and volumes."""
    deployment = cluster.deployment
    spec: dict[str, Any] = {
        # Variables about other services would reach the engine.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        # Requests that run may end; then it is killed, as the scripts do.
        "terminationGracePeriodSeconds": 60,
    }
    architecture = _ARCHITECTURES.get(deployment.hardware.cpu_arch)
    if architecture:
        spec["nodeSelector"] = {"kubernetes.io/arch": architecture}
    if needs_imex(deployment):
        claim = {"name": "imex", "resourceClaimTemplateName": cluster.channel_name}
        spec["resourceClaims"] = [claim]
        if affinity is not None:
            term = {**affinity, "topologyKey": CLIQUE}
            key = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"podAffinity": {key: [term]}}
    return spec


def engine_container(cluster: Cluster, name: str, one: Contained) -> dict[str, Any]:
    """The container of one rank, without ports and probes."""
    deployment = cluster.deployment
    return {
        "name": name,
        "image": image_of(deployment),
        "command": [cluster.text(word) for word in one.command],
        "env": environment(cluster, one.env, one.keys),
        **_resources(cluster),
        "volumeMounts": mounts(cluster),
    }


def _resources(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {}
    gpus = gpus_of(cluster.deployment)
    resources: dict[str, Any] = {"limits": {GPU: str(gpus)}} if gpus else {}
    if needs_imex(cluster.deployment):
        resources["claims"] = [{"name": "imex"}]
    if resources:
        found["resources"] = resources
    if devices_of(cluster.deployment):
        found["securityContext"] = {"privileged": True}
    return found


def environment(
    cluster: Cluster, env: dict[str, str], keys: Iterable[Secret]
) -> list[dict[str, Any]]:
    """Variables; those with keys refer to the Secret."""
    found: list[dict[str, Any]] = [
        {"name": name, "value": cluster.text(value)} for name, value in env.items()
    ]
    for key in keys:
        source = {"secretKeyRef": {"name": cluster.keys_name, "key": key.name}}
        found.append({"name": key.variable, "valueFrom": source})
    return found


def preflight(cluster: Cluster, one: Contained, *, again: bool = False) -> dict[str, Any]:
    """Looks, with the engine's image, variables and GPUs, at what the engine will need."""
    env = {k: v for k, v in one.env.items() if k not in (KEYS, LOG, STATE_VARIABLE)}
    if again:
        env["CONFIGURATOR_AGAIN_S"] = str(AGAIN_S)
    return {
        "name": "preflight",
        "image": image_of(cluster.deployment),
        "command": [*BASH, f"{HOME}/preflight.sh"],
        "env": environment(cluster, env, ()),
        **_resources(cluster),
        # What it says last is in `kubectl describe pod`.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts(cluster), SETTINGS_MOUNT],
    }


def probes(cluster: Cluster, process: Process) -> dict[str, Any]:
    """Started: the port answers. Ready: this start is proven too.

    None asks whether the engine lives: a long prefill or the compiling of a kernel may keep it from
    answering for minutes, and a restart loses every request; an engine that dies ends by itself.
    """
    proven = health_of(cluster.deployment, process)
    timeout_s = cluster.deployment.profile.startup.timeout_s
    return {
        "startupProbe": {
            "exec": {"command": [*BASH, "-c", cluster.text(answers(cluster, process))]},
            "periodSeconds": PERIOD_S,
            "timeoutSeconds": PERIOD_S,
            "failureThreshold": math.ceil(timeout_s / PERIOD_S),
        },
        "readinessProbe": {
            "exec": {"command": [*BASH, "-c", cluster.text(proven)]},
            "periodSeconds": PERIOD_S,
            "timeoutSeconds": PERIOD_S,
            "failureThreshold": 2,
        },
    }


def answers(cluster: Cluster, process: Process) -> str:
    """What bash finds true once a process listens."""
    return f"exec 3<>/dev/tcp/{local_address(cluster.deployment, process)}/{process.port}"


def checker(cluster: Cluster, one: Contained) -> dict[str, Any]:
    """The container that proves each start of the engine beside it."""
    check = check_of(cluster.deployment, one.launch)
    env = {**check.env, "CONFIGURATOR_CHECK": CHECK_MODE, "CONFIGURATOR_SETTINGS": SETTINGS}
    return {
        "name": "checker",
        "image": checker_of(cluster.deployment),
        "command": [cluster.text(word) for word in check.command],
        "env": environment(cluster, env, [check.key] if check.key else []),
        # It writes where the engine's user, root in its images, has written.
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [*_base_mounts(), SETTINGS_MOUNT],
    }


def _base_mounts() -> list[dict[str, Any]]:
    return [
        {"name": "files", "mountPath": HOME, "readOnly": True},
        {"name": "run", "mountPath": RUN},
    ]


def mounts(cluster: Cluster, *, shared_memory: bool = True) -> list[dict[str, Any]]:
    """What an engine's container sees."""
    found = _base_mounts()
    if shared_memory:
        found.append({"name": "shm", "mountPath": "/dev/shm"})
    for number, mount in enumerate(mounts_of(cluster.deployment), 1):
        one: dict[str, Any] = {"name": f"host-{number}", "mountPath": mount.target}
        found.append({**one, "readOnly": True} if mount.read_only else one)
    for number, device in enumerate(devices_of(cluster.deployment), 1):
        found.append({"name": f"device-{number}", "mountPath": device})
    return found


def volumes(cluster: Cluster, *, shared_memory: bool = True) -> list[dict[str, Any]]:
    """What the containers of an engine's pod mount."""
    deployment = cluster.deployment
    size = f"{deployment.profile.container.shared_memory_gib}Gi"
    # A folder and not a variable: it changes without a restart of the engine.
    operator = {"name": cluster.settings_name, "optional": True}
    found = [*_base_volumes(cluster), {"name": "settings", "configMap": operator}]
    if shared_memory:
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    for number, mount in enumerate(mounts_of(deployment), 1):
        kind = "DirectoryOrCreate"
        if mount.read_only:
            kind = "File" if mount.source.endswith(_ONE_FILE) else "Directory"
        path = {"path": mount.source, "type": kind}
        found.append({"name": f"host-{number}", "hostPath": path})
    for number, device in enumerate(devices_of(deployment), 1):
        found.append({"name": f"device-{number}", "hostPath": {"path": device}})
    return found


def _base_volumes(cluster: Cluster) -> list[dict[str, Any]]:
    items = [{"key": key_of_file(file.path), "path": file.path} for file in cluster.files]
    source = {"name": cluster.files_name, "items": items}
    return [{"name": "files", "configMap": source}, {"name": "run", "emptyDir": {}}]


def router(cluster: Cluster, one: Contained, waits_for: list[str]) -> dict[str, Any]:
    """The router, which starts once every replica is proven."""
    process = one.launch.process
    image = image_of(cluster.deployment)
    labels = cluster.labels(role="router")
    command = [*BASH, "-c", cluster.text(answers(cluster, process))]
    check = {"exec": {"command": command}, "timeoutSeconds": PERIOD_S}
    wait = {
        "name": "wait",
        "image": image,
        "command": [*BASH, f"{HOME}/wait.sh", *waits_for],
        "volumeMounts": _base_mounts(),
    }
    main = {
        "name": "router",
        "image": image,
        "command": [cluster.text(word) for word in one.command],
        "env": environment(cluster, one.env, one.keys),
        "ports": [{"name": PORT, "containerPort": process.port}],
        "readinessProbe": check,
        "volumeMounts": _base_mounts(),
    }
    spec = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "initContainers": [wait],
        "containers": [main],
        "volumes": _base_volumes(cluster),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": cluster.metadata(f"{cluster.stem}-router"),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": cluster.annotations()},
                "spec": spec,
            },
        },
    }


def heads_of(deployment: Deployment) -> list[Process]:
    """The ranks that answer for their replicas."""
    return [process for process in deployment.processes if leads(process)]
