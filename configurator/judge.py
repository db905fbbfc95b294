"""Judging: run probes on evidence, join replicas, apply the policy of the profile.

A probe speaks of one replica and knows nothing of policy. Here its outcome is held against what
the expectation demands (the rung, the state of the server, the invariants without which no
acceptance counts), the replicas are joined, and the exit code is derived.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from configurator.content import Library
from configurator.coverage import coverage_of
from configurator.deployment import Deployment, Expectation
from configurator.engine.catalogue import Catalogue, load_catalogue
from configurator.errors import ConfiguratorError, did_you_mean
from configurator.evidence.model import Evidence, Replica, ServerState
from configurator.evidence.report_start import one_server
from configurator.families import Families
from configurator.loader import Validators
from configurator.probes import Check, Probe
from configurator.verdicts import Answer, Outcome, Rung, Verdict, inconclusive

_SIMULATED = "no-simulated-acceptance"
_OF_ACCEPTANCE = frozenset({"speculative-acceptance", "draft-used"})
"""Probes that count drafts: worth nothing while acceptance is simulated."""
_STATE_PROBE = "server-ready"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of every server and of every expectation."""

    states: dict[int, ServerState]
    verdicts: tuple[Verdict, ...]
    crashed: bool = False
    """A probe raised: our bug, whatever else was found."""
    unseen: tuple[int, ...] = ()
    """Replicas of which there is no evidence, or only that of another one."""

    @property
    def exit_code(self) -> int:
        """0 good; 1 a server not ready or a verdict that fails; 3 a probe crashed."""
        if self.crashed:
            return 3
        unready = any(state.state != "ready" for state in self.states.values())
        return 1 if unready or any(verdict.fails for verdict in self.verdicts) else 0

    @property
    def reservations(self) -> tuple[str, ...]:
        """What is refuted, not proven or not looked at, and does not make the exit code 1."""
        refuted = self._named(Answer.REFUTED)
        unproven = self._named(Answer.INCONCLUSIVE)
        unseen = f"no evidence of {_named(list(self.unseen))}" if self.unseen else ""
        notes = (
            f"{refuted} refuted, which does not count here" if refuted else "",
            f"not proven: {unproven}" if unproven else "",
            unseen,
        )
        return tuple(note for note in notes if note)

    def _named(self, answer: Answer) -> str:
        return ", ".join(v.mechanism for v in self.verdicts if v.answer is answer)


