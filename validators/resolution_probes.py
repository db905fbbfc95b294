"""Probes of what the engine made of the wish: the KV pool, and the model that drafts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from configurator import (
    Check,
    ModelReport,
    Observation,
    Outcome,
    Rung,
    absent_drafts,
    as_int,
    inconclusive,
    not_applicable,
    probe,
    proven,
    refuted,
    why_no_report,
)

_OF_A_MODEL = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "DSPARK", "FROZEN_KV_MTP")
"""Algorithms whose drafts come from a model."""
_SKIPPED = re.compile(r"(?:Parameter |Audio param )?(\S+) not found in params_dict, skip")


def _info(check: Check) -> dict[str, Any]:
    return check.replica.server_info or check.replica.server_info_startup or {}


def _count(value: Any) -> int | None:
    count = as_int(value)
    return count if count is not None and count > 0 else None


@probe("context-fits-kv-pool", kind="invariant", takes="N", proof_rung="built")
def context_fits_kv_pool(check: Check) -> Outcome:
    """The longest sequence that is promised fits into the KV pool that was allocated.

    Promised is N, or `workload.context` of the profile, or else the `context_length` that the
    engine was started with.

    Proven: `max_total_num_tokens` of /server_info, which is what was allocated, is as large
    (built).

    Refuted: it is smaller. The server starts, is healthy, and refuses longer requests although its
    context length allows them.

    Open: /server_info, which has the size of the pool, is not known. Not applicable where no
    length is promised.
    """
    promised, by = _promised(check)
    if promised is None and not _info(check):
        return inconclusive(None, "/server_info is not known", remedy="keep it with the evidence")
    if promised is None:
        return not_applicable("no context length is promised")
    pool = _count(_info(check).get("max_total_num_tokens"))
    if pool is None:
        text = f"{by} promises {promised:,} tokens; the size of the KV pool is not known"
        return inconclusive(None, text, remedy="keep /server_info with the evidence")
    pools = [
        Observation(
            "server_info", "max_total_num_tokens", pool, Rung.BUILT,
            "server_info.json#/max_total_num_tokens", scope="group",
        ),
        *_pools_of_groups(check),
    ]  # fmt: skip
    # The ranks of a data parallel group agree on the least of them; the groups do not.
    pool = min(int(str(seen.value)) for seen in pools)
    if pool < promised:
        return refuted(
            Rung.BUILT, f"the KV pool holds {pool:,} tokens; {by} promises {promised:,}", *pools,
            remedy=f"promise at most {pool}, or make room: more GPUs, an FP8 KV cache, a higher "
            "memory.mem_fraction_static",
        )  # fmt: skip
    times = pool // promised
    text = f"the KV pool holds {pool:,} tokens, {times} times the {promised:,} that {by} promises"
    return proven(Rung.BUILT, text, *pools)


def _pools_of_groups(check: Check) -> Iterator[Observation]:
    """The pool of every data parallel group, where there are several."""
    states = _info(check).get("internal_states")
    listed = states if isinstance(states, list) and len(states) > 1 else []
    for index, state in enumerate(listed):
        usage = state.get("memory_usage") if isinstance(state, dict) else None
        size = _count(usage.get("token_capacity")) if isinstance(usage, dict) else None
        if size is not None:
            yield Observation(
                "server_info", "token_capacity", size, Rung.BUILT,
                f"server_info.json#/internal_states/{index}/memory_usage/token_capacity",
                scope="group",
            )  # fmt: skip


def _promised(check: Check) -> tuple[int | None, str]:
    if check.expectation.value:
        return int(check.expectation.value), "the expectation"
    context = check.deployment.profile.workload.context if check.deployment else None
    if context is not None:
        return context, "workload.context"
    return _count(_info(check).get("context_length")), "--context-length"


@probe("draft-model", takes="NAME", proof_rung="built")
def draft_model(check: Check) -> Outcome:
    """A model that drafts was loaded, NAME being the last part of its path.

    Proven: the in-engine report lists it (built). That says nothing of its worth: see
    speculative-acceptance.

    Refuted: a report lists another, or /server_info resolved `speculative_algorithm` to null.

    Open: a report lacks the path of the draft, or the draft that another rank has; drafts are
    reported although /server_info resolved no algorithm, which is a conflict. Or /server_info has
    a path, which is an echo of the wish; or it has none although the algorithm drafts with a
    model, as with an architecture that the engine does not find a draft for by itself. Not
    applicable to algorithms without one (NGRAM).
    """
    info = _info(check)
    algorithm = info.get("speculative_algorithm", "")
    pointer = "server_info.json#/speculative_draft_model_path"
    built = [(report, draft) for report in check.replica.reports for draft in report.drafts]
    if algorithm is None and built:
        text = "/server_info says speculative_algorithm null, but a draft is reported"
        return inconclusive(
            Rung.RESOLVED, text, *_drafts(check), conflicts=(text,),
            remedy="collect reports and /server_info of the same start",
        )  # fmt: skip
    if algorithm is None:
        off = Observation(
            "server_info", "speculative_algorithm", None, Rung.RESOLVED,
            "server_info.json#/speculative_algorithm", absence_meaningful=True,
        )  # fmt: skip
        text = "the engine resolved speculative_algorithm to null: it does not speculate"
        return refuted(
            Rung.RESOLVED, text, off, remedy="start it with --speculative-algorithm"
        )  # fmt: skip
    if built or absent_drafts(check.replica.reports):
        return _of_reports(check)
    if algorithm and str(algorithm).upper() not in _OF_A_MODEL:
        return not_applicable(f"{algorithm} drafts without a model")
    path = info.get("speculative_draft_model_path")
    if path is None and "speculative_draft_model_path" in info:
        seen = Observation(
            "server_info", "speculative_draft_model_path", None, Rung.RESOLVED, pointer,
            absence_meaningful=True,
        )  # fmt: skip
        return inconclusive(
            Rung.RESOLVED, f"{algorithm} is resolved, but speculative_draft_model_path is null: "
            "this engine version found no draft for the architecture by itself", seen,
            remedy="give --speculative-draft-model-path (for a draft in the same checkpoint the "
            "path of the target), and measure acceptance",
        )  # fmt: skip
    if path is None:
        text = f"nothing shows a draft model{why_no_report(check.replica)}"
        return inconclusive(None, text, remedy=_GIVE)
    seen = Observation(
        "server_info", "speculative_draft_model_path", path, Rung.RESOLVED, pointer
    )  # fmt: skip
    text = f"/server_info says {path}: an echo of the wish{why_no_report(check.replica)}"
    return inconclusive(Rung.RESOLVED, text, seen, remedy=_GIVE)


_GIVE = "run with the in-engine report (evidence.instrument: standard), and measure acceptance"


def _drafts(check: Check) -> list[Observation]:
    """The drafts of every rank: class and last part of the path."""
    return [
        Observation(
            "report", "draft model",
            f"{draft.model_class} of {name}" if (name := _name(draft)) else draft.model_class,
            Rung.BUILT, report.file, rank=report.rank,
        )
        for report in check.replica.reports
        for draft in report.drafts
    ]  # fmt: skip


def _name(draft: ModelReport) -> str:
    return draft.path.rstrip("/").rpartition("/")[2]


def _of_reports(check: Check) -> Outcome:
    wish = check.expectation.value
    observations, conflicts = _drafts(check), tuple(_skipped(check))
    names = [_name(draft) for report in check.replica.reports for draft in report.drafts]
    wrong = [
        (seen, name)
        for seen, name in zip(observations, names, strict=True)
        if wish and name and name != wish
    ]
    if wrong:
        return refuted(
            Rung.BUILT, f"the draft is {wrong[0][1]}, not {wish}", *(seen for seen, _ in wrong),
            remedy=f"set --speculative-draft-model-path to {wish}", conflicts=conflicts,
        )  # fmt: skip
    lacking = absent_drafts(check.replica.reports)
    if lacking:
        return inconclusive(
            Rung.BUILT if observations else None, lacking, *observations, remedy=_GIVE,
            conflicts=conflicts,
        )  # fmt: skip
    if wish and not all(names):
        text = f"a draft was loaded, {observations[0].value}; its report has no model_path, so "
        return inconclusive(
            Rung.BUILT, f"{text}nothing shows that it is {wish}", *observations, remedy=_GIVE,
            conflicts=conflicts,
        )  # fmt: skip
    text = f"a draft was loaded: {observations[0].value}"
    without = [
        # A stage of a pipeline without a draft, where absent_drafts() misses none.
        Observation("report", "draft model", "none", Rung.BUILT, report.file, rank=report.rank)
        for report in check.replica.reports
        if report.target is not None and not report.drafts
    ]
    return proven(Rung.BUILT, text, *observations, *without, conflicts=conflicts)


def _skipped(check: Check) -> list[str]:
    """The first weight that the loader passed over: the draft starts without it all the same."""
    for line, found in check.replica.said(_SKIPPED, while_starting=True):
        return [f"server.log:{line.number} says that {found[1]} was not loaded"]
    return []
