"""The probe of what MoE kernels multiply: the numbers of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator import (
    Check,
    Families,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    did_you_mean,
    generating,
    has_no_experts,
    inconclusive,
    not_applicable,
    on_ranks,
    probe,
    proven,
    refuted,
    without_experts,
)

_KNOWN = ("bf16", "fp16", "fp8", "int8", "int4", "fp4")
_GIVE = "record a trace: check --level 3; of Humming the in-engine report says it too"


@dataclass(frozen=True, slots=True)
class _Fact:
    seen: Observation
    numbers: str
    text: str


@probe("moe-activations", takes="DTYPE", proof_rung="built")
def moe_activations(check: Check) -> Outcome:
    """The expert layers of the target multiply inputs of the named numbers: `bf16`, `fp8`, ...

    Without a name: it is known which, and they are the same everywhere. Experts of four bits are
    called W4A16 with 16-bit inputs and W4A8 with 8-bit ones; nothing in a launch without the
    variable says which it is, and they are not like for like.

    Proven: the names of the MoE kernels in the decode or verify steps of a trace tell the numbers
    (executed), or every MoE layer of the in-engine report does (built).

    Refuted: either shows other numbers than the named ones.

    Open: kernels and layers that do not tell; layers, or a trace and a report, that differ, where
    no numbers are named. A variable that asks for 8 bits is an echo. Not applicable where the
    report lists the layers and none is a MoE layer.
    """
    wish = (check.expectation.value or "").lower()
    if wish and wish not in _KNOWN:
        text = f"no numbers are called {wish}"
        return inconclusive(None, text, remedy=did_you_mean(wish, list(_KNOWN)))
    traced = list(_traced(check.replica, check.families))
    built = list(_built(check.replica))
    observations = [fact.seen for fact in (*traced, *built)]
    for rung, facts in ((Rung.EXECUTED, traced), (Rung.BUILT, built)):
        against = [fact.text for fact in facts if wish and fact.numbers != wish]
        if against:
            return refuted(
                rung, f"not {wish}: {'; '.join(dict.fromkeys(against))}", *observations,
                remedy="with Humming, set or leave out SGLANG_HUMMING_INPUT_QUANT_CONFIG",
            )  # fmt: skip
    found = dict.fromkeys(fact.numbers for fact in (*traced, *built))
    silent = list(_silent(check.replica))
    texts = "; ".join(dict.fromkeys(fact.text for fact in traced or built))
    if len(found) > 1:
        every = "; ".join(dict.fromkeys(fact.text for fact in (*traced, *built)))
        rung = Rung.BUILT if built else Rung.EXECUTED
        return inconclusive(rung, every, *observations, remedy=_GIVE)
    if traced or (built and not silent):
        return proven(Rung.EXECUTED if traced else Rung.BUILT, texts, *observations)
    if built:
        text = "; ".join([texts, *silent])
        return inconclusive(Rung.BUILT, text, *observations, remedy=_GIVE)
    if has_no_experts(check.replica):
        return not_applicable("the model has no MoE layer", *without_experts(check.replica))
    return inconclusive(None, "nothing shows what numbers the experts multiply", remedy=_GIVE)


def _traced(replica: Replica, families: Families) -> Iterator[_Fact]:
    """What the kernels of decode and verify steps tell, once a trace and numbers."""
    for trace, step in generating(replica):
        told: set[str] = set()
        for kernel in step.by_name:
            family = families.of(kernel.name)
            numbers = family.inputs_of(kernel.name)
            if not numbers or numbers in told or not family.does("moe"):
                continue
            told.add(numbers)
            seen = Observation(
                "trace", "inputs of MoE kernels", numbers, Rung.EXECUTED, trace.file,
                kernel.name[:200],
            )  # fmt: skip
            yield _Fact(
                seen, numbers, f"kernels of {family.name} in {step.kind} steps take {numbers}"
            )


def _built(replica: Replica) -> Iterator[_Fact]:
    """What the layers of the reports tell, once a report and numbers."""
    reports = [report for report in replica.reports if report.target is not None]
    facts = []
    for report in reports:
        layers = report.target.moe_layers if report.target else ()
        for numbers in dict.fromkeys(one.activations for one in layers if one.activations):
            count = sum(one.activations == numbers for one in layers)
            facts.append((report, numbers, f"{count} of {len(layers)} MoE layers take {numbers}"))
    for report, numbers, text in facts:
        text += on_ranks([other for other, _, theirs in facts if theirs == text], reports)
        seen = Observation(
            "report", "inputs of MoE layers", numbers, Rung.BUILT, report.file, text,
            rank=report.rank,
        )  # fmt: skip
        yield _Fact(seen, numbers, text)


def _silent(replica: Replica) -> Iterator[str]:
    """Ranks on which a MoE layer does not tell, in words."""
    reports = [report for report in replica.reports if report.target is not None]
    lack = [report for report in reports if _lacks(report)]
    if lack:
        yield f"a MoE layer does not tell{on_ranks(lack, reports)}"


def _lacks(report: Report) -> bool:
    return any(
        not layer.activations for layer in (report.target.moe_layers if report.target else ())
    )
