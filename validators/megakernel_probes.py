"""The probe of the NVIDIA megakernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from configurator import (
    Answer,
    Check,
    Megakernel,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    inconclusive,
    last_words,
    on_ranks,
    probe,
    proven,
    refuted,
    traced_steps,
)

_ACTIVE = re.compile(r"NVIDIA megakernel: active \((?P<name>[^:]*)")
_RUNS = re.compile(r"NVIDIA megakernel: (?P<name>.*)runs the decode graphs of batch sizes "
                   r"\[(?P<sizes>[\d, ]*)\] \((?P<k>\d+) of (?P<n>\d+)\)")  # fmt: skip
_NOTHING = re.compile(r"NVIDIA megakernel: .*no step and no draft sampler")
_OWN_FORWARD = re.compile(r"NVIDIA megakernel: .*keeps its own forward")
_REFUSED = re.compile(
    r"\w+Error: (--enable-nvidia-megakernel(?: cannot run this setup"
    r"|: none of the \d+ captured decode graphs"
    r"|: the ranks(?:' .{1,80} differ| load different specs): rank \d))"
)
_ASKED = re.compile(r"--enable-nvidia-megakernel: .* on sm_")


@probe("nvidia-megakernel", proof_rung="captured")
def nvidia_megakernel(check: Check) -> Outcome:
    """Decode graphs run the NVIDIA megakernel instead of the ordinary forward.

    Proven: the in-engine report of every rank, or else the log, says for which batch sizes the
    captured decode graphs run it, k of n (captured). Where k is below n, the summary names the
    sizes; every other step, and prefill, runs the ordinary forward, with neither a counter nor a
    log line. Where a trace has covered steps and the entry says how many kernels a layer of one
    runs, that many ran (executed).

    Refuted: the report or the log says that no step of the target is covered, that the model's
    forward is its own again, or that this setup is refused; or the batch size of the profile's
    concurrency is not among the covered ones; or covered steps of a trace run many more kernels
    than the entry says, as an ordinary forward does.

    Open: a rank has no megakernel in its report, or does not say what it covers, and others do;
    the engine's check of the captured graphs has not completed, as when one of them never went
    through the installed forward; the ranks differ in the sizes, which the contract forbids; or
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
    drafts = _drafts(replica)
    own = found["draft keeps its own forward"] or None in drafts
    draft = "; the draft keeps its own forward" if own else ""
    idle = found["covers nothing"] or any(kernel and _is_idle(kernel) for kernel in drafts)
    draft += "; the draft's megakernel covers no step" if idle else ""
    reported = _of_reports(check, everything, draft)
    if reported is not None:
        return _with_trace(check, reported, _reported_sizes(replica))
    silent = _silent_ranks(check, found["active"])
    if silent:
        return inconclusive(
            Rung.BUILT, f"{silent}{draft}", *everything,
            remedy="keep the log of every rank, from its start",
        )  # fmt: skip
    if found["runs"]:
        return _with_trace(
            check, _covered(check, found["runs"], everything, draft), _logged_sizes(found["runs"])
        )
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


_MORE, _MANY = 2, 4
"""Times as many kernels as an entry says: up to here the steps run it, and from here they do not.

An ordinary forward runs more than ten kernels a layer, where a megakernel runs one."""


def _with_trace(check: Check, outcome: Outcome, sizes: set[int]) -> Outcome:
    """What was captured, held against the kernels that covered steps of a trace ran."""
    deployment = check.deployment
    mechanism = deployment.mechanisms.get(check.expectation.mechanism) if deployment else None
    layers = deployment.model.layers if deployment else None
    if outcome.answer is not Answer.PROVEN or mechanism is None or layers is None:
        return outcome
    for said in mechanism.kernel.per_step:
        most = said.per_layer * layers + said.beside
        for steps in traced_steps(check.replica):
            one = steps.step
            # With several batch sizes the number of kernels is a mean over all of them.
            if one.role not in said.steps or len(one.batches) > 1 or steps.size not in sizes:
                continue
            # Fewer than the layers alone take were not all recorded.
            if one.kernels < said.per_layer * layers:
                continue
            seen = Observation("trace", "kernels", str(steps), Rung.EXECUTED, steps.trace.file)
            text = f"{steps}, where {most} are expected for {layers} layers"
            if one.kernels >= _MANY * most:
                return refuted(
                    Rung.EXECUTED, text, seen, *outcome.observations,
                    remedy="see which kernels run: configurator trace FILE",
                )  # fmt: skip
            if one.kernels > _MORE * most:
                text = f"{outcome.summary}; {text}"
                return inconclusive(outcome.rung, text, seen, *outcome.observations)
            text = f"{outcome.summary}; {text}"
            return proven(Rung.EXECUTED, text, seen, *outcome.observations)
    return outcome


