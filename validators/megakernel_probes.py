"""The probe of the NVIDIA megakernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from configurator import (
    Check,
    Observation,
    Outcome,
    Replica,
    Rung,
    inconclusive,
    last_words,
    on_ranks,
    probe,
    proven,
    refuted,
)

_ACTIVE = re.compile(r"NVIDIA megakernel: active \(")
_RUNS = re.compile(r"NVIDIA megakernel: .*runs the decode graphs of batch sizes \[([\d, ]*)\]"
                   r" \((\d+) of (\d+)\)")  # fmt: skip
_NOTHING = re.compile(r"NVIDIA megakernel: .*no step and no draft sampler")
_OWN_FORWARD = re.compile(r"NVIDIA megakernel: .*keeps its own forward")
_REFUSED = re.compile(r"\w+Error: (--enable-nvidia-megakernel(?: cannot run this setup"
                      r"|: none of the \d+ captured decode graphs))")  # fmt: skip
_ASKED = re.compile(r"--enable-nvidia-megakernel: .* on sm_")


@probe("nvidia-megakernel", proof_rung="captured")
def nvidia_megakernel(check: Check) -> Outcome:
    """Decode graphs run the NVIDIA megakernel instead of the ordinary forward.

    Proven: the in-engine report of every rank, or else the log, says for which batch sizes the
    captured decode graphs run it, k of n (captured). Where k is below n, the summary names the
    sizes; every other step, and prefill, runs the ordinary forward, with neither a counter nor a
    log line.

    Refuted: the report or the log says that no step is covered or that this setup is refused, or
    the batch size of the profile's concurrency is not among the covered ones.

    Open: a rank has no megakernel in its report, or does not say what it covers, and others do; or
    the log says only "active" (built: with decode graphs disabled nothing more is checked),
    only that the argument was resolved, or nothing at all; or /server_info says that the server
    runs without it, which is a conflict. A draft that keeps its own forward, or
    whose megakernel covers no step, is named; the target's steps may still be covered.
    """
    replica = check.replica
    found = {
        name: list(_lines(replica, shape, name, rung))
        for name, shape, rung in (
            ("asked", _ASKED, Rung.RESOLVED),
            ("active", _ACTIVE, Rung.BUILT),
            ("runs", _RUNS, Rung.CAPTURED),
            ("draft keeps its own forward", _OWN_FORWARD, Rung.BUILT),
            ("covers nothing", _NOTHING, Rung.BUILT),
        )
    }
    found["refused"] = list(_refusals(replica))
    everything = [seen for lines in found.values() for seen in lines]
    if found["refused"]:
        text = f"the engine refuses it: {_reasons(replica)}"
        return refuted(Rung.BUILT, text, *everything, remedy="mend what it names, or drop it")
    if found["covers nothing"] and not _built_for_target(replica, found):
        text = "the megakernel covers no step of this setup"
        return refuted(Rung.BUILT, text, *everything, remedy="drop it, or see what it supports")
    info = replica.server_info or replica.server_info_startup or {}
    pointer = "server_info.json#/enable_nvidia_megakernel"
    if info.get("enable_nvidia_megakernel") is False and (found["active"] or found["runs"]):
        said = "/server_info says enable_nvidia_megakernel false, but the log says it is active"
        return inconclusive(
            Rung.RESOLVED, said, *everything, conflicts=(said,),
            remedy="give the log of the server that answers",
        )  # fmt: skip
    own = found["draft keeps its own forward"] or _own_forward(replica)
    draft = "; the draft keeps its own forward" if own else ""
    draft += "; the draft's megakernel covers no step" if found["covers nothing"] else ""
    reported = _of_reports(check, everything, draft)
    if reported is not None:
        return reported
    silent = _silent_ranks(check, len(found["active"]))
    if silent:
        return inconclusive(
            Rung.BUILT, f"{silent}{draft}", *everything,
            remedy="keep the log of every rank, from its start",
        )  # fmt: skip
    if found["runs"]:
        return _covered(check, found["runs"], everything, draft)
    if found["active"]:
        ranks = len(found["active"])
        text = f"active on {ranks} rank{'s' if ranks > 1 else ''}; no line says which graphs run it"
        return inconclusive(
            Rung.BUILT, text + draft, *everything,
            remedy="leave decode CUDA graphs on: only captured graphs are checked",
        )  # fmt: skip
    if info.get("enable_nvidia_megakernel") is False:
        seen = Observation("server_info", "enable_nvidia_megakernel", False, Rung.RESOLVED, pointer)
        return refuted(
            Rung.RESOLVED, "the engine runs without --enable-nvidia-megakernel", seen, *everything,
            remedy="add --enable-nvidia-megakernel, and the plugin that provides it",
        )  # fmt: skip
    return inconclusive(
        Rung.RESOLVED if found["asked"] or info.get("enable_nvidia_megakernel") else None,
        "no log line says that it is active", *everything,
        remedy="keep the server's log from its start (--log)",
    )  # fmt: skip


def _built_for_target(replica: Replica, found: dict[str, list[Observation]]) -> bool:
    """The target has a megakernel of its own: a line that one covers no step is of a draft's."""
    reported = any(report.target and report.target.megakernel for report in replica.reports)
    return bool(found["active"] or found["runs"]) or reported


