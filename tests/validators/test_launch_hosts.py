"""One engine over several hosts: ranks, addresses, fabric and ports of a launch."""

from __future__ import annotations

import pytest
from launches import launch

from configurator.loader import Validators

HOSTS = "--nnodes 2 --node-rank 0"
ADDRESS = "--dist-init-addr 192.0.2.1:5000"


def said(
    validators: Validators, code: str, command: str, engine: str = "0.5.23",
    hardware: str | None = None,
) -> list[str]:  # fmt: skip
    judged = launch(command, engine=engine, hardware=hardware)
    return [f"{found.message}; {found.remedy}" for found in validators.rules[code].check(judged)]


@pytest.mark.parametrize("engine", ["0.5.1", "0.5.9", "0.5.17", "0.5.23"])
def test_copies_over_hosts_in_every_release(engine: str, validators: Validators) -> None:
    # In older releases the flag is called --data-parallel-size, and --dp-size is its alias.
    command = f"--model-path m --tp-size 4 --dp-size 4 {HOSTS} {ADDRESS}"
    assert len(said(validators, "PAR110", command, engine)) == 1
    assert said(validators, "PAR110", f"{command} --enable-dp-attention", engine) == []
    assert said(validators, "PAR110", "--model-path m --tp-size 4 --dp-size 4", engine) == []


def test_copies_over_hosts_are_answered_by_release(validators: Validators) -> None:
    command = f"--model-path m --tp-size 8 --dp-size 4 {HOSTS} {ADDRESS}"
    assert "add --enable-dp-attention" in said(validators, "PAR110", command, "0.5.21")[0]
    assert "write --attn-dp-size 4 instead" in said(validators, "PAR110", command, "0.5.22")[0]


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ("--tp-size 3 --nnodes 2", "leave 1 over"),
        ("--tp-size 2 --pp-size 3 --nnodes 4", "leave 2 over"),
        ("--nnodes 2", "leave 1 over"),
        ("--tp-size 3 --pp-size 2 --nnodes 2", None),
        ("--tp-size 16 --nnodes 2", None),
        ("--tp-size $SIZE --nnodes 2", None),
    ],
)
def test_ranks_fill_the_hosts(sizes: str, left: str | None, validators: Validators) -> None:
    found = said(validators, "PAR111", f"--model-path m {sizes} {ADDRESS}")
    assert len(found) == (left is not None)
    assert left is None or left in found[0]


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        (f"--tp-size 2 {HOSTS} --dist-init-addr 127.0.0.1:5000", "127.0.0.1:5000"),
        (f"--tp-size 2 {HOSTS} --dist-init-addr localhost:5000", "localhost:5000"),
        (f"--tp-size 2 {HOSTS} --dist-init-addr [::1]:5000", "[::1]:5000"),
        (f"GLOO_SOCKET_IFNAME=lo sglang serve --tp-size 2 {HOSTS} {ADDRESS}", "GLOO_SOCKET_IFNAME"),
        (f"HOST_IP=127.0.0.1 sglang serve --tp-size 2 {HOSTS} {ADDRESS}", "HOST_IP is 127.0.0.1"),
        (f"--tp-size 2 {HOSTS} {ADDRESS}", None),
        ("--tp-size 2 --dist-init-addr 127.0.0.1:5000", None),
        (f"--tp-size 2 {HOSTS} --dist-init-addr $HEAD", None),
    ],
)
def test_hosts_meet_where_all_see_them(
    command: str, fact: str | None, validators: Validators
) -> None:
    found = said(validators, "NET106", command)
    assert len(found) == (fact is not None)
    assert fact is None or fact in found[0]


@pytest.mark.parametrize(
    ("env", "missing"),
    [
        ("", "GLOO_SOCKET_IFNAME and SGLANG_HOST_IP"),
        ("SGLANG_HOST_IP=192.0.2.1", "GLOO_SOCKET_IFNAME"),
        ("GLOO_SOCKET_IFNAME=eth1", "SGLANG_HOST_IP"),
        ("GLOO_SOCKET_IFNAME=eth1 HOST_IP=192.0.2.1", None),
    ],
)
def test_addresses_left_to_chance(env: str, missing: str | None, validators: Validators) -> None:
    found = said(validators, "NET107", f"{env} sglang serve --tp-size 2 {HOSTS} {ADDRESS}")
    assert len(found) == (missing is not None)
    assert missing is None or f"without {missing}:" in found[0]


@pytest.mark.parametrize(
    ("hardware", "value", "wanted"),
    [
        ("gb300-nvl72", "0", "1"),
        ("gb300-nvl72", "1", None),
        ("dgx-station-gb300", "1", "0"),
        ("h200", "0", None),
        (None, "0", None),
    ],
)
def test_the_fabric_of_the_machine(
    hardware: str | None, value: str, wanted: str | None, validators: Validators
) -> None:
    command = f"NCCL_CUMEM_ENABLE={value} sglang serve --tp-size 8 {HOSTS} {ADDRESS}"
    found = said(validators, "NET108", command, hardware=hardware)
    assert len(found) == (wanted is not None)
    assert wanted is None or found[0].endswith(f"set it to {wanted}")
    alone = said(validators, "NET108", command.replace(HOSTS, ""), hardware=hardware)
    assert alone == []


def test_one_nccl_port_for_copies(validators: Validators) -> None:
    command = "--model-path m --tp-size 2 --dp-size 8 --nccl-port"
    assert "8 copies, inside the range" in said(validators, "NET109", f"{command} 40000")[0]
    assert "8 copies;" in said(validators, "NET109", f"{command} 30101")[0]
    shared = f"{command} 30101 --enable-dp-attention"
    assert said(validators, "NET109", shared) == []
    assert said(validators, "NET109", "--model-path m --nccl-port 30101") == []


@pytest.mark.parametrize(
    ("options", "hardware", "engine", "found"),
    [
        ("--flashinfer-allreduce-fusion-backend auto", "hgx-b300", "0.5.14", True),
        ("--enable-flashinfer-allreduce-fusion", "gb300-nvl72", "0.5.23", True),
        ("--flashinfer-allreduce-fusion-backend trtllm", "hgx-b300", "0.5.14", False),
        ("--flashinfer-allreduce-fusion-backend auto", "h200", "0.5.14", False),
        ("--enable-flashinfer-allreduce-fusion", "hgx-b300", "0.5.13", False),
        (f"--enable-flashinfer-allreduce-fusion {HOSTS}", "hgx-b300", "0.5.14", False),
    ],
)
def test_the_fused_all_reduce(
    options: str, hardware: str, engine: str, found: bool, validators: Validators
) -> None:
    command = f"--model-path m --tp-size 4 --speculative-algorithm EAGLE {options}"
    assert bool(said(validators, "NET110", command, engine, hardware)) is found
    plain = command.replace("--speculative-algorithm EAGLE", "")
    assert said(validators, "NET110", plain, engine, hardware) == []