def _reported_sizes(replica: Replica) -> set[int]:
    """Batch sizes whose graphs run it on every rank, as the reports say."""
    known = [
        _checked(report.target.megakernel) or set()
        for report in replica.reports
        if report.target is not None and report.target.megakernel is not None
    ]
    return set.intersection(*known) if known else set()


def _logged_sizes(runs: list[Observation]) -> set[int]:
    """The same, as the log says."""
    matches = [_RUNS.search(seen.excerpt) for seen in runs]
    known = [{int(n) for n in re.findall(r"\d{1,9}", match["sizes"])} for match in matches if match]
    return set.intersection(*known) if known else set()


def _built_for_target(replica: Replica, found: dict[str, list[Observation]]) -> bool:
    """The target has a megakernel of its own: a line that one covers no step is of a draft's.

    The target is built before its draft, and the engine refuses ranks that differ in what they
    built. So where one is active first, the other is the draft's; a report knows it anyhow.
    """
    targets = [report.target.megakernel for report in replica.reports if report.target]
    if any(kernel.forward_installed for kernel in targets if kernel):
        return True
    if found["active"]:
        return _line(found["active"][0]) < _line(found["covers nothing"][0])
    return bool(found["runs"])


def _line(seen: Observation) -> int:
    return int(seen.locator.rpartition(":")[2])


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
    known = {file: _checked(kernel) for file, kernel in kernels.items()}
    return (
        _not_installed(reports, kernels, every)
        or _uncovered(check, reports, known, every, draft)
        or _unknown(reports, kernels, every, draft)
        or _ranks_differ(reports, known, every, draft)
        or _reported(kernels, every, draft)
    )


def _checked(kernel: Megakernel) -> set[int] | None:
    """The sizes that run it; None where they are not known, or not all graphs were looked at."""
    if kernel.covered is None or kernel.capture_checked is False:
        return None
    return set(kernel.covered)


def _not_installed(
    reports: list[Report], kernels: dict[str, Megakernel], every: list[Observation]
) -> Outcome | None:
    """The model's forward is its own: the plugin covers nothing, or was taken away again."""
    bare = [r for r in reports if (k := kernels.get(r.file)) and k.forward_installed is False]
    if not bare:
        return None
    if not any(kernels[r.file].widths for r in bare):
        text = "the megakernel covers no step of this setup"
        return refuted(Rung.BUILT, text, *every, remedy="drop it, or see what it supports")
    return refuted(
        Rung.BUILT,
        "a megakernel was built, and the model runs its own forward: it was taken away again"
        f"{on_ranks(bare, reports)}", *every,
        remedy="leave out what replaces the model's forward, such as another plugin",
    )  # fmt: skip


def _uncovered(
    check: Check, reports: list[Report], known: dict[str, set[int] | None],
    every: list[Observation], draft: str,
) -> Outcome | None:  # fmt: skip
    """No size runs it, or not the one that is needed."""
    bare = [r for r in reports if known.get(r.file) == set()]
    covered = [sizes for sizes in known.values() if sizes is not None]
    common = set.intersection(*covered) if covered else set()
    needed = check.deployment.profile.workload.concurrency if check.deployment else None
    if not covered or (not bare and common and (needed is None or needed in common)):
        return None
    fact = f"batch size {needed}, the profile's concurrency, is not" if common else "no size is"
    return refuted(
        Rung.CAPTURED,
        f"{fact} covered{on_ranks(bare, reports) if bare else ''}; covered: "
        f"{_shown(common)}{draft}", *every,
        remedy="lower workload.concurrency, or capture a size that is covered",
    )  # fmt: skip


def _unknown(
    reports: list[Report], kernels: dict[str, Megakernel], every: list[Observation], draft: str
) -> Outcome | None:
    """A rank does not say what it covers, or the engine has not looked at all of its graphs."""
    lack = [r for r in reports if (k := kernels.get(r.file)) is None or _checked(k) is None]
    if not lack:
        return None
    unfinished = [k for r in lack if (k := kernels.get(r.file)) and k.capture_checked is False]
    fact = "which graphs run it is not known"
    if unfinished:
        through = sorted({size for kernel in unfinished for size in kernel.graphs or ()})
        fact = (
            "the engine's check of the captured graphs has not completed: "
            f"of batch sizes {_shown(through)} alone a graph went through it"
            if through
            else "no captured graph went through it"
        )
    return inconclusive(
        Rung.BUILT, f"a megakernel was built, but {fact}{on_ranks(lack, reports)}{draft}", *every,
        remedy="leave decode CUDA graphs on, and keep the log and the report of every rank",
    )  # fmt: skip


