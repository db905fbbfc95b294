"""The dynamo target: a DynamoGraphDeployment, whose workers take the engine's arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator.assemble import LAUNCH, names_of
from configurator.deployment import Deployment, Word
from configurator.engine.catalogue import catalogue_of
from configurator.render.cluster import (
    Cluster,
    compute_domain,
    config_map,
    notes,
    shared_files,
)
from configurator.render.common import heading
from configurator.render.containers import (
    HOME,
    KEYS,
    STATE_VARIABLE,
    Contained,
    image_of,
    mounts_of,
    needs_imex,
)
from configurator.render.files import RenderedFile
from configurator.render.launches import secret_of
from configurator.render.manifests import literal
from configurator.render.pods import (
    SETTINGS_MOUNT,
    containers_of,
    engine_container,
    mounts,
    pod_of,
    preflight,
    volumes,
)
from configurator.render.starting import manifest_files

WORKER = ("python3", "-m", "dynamo.sglang")
FRONTEND = ("python3", "-m", "dynamo.frontend")
PACKAGE = "ai-dynamo"
FRONTEND_PORT = 8000

KEYLESS = ("api-key", "admin-api-key")
PLACED = ("nnodes", "node-rank", "dist-init-addr")
MODES = {
    "cache_aware": "kv",
    "round_robin": "round-robin",
    "random": "random",
    "power_of_two": "power-of-two",
}
PARSERS = ("tool-call-parser", "reasoning-parser")


def render(deployment: Deployment) -> tuple[RenderedFile, ...]:
    """One file of manifests, how to start it, and the profile it comes from."""
    files = (*shared_files(deployment, [PACKAGE]), _enter_file(deployment))
    cluster = Cluster(deployment, files)
    return manifest_files(
        cluster, "dynamo", "Dynamo's frontend and workers", _objects(cluster),
        differences=differences(deployment), notes=_notes(deployment),
        secrets=_launch(cluster).keys,
    )  # fmt: skip


def differences(deployment: Deployment) -> Iterator[str]:
    """What a worker gets that is not as elsewhere, and what comes instead."""
    yield (
        "Workers run `python3 -m dynamo.sglang`, which parses the engine's own arguments with the "
        "engine's own parser; no word of them is changed. It serves no HTTP: --host and --port are "
        "taken and open nothing."
    )
    if deployment.profile.serving.api_key or deployment.profile.serving.admin_api_key:
        yield (
            "--api-key and --admin-api-key are left out: a worker has no HTTP server that would "
            "ask for a key, and Dynamo's frontend asks for none. Guard it with a gateway or a "
            "NetworkPolicy."
        )
    if deployment.hosts_per_replica > 1:
        yield (
            "--nnodes, --node-rank and --dist-init-addr are left out: Dynamo's operator appends "
            "its own for multinode.nodeCount pods (port 29500)."
        )
    if deployment.profile.topology.replicas > 1:
        yield (
            "Every replica is launched as replica 0: its log and reports lie in its own pod, under "
            "that name."
        )
    yield from _frontend_differences(deployment)


def _frontend_differences(deployment: Deployment) -> Iterator[str]:
    profile = deployment.profile
    policy = profile.router.policy if profile.router else None
    if policy:
        yield (
            f"The frontend takes the router's place on port {FRONTEND_PORT}: policy {policy} is "
            f"--router-mode {MODES[policy]}."
        )
    if policy == "cache_aware" and "kv-events-config" not in deployment.args:
        yield (
            "The frontend predicts what each worker has cached from where it sent requests "
            "(--no-router-kv-events), as SGLang's router does. For events of the workers set "
            "extra.args.kv-events-config."
        )
    if any(name in deployment.args for name in PARSERS):
        yield (
            "Dynamo parses reasoning and tool calls in the frontend: --dyn-chat-processor sglang "
            "with the profile's names lets SGLang's own parsers do it there. Where Dynamo has "
            "parsers of its own for the model, they are faster."
        )


def _notes(deployment: Deployment) -> Iterator[str]:
    if deployment.profile.container.dynamo is None:
        yield (
            f"The image {image_of(deployment)} is the engine's, and nothing says that it has "
            "Dynamo: set container.dynamo, an image that has both and its Dynamo version. Until "
            "then the operator refuses an image without a version in its tag, or preflight ends."
        )
    if needs_imex(deployment):
        yield (
            "The pods of one worker must land in one NVLink domain: give the component a "
            "topologyConstraint where Grove knows the cluster's topology."
        )
    yield from notes(deployment, _image(deployment), served=False)


def _enter_file(deployment: Deployment) -> RenderedFile:
    """The operator appends arguments to a command of Python alone, so bash stands behind one."""
    text = (
        f"# {heading(deployment)}: becomes the entry script, with all words.\n"
        "import os\nimport sys\n\n"
        f'os.execvp("bash", ["bash", "-p", "{HOME}/entry.sh", *sys.argv[1:]])\n'
    )
    return RenderedFile("enter.py", text)


def _objects(cluster: Cluster) -> list[dict[str, Any]]:
    deployment = cluster.deployment
    found = [config_map(cluster)]
    if needs_imex(deployment):
        found.append(compute_domain(cluster, cluster.stem, cluster.channel_name))
    graph = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {**cluster.metadata(cluster.stem), "annotations": cluster.annotations()},
        "spec": {
            "backendFramework": "sglang",
            "components": [_frontend(cluster), _worker(cluster)],
        },
    }
    return [*found, graph]


def _component(deployment: Deployment, name: str, kind: str, replicas: int) -> dict[str, Any]:
    dynamo = deployment.profile.container.dynamo
    version = {"runtimeVersionOverride": dynamo.version} if dynamo else {}
    return {"name": name, "type": kind, **version, "replicas": replicas}


def _image(deployment: Deployment) -> str:
    dynamo = deployment.profile.container.dynamo
    return dynamo.image if dynamo else image_of(deployment)


def _frontend(cluster: Cluster) -> dict[str, Any]:
    deployment = cluster.deployment
    policy = deployment.profile.router.policy if deployment.profile.router else "round_robin"
    words = ["--http-port", str(FRONTEND_PORT), "--router-mode", MODES[policy]]
    if policy == "cache_aware" and "kv-events-config" not in deployment.args:
        words.append("--no-router-kv-events")
    parsers = [(name, deployment.arg(name)) for name in PARSERS if name in deployment.args]
    if parsers:
        words += ["--dyn-chat-processor", "sglang"]
        words += [word for name, value in parsers for word in (f"--{name}", str(value))]
    main: dict[str, Any] = {
        "name": "main",
        "image": _image(deployment),
        "command": list(FRONTEND),
        "args": [literal(word) for word in words],
    }
    spec: dict[str, Any] = {"containers": [main]}
    # It reads the tokenizer, so it runs where the checkpoint is.
    number = len([mount for mount in mounts_of(deployment) if mount.read_only])
    if number:
        names = [f"host-{place}" for place in range(1, number + 1)]
        main["volumeMounts"] = [m for m in mounts(cluster) if m["name"] in names]
        spec["volumes"] = [v for v in volumes(cluster) if v["name"] in names]
    found = _component(deployment, "Frontend", "frontend", 1)
    return {**found, "podTemplate": {"spec": spec}}


def _worker(cluster: Cluster) -> dict[str, Any]:
    deployment = cluster.deployment
    one = _launch(cluster)
    main = engine_container(cluster, "main", one)
    main["image"] = _image(deployment)
    place = 2 + len(WORKER)
    main["command"], main["args"] = main["command"][:place], main["command"][place:]
    main["volumeMounts"] = mounts(cluster, shared_memory=False)
    # The operator's own ends a worker whose system port is silent for a moment, for instance while
    # a kernel is compiled.
    main["livenessProbe"] = {
        "httpGet": {"path": "/live", "port": "system"},
        "periodSeconds": 10,
        "timeoutSeconds": 10,
        "failureThreshold": 60,
    }
    look = preflight(cluster, one)
    look["image"] = _image(deployment)
    look["volumeMounts"] = [*mounts(cluster, shared_memory=False), SETTINGS_MOUNT]
    # Workers find each other through the cluster's API.
    pod = {k: v for k, v in pod_of(cluster).items() if k != "automountServiceAccountToken"}
    nodes = deployment.hosts_per_replica
    replicas = deployment.profile.topology.replicas
    return {
        **_component(deployment, "Worker", "worker", replicas),
        **({"multinode": {"nodeCount": nodes}} if nodes > 1 else {}),
        "sharedMemorySize": f"{deployment.profile.container.shared_memory_gib}Gi",
        "podTemplate": {
            "metadata": {"annotations": cluster.annotations()},
            "spec": {
                **pod,
                "initContainers": [look],
                "containers": [main],
                "volumes": volumes(cluster, shared_memory=False),
            },
        },
    }


def _launch(cluster: Cluster) -> Contained:
    """The first rank's launch, with the words that a worker gets; Dynamo starts the others."""
    first = containers_of(cluster, lambda _: "")[0]
    env = {k: v for k, v in first.env.items() if k not in (KEYS, STATE_VARIABLE)}
    words = [str(word) for word in worker_words(cluster.deployment)]
    places = cluster.deployment.profile.extra.secrets.items()
    named = [(name, secret_of(cluster.deployment, reference)) for name, reference in places]
    if named:
        env[KEYS] = " ".join(f"{name}=env:{secret.variable}" for name, secret in named)
    command = ("python3", f"{HOME}/enter.py", *words)
    return Contained(first.launch, command, env, tuple(dict.fromkeys(key for _, key in named)))


def worker_words(deployment: Deployment) -> tuple[Word, ...]:
    """The command of a worker: the first rank's, without what Dynamo has no use for."""
    process = deployment.processes[0]
    known = catalogue_of(deployment.engine)
    left_out = {*KEYLESS, *(PLACED if deployment.hosts_per_replica > 1 else ())}
    words: list[Word] = [*WORKER]
    place = len(LAUNCH)
    for count, _ in process.groups:
        group = process.argv[place : place + count]
        place += count
        first = group[0]
        assert isinstance(first, str)
        if not left_out.intersection(names_of(first.removeprefix("--"), known)):
            words += group
    return tuple(words)
