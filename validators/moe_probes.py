"""The probe of the MoE runner: which implementation the expert layers run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from configurator import (
    Check,
    Families,
    Kernel,
    LogLine,
    ModelReport,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    Trace,
    because,
    has_no_experts,
    inconclusive,
    not_applicable,
    on_ranks,
    probe,
    proven,
    ranks_in_prefix,
    refuted,
    why_no_report,
    without_experts,
)

_LINES = (
    ("humming", Rung.EXECUTED, re.compile(r"Using \w+ gemm for humming moe")),
    ("humming", Rung.BUILT, re.compile(r"Preparing \w+ MXFP4 experts for Humming backend")),
    ("triton", Rung.BUILT, re.compile(r"Fp8MoEMethod has no .* path; using triton")),
)
"""Log lines that show a runner, and how high they reach."""
_CHOSEN = re.compile(r"Using '([^']+)' \w+ MoE backend out of potential backends")
"""vLLM names its choice in quotes, and then every candidate: only the quoted word counts."""
_OVERRIDDEN = re.compile(r"Detected .*?\benabling (\w+?)(_kernels?)? MOE kernel", re.I)
_REMEDY = (
    "check which expert layers the checkpoint quantizes: unquantized ones fall back to triton "
    "without a word"
)

_DRAFT = "MoE runner of the draft"

_CONTRADICTED = "contradicted"

_Fact = tuple[Observation, str, str]
"""Observation, the runner it shows, and the fact in words."""


@probe("moe-runner", takes="NAME", requires_value=True, proof_rung="built")
def moe_runner(check: Check) -> Outcome:
    """The expert layers run on the named MoE runner.

    Proven: every MoE layer of the in-engine report was built with it (built), a kernel of it is
    in the target's steps of a trace, or the log says that it ran (executed).

    Refuted: a layer of the target was built with another, which is named; the target's steps of a
    trace have the kernels of another runner alone, and those of the wish are known; or
    /server_info resolved another than the wish, or the log says that the engine takes another by
    itself (resolved).

    A draft whose layers were built with another is named as a conflict and refutes nothing: its
    experts are often not quantized, and the engine then gives it Triton.

    Open: a layer that has no runner object, so that the name is only what it resolved; one whose
    runner and core are of different names; a layer that failed in the report, or that one rank
    lacks: they are named. Or /server_info says the wished name, which is only an echo of the flag,
    or `auto`, which stays `auto` for ever. Not applicable where a report lists the layers, none is
    a MoE layer or named like experts, and no runner was resolved.
    """
    wish = (check.expectation.value or "").lower()
    replica = check.replica
    found = (*_traced(replica, check.families, wish), *_built(replica), *_logged(replica))
    # The engine writes one runner in two ways: triton_kernel its option, triton_kernels its object.
    facts = [
        (seen, wish if _plain(runner) == _plain(wish) else runner, text)
        for seen, runner, text in found
    ]
    echo = _resolved(replica)
    observations = [fact[0] for fact in facts] + ([echo] if echo else [])
    missing, unbuilt = _missing(replica), list(_unbuilt(replica))
    observations += [seen for seen, _, _ in unbuilt]
    if not (facts or missing or unbuilt) and has_no_experts(replica):
        return not_applicable("the model has no MoE layer", *without_experts(replica))
    conflicts = (
        *_conflicts([fact for fact in facts if fact[0].subject != _DRAFT], echo),
        *(text for seen, runner, text in facts if seen.subject == _DRAFT and runner != wish),
        *dict.fromkeys(text for seen, _, text in unbuilt if seen.value == _CONTRADICTED),
    )
    for rung in (Rung.EXECUTED, Rung.BUILT):
        here = [fact for fact in facts if fact[0].rung is rung]
        against = [text for seen, runner, text in here if runner != wish and seen.subject != _DRAFT]
        if against and (rung is Rung.BUILT or not any(runner == wish for _, runner, _ in here)):
            return refuted(
                rung, f"not {wish}: {'; '.join(dict.fromkeys(against))}", *observations,
                remedy=_REMEDY, conflicts=conflicts,
            )  # fmt: skip
    doubts = [*dict.fromkeys(text for _, _, text in unbuilt), *missing]
    for rung in (Rung.EXECUTED, Rung.BUILT):
        texts = [
            text
            for seen, runner, text in facts
            if runner == wish and seen.rung is rung and seen.subject != _DRAFT
        ]
        if texts and doubts and rung is Rung.BUILT:
            text = "; ".join(dict.fromkeys([*texts, *doubts]))
            return inconclusive(rung, text, *observations, remedy=_GIVE, conflicts=conflicts)
        if texts:
            seen = [_aside_unless(wish, fact, in_doubt=bool(doubts)) for fact in facts]
            # A stage of a pipeline may have dense layers alone.
            seen += [] if doubts else without_experts(replica)
            seen += observations[len(facts) :]
            text = "; ".join(dict.fromkeys(texts))
            return proven(rung, text, *seen, conflicts=conflicts)
    others = [text for _, runner, text in unbuilt if runner not in ("", "none", "auto", wish)]
    if others:
        text = f"not {wish}: {'; '.join(dict.fromkeys(others))}"
        return refuted(Rung.RESOLVED, text, *observations, remedy=_REMEDY, conflicts=conflicts)
    if doubts:
        level = Rung.RESOLVED if unbuilt else None
        text = "; ".join(doubts)
        return inconclusive(level, text, *observations, remedy=_GIVE, conflicts=conflicts)
    return _resolved_only(replica, wish, echo)


def _aside_unless(wish: str, fact: _Fact, *, in_doubt: bool) -> Observation:
    """What is no evidence for the wish: another runner, the draft, a report with a part open."""
    seen, runner, _ = fact
    aside = runner != wish or seen.subject == _DRAFT or (in_doubt and seen.source == "report")
    return dataclasses.replace(seen, aside=aside)


def _resolved_only(replica: Replica, wish: str, echo: Observation | None) -> Outcome:
    """What the engine resolved, where nothing shows what was built or ran."""
    overridden = _overridden(replica, wish)
    if overridden is not None:
        return refuted(
            Rung.RESOLVED, f"the log says {overridden.value!r}: another runner replaced {wish}",
            overridden, *([echo] if echo else []),
            remedy="use an engine version that keeps the choice, or ask for the runner it takes",
        )  # fmt: skip
    if echo is None:
        return inconclusive(None, "nothing shows the MoE runner", remedy=_GIVE)
    resolved = str(echo.value).lower()
    if resolved not in ("auto", wish):
        text = f"the engine resolved moe_runner_backend to {resolved}, not {wish}"
        return refuted(Rung.RESOLVED, text, echo, remedy=f"set --moe-runner-backend {wish}")
    text = f"/server_info says {resolved}: " + (
        "that stays so whatever runs" if resolved == "auto" else "an echo of the flag, no proof"
    )
    return inconclusive(Rung.RESOLVED, f"{text}{why_no_report(replica)}", echo, remedy=_GIVE)


_GIVE = "run with the in-engine report (evidence.instrument: standard), or record a trace"


def _resolved(replica: Replica) -> Observation | None:
    info = replica.server_info or replica.server_info_startup or {}
    value = info.get("moe_runner_backend")
    if not isinstance(value, str) or not value:
        return None
    pointer = "server_info.json#/moe_runner_backend"
    return Observation("server_info", "moe_runner_backend", value, Rung.RESOLVED, pointer)


def _built(replica: Replica) -> Iterator[_Fact]:
    """The runners of the layers, once a report and runner, with the layers that have it."""
    facts = [
        (report, model.is_draft, runner, text)
        for report in replica.reports
        for model in (report.target, *report.drafts)
        if model is not None
        for runner, text in _runners(model, len(model.moe_layers) + _errors(report, model))
    ]
    reports = [report for report in replica.reports if report.target is not None]
    for report, is_draft, runner, text in facts:
        alike = [other for other, _, _, theirs in facts if theirs == text]
        text += on_ranks(alike, reports)
        subject = _DRAFT if is_draft else "MoE runner"
        seen = Observation(
            "report", subject, runner, Rung.BUILT, report.file, text, rank=report.rank
        )
        yield seen, runner, text


def _runners(model: ModelReport, total: int) -> Iterator[tuple[str, str]]:
    """Every runner of a model's layers, with how many and which have it in words."""
    layers: dict[str, list[str]] = {}
    for layer in model.moe_layers:
        if _is_built(layer) and not _is_contradicted(layer):
            layers.setdefault(layer.runner.lower(), []).append(layer.name)
    for runner, names in layers.items():
        part = "draft" if model.is_draft else "target"
        shown = f"{len(names)} of {total} MoE layers of the {part}"
        where = "" if len(names) == total else f" ({_few(names)})"
        yield runner, f"{shown}{where} are built with {runner}"


