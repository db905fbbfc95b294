"""The environment of each server, and what nobody looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Evidence, Replica
from configurator.report.html_text import clean, counted, natural, numbers, shown
from configurator.verdicts import Answer, Verdict

_OF_THE_ENGINE = ("SGLANG_", "SGL_")
_MOST_RANKS = 65_536
_LONGEST = 240
_MOST_REMARKS = 20


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the engine's process and whether the engine's version declares it."""

    name: str
    value: str
    state: str
    """`declared`, `renamed`, `not declared`, `refuted`, or empty: not one of the engine's own."""
    refutes: str = ""
    """The mechanism or invariant that its value or its name refutes."""
    renamed: str = ""
    """Its new name, where it is an old one that still has one."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables of replicas that have the same ones."""

    replicas: str
    variables: tuple[Variable, ...]
    judged_by: str
    """What the word of the engine's registry was taken from."""


def environments(
    replicas: Sequence[Replica],
    verdicts: Iterable[Verdict],
    catalogues: Mapping[int, Catalogue | None],
) -> list[Environment]:
    """One for each set of replicas with the same variables, those that refute something first."""
    refuting: dict[int, dict[str, str]] = {}
    for verdict in verdicts:
        for seen in verdict.evidence if verdict.answer is Answer.REFUTED else ():
            if seen.source == "environment" and seen.rung is verdict.rung:
                refuting.setdefault(seen.replica or 0, {})[seen.subject] = verdict.mechanism
    alike: dict[tuple[tuple[Variable, ...], str], list[int]] = {}
    for replica in replicas:
        catalogue = catalogues.get(replica.index)
        variables = tuple(_variables(replica, refuting.get(replica.index, {}), catalogue))
        if variables:
            source = f"the catalogue of {catalogue.version}" if catalogue else (
                "the in-engine report" if replica.reports else ""
            )  # fmt: skip
            alike.setdefault((variables, source), []).append(replica.index)
    several = len(replicas) > 1
    return [
        Environment(numbers(indices) if several else "", variables, source)
        for (variables, source), indices in alike.items()
    ]


def _variables(
    replica: Replica, refuting: dict[str, str], catalogue: Catalogue | None
) -> list[Variable]:  # fmt: skip
    values: dict[str, str] = {}
    undeclared = {name for report in replica.reports for name in report.env_undeclared}
    values |= dict.fromkeys(undeclared, "(value not kept)")
    renamed: dict[str, str] = {}
    for report in replica.reports:
        renamed |= report.env_renamed
        values |= {k: shown(v, k, _LONGEST) for k, v in report.env_declared.items()}
    for variables in _states(replica):
        for name, value in variables.items():
            values[str(name)] = shown(value, str(name), _LONGEST)
    for name, text in (replica.environment or {}).items():
        values[name] = shown(text, name, _LONGEST)
    known = catalogue is not None or bool(replica.reports)
    found = []
    for name, value in values.items():
        state = ""
        if name in refuting:
            state = "refuted"
        elif name.startswith(_OF_THE_ENGINE) and known:
            told = catalogue.knows_env(name) if catalogue else name not in undeclared
            state = "declared" if told else "not declared"
            state = "renamed" if name in renamed else state
        found.append(
            Variable(
                clean(name, 120),
                value,
                state,
                refuting.get(name, ""),
                clean(renamed.get(name, ""), 120),
            )
        )
    order = ("refuted", "renamed", "not declared", "declared", "")
    return sorted(found, key=lambda v: (order.index(v.state), natural(v.name)))


def _states(replica: Replica) -> Iterator[dict[str, Any]]:
    states = (replica.server_info or {}).get("internal_states")
    for state in states if isinstance(states, list) else []:
        variables = state.get("env_vars") if isinstance(state, dict) else None
        if isinstance(variables, dict):
            yield variables


def not_looked_at(
    evidence: Evidence, unseen: Iterable[int], asked: Iterable[str], probes: Iterable[str]
) -> list[str]:
    """What the judgement does not cover, one sentence each.

    Args:
        evidence: what was observed.
        unseen: replicas of the deployment without evidence.
        asked: names of the probes that judged.
        probes: names of all probes.
    """
    found = []
    missing = numbers(unseen)
    if missing:
        found.append(f"Replicas without any evidence: {missing}.")
    absent: dict[str, list[int]] = {}
    for replica in evidence.replicas:
        for text in _missing(replica):
            absent.setdefault(text, []).append(replica.index)
    several = len(evidence.replicas) > 1
    for text, indices in absent.items():
        whose = f"Replica {numbers(indices)}: " if several else ""
        found.append(f"{whose}{text if several else text[0].upper() + text[1:]}.")
    found += [f"Collector: {text}" for text in _notes(evidence.manifest)]
    left = sorted(set(probes) - set(asked))
    if left:
        found.append(f"Not asked for: {', '.join(left)}.")
    return found


def _missing(replica: Replica) -> Iterator[str]:
    if replica.server_info is None and replica.server_info_startup is None:
        yield "no /server_info, so nothing is known of resolved arguments"
    if replica.log is None:
        yield "no log of the server"
    if replica.metrics is None:
        yield "no /metrics"
    if not replica.reports:
        yield "no in-engine report, so what was built is known only from the outside"
    elif silent := _silent_ranks(replica):
        yield f"no in-engine report of rank {numbers(silent)}"
    yield from _not_reported(replica)
    if not replica.exchanges:
        yield "no request was sent or kept"
    if not replica.traces:
        yield "no profiler trace"
    if replica.environment is None and not any(_states(replica)):
        yield "the environment of the engine's process is not known"
    if not replica.command and not replica.requested:
        yield "the launch command is not known"


def _not_reported(replica: Replica) -> Iterator[str]:
    """What the probe in the engine says that it could not see; equal words once."""
    told: dict[str, set[int]] = {}
    for report in replica.reports:
        for what, why in (*report.hooks_missing.items(), *report.errors.items()):
            ranks = told.setdefault(f"not in the in-engine report: {what} ({why})", set())
            ranks |= {report.rank} if report.rank is not None else set()
    for hooks in replica.hooks:
        for what, why in hooks.missing.items():
            told.setdefault(f"hook of the in-engine probe not applied: {what} ({why})", set())
        if hooks.error:
            told.setdefault(f"the in-engine probe failed: {hooks.error}", set())
    for text, ranks in list(told.items())[:_MOST_REMARKS]:
        yield clean(text) + (f", ranks {numbers(ranks)}" if len(ranks) > 1 else "")


def _silent_ranks(replica: Replica) -> list[int]:
    size = (replica.server_info or replica.server_info_startup or {}).get("tp_size")
    known = {report.rank for report in replica.reports}
    if not isinstance(size, int) or isinstance(size, bool) or size > _MOST_RANKS or None in known:
        return []
    return [rank for rank in range(size) if rank not in known]


def _notes(manifest: Mapping[str, Any]) -> Iterator[str]:
    notes = manifest.get("notes")
    yield from (clean(str(note)) for note in (notes if isinstance(notes, list) else [])[:20])
    entries = manifest.get("replicas")
    for entry in entries if isinstance(entries, list) else []:
        errors = entry.get("errors") if isinstance(entry, dict) else None
        for error in (errors if isinstance(errors, list) else [])[:10]:
            yield f"replica {entry.get('index')}: {clean(str(error))}"


def server_count(evidence: Evidence) -> str:
    """How many servers and ranks the evidence is of."""
    ranks = sum(len(replica.reports) for replica in evidence.replicas)
    servers = counted(len(evidence.replicas), "server")
    return f"{servers}, {counted(ranks, 'in-engine report')}"
