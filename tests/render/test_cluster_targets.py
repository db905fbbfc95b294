"""k8s, lws and dynamo: what a cluster makes of them is the launch that every target starts."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from render.cluster_rules import (
    Received,
    check_schema,
    engine_of,
    entered,
    expanded,
    lay_out,
    objects,
    of_kind,
    received,
    rendered,
    started,
)
from render.deployments import every, shipped
from render.generated import started as wanted
from stand_in import LIBRARY

from configurator.assemble import LAUNCH
from configurator.deployment import Deployment, HostPlaceholder
from configurator.readers.files import read_text
from configurator.render import TARGETS
from configurator.render.containers import FOLDERS
from configurator.render.launches import EngineLaunch, address_text, launches, secrets_of
from configurator.resolve import resolve
from configurator.schema.profile import SecretRef

CLUSTER = ("k8s", "lws", "dynamo")
KEY = 'k$(NAME)-"it\'s"-$$'
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
VISIBLE = "CUDA_VISIBLE_DEVICES"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Deployment]:
    return every(tmp_path_factory.mktemp("generated"))


def keys(deployment: Deployment) -> dict[str, str]:
    return {one.name: f"{KEY}-{one.name}" for one in secrets_of(deployment)}


def key_of(deployment: Deployment) -> Callable[[SecretRef], str]:
    names = {one.reference: one.name for one in secrets_of(deployment)}
    return lambda reference: f"{KEY}-{names[reference]}"


def expected(
    deployment: Deployment, launch: EngineLaunch, address: Callable[[HostPlaceholder], str]
) -> Received:
    """Every target's launch, but that a pod counts its own GPUs."""
    found = wanted(launch, address, key_of(deployment))
    gpus = launch.process.gpus
    if gpus and VISIBLE not in deployment.env:
        found.env[VISIBLE] = ",".join(str(place) for place in range(len(gpus)))
    return Received(found.argv, found.env)


def declared(deployment: Deployment, launch: EngineLaunch, whole: Received) -> dict[str, str]:
    """The variables before the entry script joins two of them with an image's."""
    own = dict(launch.declared)
    return {name: value for name, value in whole.env.items() if name in own} | {
        name: own[name] for name in ("PYTHONPATH", "SGLANG_PLUGINS") if name in own
    }


def by_labels(found: list[dict[str, Any]], selector: dict[str, str]) -> list[dict[str, Any]]:
    """The pod templates that a selector of a service chooses."""
    templates = [one["spec"]["template"] for kind in ("StatefulSet", "Deployment")
                 for one in of_kind(found, kind)]  # fmt: skip
    return [t for t in templates if selector.items() <= t["metadata"]["labels"].items()]


def k8s_pods(
    deployment: Deployment, found: list[dict[str, Any]]
) -> Iterator[tuple[EngineLaunch, dict[str, Any], Callable[[HostPlaceholder], str]]]:
    sets = of_kind(found, "StatefulSet") + of_kind(found, "Deployment")
    every = launches(deployment, FOLDERS)
    assert len(sets) == len(every)
    names = {}
    for launch, one in zip(every, sets, strict=True):
        spec = one["spec"]
        if one["kind"] == "StatefulSet":
            pod = f"{one['metadata']['name']}-0.{spec['serviceName']}"
            names[launch.process.replica, launch.process.rank] = pod

    def address(word: HostPlaceholder) -> str:
        if not word.scheme:
            return names[word.replica, word.host]
        # The router's addresses are services in front of the first rank of the replica.
        (service,) = [
            one for one in of_kind(found, "Service")
            if one["spec"]["selector"].get("configurator/replica") == str(word.replica)
            and one["spec"].get("clusterIP") != "None"
        ]  # fmt: skip
        (template,) = by_labels(found, service["spec"]["selector"])
        assert template["metadata"]["labels"]["configurator/rank"] == "0"
        return str(service["metadata"]["name"])

    for launch, one in zip(every, sets, strict=True):
        yield launch, one["spec"]["template"]["spec"], address


