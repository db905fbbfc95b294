"""The probe of the network between hosts, as NCCL's log describes it."""

from __future__ import annotations

import re

from configurator import (
    Check,
    Observation,
    Outcome,
    Rung,
    inconclusive,
    not_applicable,
    probe,
    proven,
    refuted,
)

_RACK = re.compile(r"\bGB[23]00\b")
_MNNVL = re.compile(r"NCCL INFO (?:.*? )?(MNNVL (\d)\b(?:.*?\bcliqueSize \d+)?)")
_CHANNEL = re.compile(r"NCCL INFO Channel .*\[send\] via (NET/\S+|P2P/MNNVL)")
_OFF = "NCCL_MNNVL_ENABLE"


@probe("nvlink-fabric", kind="invariant", proof_rung="built")
def nvlink_fabric(check: Check) -> Outcome:
    """In a rack of GB200 or GB300 the ranks of several hosts talk over NVLink (MNNVL).

    Proven: NCCL's log says `MNNVL 1`, or has channels via P2P/MNNVL.

    Refuted: all it says is `MNNVL 0`, or that channels go over the network (`via NET/IB`), though
    the rack has the fabric; NCCL_CUMEM_ENABLE=0 does that.

    Open: the log has no lines of NCCL, or the hardware is not known. Not applicable to other
    hardware, to one host, and where NCCL_MNNVL_ENABLE=0 says that there is no such fabric.
    """
    why_not = _no_rack(check)
    if why_not:
        return not_applicable(why_not)
    if why_not is None:
        return inconclusive(
            None, "neither hosts nor hardware are known", remedy="judge by a profile"
        )
    good: list[Observation] = []
    bad: list[Observation] = []
    for line in check.replica.log or ():
        state, channel = _MNNVL.match(line.message), _CHANNEL.match(line.message)
        locator = f"server.log:{line.number}"
        if state:
            on = state[2] != "0"
            value = state[1] if on else f"MNNVL {state[2]}"
            # NCCL settles it for the whole communicator.
            excerpt = line.text[:200]
            (good if on else bad).append(
                Observation("log", "NCCL", value, Rung.BUILT, locator, excerpt, scope="all")
            )
        elif channel:
            on = channel[1] == "P2P/MNNVL"
            (good if on else bad).append(
                Observation("log", "NCCL channel", channel[1], Rung.BUILT, locator, scope="all")
            )
    if good:
        return proven(Rung.BUILT, f"NCCL says {good[0].value}", *good[:3])
    if bad:
        text = f"NCCL says {', '.join(dict.fromkeys(str(seen.value) for seen in bad))}"
        return refuted(
            Rung.BUILT, f"{text}, never MNNVL 1: traffic between hosts leaves the NVLink fabric",
            *bad[:3], remedy=_remedy(check),
        )  # fmt: skip
    return inconclusive(
        None, "the log has no line of NCCL on its network",
        remedy="start with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH, and keep the log",
    )  # fmt: skip


def _environment(check: Check) -> dict[str, str]:
    declared = check.deployment.env if check.deployment else {}
    asked = {name: env.value for name, env in declared.items()}
    return {**asked, **(check.replica.environment or {})}


def _no_rack(check: Check) -> str | None:
    """Why there is no fabric between hosts to use; empty when there is, None: not known."""
    if _environment(check).get(_OFF) == "0":
        return f"{_OFF}=0 says that there is no NVLink between hosts"
    info = check.replica.server_info or check.replica.server_info_startup
    if info is None and check.deployment is None:
        return None
    hosts = (info or {}).get("nnodes", 1)
    products = [gpu.product for gpu in check.replica.host.gpus] if check.replica.host else []
    if check.deployment is not None:
        hosts = check.deployment.hosts_per_replica
        hardware = check.deployment.hardware
        products = products or [hardware.product or ""] * hardware.gpus_per_host
    if not isinstance(hosts, int) or hosts < 2:
        return "the engine runs on one host"
    if not products:
        return None
    # A workstation has one such GPU, and no rack.
    if len(products) < 2 or not all(_RACK.search(product) for product in products):
        return "the hardware has no NVLink between hosts"
    return ""


def _remedy(check: Check) -> str:
    if _environment(check).get("NCCL_CUMEM_ENABLE") == "0":
        return "set NCCL_CUMEM_ENABLE=1: 0, which some launchers export, switches MNNVL off"
    return "set NCCL_CUMEM_ENABLE=1 and NCCL_MNNVL_ENABLE=1, and check that IMEX runs on the hosts"
