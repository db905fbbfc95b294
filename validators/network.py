"""Addresses, ports and hosts."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator

from configurator import Deployment, Finding, rule


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@rule("NET101", "router-cannot-reach-replicas", source="sglang_router: --worker-urls")
def router_cannot_reach_replicas(deployment: Deployment) -> Iterator[Finding]:
    """The replicas listen on loopback only, but the router is on another host than some of them.

    Bad:
        extends: muse-spark-open-gb300x8
        serving: {host: 127.0.0.1}
        router: {port: 30080}

    Good:
        extends: muse-spark-open-gb300x8
        serving: {host: 0.0.0.0}
        router: {port: 30080}
    """
    hosts = {process.host for process in deployment.processes if process.role == "engine"}
    host = deployment.profile.serving.host
    if deployment.profile.router and len(hosts) > 1 and _is_loopback(host):
        yield Finding(
            ("serving", "host"),
            f"replicas on {len(hosts)} hosts listen on {host}: the router reaches only those of "
            "its own host",
            "set serving.host to 0.0.0.0 or the fabric's address, and serving.api_key",
        )


@rule("NET102", "ports-clash", source="configurator/resolve.py")
def ports_clash(deployment: Deployment) -> Iterator[Finding]:
    """Two processes of one host want the same port.

    Bad:
        extends: muse-spark-open-gb300x8
        router: {host: 0.0.0.0, port: 30000}

    Good:
        extends: muse-spark-open-gb300x8
        router: {host: 0.0.0.0, port: 30080}
    """
    serving = deployment.profile.serving.port
    users: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for process in deployment.processes:
        if process.role == "router":
            users[process.host, process.port].append("the router")
        elif process.rank == 0:
            users[process.host, process.port].append(f"replica {process.replica}")
    for (host, port), names in users.items():
        if len(names) > 1:
            yield Finding(
                ("router", "port") if "the router" in names else ("serving", "port"),
                f"{' and '.join(names)} both listen on port {port} of host {host}",
                f"set router.port to {serving + len(users) + 79}, for instance",
            )
        if port > 65535:
            yield Finding(
                ("serving", "port"),
                f"{names[0]} would listen on port {port}",
                "set serving.port lower, for instance to 30000",
            )


@rule("NET103", "fabric-variable-overridden", source="the hardware entry's multi_host; NCCL docs")
def fabric_variable_overridden(deployment: Deployment) -> Iterator[Finding]:
    """`extra.env` replaces a variable that one instance over several of these hosts needs; NCCL
    then takes the network between the hosts, silently.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
        extra: {env: {NCCL_CUMEM_ENABLE: 0}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
    """
    multi_host = deployment.hardware.multi_host
    if deployment.hosts_per_replica == 1 or multi_host is None:
        return
    for name, wanted in multi_host.env.items():
        given = deployment.env.get(name)
        if given is not None and given.value != wanted:
            yield Finding(
                given.path,
                f"{name} is {given.value}; one instance over {deployment.hosts_per_replica} hosts "
                f"of {deployment.hardware.name} needs {wanted}",
                f"remove it from {given.origin}",
            )


@rule("NET104", "fabric-interface-on-loopback", source="public reports of Gloo on loopback")
def fabric_interface_on_loopback(deployment: Deployment) -> Iterator[Finding]:
    """Ranks on several hosts cannot meet on the loopback interface.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
        extra: {env: {GLOO_SOCKET_IFNAME: lo}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 1, tensor: 8}
        extra: {env: {GLOO_SOCKET_IFNAME: enP2p3s0}}
    """
    if deployment.hosts_per_replica == 1:
        return
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "SGLANG_HOST_IP"):
        given = deployment.env.get(name)
        if given is not None and (given.value == "lo" or _is_loopback(given.value)):
            yield Finding(
                given.path,
                f"{name} is {given.value}, but one instance runs on "
                f"{deployment.hosts_per_replica} hosts",
                f"set {name} to the interface or address of the fabric",
            )


@rule(
    "NET105",
    "fixed-nccl-port-for-several-instances",
    severity="warning",
    source="sgl-project/sglang 10693",
)
def fixed_nccl_port_for_several_instances(deployment: Deployment) -> Iterator[Finding]:
    """One fixed NCCL port for several instances on a host: the second cannot bind it.

    Bad:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 2, tensor: 2}
        hardware: {gpus: 4}
        extra: {args: {nccl-port: 30101}}

    Good:
        extends: muse-spark-open-gb300x8
        topology: {replicas: 2, tensor: 2}
        hardware: {gpus: 4}
    """
    topology = deployment.profile.topology
    given = deployment.args.get("nccl-port")
    # NET109 says it of one replica that starts several copies itself.
    if given is not None and topology.replicas > deployment.hosts:
        yield Finding(
            given.path,
            f"nccl-port {given.value} for {topology.replicas} replicas on {deployment.hosts} hosts",
            "remove nccl-port: the engine chooses a free one",
        )