def _of_reports(check: Check, everything: list[Observation], draft: str) -> Outcome | None:
    """What the reports of all ranks say of the target; None where none has a megakernel."""
    reports = [r for r in check.replica.reports if r.stage == "ready"]
    kernels = {r.file: r.target.megakernel for r in reports if r.target and r.target.megakernel}
    if not kernels:
        return None
    seen = [
        Observation(
            "report", "megakernel graphs", _shown(kernel.covered), Rung.CAPTURED, r.file,
            kernel.summary, rank=r.rank,
        )
        for r in reports
        if (kernel := kernels.get(r.file)) is not None
    ]  # fmt: skip
    every = [*seen, *everything]
    bare = [r for r in reports if (k := kernels.get(r.file)) is not None and k.covered == ()]
    covered = [set(k.covered) for k in kernels.values() if k.covered is not None]
    sizes = set.intersection(*covered) if covered else set()
    needed = check.deployment.profile.workload.concurrency if check.deployment else None
    if covered and (bare or not sizes or (needed is not None and needed not in sizes)):
        fact = f"batch size {needed}, the profile's concurrency, is not" if sizes else "no size is"
        return refuted(
            Rung.CAPTURED,
            f"{fact} covered{on_ranks(bare, reports) if bare else ''}; covered: "
            f"{_shown(sizes)}{draft}", *every,
            remedy="lower workload.concurrency, or capture a size that is covered",
        )  # fmt: skip
    lack = [r for r in reports if (k := kernels.get(r.file)) is None or k.covered is None]
    if lack:
        text = (
            f"a megakernel was built, but which graphs run it is not known{on_ranks(lack, reports)}"
        )
        return inconclusive(
            Rung.BUILT, text + draft, *every, remedy="leave decode CUDA graphs on, and keep the "
            "log and the report of every rank",
        )  # fmt: skip
    graphs = {size for kernel in kernels.values() for size in kernel.graphs or ()}
    rest = sorted(graphs - sizes)
    partial = f" ({len(sizes)} of {len(graphs)}; {_shown(rest)} run the ordinary forward)"
    text = f"the decode graphs of batch sizes {_shown(sizes)} run it{partial if rest else ''}"
    return proven(Rung.CAPTURED, text + draft, *every)


def _shown(sizes: Iterable[int] | None) -> str:
    if sizes is None:
        return "not known"
    return ", ".join(map(str, sorted(sizes))) or "none"


def _own_forward(replica: Replica) -> bool:
    """A draft without a megakernel beside a target that has one."""
    return any(
        report.target is not None
        and report.target.megakernel is not None
        and any(draft.megakernel is None for draft in report.drafts)
        for report in replica.reports
    )


def _silent_ranks(check: Check, active: int) -> str:
    """Every rank says that it is active; what it means when some do not."""
    deployment = check.deployment
    if deployment is None or deployment.hosts_per_replica > 1 or not active:
        return ""
    ranks = deployment.gpus_per_replica
    return f"active on {active} of {ranks} ranks only" if active < ranks else ""


def _covered(
    check: Check, runs: list[Observation], everything: list[Observation], draft: str
) -> Outcome:
    """The captured graphs run it: for all sizes, for the one that is needed, or not for that."""
    sizes: set[int] | None = None
    partial = ""
    for seen in runs:
        match = _RUNS.search(seen.excerpt)
        if match is None:
            continue
        here = {int(size) for size in re.findall(r"\d{1,9}", match[1])}
        sizes = here if sizes is None else sizes & here
        if match[2] != match[3]:
            partial = f" ({match[2]} of {match[3]}; every other step runs the ordinary forward)"
    shown = ", ".join(map(str, sorted(sizes or ())))
    needed = check.deployment.profile.workload.concurrency if check.deployment else None
    if not sizes or (needed is not None and needed not in sizes):
        fact = f"batch size {needed}, the profile's concurrency, is not" if sizes else "no size is"
        return refuted(
            Rung.CAPTURED, f"{fact} covered; covered: {shown or 'none'}{partial}{draft}",
            *everything, remedy="lower workload.concurrency, or capture a size that is covered",
        )  # fmt: skip
    text = f"the decode graphs of batch sizes {shown} run it{partial}{draft}"
    return proven(Rung.CAPTURED, text, *everything)


def _lines(
    replica: Replica, shape: re.Pattern[str], name: str, rung: Rung
) -> Iterator[Observation]:
    for line, _ in replica.said(shape, while_starting=True):
        excerpt = line.message.strip()[:400]
        yield Observation("log", name, excerpt, rung, f"server.log:{line.number}", excerpt)


def _refusals(replica: Replica) -> Iterator[Observation]:
    """The error with which the engine ended, where it is the megakernel's refusal."""
    for line in last_words(replica.log):
        if found := _REFUSED.match(line.text):
            excerpt = line.text[found.start(1) :].strip()[:400]
            locator = f"server.log:{line.number}"
            yield Observation("log", "refused", excerpt, Rung.BUILT, locator, excerpt)


def _reasons(replica: Replica) -> str:
    """The refusal, with the list of reasons that follows it."""
    lines = last_words(replica.log)
    for at, line in enumerate(lines):
        found = _REFUSED.match(line.text)
        if found is None:
            continue
        reasons = []
        for following in lines[at + 1 :]:
            if not following.text.lstrip().startswith("- "):
                break
            reasons.append(following.text.strip().removeprefix("- "))
        return "; ".join(reasons) or line.text[found.start(1) :].strip()
    return ""