def _is_built(layer: Any) -> bool:
    """A runner object shows its name; without one the name is only what the layer resolved."""
    if layer.has_runner is None:
        return not layer.resolved
    return layer.has_runner is True


def _is_contradicted(layer: Any) -> bool:
    """The core of the runner is that of another runner."""
    core = _plain(layer.runner_core.removesuffix("RunnerCore"))
    return core in _CORES and core != _plain(layer.runner)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("s")


_CORES = ("triton", "tritonkernel", "deepgemm", "marlin", "humming")
"""Runners whose cores bear their name."""


def _unbuilt(replica: Replica) -> Iterator[_Fact]:
    """Layers of the target of which the report does not show the runner that was built."""
    reports = [report for report in replica.reports if report.target is not None]
    facts = []
    for report in reports:
        groups: dict[tuple[str, str], list[str]] = {}
        for layer in report.target.moe_layers if report.target else ():
            if not _is_built(layer):
                text = f"no runner object, only the name {layer.runner or 'of none'}"
                groups.setdefault((text, layer.runner or "none"), []).append(layer.name)
            elif _is_contradicted(layer):
                text = f"a runner named {layer.runner} whose core is {layer.runner_core}"
                groups.setdefault((text, ""), []).append(layer.name)
        facts += [(report, runner, f"{_few(n)}: {text}") for (text, runner), n in groups.items()]
    for report, runner, text in facts:
        text += on_ranks([other for other, _, theirs in facts if theirs == text], reports)
        seen = Observation(
            "report", "MoE runner", runner or _CONTRADICTED, Rung.RESOLVED, report.file, text,
            rank=report.rank,
        )  # fmt: skip
        yield seen, runner, text


