"""NCCL's log of a rack with NVLink between its hosts."""

from __future__ import annotations

from typing import Any

import pytest
from replicas import judged, log, said

from configurator.content import Library
from configurator.evidence.host import Gpu, Host
from configurator.loader import Validators
from configurator.resolve import resolve

GB200 = Gpu("NVIDIA GB200", "189471 MiB", "sm_100", "580.1")
RACK = Host((GB200,) * 4, 900, 800, True)
HOSTS = {"nnodes": 2, "tp_size": 8}
OFF = "gb200-1:7:99 [0] NCCL INFO MNNVL 0 cliqueId 0 cliqueSize 1 cliqueRank 0"
ON = "gb200-1:7:99 [0] NCCL INFO MNNVL 1 cliqueId 1 cliqueSize 8 cliqueRank 0"
NET = "gb200-1:7:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] [send] via NET/IB/0"
LINK = "gb200-1:7:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] [send] via P2P/MNNVL"


@pytest.mark.parametrize(
    ("lines", "expected", "says"),
    [
        ([OFF, NET], ("REFUTED", "built"), "NCCL says MNNVL 0, NET/IB/0, never MNNVL 1"),
        ([OFF], ("REFUTED", "built"), "MNNVL 0"),
        ([NET], ("REFUTED", "built"), "NET/IB/0"),
        ([OFF, ON], ("PROVEN", "built"), "MNNVL 1 cliqueId 1 cliqueSize 8"),
        ([LINK], ("PROVEN", "built"), "P2P/MNNVL"),
        (["NCCL INFO Bootstrap: Using eth0"], ("INCONCLUSIVE", None), "no line of NCCL"),
    ],
)
def test_the_fabric_of_a_rack(
    validators: Validators, lines: list[str], expected: tuple[str, str | None], says: str
) -> None:
    outcome = judged(
        validators, "nvlink-fabric", host=RACK, server_info=HOSTS, log=log(*lines)
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary


@pytest.mark.parametrize(
    ("more", "answer", "says"),
    [
        ({"environment": {"NCCL_CUMEM_ENABLE": "0"}}, "REFUTED", "NCCL_CUMEM_ENABLE=1: 0, which"),
        ({"environment": {"NCCL_MNNVL_ENABLE": "0"}}, "NOT_APPLICABLE", ""),
        ({"server_info": {"nnodes": 1}}, "NOT_APPLICABLE", ""),
        ({"host": Host((GB200,), 900, 800, True)}, "NOT_APPLICABLE", ""),
        ({"host": Host((Gpu("NVIDIA H200", "", "sm_90", ""),) * 8)}, "NOT_APPLICABLE", ""),
        ({"host": None}, "INCONCLUSIVE", "judge by a profile"),
    ],
)
def test_where_there_is_a_fabric(
    validators: Validators, more: dict[str, Any], answer: str, says: str
) -> None:
    evidence: dict[str, Any] = {"host": RACK, "server_info": HOSTS, "log": log(OFF)} | more
    outcome = judged(validators, "nvlink-fabric", **evidence)
    assert str(outcome.answer) == answer
    assert says in outcome.remedy


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("muse-spark-open-gb300x8-tp8", ("REFUTED", "built")),
        ("muse-spark-open-gb300x8", ("NOT_APPLICABLE", None)),
    ],
)
def test_a_profile_says_whether_the_ranks_span_hosts(
    validators: Validators, library: Library, profile: str, expected: tuple[str, str | None]
) -> None:
    deployment = resolve(*library.profile(profile), library)
    outcome = judged(validators, "nvlink-fabric", deployment=deployment, log=log(OFF))
    assert said(outcome) == expected
