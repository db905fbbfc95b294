"""Probes of the LM head: its precision, and what a draft shares of it."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import (
    Check,
    Head,
    ModelReport,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    inconclusive,
    not_applicable,
    on_ranks,
    probe,
    proven,
    refuted,
    why_no_report,
)

_DECODING = ("DECODE", "TARGET_VERIFY")
_SILENT_LOG = "Online FP8 quantization enabled for lm_head"
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

    Refuted: the report has a head of another type (built), a float8 weight that no method applies,
    or the last GEMM of a trace is a BF16 one (executed).

    Open: neither report nor trace. The engine logs nothing about its head; the line "Online FP8
    quantization enabled for lm_head." of some builds is printed before any weight is converted
    and proves nothing, and neither does `quantization` in /server_info.
    """
    seen = list(_head_observations(check.replica))
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
    for rung in (Rung.EXECUTED, Rung.BUILT):
        texts = [t for o, good, t in seen if good and o.rung is rung]
        if texts:
            return proven(rung, texts[0], *observations)
    note = "; the log line about it is an echo" if observations else ""
    return inconclusive(
        Rung.REQUESTED if observations else None,
        f"neither a report nor a trace shows the LM head{note}{why_no_report(check.replica)}",
        *observations,
        remedy=_GIVE_REPORT,
    )


def _described(head: Head) -> str:
    """Type and method of a head in words."""
    text = f"the head's weight is {head.dtype}"
    if head.quant_method:
        text += f", method {head.quant_method}"
        text += " not applied" if head.quant_method_applied is False else ""
    if head.use_fp32 and head.quant_method_applied is False:
        text += ", and it is multiplied in float32"
    return text


def _head_observations(replica: Replica) -> Iterator[tuple[Observation, bool | None, str]]:
    """Observation, whether it speaks for FP8 (None: it says nothing), and the fact in words."""
    heads = [(report, head) for report, head in _heads(replica) if head.dtype is not None]
    for report, head in heads:
        good = _is_fp8(head.dtype) and head.quant_method_applied is not False
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
    for trace in replica.traces:
        for step in trace.steps:
            if step.kind.upper() not in _DECODING or not step.last_gemm:
                continue
            name = step.last_gemm
            good_kernel = _kernel_is_fp8(name)
            text = f"the last GEMM of {step.kind} steps is {name[:80]}"
            if good_kernel is not None:
                text += f": {'FP8' if good_kernel else 'not FP8'}"
            yield (
                Observation("trace", "LM head kernel", name, Rung.EXECUTED, trace.file),
                good_kernel,
                text,
            )
    for line in replica.log or ():
        if _SILENT_LOG in line.text:
            yield (
                Observation(
                    "log", "claim about lm_head", line.text.strip(), Rung.REQUESTED,
                    f"server.log:{line.number}",
                ),
                None,
                "",
            )  # fmt: skip


def _kernel_is_fp8(name: str) -> bool | None:
    """FP8 GEMMs of cuBLAS have `qqtst` in their name, BF16 ones `tst`; None: not known."""
    lower = name.lower()
    if "qqtst" in lower or "e4m3" in lower or "fp8" in lower:
        return True
    if ("nvjet" in lower and "tst" in lower) or "bf16" in lower:
        return False
    return None


@probe("lm-head-shared", proof_rung="built")
def lm_head_shared(check: Check) -> Outcome:
    """Every draft uses the target's LM head: weight, scales and quantization method.

    Proven: the in-engine report shows the same module, or the same weight with the same scales
    (where there are any) and a quantization method of the same name. Two modules that alias all
    tensors are as good as one.

    Refuted: the draft has a weight of its own (equal content is a copy, not sharing), other
    scales, or only the weight is aliased while the draft's method stays unquantized: it then
    reads FP8 numbers as if they were plain, without an error on some devices.

    Open: no report; no endpoint, metric or log line says whose head a draft uses. Not applicable
    without a draft model, for instance with n-gram speculation.
    """
    reports = [report for report in check.replica.reports if report.target is not None]
    drafts = [(report, draft) for report in reports for draft in report.drafts]
    if not drafts:
        info = check.replica.server_info or {}
        if reports and not info.get("speculative_algorithm"):
            return not_applicable("no draft model is loaded")
        if str(info.get("speculative_algorithm")).upper() == "NGRAM":
            return not_applicable("n-gram speculation has no draft model")
        return inconclusive(
            None,
            f"no report shows whose LM head the draft uses{why_no_report(check.replica)}",
            remedy=_GIVE_REPORT,
        )
    observations: list[Observation] = []
    said: dict[bool | None, dict[str, list[Report]]] = {True: {}, False: {}, None: {}}
    for report, draft in drafts:
        target = report.target.head if report.target else None
        answer, text = _shared(target, draft)
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
    if unknown:
        return inconclusive(None, unknown, *observations, remedy=_GIVE_REPORT)
    return proven(Rung.BUILT, ways, *observations)


def _shared(target: Head | None, draft: ModelReport) -> tuple[bool | None, str]:
    """Whether one draft shares the target's head (None: not reported), and why."""
    sharing, head = draft.sharing, draft.head
    if sharing is None or (sharing.same_module is None and sharing.same_weight is None):
        return None, "the report does not compare the draft's head with the target's"
    if sharing.same_module:
        return True, "the draft's LM head is the target's module"
    if not sharing.same_weight:
        if sharing.same_content:
            return False, "the draft has a copy of the target's weight: it is not shared"
        other = "of other content" if sharing.same_content is False else "of its own"
        return False, f"the draft has a weight {other}, not the target's"
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
    if head.quant_method != target.quant_method:
        return False, (
            f"the weight is shared, but the draft's method is {head.quant_method} and the "
            f"target's {target.quant_method}"
        )
    if target.scales and sharing.same_scales is None:
        return None, "the weight is shared; the report does not compare the scales"
    scales = " and its scales" if target.scales else ""
    return True, f"the draft's LM head has the target's weight{scales}"