def _errors(report: Report, model: ModelReport) -> int:
    """Layers of a target that failed in the report."""
    return 0 if model.is_draft else sum(_has_failed(layer) for layer in _listed(report))


def _listed(report: Report) -> list[Any]:
    """The layers as the report lists them; the list may have failed as a whole."""
    raw = report.raw if isinstance(report.raw, dict) else {}
    target = raw.get("target")
    layers = target.get("moe_layers") if isinstance(target, dict) else None
    return layers if isinstance(layers, list) else [layers]


def _has_failed(part: Any) -> bool:
    return isinstance(part, dict) and "error" in part


def _missing(replica: Replica) -> list[str]:
    """Layers that failed, and ranks that lack layers which others have; in words."""
    most: dict[int, int] = {}
    for report in replica.reports:
        stage = report.ranks.get("pp_rank", 0)
        count = len(report.target.moe_layers) if report.target else 0
        most[stage] = max(most.get(stage, 0), count)
    lack = [
        report
        for report in replica.reports
        if any(map(_has_failed, _listed(report)))
        or most[report.ranks.get("pp_rank", 0)]
        > (len(report.target.moe_layers) if report.target else 0)
    ]
    if not lack:
        return []
    where, cause = on_ranks(lack, replica.reports), because(lack, "target")
    return [f"the part moe_layers is missing or not whole{where}{cause}"]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _traced(replica: Replica, families: Families, wish: str) -> Iterator[_Fact]:
    """The runners whose kernels ran: by a wish that a family serves, else by its first name.

    A wish of which no kernels are known may run those of another: it is not contradicted.
    """
    if not families.knows("moe", wish):
        return
    for trace in replica.traces:
        ran = families.with_backend("moe", _of_target(trace))
        for family, kernels in ran.items():
            # A library that serves plain linear layers too shows no runner.
            if family.also:
                continue
            alone = len(family.backends) == 1
            runner = wish if wish in family.backends else family.backends[0]
            count, name = sum(kernel.count for kernel in kernels), kernels[0].name[:80]
            text = f"the trace has {count} launches of {runner} MoE kernels ({name})"
            if not alone and runner == wish:
                text += f", which {' and '.join(family.backends)} share"
            rung = Rung.EXECUTED if alone or runner != wish else Rung.RESOLVED
            yield Observation("trace", "MoE kernel", name, rung, trace.file, text), runner, text


