"""Probes of the LM head: its precision, and what a draft shares of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from configurator import (
    Check,
    Families,
    Head,
    ModelReport,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    Trace,
    absent_drafts,
    as_int,
    because,
    generating,
    inconclusive,
    not_applicable,
    on_ranks,
    probe,
    proven,
    refuted,
    why_no_report,
)

_SILENT_LOG = re.compile(r"Online FP8 quantization enabled for lm_head")
_GIVE_REPORT = "run with the in-engine report (evidence.instrument: standard), or record a trace"


def _is_fp8(dtype: str | None) -> bool:
    return (dtype or "").removeprefix("torch.").startswith("float8")


def _heads(replica: Replica) -> Iterator[tuple[Report, Head]]:
    """The target's head as every rank reports it."""
    for report in replica.reports:
        if report.target is not None and report.target.head is not None:
            yield report, report.target.head


@probe("fp8-lm-head", proof_rung="built")
def fp8_lm_head(check: Check) -> Outcome:
    """The target's LM head holds FP8 weights and runs an FP8 GEMM.

    Proven: the in-engine report has a float8 weight that its quantization method is applied to
    (built), or the last GEMM of the decode or verify steps of a trace is an FP8 one (executed).
    A trace shows it only where it is of the last stage and nothing after that GEMM may be the
    head.

    Refuted: the report has a head of another type (built), a float8 weight that no method applies,
    or the last GEMM of a trace is a BF16 one (executed).

    Open: neither report nor trace; a rank whose report lacks the part lm_head, which is named; or
    a float8 weight of which the report does not say that its method, an unquantized one or none,
    is applied. The engine logs nothing about its head; the line "Online FP8
    quantization enabled for lm_head." of some builds is printed before any weight is converted
    and proves nothing, and neither does `quantization` in /server_info.
    """
    seen = list(_head_observations(check.replica, check.families))
    bad = [text for _, good, text in seen if good is False]
    conflicts = tuple(bad) if bad and any(good for _, good, _ in seen) else ()
    observations = [observation for observation, _, _ in seen]
    for rung in (Rung.EXECUTED, Rung.BUILT):
        here = [(good, text) for observation, good, text in seen if observation.rung is rung]
        if any(good is False for good, _ in here):
            text = next(text for good, text in here if good is False)
            return refuted(
                rung, text, *observations, conflicts=conflicts,
                remedy="give the engine a build or plugin that quantizes lm_head; no released "
                "CUDA build does it online, and unknown variables are ignored silently",
            )  # fmt: skip
    doubts = [*_unclear(check.replica), *_missing(check.replica)]
    for rung in (Rung.EXECUTED, Rung.BUILT):
        texts = [t for o, good, t in seen if good and o.rung is rung]
        if texts and not (doubts and rung is Rung.BUILT):
            warnings = tuple(_fp32(check.replica))
            support = [
                dataclasses.replace(
                    o, aside=not good or (bool(doubts) and o.source == "report"),
                )
                for o, good, _ in seen
            ]  # fmt: skip
            support += [] if doubts else _without_head(check.replica)
            return proven(rung, texts[0], *support, conflicts=warnings)
    if doubts:
        text = "; ".join(dict.fromkeys(doubts))
        rung_seen = Rung.BUILT if any(o.rung is Rung.BUILT for o in observations) else None
        warnings = tuple(_fp32(check.replica))
        return inconclusive(rung_seen, text, *observations, remedy=_GIVE_REPORT, conflicts=warnings)
    note = "; the log line about it is an echo" if observations else ""
    return inconclusive(
        Rung.REQUESTED if observations else None,
        f"neither a report nor a trace shows the LM head{note}{why_no_report(check.replica)}",
        *observations,
        remedy=_GIVE_REPORT,
    )


