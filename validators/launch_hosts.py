"""One engine over several hosts, and the ports and fabric between its processes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from configurator import Finding, Launch, before, launch_rule, since

_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_ADDRESSES = ("SGLANG_HOST_IP", "HOST_IP", "SGLANG_LOCAL_IP_NIC")
_NCCL_DEFAULT_RANGE = range(32768, 61000)


def _hosts(launch: Launch) -> int:
    """Hosts of one engine, as far as the launch says."""
    return launch.integer("nnodes") or 1


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _has_dp_attention(launch: Launch) -> bool:
    return launch.on("enable-dp-attention") or (launch.integer("attn-dp-size") or 1) > 1


@launch_rule(
    "PAR110",
    "data-parallel-copies-over-hosts",
    source="sglang 0.5.1 to 0.5.23: 'multi-node data parallel is not supported'; issue 15385",
)
def data_parallel_copies_over_hosts(launch: Launch) -> Iterator[Finding]:
    """Without data parallel attention --dp-size asks for whole copies of the engine; those cannot
    be started over several hosts.

    Bad:
        # engine: 0.5.17
        sglang serve --model-path m --tp 4 --dp-size 4 --nnodes 2 --node-rank 0 \
--dist-init-addr 192.0.2.1:5000

    Good:
        # engine: 0.5.17
        sglang serve --model-path m --tp 4 --dp-size 4 --enable-dp-attention --nnodes 2 \
--node-rank 0 --dist-init-addr 192.0.2.1:5000
    """
    option, copies, hosts = launch.option("dp-size"), launch.integer("dp-size"), _hosts(launch)
    if option is None or copies is None or copies < 2 or hosts < 2 or _has_dp_attention(launch):
        return
    attention = (
        f"write --attn-dp-size {copies} instead"
        if since(launch.catalogue, "0.5.22")
        else "add --enable-dp-attention"
    )
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {copies} over {hosts} hosts: the engine refuses copies over hosts",
        f"{attention}, or start one engine a host behind a router",
    )


@launch_rule(
    "PAR111",
    "ranks-do-not-fill-the-hosts",
    source="sglang 0.5.1 to 0.5.23: 'tp_size must be divisible by number of nodes'",
)
def ranks_do_not_fill_the_hosts(launch: Launch) -> Iterator[Finding]:
    """Every host starts the same number of ranks.

    Bad:
        sglang serve --model-path m --tp 6 --nnodes 4 --node-rank 0 --dist-init-addr 192.0.2.1:5000

    Good:
        sglang serve --model-path m --tp 8 --nnodes 4 --node-rank 0 --dist-init-addr 192.0.2.1:5000
    """
    option, hosts = launch.option("nnodes"), _hosts(launch)
    tensor = launch.integer("tp-size") if launch.on("tp-size") else 1
    stages = launch.integer("pp-size") if launch.on("pp-size") else 1
    if option is None or tensor is None or stages is None or hosts < 1:
        return
    ranks = tensor * stages
    if ranks % hosts and not launch.on("elastic-ep-join-mode"):
        more = -(-ranks // hosts) * hosts
        yield Finding(
            launch.path(option),
            f"tensor {tensor} x pipeline {stages} = {ranks} ranks over {launch.said(option)} "
            f"{hosts} leave {ranks % hosts} over",
            f"set --tp-size to {more // stages if more % stages == 0 else hosts}, or --nnodes to a "
            f"divisor of {ranks}",
        )


@launch_rule(
    "NET106",
    "hosts-meet-on-loopback",
    source="sglang 0.5.1 to 0.5.23: --dist-init-addr is the address of the first host",
)
def hosts_meet_on_loopback(launch: Launch) -> Iterator[Finding]:
    """The hosts of one engine meet at an address, or over an interface, that no other host sees.

    Bad:
        sglang serve --model-path m --tp 2 --nnodes 2 --node-rank 0 --dist-init-addr 127.0.0.1:5000

    Good:
        GLOO_SOCKET_IFNAME=eth1 SGLANG_HOST_IP=192.0.2.1 sglang serve --model-path m --tp 2 \
--nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000
    """
    hosts = _hosts(launch)
    if hosts < 2:
        return
    option, address = launch.option("dist-init-addr"), launch.text("dist-init-addr")
    if option is not None and address is not None and _is_loopback(address.rpartition(":")[0]):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {address} with --nnodes {hosts}: each host meets only itself",
            "give the address of the first host that the others reach",
        )
    for name in (*_INTERFACES, *_ADDRESSES):
        given = launch.env.get(name)
        if given is not None and given.value and (given.value == "lo" or _is_loopback(given.value)):
            yield Finding(
                given.path,
                f"{name} is {given.value}, but --nnodes is {hosts}",
                f"set {name} to the interface or address of the fabric",
            )


@launch_rule(
    "NET107",
    "host-address-left-to-chance",
    severity="warning",
    source="sglang 0.5.17: network.py reads SGLANG_HOST_IP, then HOST_IP; public reports of hosts "
    "with several interfaces",
)
def host_address_left_to_chance(launch: Launch) -> Iterator[Finding]:
    """One engine over several hosts: Gloo, NCCL and the engine's message queue each look for an
    interface of their own. Where a host has several, one of them may take the wrong one, and the
    start hangs without an error.

    Bad:
        sglang serve --model-path m --tp 2 --nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000

    Good:
        GLOO_SOCKET_IFNAME=eth1 NCCL_SOCKET_IFNAME=eth1 SGLANG_HOST_IP=192.0.2.1 sglang serve \