def _of_target(trace: Trace) -> list[Kernel]:
    """The kernels of the target's steps; of the whole trace where no step of a draft is in it.

    The experts of a draft are often not those of its target.
    """
    outer = [step for step in trace.steps if not step.within]
    if not any(step.role.startswith("draft") for step in trace.steps):
        return list(trace.kernels)
    own = (step for step in outer if not step.role.startswith("draft"))
    return [kernel for step in own for kernel in step.by_name]


def _overridden(replica: Replica, wish: str) -> Observation | None:
    """The line in which the engine says that it takes another runner by itself."""
    for line, found in replica.said(_OVERRIDDEN, while_starting=True):
        if wish not in (found[1].lower(), f"{found[1]}_kernel".lower()):
            locator = f"server.log:{line.number}"
            return Observation("log", "MoE runner", found[0], Rung.RESOLVED, locator)
    return None


def _logged(replica: Replica) -> Iterator[_Fact]:
    for line, chosen in _firsts(replica, _CHOSEN, while_starting=True):
        text, runner = f"the log says {chosen[0][:50]!r}", chosen[1].lower()
        locator = f"server.log:{line.number}"
        yield Observation("log", "MoE runner", runner, Rung.BUILT, locator), runner, text
    for runner, rung, shape in _LINES:
        # What ran may be told by the first request; what was prepared may not.
        for line, found in _firsts(replica, shape, while_starting=rung is Rung.BUILT):
            text = f"the log says {found[0]!r}"
            locator = f"server.log:{line.number}"
            yield Observation("log", "MoE runner", runner, rung, locator), runner, text


def _firsts(
    replica: Replica, shape: re.Pattern[str], *, while_starting: bool
) -> Iterator[tuple[LogLine, re.Match[str]]]:
    """The first line of the shape that each rank wrote."""
    told = set()
    for line, found in replica.said(shape, while_starting=while_starting):
        if (writer := ranks_in_prefix(line)) not in told:
            told.add(writer)
            yield line, found


def _conflicts(facts: list[_Fact], echo: Observation | None) -> Iterator[str]:
    runners = {runner for _, runner, _ in facts}
    if echo is not None and runners and str(echo.value).lower() not in {"auto", *runners}:
        shown = ", ".join(sorted(runners))
        yield f"/server_info says {echo.value}, but what was built or ran is {shown}"
    executed = {runner for seen, runner, _ in facts if seen.rung is Rung.EXECUTED}
    built = {runner for seen, runner, _ in facts if seen.rung is Rung.BUILT}
    if len(executed) > 1:
        yield f"kernels of more than one runner ran: {', '.join(sorted(executed))}"
    if executed and built and executed != built:
        yield f"built: {', '.join(sorted(built))}; executed: {', '.join(sorted(executed))}"
