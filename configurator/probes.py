"""Probes: pure functions from evidence to an outcome.

    @probe("served-model-name", takes="NAME", proof_rung="resolved")
    def served_model_name(check: Check) -> Outcome:
        ...

A probe never talks to a server, never waits and never retries: collectors observe, probes judge.
It sees one replica; `judge.py` joins replicas and applies the policy of the profile. The docstring
is the probe's page: what proves it, what refutes it, what leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from configurator.deployment import Deployment, Expectation
from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Replica, Report
from configurator.evidence.reports import KEY
from configurator.families import Families
from configurator.verdicts import Observation, Outcome, Rung, refuted

WHOLE = "all"
"""What a report names as the part that failed where nothing of it could be made."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a probe is given."""

    expectation: Expectation
    replica: Replica
    catalogue: Catalogue | None
    """Flags and variables of the engine version that runs; None when it is not known."""
    deployment: Deployment | None = None
    """The profile's launch; None when judging by `--expect` alone."""
    families: Families = field(default_factory=Families)
    """What kernels of a trace do, by their names."""


Judge = Callable[[Check], Outcome]


@dataclass(frozen=True, slots=True)
class Probe:
    """A judge with its identity."""

    name: str
    kind: Literal["mechanism", "invariant"]
    takes: str | None
    """What `--expect NAME=...` takes, for help texts; None: no value."""
    requires_value: bool
    proof_rung: str
    judge: Judge

    @property
    def doc(self) -> str:
        """The docstring; empty under `python -OO`."""
        return self.judge.__doc__ or ""


def probe(
    name: str,
    *,
    kind: Literal["mechanism", "invariant"] = "mechanism",
    takes: str | None = None,
    requires_value: bool = False,
    proof_rung: str = "built",
) -> Callable[[Judge], Probe]:
    """Make a judge function into a `Probe`.

    Args:
        name: the name `--expect` and kernel entries use.
        kind: an invariant must hold for any evidence to count.
        takes: the value it compares with, as shown in help texts.
        requires_value: it cannot judge without a value.
        proof_rung: lowest rung that may say PROVEN when no kernel entry says otherwise.
    """

    def wrap(judge: Judge) -> Probe:
        return Probe(name, kind, takes, requires_value, proof_rung, judge)

    return wrap


def on_ranks(some: Sequence[Report], every: Sequence[Report]) -> str:
    """` on rank 1` for what only some reports say; empty where all do."""
    if len(some) >= len(every):
        return ""
    return f" on {', '.join(map(_rank_name, some))}"


def _rank_name(report: Report) -> str:
    """The rank of a report by the dimensions that have more than one."""
    names = [
        f"{word}rank {report.ranks[f'{key}_rank']}"
        for key, word in (("tp", ""), ("pp", "pipeline "), ("dp", "data parallel "))
        if report.ranks.get(f"{key}_size", 1) > 1 and f"{key}_rank" in report.ranks
    ]
    if names:
        return " of ".join(names)
    return report.file if report.rank is None else f"rank {report.rank}"


def because(reports: Iterable[Report], part: str) -> str:
    """`: KeyError: ...`, why a part of the reports or the whole of one failed; may be empty."""
    errors = [
        text
        for report in reports
        for name, text in report.errors.items()
        if part in name or name == WHOLE
    ]
    return f": {errors[0][:200]}" if errors else ""


def absent_drafts(reports: Sequence[Report]) -> str:
    """Drafts that failed, or that one rank lacks and another has, in words; empty: none."""
    most = max((len(report.drafts) for report in reports), default=0)
    # Where the target is a pipeline, the draft may be in one stage of it alone.
    stages = {_stage(report) for report in reports if len(report.drafts) == most}
    lack = [
        report
        for report in reports
        if (len(report.drafts) < most and _stage(report) in stages)
        or report.target is None
        or _has_failed_draft(report)
    ]
    if not lack or not (most or any(map(_has_failed_draft, lack))):
        return ""
    return f"the part drafts is missing{on_ranks(lack, reports)}{because(lack, 'drafts')}"


def _stage(report: Report) -> int:
    return report.ranks.get("pp_rank", 0)


def _has_failed_draft(report: Report) -> bool:
    """A draft of which nothing could be reported, or the list of drafts."""
    listed = report.raw.get("drafts") if isinstance(report.raw, dict) else None
    each = listed if isinstance(listed, list) else [listed]
    return any(isinstance(draft, dict) and "error" in draft for draft in each)


def why_no_report(replica: Replica) -> str:
    """Why the probe in the engine left no usable report, for the end of a summary; may be empty."""
    failed = [text for report in replica.reports for text in report.errors.values()]
    errors = [hooks.error for hooks in replica.hooks if hooks.error]
    missing = [name for hooks in replica.hooks for name in hooks.missing]
    if failed:
        return f": the report failed, {failed[0]}"
    if errors or missing:
        text = (errors or [f"{missing[0]} was not applied"])[0]
        return f": the probe could not hook into the engine, {text}"
    if replica.set_aside:
        return f": {'; '.join(replica.set_aside[:3])}"
    if replica.hooks and not replica.reports:
        return ": the probe was loaded, but the engine called none of its hooks"
    allowed = (replica.environment or {}).get("SGLANG_PLUGINS", "")
    if allowed and KEY not in [name.strip() for name in allowed.split(",")]:
        return f": SGLANG_PLUGINS is {allowed} and leaves {KEY} out"
    return ""


def speculation_off(replica: Replica) -> Outcome | None:
    """The refutation of everything about drafts where the engine resolved that there are none."""
    info = replica.server_info or replica.server_info_startup or {}
    if info.get("speculative_algorithm", "") is not None:
        return None
    return refuted(
        Rung.RESOLVED,
        "the engine resolved speculative_algorithm to null: it does not speculate",
        Observation(
            "server_info", "speculative_algorithm", None, Rung.RESOLVED,
            "server_info.json#/speculative_algorithm", absence_meaningful=True,
        ),
        remedy="start it with --speculative-algorithm and, where needed, a draft model path",
    )  # fmt: skip
