"""Public topologies over hosts: the flags and variables of the published recipes, host by host.

docs/hosts.md has the table, with what differs from each recipe and why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.deployment import Deployment, HostPlaceholder, Word
from configurator.render.common import requirements_of
from configurator.render.launches import Folders, address_text, launches
from configurator.resolve import resolve

FOLDERS = Folders("/b", "/r")
SPARK = (
    "apiVersion: configurator/v1\nkind: Deployment\nname: sparks\nengine: {{version: 0.5.23}}\n"
    "hardware: {{name: dgx-spark, gpus: {n}}}\nmodel: {{name: ling-3.0-flash-fp4}}\n"
    "topology: {{tensor: {n}}}\n"
)
Rank = tuple[dict[str, str], dict[str, str]]


def ranks_of(deployment: Deployment) -> list[Rank]:
    """Flags that span hosts, and the variables for it, of every process in order."""
    found = []
    for launch in launches(deployment, FOLDERS):
        if launch.process.role == "router":
            continue
        words = list(map(_text, launch.argv))
        names = ("--tp-size", "--nnodes", "--node-rank", "--dist-init-addr")
        flags = {name: words[words.index(name) + 1] for name in names if name in words}
        env = {name: value for name, value in launch.env if name.startswith(("NCCL_", "MC_"))}
        found.append((flags, env))
    return found


def _text(word: Word) -> str:
    if isinstance(word, HostPlaceholder):
        return address_text(word, f"<{word.replica}.{word.host}>")
    return str(word)


def shipped(name: str) -> Deployment:
    return resolve(*LIBRARY.profile(name), LIBRARY)


def sparks(folder: Path, count: int) -> Deployment:
    path = folder / "p.yaml"
    path.write_text(SPARK.format(n=count))
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def over(hosts: int, address: str = "<0.0>:20000") -> list[dict[str, str]]:
    """As every recipe of one instance over hosts has it: alike but for the rank."""
    return [
        {"--nnodes": str(hosts), "--node-rank": str(rank), "--dist-init-addr": address}
        for rank in range(hosts)
    ]


def test_two_instances_of_tp4_on_two_trays_know_nothing_of_each_other() -> None:
    assert ranks_of(shipped("muse-spark-open-gb300x8")) == [({"--tp-size": "4"}, {})] * 2


def test_tp8_over_two_trays_takes_the_nvlink_between_them() -> None:
    """GB300 2 x 4, TP8 MNNVL: the same variables and flags as SGLang's cookbook for Kimi K3."""
    found = ranks_of(shipped("muse-spark-open-gb300x8-tp8"))
    fabric = {"NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "1"}
    assert found == [({"--tp-size": "8", **flags}, fabric) for flags in over(2)]
    needed = " ".join(requirements_of(shipped("muse-spark-open-gb300x8-tp8")))
    for word in ("IMEX", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "SGLANG_HOST_IP"):
        assert word in needed


@pytest.mark.parametrize("count", [2, 4])
def test_one_rank_a_spark_over_the_direct_link(tmp_path: Path, count: int) -> None:
    deployment = sparks(tmp_path, count)
    found = ranks_of(deployment)
    assert found == [({"--tp-size": str(count), **flags}, {}) for flags in over(count)]
    needed = " ".join(requirements_of(deployment))
    for word in ("SGLANG_HOST_IP", "NCCL_SOCKET_IFNAME", "/dev/infiniband", "nnodes equal to tp"):
        assert word in needed


def test_what_belongs_to_one_host_is_of_the_host(tmp_path: Path) -> None:
    """Names of interfaces and addresses of a host are in no rendered file: the host gives them."""
    for launch in launches(sparks(tmp_path, 2), FOLDERS):
        names = {name for name, _ in launch.env}
        assert not names & {"SGLANG_HOST_IP", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