def expectation_from(text: str, probes: Mapping[str, Probe]) -> Expectation:
    """The expectation that `--expect NAME[=VALUE]` asks for.

    Raises:
        ConfiguratorError: no probe has the name (REF001), or the value is missing, not wanted or
            not of the kind that the probe takes (EXP001).
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    wanted = _probe_named(name, probes, "--expect")
    if equals and wanted.takes is None:
        raise ConfiguratorError.single(
            "EXP001", f"{name} takes no value, but got {value!r}", f"--expect {name}"
        )
    if not value and (wanted.requires_value or equals):
        raise ConfiguratorError.single(
            "EXP001", f"{name} needs a value to compare with", f"--expect {name}={wanted.takes}"
        )
    if value and wanted.takes in _FORMATS:
        fits, hint = _FORMATS[wanted.takes]
        if not fits(value):
            raise ConfiguratorError.single("EXP001", f"{name}={value}: not {hint}", f"give {hint}")
    return Expectation(
        mechanism=name,
        probe=name,
        kind=wanted.kind,
        value=value or None,
        proof_rung=wanted.proof_rung,
        floor=float(value) if value and wanted.takes == "FLOOR" else None,
    )


def _probe_named(name: str, probes: Mapping[str, Probe], asked_by: str) -> Probe:
    wanted = probes.get(name)
    if wanted is None:
        raise ConfiguratorError.single(
            "REF001", f"{asked_by}: no probe is named {name!r}", did_you_mean(name, probes)
        )
    return wanted


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


def _is_floor(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and number >= 1


_FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "N": (_is_count, "a whole number from 1 up, for instance 4"),
    "FLOOR": (_is_floor, "a number from 1 up, for instance 2.0"),
    "BS,...": (
        lambda text: all(_is_count(part.strip()) for part in text.split(",")),
        "batch sizes with commas between, for instance 1,2,4",
    ),
}
"""Values that can be checked before any evidence is read, by what a probe says it takes."""


def judge(
    expectations: Iterable[Expectation],
    evidence: Evidence,
    validators: Validators,
    deployment: Deployment | None = None,
    *,
    whole: bool = True,
    library: Library | None = None,
) -> Judgement:
    """Judge every expectation, and every invariant whether or not it was asked for.

    An invariant that has no place in what runs is left out unless it was asked for.

    What kernels of a trace do is told by `library`; None: by the built-in content.

    With `whole`, a replica of the deployment without evidence leaves everything open; without, the
    replicas that were looked at are judged alone, and the others only named.

    Raises:
        ConfiguratorError: an expectation names a probe that does not exist (REF001), or the
            evidence speaks of no server (COL001).
    """
    if not evidence.replicas:
        raise ConfiguratorError.single(
            "COL001", f"{evidence.directory} holds evidence of no server", "collect it again"
        )
    asked = list(expectations)
    wanted = _with_invariants(asked, validators.probes)
    catalogues = {r.index: _catalogue(r.version) for r in evidence.replicas}
    families = _families(evidence, library)
    twins = _twins(evidence)
    unseen = tuple(sorted({*_unseen(evidence, deployment), *twins}))
    verdicts: list[Verdict] = []
    crashed = False
    for expectation in wanted:
        asked_by = f"mechanism {expectation.mechanism}"
        probe = _probe_named(expectation.probe, validators.probes, asked_by)
        outcomes: dict[int, Outcome] = {}
        for replica in evidence.replicas:
            catalogue = catalogues[replica.index]
            check = Check(expectation, replica, catalogue, deployment, families)
            outcome, fault = _run(probe, check)
            crashed = crashed or fault
            held = _held_against(outcome, check, probe)
            outcomes[replica.index] = _remedied(held, replica.state, probe)
        if whole:
            outcomes |= {index: _asked_twice(twins.get(index, "")) for index in unseen}
        verdicts.append(_verdict(expectation, probe, outcomes))
    states = {replica.index: replica.state for replica in evidence.replicas}
    shown = [
        verdict
        for verdict, expectation in zip(_without_simulated(verdicts, wanted), wanted, strict=True)
        if verdict.answer is not Answer.NOT_APPLICABLE or expectation in asked
    ]
    return Judgement(states, tuple(shown), crashed, unseen)


def _families(evidence: Evidence, library: Library | None) -> Families:
    """The families of kernels, which are read only where there is a trace."""
    if not any(replica.traces for replica in evidence.replicas):
        return Families()
    return Families.of_content((library or Library()).families())


def _asked_twice(why: str) -> Outcome:
    """What is said of a replica without evidence of its own; `why` names the one it is."""
    return inconclusive(
        None,
        f"no evidence of this replica{why}",
        remedy="give a --url for every replica, or the evidence of all: --url 0=URL --url 1=URL",
    )


def _twins(evidence: Evidence) -> dict[int, str]:
    """Replicas that are the server of an earlier one, which was asked twice, and why."""
    found: dict[int, str] = {}
    for at, replica in enumerate(evidence.replicas):
        for other in evidence.replicas[:at]:
            why = one_server(replica, other) if other.index not in found else ""
            if why:
                found[replica.index] = f": it is the server of replica {other.index}, {why}"
                break
    return found


def _unseen(evidence: Evidence, deployment: Deployment | None) -> tuple[int, ...]:
    if deployment is None:
        return ()
    seen = {replica.index for replica in evidence.replicas}
    return tuple(i for i in range(deployment.profile.topology.replicas) if i not in seen)


def _with_invariants(
    expectations: Iterable[Expectation], probes: Mapping[str, Probe]
) -> list[Expectation]:
    wanted = list(expectations)
    named = {expectation.probe for expectation in wanted}
    for name, probe in probes.items():
        if probe.kind == "invariant" and name not in named:
            wanted.append(Expectation(name, name, "invariant", proof_rung=probe.proof_rung))
    return wanted


def _catalogue(version: str | None) -> Catalogue | None:
    if version is None:
        return None
    try:
        return load_catalogue(version)
    except NotImplementedError:
        return None


def _run(probe: Probe, check: Check) -> tuple[Outcome, bool]:
    """The outcome, and whether the probe crashed: one bad probe must not hide the others."""
    try:
        return probe.judge(check), False
    except (Exception, SystemExit) as error:
        fact = f"probe {probe.name} crashed: {type(error).__name__}: {error}"
        remedy = "a fault of the probe, not of the server: report it with the evidence"
        return inconclusive(None, fact, remedy=remedy), True


def _held_against(outcome: Outcome, check: Check, probe: Probe) -> Outcome:
    """The outcome of one replica as the state of the server and the wanted rung allow."""
    state = check.replica.state
    if (
        state.state != "ready"
        and probe.kind == "mechanism"
        and probe.name != _STATE_PROBE
        and outcome.answer in (Answer.PROVEN, Answer.INCONCLUSIVE)
    ):
        phase = f", phase {state.phase}" if state.phase else ""
        word = "has failed" if state.state == "failed" else f"is {state.state}"
        cause = f"the server {word}{phase}, so nothing is proven; seen: {outcome.summary}"
        return dataclasses.replace(
            outcome, answer=Answer.INCONCLUSIVE, summary=cause, remedy=state.remedy
        )
    needed = Rung.of(check.expectation.proof_rung)
    coverage = coverage_of(outcome, check.replica, check.deployment, needed)
    if coverage.missing:
        part = dataclasses.replace(
            outcome,
            answer=Answer.INCONCLUSIVE,
            summary=f"{outcome.summary}; but {coverage.missing}",
            remedy=_EVERY_RANK,
        )
        return _with_reason(part, check.replica, needed)
    if coverage.note:
        outcome = dataclasses.replace(outcome, summary=f"{outcome.summary}; {coverage.note}")
    if outcome.answer is Answer.PROVEN and outcome.rung is not None and outcome.rung < needed:
        return dataclasses.replace(
            outcome,
            answer=Answer.INCONCLUSIVE,
            summary=f"{outcome.summary}; that is {outcome.rung}, and proof starts at {needed}",
            remedy=_MISSING[needed],
        )
    return _with_reason(outcome, check.replica, needed)


def _remedied(outcome: Outcome, state: ServerState, probe: Probe) -> Outcome:
    """What is open of an invariant waits for a server that is not ready, which has the remedy."""
    waits = state.state != "ready" and state.remedy and probe.kind == "invariant"
    if not waits or outcome.answer is not Answer.INCONCLUSIVE:
        return outcome
    return dataclasses.replace(outcome, remedy=state.remedy)


def _with_reason(outcome: Outcome, replica: Replica, needed: Rung) -> Outcome:
    """Why reports or the log were set aside, where one of them might have answered."""
    # Reports tell what was built; a log may answer on every rung.
    aside = (r for r in replica.set_aside if needed is Rung.BUILT or r.startswith("server.log "))
    reason = next(aside, "")
    if outcome.answer is not Answer.INCONCLUSIVE or not reason:
        return outcome
    if reason in outcome.summary:
        return outcome
    return dataclasses.replace(outcome, summary=f"{outcome.summary}; {reason}")


_EVERY_RANK = (
    "keep the reports of every rank (on several hosts copy them to one folder), or the log, trace "
    "or answers of each"
)


_MISSING = {
    Rung.REQUESTED: "",
    Rung.RESOLVED: "keep /server_info with the evidence",
    Rung.BUILT: "run with the in-engine report (evidence.instrument: standard) or keep the log",
    Rung.CAPTURED: "keep the server's log from its start and /metrics (--enable-metrics)",
    Rung.EXECUTED: "send requests (leave out --passive), or record a trace (--level 3)",
    Rung.EFFECTIVE: "state a floor or a break-even, and judge the profile's own text (--level 2)",
}
"""What evidence of a rung comes from."""


def _verdict(expectation: Expectation, probe: Probe, outcomes: dict[int, Outcome]) -> Verdict:
    """One verdict over all replicas: the worst answer is the answer."""
    answer = next(a for a in _WORST_FIRST if any(o.answer is a for o in outcomes.values()))
    deciding = {index: o for index, o in outcomes.items() if o.answer is answer}
    several = len(outcomes) > 1
    rungs = [o.rung for o in deciding.values() if o.rung is not None]
    evidence = tuple(
        dataclasses.replace(seen, replica=index)
        for index in (*deciding, *(i for i in outcomes if i not in deciding))
        for seen in outcomes[index].observations
    )
    conflicts = tuple(
        f"replica {index}: {text}" if several else text
        for index, outcome in outcomes.items()
        for text in outcome.conflicts
    )
    return Verdict(
        mechanism=expectation.mechanism,
        kind=probe.kind,
        answer=answer,
        rung=min(rungs) if len(rungs) == len(deciding) else None,
        required=expectation.required,
        summary=_joined(deciding, outcomes),
        remedy=next((o.remedy for o in deciding.values() if o.remedy), ""),
        evidence=evidence,
        conflicts=conflicts,
        depends_on_text=any(o.depends_on_text for o in outcomes.values()),
        on_refuted=expectation.on_refuted,
        on_unproven=expectation.on_unproven,
    )


_WORST_FIRST = (Answer.REFUTED, Answer.INCONCLUSIVE, Answer.PROVEN, Answer.NOT_APPLICABLE)


def _joined(deciding: dict[int, Outcome], outcomes: dict[int, Outcome]) -> str:
    """The summaries that decide, with the replicas they are of when there are several."""
    if len(outcomes) == 1:
        return next(iter(outcomes.values())).summary
    by_text: dict[str, list[int]] = {}
    for index, outcome in deciding.items():
        by_text.setdefault(outcome.summary, []).append(index)
    parts = []
    for text, indices in by_text.items():
        names = "all replicas" if len(indices) == len(outcomes) else _named(indices)
        parts.append(f"{names}: {text}")
    rest: dict[Answer, list[int]] = {}
    for index, outcome in outcomes.items():
        if index not in deciding:
            rest.setdefault(outcome.answer, []).append(index)
    parts += [f"{_named(indices)}: {answer}" for answer, indices in rest.items()]
    return "; ".join(parts)


def _named(indices: list[int]) -> str:
    return _plural("replica", indices)


def _plural(word: str, indices: list[int]) -> str:
    return f"{word}{'' if len(indices) == 1 else 's'} {', '.join(map(str, indices))}"


def _without_simulated(
    verdicts: list[Verdict], expectations: list[Expectation]
) -> Iterable[Verdict]:
    """No acceptance counts while the engine simulates it, and none is a gain while it may."""
    pairs = list(zip(verdicts, expectations, strict=True))
    answer = next((v.answer for v, e in pairs if e.probe == _SIMULATED), Answer.PROVEN)
    for verdict, expectation in pairs:
        if answer is Answer.PROVEN or expectation.probe not in _OF_ACCEPTANCE:
            yield verdict
        elif answer is Answer.REFUTED:
            yield dataclasses.replace(
                verdict,
                answer=Answer.INCONCLUSIVE,
                rung=_at_most_executed(verdict.rung),
                summary=f"acceptance is simulated ({_SIMULATED} is refuted), so no figure of it "
                f"counts; seen: {verdict.summary}",
                remedy="unset the SGLANG_SIMULATE_ACC_* variables and start the server again",
            )
        else:
            yield _not_effective(verdict, expectation, answer)


def _not_effective(verdict: Verdict, expectation: Expectation, answer: Answer) -> Verdict:
    """Acceptance that may be simulated is no gain, whatever its figure."""
    if verdict.answer is not Answer.PROVEN or verdict.rung is not Rung.EFFECTIVE:
        return verdict
    is_enough = Rung.of(expectation.proof_rung) < Rung.EFFECTIVE
    return dataclasses.replace(
        verdict,
        answer=Answer.PROVEN if is_enough else Answer.INCONCLUSIVE,
        rung=Rung.EXECUTED,
        summary=f"{verdict.summary}; not shown to be effective: {_SIMULATED} is {answer}",
        remedy="" if is_enough else "prove that invariant first: it says what is missing",
    )


def _at_most_executed(rung: Rung | None) -> Rung | None:
    return Rung.EXECUTED if rung is Rung.EFFECTIVE else rung