def _ranks_differ(
    reports: list[Report], known: dict[str, set[int] | None], every: list[Observation], draft: str
) -> Outcome | None:
    """Ranks that decide a step differently wait in different collectives."""
    by_sizes: dict[str, list[Report]] = {}
    for report in reports:
        by_sizes.setdefault(_shown(known.get(report.file)), []).append(report)
    if len(by_sizes) == 1:
        return None
    parts = [f"{sizes}{on_ranks(some, reports)}" for sizes, some in by_sizes.items()]
    return inconclusive(
        Rung.CAPTURED,
        f"the ranks differ in the batch sizes whose graphs run it: {'; '.join(parts)}{draft}",
        *every, remedy="report it to the plugin: a step must be decided alike on every rank",
    )  # fmt: skip


def _reported(kernels: dict[str, Megakernel], every: list[Observation], draft: str) -> Outcome:
    """Every rank says the same sizes: all of the captured ones, or some."""
    sizes = {size for kernel in kernels.values() for size in kernel.covered or ()}
    graphs = {size for kernel in kernels.values() for size in kernel.graphs or ()}
    rest = sorted(graphs - sizes)
    partial = f" ({len(sizes)} of {len(graphs)}; {_shown(rest)} run the ordinary forward)"
    text = f"the decode graphs of batch sizes {_shown(sizes)} run it{partial if rest else ''}"
    return proven(Rung.CAPTURED, text + draft, *every)


def _shown(sizes: Iterable[int] | None) -> str:
    if sizes is None:
        return "not known"
    return ", ".join(map(str, sorted(sizes))) or "none"


def _drafts(replica: Replica) -> list[Megakernel | None]:
    """What every draft has, beside a target that has a megakernel."""
    return [
        draft.megakernel
        for report in replica.reports
        if report.target is not None and report.target.megakernel is not None
        for draft in report.drafts
    ]


def _is_idle(kernel: Megakernel) -> bool:
    """Whether nothing of a model runs it: neither its forward nor its sampler."""
    return kernel.forward_installed is False and kernel.draft_sampler is False


def _silent_ranks(check: Check, active: list[Observation]) -> str:
    """Every rank says of the target, and of a draft, that it is active; what if some do not."""
    deployment = check.deployment
    if deployment is None or deployment.hosts_per_replica > 1 or not active:
        return ""
    ranks = deployment.gpus_per_replica
    named = Counter(match["name"] for seen in active if (match := _ACTIVE.match(seen.excerpt)))
    fewest = min(named.values(), default=0)
    return f"active on {fewest} of {ranks} ranks only" if fewest < ranks else ""


def _covered(
    check: Check, runs: list[Observation], everything: list[Observation], draft: str
) -> Outcome:
    """The captured graphs run it: for all sizes, for the one that is needed, or not for that."""
    sizes: set[int] | None = None
    partial = ""
    by_name: dict[str, set[str]] = {}
    for seen in runs:
        match = _RUNS.search(seen.excerpt)
        if match is None:
            continue
        here = {int(size) for size in re.findall(r"\d{1,9}", match["sizes"])}
        by_name.setdefault(match["name"], set()).add(_shown(here))
        sizes = here if sizes is None else sizes & here
        if match["k"] != match["n"]:
            k, n = match["k"], match["n"]
            partial = f" ({k} of {n}; every other step runs the ordinary forward)"
    shown = _shown(sizes or ())
    needed = check.deployment.profile.workload.concurrency if check.deployment else None
    if not sizes or (needed is not None and needed not in sizes):
        fact = f"batch size {needed}, the profile's concurrency, is not" if sizes else "no size is"
        return refuted(
            Rung.CAPTURED, f"{fact} covered; covered: {shown}{partial}{draft}",
            *everything, remedy="lower workload.concurrency, or capture a size that is covered",
        )  # fmt: skip
    for different in by_name.values():
        if len(different) > 1:
            return inconclusive(
                Rung.CAPTURED, "the ranks differ in the batch sizes whose graphs run it: "
                f"{' or '.join(sorted(different))}{draft}", *everything,
                remedy="report it to the plugin: a step must be decided alike on every rank",
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