def lws_pods(
    deployment: Deployment, found: list[dict[str, Any]], group: int
) -> Iterator[tuple[EngineLaunch, dict[str, Any], dict[str, str]]]:
    """The pods of one group as LeaderWorkerSet makes them, and the variables it puts in front."""
    (one,) = of_kind(found, "LeaderWorkerSet")
    name, template = one["metadata"]["name"], one["spec"]["leaderWorkerTemplate"]
    assert one["spec"]["replicas"] == deployment.profile.topology.replicas
    assert template["size"] == deployment.hosts_per_replica
    for rank in range(template["size"]):
        role = "leaderTemplate" if rank == 0 and "leaderTemplate" in template else "workerTemplate"
        given = {
            "LWS_LEADER_ADDRESS": f"{name}-{group}.{name}.default",
            "LWS_GROUP_SIZE": str(template["size"]),
            "LWS_WORKER_INDEX": str(rank),
        }
        launch = launches(deployment, FOLDERS)[rank]
        assert (launch.process.replica, launch.process.rank) == (0, rank)
        yield launch, template[role]["spec"], given


def without(words: list[str], names: set[str]) -> list[str]:
    left, skip = [], False
    for word in words:
        if not skip and word not in names:
            left.append(word)
        skip = not skip and word in names
    return left


def test_k8s_starts_every_launch_as_it_is(made: list[Deployment]) -> None:
    for deployment in made:
        found = objects(deployment, "k8s")
        for launch, spec, address in k8s_pods(deployment, found):
            got = entered(received(engine_of(spec), {}, keys(deployment)))
            whole = expected(deployment, launch, address)
            assert got.argv == whole.argv
            assert got.env == declared(deployment, launch, whole)


def test_lws_starts_every_group_as_replica_0(made: list[Deployment]) -> None:
    for deployment in made:
        found = objects(deployment, "lws")
        group = deployment.profile.topology.replicas - 1
        for launch, spec, given in lws_pods(deployment, found, group):
            got = entered(received(engine_of(spec), given, keys(deployment)), given)
            leader = given["LWS_LEADER_ADDRESS"]
            whole = expected(deployment, launch, lambda _: leader)  # noqa: B023 - used here
            assert got.argv == whole.argv
            assert got.env == declared(deployment, launch, whole)


def test_lws_numbers_the_ranks_of_more_than_two_hosts(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: d\nengine: {version: 0.5.23}\n"
        "hardware: {name: h200, gpus: 32}\nmodel: {name: qwen3-8b}\ntopology: {tensor: 32}\n"
        "extra: {order: ['node-rank=', 'dist-init-addr='], args: {words: ['0', '--node-rank']}}\n"
    )
    deployment = resolve(*LIBRARY.profile(str(path)), LIBRARY)
    for launch, spec, given in lws_pods(deployment, objects(deployment, "lws"), 0):
        got = entered(received(engine_of(spec), given, {}), given)
        leader = given["LWS_LEADER_ADDRESS"]
        whole = expected(deployment, launch, lambda _: leader)  # noqa: B023 - used here
        assert got.argv == whole.argv
        assert f"--node-rank={launch.process.rank}" in got.argv


def test_the_router_of_lws_finds_every_group_on_its_one_port(made: list[Deployment]) -> None:
    for deployment in made:
        router = launches(deployment, FOLDERS)[-1]
        if router.process.role != "router":
            continue
        found = objects(deployment, "lws")
        (one,) = of_kind(found, "Deployment")
        got = entered(received(engine_of(one["spec"]["template"]["spec"]), {}, keys(deployment)))
        port = deployment.processes[0].port
        services = {
            one["spec"]["selector"]["leaderworkerset.sigs.k8s.io/group-index"]: one
            for one in of_kind(found, "Service")
            if "leaderworkerset.sigs.k8s.io/group-index" in one["spec"]["selector"]
        }
        words = []
        for word in router.argv:
            if isinstance(word, HostPlaceholder):
                service = services[str(word.replica)]
                assert service["spec"]["ports"][0]["port"] == port
                name = service["metadata"]["name"]
                words.append(address_text(dataclasses.replace(word, port=port), name))
            else:
                words.append(word if isinstance(word, str) else key_of(deployment)(word))
        assert got.argv == words


def test_dynamo_gives_a_worker_the_engines_words(made: list[Deployment]) -> None:
    for deployment in made:
        (graph,) = of_kind(objects(deployment, "dynamo"), "DynamoGraphDeployment")
        (worker,) = [one for one in graph["spec"]["components"] if one["type"] == "worker"]
        main = engine_of(worker["podTemplate"]["spec"])
        got = received(main, {}, {})
        assert got.argv[:5] == [
            "python3",
            "/configurator/enter.py",
            "python3",
            "-m",
            "dynamo.sglang",
        ]
        left_out = {"--api-key", "--admin-api-key"}
        if deployment.hosts_per_replica > 1:
            left_out |= {"--nnodes", "--node-rank", "--dist-init-addr"}
        launch = launches(deployment, FOLDERS)[0]
        whole = expected(deployment, launch, lambda _: "left-out")
        assert got.argv[5:] == without(whole.argv, left_out)[3:]
        env = {k: v for k, v in got.env.items() if k != "CONFIGURATOR_LOG"}
        assert env == declared(deployment, launch, whole)
        nodes = worker.get("multinode", {}).get("nodeCount", 1)
        replicas = deployment.profile.topology.replicas
        assert (nodes, worker["replicas"]) == (deployment.hosts_per_replica, replicas)


