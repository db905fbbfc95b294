"""Probes of what a profiler trace shows alone: kernels of a family, and how many a step runs."""

from __future__ import annotations

from configurator import (
    Check,
    Observation,
    Outcome,
    Rung,
    Trace,
    TraceStep,
    did_you_mean,
    generating,
    inconclusive,
    probe,
    proven,
    refuted,
)

_GIVE = "record a trace: check --level 3, or --trace FILE"


@probe("kernel-family", takes="FAMILY", requires_value=True, proof_rung="executed")
def kernel_family(check: Check) -> Outcome:
    """The decode steps (with speculation: verify steps) run kernels of the named family.

    Families are content: `configurator list families`.

    Proven: such kernels ran in the decode or verify steps of a trace of every rank (executed).

    Refuted: in those steps of a trace others did the family's job, and none of its own.

    Open: no trace with kernels of the GPU in such steps; or nothing there did the job at all,
    which shows no other kernel in its place.
    """
    wish = check.expectation.value or ""
    wanted = next((one for one in check.families.every if one.name == wish), None)
    steps = list(generating(check.replica))
    if not steps:
        return inconclusive(None, f"no trace shows kernels of decode steps; {wish}", remedy=_GIVE)
    if wanted is None:
        names = [one.name for one in check.families.every]
        return inconclusive(None, f"no family is named {wish}", remedy=did_you_mean(wish, names))
    seen, bare = [], []
    for trace, step in steps:
        own = [one for one in step.by_name if check.families.of(one.name).name == wish]
        others = [
            one for one in step.by_name
            if (family := check.families.of(one.name)).name != wish and family.job == wanted.job
            # What serves another job too may have done that one alone.
            and not family.also
        ]  # fmt: skip
        if own:
            count = sum(one.count for one in own) / step.steps
            seen.append(_of_step(trace, step, f"{count:g} of {wish} a step ({own[0].name[:60]})"))
        elif others:
            shown = ", ".join(dict.fromkeys(check.families.of(one.name).name for one in others))
            text = f"no kernel of {wish}; {shown} do its job, {wanted.job}"
            against = _of_step(trace, step, f"{text} ({others[0].name[:60]})")
            return refuted(
                Rung.EXECUTED, f"{step.kind} steps: {against.value}", against, *seen,
                remedy="read the log for why other kernels were chosen",
            )  # fmt: skip
        else:
            bare.append(step.kind)
    if bare:
        text = f"no kernel in {', '.join(bare)} steps does the job of {wish}, {wanted.job}"
        return inconclusive(Rung.EXECUTED if seen else None, text, *seen, remedy=_GIVE)
    return proven(Rung.EXECUTED, f"{steps[0][1].kind} steps: {seen[0].value}", *seen)


def _of_step(trace: Trace, step: TraceStep, value: str) -> Observation:
    return Observation("trace", f"kernels of {step.kind} steps", value, Rung.EXECUTED, trace.file)


def _counted(step: TraceStep) -> str:
    return f"{step.kernels:g} kernels, {step.launches:g} launches"


@probe("kernels-per-step", takes="N", requires_value=True, proof_rung="executed")
def kernels_per_step(check: Check) -> Outcome:
    """A decode step (with speculation: a verify step) runs at most so many kernels on the GPU.

    Kernels are counted, not launches: a graph is one launch of many kernels.

    Proven: the steps of a trace of every rank run no more on average (executed).

    Refuted: those of one trace run more.

    Open: no trace with kernels of the GPU in such steps.
    """
    most = int(check.expectation.value or 0)
    seen = [
        (step.kernels, _of_step(trace, step, _counted(step)))
        for trace, step in generating(check.replica)
    ]
    if not seen:
        return inconclusive(None, "no trace shows kernels of decode steps", remedy=_GIVE)
    worst, shown = max(seen, key=lambda one: one[0])
    observations = [one for _, one in seen]
    text = f"{shown.subject}: {shown.value} a step"
    if worst > most:
        return refuted(
            Rung.EXECUTED, f"{text}, more than {most}", *observations,
            remedy="see what runs them: configurator trace FILE",
        )  # fmt: skip
    return proven(Rung.EXECUTED, f"{text}, not more than {most}", *observations)