def _has_head(replica: Replica, trace: Trace) -> bool:
    """Whether a trace is of the last stage of a pipeline, as its name tells; of one stage it is."""
    info = replica.server_info or replica.server_info_startup or {}
    said = [int(stage) for one in replica.traces for stage in _STAGE.findall(one.file)]
    last = max([(as_int(info.get("pp_size")) or 1) - 1, *said])
    return last == 0 or str(last) in _STAGE.findall(trace.file)


_STAGE = re.compile(r"(?:^|-)PP-(\d{1,5})(?=[-.])")


def _without_head(replica: Replica) -> list[Observation]:
    """The stages of a pipeline before the last, where `_missing` misses no head."""
    return [
        Observation("report", "target lm_head", "none", Rung.BUILT, report.file, rank=report.rank)
        for report in replica.reports
        if report.target is not None and report.target.head is None
    ]


def _described(head: Head) -> str:
    """Type and method of a head in words."""
    text = f"the head's weight is {head.dtype}"
    if head.quant_method:
        text += f", method {head.quant_method}"
        text += " not applied" if head.quant_method_applied is False else ""
    if head.use_fp32 and head.quant_method_applied is False:
        text += ", and it is multiplied in float32"
    return text


_APPLIED = "target.lm_head.quant_method_applied"


def _is_plain(head: Head) -> bool:
    """The method is the one of unquantized weights, or is not known."""
    return not head.quant_method or "unquantized" in head.quant_method.lower()


def _speaks(head: Head) -> bool | None:
    """Whether a head speaks for FP8; None: its weight does, and its method leaves it open."""
    if not _is_fp8(head.dtype) or head.quant_method_applied is False:
        return False
    if head.quant_method_applied is None and _is_plain(head):
        return None
    return True


def _unclear(replica: Replica) -> Iterator[str]:
    """Heads of FP8 numbers of which nothing says that they are multiplied as such."""
    heads = list(_heads(replica))
    open_ = [
        (report, head)
        for report, head in heads
        if head.dtype and (_speaks(head) is None or (_speaks(head) and _failed(report, _APPLIED)))
    ]
    for _, head in open_:
        where = on_ranks([report for report, _ in open_], [report for report, _ in heads])
        yield (
            f"{_described(head)}{where}; the report does not say whether a method that reads "
            "FP8 is applied"
        )


def _missing(replica: Replica) -> Iterator[str]:
    """Ranks whose report lacks the head where other ranks have one, or where it failed."""
    reports = [report for report in replica.reports if report.schema or report.target]
    have = [r for r in reports if r.target and r.target.head and r.target.head.dtype]
    # Only the last pipeline stage has a head.
    stages = {_stage(report) for report in have}
    lack = [
        r
        for r in reports
        if r not in have
        and (
            not have
            or _stage(r) in stages
            or r.target is None
            or r.target.head is not None
            or _failed(r, "target.lm_head")
        )
    ]
    if have and lack:
        yield f"the part lm_head is missing{on_ranks(lack, reports)}{because(lack, 'lm_head')}"
    elif lack and any(_failed(report, "lm_head") for report in lack):
        yield f"the part lm_head failed{because(lack, 'lm_head')}"


def _stage(report: Report) -> int:
    return report.ranks.get("pp_rank", 0)


def _failed(report: Report, word: str) -> str:
    """The error of a part of the report; empty where it did not fail."""
    return next((text for part, text in report.errors.items() if word in part), "")


def _fp32(replica: Replica) -> Iterator[str]:
    """A switch to float32 beside an FP8 head: what multiplies it is then not its method."""
    for _, head in _heads(replica):
        if head.use_fp32 and _is_fp8(head.dtype) and head.quant_method_applied is not True:
            yield "use_fp32_lm_head is set, and nothing says that the FP8 method is applied"
            return