--model-path m --tp 2 --nnodes 2 --node-rank 0 --dist-init-addr 192.0.2.1:5000
    """
    option, hosts = launch.option("nnodes"), _hosts(launch)
    if option is None or hosts < 2:
        return
    missing = [] if _INTERFACES[0] in launch.env else [_INTERFACES[0]]
    if not any(name in launch.env for name in _ADDRESSES):
        missing.append(_ADDRESSES[0])
    if missing:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {hosts} without {' and '.join(missing)}: on a host with "
            "several interfaces the start may hang",
            "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the fabric's interface, and "
            "SGLANG_HOST_IP to each host's own address on it",
        )


@launch_rule(
    "NET108",
    "fabric-switched-off",
    source="the hardware entry's multi_host; NCCL docs; vllm-project/vime pull request 103",
)
def fabric_switched_off(launch: Launch) -> Iterator[Finding]:
    """A variable takes from NCCL what the fabric between these hosts needs: it then uses the
    network, without an error.

    Bad:
        # hardware: gb300-nvl72
        NCCL_CUMEM_ENABLE=0 sglang serve --model-path m --tp 8 --nnodes 2 --node-rank 0 \
--dist-init-addr 192.0.2.1:5000

    Good:
        # hardware: gb300-nvl72
        NCCL_CUMEM_ENABLE=1 sglang serve --model-path m --tp 8 --nnodes 2 --node-rank 0 \
--dist-init-addr 192.0.2.1:5000
    """
    hosts, hardware = _hosts(launch), launch.hardware
    if hosts < 2 or hardware is None or hardware.multi_host is None:
        return
    for name, wanted in hardware.multi_host.env.items():
        given = launch.env.get(name)
        if given is not None and given.value is not None and given.value != wanted:
            yield Finding(
                given.path,
                f"{name} is {given.value}; one engine over {hosts} hosts of {hardware.name} needs "
                f"{wanted}",
                f"remove it, or set it to {wanted}",
            )


@launch_rule(
    "NET109",
    "fixed-nccl-port-for-several-copies",
    severity="warning",
    source="sglang 0.5.9 to 0.5.23: data_parallel_controller.py, PortArgs.init_new; sglang issues "
    "37215, 10693",
)
def fixed_nccl_port_for_several_copies(launch: Launch) -> Iterator[Finding]:
    """Every copy of a data parallel engine binds an NCCL port of its own; with one fixed port they
    race for it, and a start may fail with EADDRINUSE.

    Bad:
        # engine: 0.5.9
        sglang serve --model-path m --dp 8 --nccl-port 30101 --port 30100

    Good:
        # engine: 0.5.9
        sglang serve --model-path m --dp 8 --port 30100
    """
    option, copies = launch.option("nccl-port"), launch.integer("dp-size") or 1
    if option is None or copies < 2 or _has_dp_attention(launch):
        return
    port = launch.integer("nccl-port")
    reason = (
        ", inside the range that the system gives to outgoing connections"
        if port in _NCCL_DEFAULT_RANGE
        else ""
    )
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {port} is one port for {copies} copies{reason}",
        "remove --nccl-port: the engine chooses a free one for each",
    )


@launch_rule(
    "NET110",
    "fused-allreduce-over-the-fabric-of-one-host",
    severity="warning",
    source="sglang 0.5.14 to 0.5.23: flashinfer_comm_fusion.py, auto takes mnnvl on sm_10x; "
    "pull request 29485",
)
def fused_allreduce_over_the_fabric_of_one_host(launch: Launch) -> Iterator[Finding]:
    """On Blackwell the automatic choice of the fused all-reduce is the one made for several
    hosts; with speculation on one host of GB300 it was reported to end in an illegal memory
    access.

    Bad:
        # engine: 0.5.14
        # hardware: gb300-nvl72
        sglang serve --model-path m --tp 4 --speculative-algorithm EAGLE \
--flashinfer-allreduce-fusion-backend auto

    Good:
        # engine: 0.5.14
        # hardware: gb300-nvl72
        sglang serve --model-path m --tp 4 --speculative-algorithm EAGLE \
--flashinfer-allreduce-fusion-backend trtllm
    """
    option = launch.option("flashinfer-allreduce-fusion-backend")
    auto = option is not None and launch.text("flashinfer-allreduce-fusion-backend") == "auto"
    if option is None:
        option = launch.option("enable-flashinfer-allreduce-fusion")
        auto = option is not None
    hardware, known = launch.hardware, launch.catalogue
    if option is None or not auto or hardware is None or before(known, "0.5.14"):
        return
    speculative = launch.on("speculative-algorithm")
    if hardware.arch == "sm_103" and _hosts(launch) == 1 and speculative and known is not None:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} takes mnnvl on {hardware.arch} even on one host; with "
            "speculation it was reported to crash",
            "set --flashinfer-allreduce-fusion-backend to trtllm",
        )