@pytest.mark.parametrize("target", ["k8s", "lws"])
def test_the_entry_script_hands_on_exactly_the_launch(
    target: str, made: list[Deployment], tmp_path: Path
) -> None:
    """Under real bash."""
    for number, deployment in enumerate(made):
        found = objects(deployment, target)
        pods: list[Any]
        if target == "k8s":
            pods = [
                (launch, spec, {}, address) for launch, spec, address in k8s_pods(deployment, found)
            ]
        else:
            pods = [
                (launch, spec, given, lambda _, given=given: given["LWS_LEADER_ADDRESS"])
                for launch, spec, given in lws_pods(deployment, found, 0)
            ]
        for launch, spec, given, address in pods:
            home, run, stub = (tmp_path / f"{n}-{number}-{launch.name}" for n in "hrs")
            stub.mkdir(parents=True)
            lay_out(found, spec, home)
            got = started(received(engine_of(spec), given, keys(deployment)), home, run, stub)
            whole = expected(deployment, launch, address)
            assert got.argv == whole.argv
            assert {k: v for k, v in got.env.items() if k not in given} == whole.env


def test_the_reader_of_manifests_finds_the_same_launches(made: list[Deployment]) -> None:
    """It was written for manifests of other people: a second opinion on what a cluster starts."""
    for deployment in made:
        files = {file.path: file.text for file in TARGETS["k8s"](deployment)}
        commands = read_text(files["k8s.yaml"], "k8s.yaml").commands
        engines = [pod for pod in k8s_pods(deployment, objects(deployment, "k8s"))
                   if pod[0].process.role == "engine"]  # fmt: skip
        assert len(commands) == len(engines)
        for command, (launch, _, address) in zip(commands, engines, strict=True):
            whole = expected(deployment, launch, address)
            secret = {p for p, word in enumerate(launch.argv) if isinstance(word, SecretRef)}
            for place, word in enumerate(command.argv, len(LAUNCH)):
                assert (word.text == whole.argv[place]) is (place not in secret)
                assert word.unknown or place not in secret
            assert len(command.argv) == len(whole.argv) - len(LAUNCH)
            for name, value in declared(deployment, launch, whole).items():
                # It leaves open what a chart of Helm would fill in.
                assert command.env[name].value == (None if "{{" in value else value)
            assert command.env.keys() == declared(deployment, launch, whole).keys()


@pytest.mark.parametrize("target", CLUSTER)
def test_manifests_are_valid_for_the_cluster(target: str, made: list[Deployment]) -> None:
    for deployment in made:
        for one in objects(deployment, target):
            check_schema(one)


@pytest.mark.parametrize("target", CLUSTER)
def test_a_field_that_nobody_declared_is_refused(target: str) -> None:
    for one in objects(shipped("muse-spark-open-gb300x8-tp8"), target):
        if one["kind"] == "ConfigMap":
            continue
        check_schema(one)
        one["spec"]["noSuchField"] = 1
        with pytest.raises(Exception, match="noSuchField"):
            check_schema(one)


@pytest.mark.parametrize("target", CLUSTER)
def test_names_are_valid_and_one_for_each_object(target: str, made: list[Deployment]) -> None:
    seen: set[tuple[str, str]] = set()
    for deployment in made:
        for one in objects(deployment, target):
            name = one["metadata"]["name"]
            assert LABEL.fullmatch(name)
            # A StatefulSet's name and ten letters become a label of its pods.
            assert len(name) <= (52 if one["kind"] == "StatefulSet" else 63)
            assert one["kind"] != "Service" or name[0].isalpha()
            assert (one["kind"], name) not in seen
            seen.add((one["kind"], name))


@pytest.mark.parametrize("target", CLUSTER)
def test_the_files_fit_and_nothing_holds_a_key(target: str, made: list[Deployment]) -> None:
    for deployment in made:
        for one in of_kind(objects(deployment, target), "ConfigMap"):
            assert sum(len(k) + len(v.encode()) for k, v in one["data"].items()) < 1024 * 1024
            assert one["immutable"]
        text = rendered(deployment, target).text
        assert not re.search(r"^kind: Secret$", text, re.M)
        for value in keys(deployment).values():
            assert value not in text
            assert base64.b64encode(value.encode()).decode() not in text