def _head_observations(
    replica: Replica, families: Families
) -> Iterator[tuple[Observation, bool | None, str]]:
    """Observation, whether it speaks for FP8 (None: it says nothing), and the fact in words."""
    heads = [(report, head) for report, head in _heads(replica) if head.dtype is not None]
    for report, head in heads:
        good = _speaks(head)
        text = _described(head)
        alike = [other for other, theirs in heads if _described(theirs) == text]
        text += on_ranks(alike, [other for other, _ in heads])
        yield (
            Observation(
                "report", "target lm_head dtype", head.dtype, Rung.BUILT, report.file,
                text, rank=report.rank,
            ),
            good,
            text,
        )  # fmt: skip
    for trace, step in generating(replica):
        name = families.head_gemm(step) if _has_head(replica, trace) else ""
        if not name:
            continue
        dtype = families.of(name).dtype
        good_kernel = dtype == "fp8" if dtype else None
        text = f"the last GEMM of {step.kind} steps is {name[:80]}"
        if good_kernel is not None:
            text += f": {'FP8' if good_kernel else 'not FP8'}"
        yield (
            Observation("trace", "LM head kernel", name, Rung.EXECUTED, trace.file),
            good_kernel,
            text,
        )
    for line, _ in replica.said(_SILENT_LOG, while_starting=True):
        yield (
            Observation(
                "log", "claim about lm_head", line.text.strip(), Rung.REQUESTED,
                f"server.log:{line.number}",
            ),
            None,
            "",
        )  # fmt: skip


@probe("lm-head-shared", proof_rung="built")
def lm_head_shared(check: Check) -> Outcome:
    """Every draft uses the target's LM head: weight, scales and quantization method.

    Proven: the in-engine report shows the same module, or the same weight with the same scales
    (where there are any) and a quantization method of the same name. Two modules that alias all
    tensors are as good as one.

    Refuted: the draft has a weight of its own (equal content is a copy, not sharing), other
    scales, or only the weight is aliased while the draft's method stays unquantized: it then
    reads FP8 numbers as if they were plain, without an error on some devices.

    Open: a part that failed or that one rank lacks (a draft, a head, a scale, a method), which is
    named; one module that is said to have two weights; or no report: no endpoint, metric or log
    line says whose head a draft uses. Not applicable without a draft model, for instance with
    n-gram speculation.
    """
    every = check.replica.reports
    reports = [report for report in every if report.target is not None]
    drafts = [(report, draft) for report in reports for draft in report.drafts]
    absent = absent_drafts(every)
    if not drafts and absent:
        return inconclusive(None, absent, remedy=_GIVE_REPORT)
    if not drafts:
        return _without_drafts(check.replica, reports)
    observations: list[Observation] = []
    conflicts: list[str] = []
    said: dict[bool | None, dict[str, list[Report]]] = {True: {}, False: {}, None: {}}
    for report, draft in drafts:
        target = report.target.head if report.target else None
        answer, text = _shared(target, draft)
        conflicts += filter(None, [_contradiction(target, draft)])
        observations.append(
            Observation("report", "draft lm_head", text, Rung.BUILT, report.file, rank=report.rank)
        )
        said[answer].setdefault(text, []).append(report)
    ways, reasons, unknown = (
        "; ".join(text + on_ranks(some, reports) for text, some in said[answer].items())
        for answer in (True, False, None)
    )
    if reasons:
        return refuted(
            Rung.BUILT, reasons, *observations,
            remedy="share the whole module (fp8-lm-head: {share: module}), or alias the scale "
            "and the quantization method with the weight",
        )  # fmt: skip
    doubts = "; ".join(filter(None, (unknown, absent)))
    if (check.replica.server_info or {}).get("speculative_algorithm", "") is None:
        conflicts.append("/server_info says speculative_algorithm null, but a draft is reported")
        doubts = doubts or f"{ways}; {conflicts[-1]}"
    if doubts:
        return inconclusive(
            Rung.BUILT if ways else None, doubts, *observations, remedy=_GIVE_REPORT,
            conflicts=tuple(dict.fromkeys(conflicts)),
        )  # fmt: skip
    without = _no_drafts([report for report in reports if not report.drafts])
    return proven(Rung.BUILT, ways, *observations, *without)