@pytest.mark.parametrize("target", ["k8s", "lws"])
def test_keys_come_from_the_secret_to_the_engine_and_its_checker_alone(
    target: str, made: list[Deployment]
) -> None:
    for deployment in made:
        for one in objects(deployment, target):
            for spec in pod_specs(one):
                for container in (*spec.get("initContainers", ()), *spec["containers"]):
                    references = [e for e in container.get("env", ()) if "valueFrom" in e]
                    assert not references or container["name"] in ("engine", "checker", "router")
                    for reference in references:
                        source = reference["valueFrom"]["secretKeyRef"]
                        assert source["key"] in keys(deployment)


def pod_specs(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pod_specs(value)
    elif isinstance(node, list):
        for value in node:
            yield from pod_specs(value)


def test_probes_wait_for_the_start_and_ask_for_the_proof() -> None:
    deployment = shipped("muse-spark-open-gb300x8-tp8")
    first, second = of_kind(objects(deployment, "k8s"), "StatefulSet")
    engine = engine_of(first["spec"]["template"]["spec"])
    startup, ready = engine["startupProbe"], engine["readinessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 3600
    state = "/var/configurator/state/replica-0"
    command = [expanded(word, {}) for word in ready["exec"]["command"]]
    assert command == ["bash", "-p", "-c", f"cmp -s {state}/start {state}/proven && "
                                           "exec 3<>/dev/tcp/127.0.0.1/30000"]  # fmt: skip
    assert "livenessProbe" not in engine
    other = engine_of(second["spec"]["template"]["spec"])
    assert not {"startupProbe", "readinessProbe", "livenessProbe"} & other.keys()
    assert [c["name"] for c in second["spec"]["template"]["spec"]["containers"]] == ["engine"]


def test_ranks_over_hosts_share_an_imex_domain_of_their_replica(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: d\n"
        "extends: muse-spark-open-gb300x8-tp8\nhardware: {gpus: 16}\ntopology: {replicas: 2}\n"
    )
    deployment = resolve(*LIBRARY.profile(str(path)), LIBRARY)
    found = objects(deployment, "k8s")
    domains = [
        one["spec"]["channel"]["resourceClaimTemplate"]["name"]
        for one in of_kind(found, "ComputeDomain")
    ]
    assert len(set(domains)) == 2
    for one in of_kind(found, "StatefulSet"):
        spec = one["spec"]["template"]["spec"]
        replica = int(one["metadata"]["labels"]["configurator/replica"])
        (claim,) = spec["resourceClaims"]
        assert claim["resourceClaimTemplateName"] == domains[replica]
        assert engine_of(spec)["resources"] == {
            "limits": {"nvidia.com/gpu": "4"}, "claims": [{"name": "imex"}],
        }  # fmt: skip
        (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "nvidia.com/gpu.clique"
        chosen = by_labels(found, term["labelSelector"]["matchLabels"])
        assert len(chosen) == 2
    for target in ("lws", "dynamo"):
        (domain,) = of_kind(objects(deployment, target), "ComputeDomain")
        name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        claims = {
            claim["resourceClaimTemplateName"]
            for one in objects(deployment, target)
            for spec in pod_specs(one)
            for claim in spec.get("resourceClaims", ())
        }
        assert claims == {name}


def test_services_choose_ready_first_ranks_and_the_port_by_name() -> None:
    found = objects(shipped("muse-spark-open-gb300x8"), "k8s")
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(found, "Service")}
    assert sorted(services) == [
        f"muse-spark-open-gb300x8-{x}" for x in ("clients", "r0", "r0-api", "r1", "r1-api")
    ]
    assert [name for name, spec in services.items() if spec.get("publishNotReadyAddresses")] == [
        "muse-spark-open-gb300x8-r0", "muse-spark-open-gb300x8-r1",
    ]  # fmt: skip
    (router,) = by_labels(found, services["muse-spark-open-gb300x8-clients"]["selector"])
    assert engine_of(router["spec"])["ports"] == [{"name": "http", "containerPort": 30080}]
    assert services["muse-spark-open-gb300x8-clients"]["ports"][0]["targetPort"] == "http"
    # A server on a loopback address has no service: none could reach it.
    assert of_kind(objects(shipped("ling-3.0-flash-spark"), "lws"), "Service") == []