def _no_drafts(reports: list[Report]) -> list[Observation]:
    """The reports that list no draft, for instance of a stage that has none."""
    return [
        Observation("report", "drafts", "none", Rung.BUILT, report.file, rank=report.rank)
        for report in reports
    ]


def _without_drafts(replica: Replica, reports: list[Report]) -> Outcome:
    """No report has a draft: there is none, or it is not known."""
    info = replica.server_info or {}
    algorithm = info.get("speculative_algorithm")
    # What the engine resolved is one for all ranks; otherwise the reports alone say it.
    resolved = "speculative_algorithm" in info
    if reports and not algorithm:
        seen = [] if resolved else _no_drafts(reports)
        return not_applicable("no draft model is loaded", *seen)
    if str(algorithm).upper() == "NGRAM":
        return not_applicable("n-gram speculation has no draft model")
    text = f"no report shows whose LM head the draft uses{why_no_report(replica)}"
    return inconclusive(None, text, remedy=_GIVE_REPORT)


def _contradiction(target: Head | None, draft: ModelReport) -> str:
    """In what one module is said to have another weight than itself; empty: in nothing."""
    sharing, head = draft.sharing, draft.head
    if sharing is None:
        return ""
    text = sharing.conflict
    if not text and sharing.same_module and False in (sharing.same_weight, sharing.same_content):
        text = "same_module is true, but the weights are not the same"
    types = (head.dtype if head else None, target.dtype if target else None)
    if not text and sharing.same_module and all(types) and types[0] != types[1]:
        text = f"same_module is true, but the weights are {types[1]} and {types[0]}"
    return f"the report contradicts itself: {text}" if text else ""


def _of_its_own(sharing: Any) -> tuple[bool | None, str]:
    """A weight that is not the target's: what is known of what it holds."""
    compared = sharing.compared
    sampled = f" ({compared})" if compared.startswith("sample") else ""
    if sharing.same_content:
        return False, f"the draft has a copy of the target's weight{sampled}: it is not shared"
    if sharing.same_content is None:
        return False, "the draft has a weight of its own, not the target's"
    if compared == "dtype or shape differ":
        return False, (
            "the draft has a weight of another dtype or shape, for instance of a reduced "
            "vocabulary, not the target's"
        )
    return False, f"the draft has a weight of other content{sampled}, not the target's"


def _shared(target: Head | None, draft: ModelReport) -> tuple[bool | None, str]:
    """Whether one draft shares the target's head (None: not reported), and why."""
    sharing, head = draft.sharing, draft.head
    contradiction = _contradiction(target, draft)
    if contradiction:
        return None, contradiction
    if sharing is None or not (
        sharing.same_module or sharing.same_weight is not None or sharing.same_content is False
    ):
        return None, "the report does not compare the draft's head with the target's"
    if sharing.same_module:
        return True, "the draft's LM head is the target's module"
    if not sharing.same_weight:
        return _of_its_own(sharing)
    if head is None or target is None:
        return None, "the weight is shared; the report does not describe both heads"
    if _is_fp8(head.dtype) and head.quant_method_applied is False:
        return False, (
            f"only the weight is aliased: it is {head.dtype}, and the draft's method "
            f"{head.quant_method or 'of its head'} reads it as if it were plain"
        )
    if sharing.same_scales is False:
        values = " against ".join(sharing.scale_values)
        return False, "the weight is shared but not its scale" + (f": {values}" if values else "")
    # FP8 numbers have a scale somewhere: a report without one tells only half of the head.
    if sharing.same_scales is None and (target.scales or _is_fp8(head.dtype)):
        return None, "the weight is shared; the report does not compare the scales"
    if not head.quant_method or not target.quant_method:
        whose = "draft's" if not head.quant_method else "target's"
        return None, f"the weight is shared; the report does not name the {whose} method"
    if head.quant_method != target.quant_method:
        return False, (
            f"the weight is shared, but the draft's method is {head.quant_method} and the "
            f"target's {target.quant_method}"
        )
    scales = " and its scales" if target.scales else ""
    return True, f"the draft's LM head has the target's weight{scales}"
