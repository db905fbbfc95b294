"""Whether what was seen speaks of every rank of a server: one rule for every verdict.

Every observation has a set of ranks that it speaks of. A proof needs all of them, whatever the
mixture of sources; a refutation needs one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from configurator.deployment import Deployment
from configurator.evidence.answers import answers_of
from configurator.evidence.model import Replica, Report
from configurator.evidence.report_values import as_dict, as_float, as_int
from configurator.ranks import Place, World, ranks_in_prefix, world_of
from configurator.verdicts import Answer, Observation, Outcome, Rung

Places = frozenset[Place]
_NONE: Places = frozenset()
_IN_TRACE = re.compile(r"(?:^|-)(TP|PP|DP)-(\d{1,5})(?=[-.])")
_IN_LABELS = re.compile(r'\b(tp|pp|dp)_rank="(\d{1,5})"')
_STATE = re.compile(r"#/internal_states/(\d{1,5})(?=/|$)")
DECODE_LINE = "decode batch"
"""Subject of an observation of a decode line of the log."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a proof lacks of some ranks, and what it takes for granted."""

    missing: str = ""
    """Which ranks nothing is known of; empty: none."""
    note: str = ""
    """On what the proof of a rank stands of which not everything was seen; empty: all was."""


def coverage_of(
    outcome: Outcome, replica: Replica, deployment: Deployment | None, needed: Rung
) -> Coverage:
    """Which ranks the observations behind an outcome leave out.

    Args:
        outcome: what a probe says of the replica.
        replica: the evidence.
        deployment: the profile's launch; None when there is none.
        needed: the rung from which the expectation takes a proof.
    """
    seen = _supporting(outcome, needed)
    if not seen:
        return Coverage()
    world = world_of(replica, deployment)
    if world is None:
        text = "how many ranks there are cannot be told, so not every rank is known to be alike"
        return Coverage(text)
    if outcome.rung == Rung.EXECUTED and any(map(is_statistics, seen)):
        return _of_statistics(seen, replica, world)
    missing = world.places - _covered(seen, replica, world)
    return Coverage(_missing(missing, seen, replica, world) if missing else "")


def _supporting(outcome: Outcome, needed: Rung) -> list[Observation]:
    """The observations on which an outcome rests that is said of every rank."""
    every = [one for one in outcome.observations if not one.aside]
    if outcome.answer is Answer.NOT_APPLICABLE:
        return [one for one in every if one.rung >= Rung.BUILT and one.source in ("report", "log")]
    if outcome.answer is not Answer.PROVEN or outcome.rung is None:
        return []
    if outcome.rung < Rung.BUILT:
        # What the engine resolved is one for all ranks; an environment is that of a process.
        own = ("report", "environment")
        return [one for one in every if one.source in own and one.rung >= outcome.rung]
    least = max(Rung.BUILT, min(outcome.rung, needed))
    return [one for one in every if one.rung >= least]


def is_statistics(seen: Observation) -> bool:
    """What the engine counts and logs of its passes: on one rank of a group."""
    return seen.source == "metrics" or seen.subject == DECODE_LINE


def _covered(seen: Iterable[Observation], replica: Replica, world: World) -> Places:
    return frozenset().union(*(_places(one, replica, world) for one in seen))


def _of_statistics(seen: list[Observation], replica: Replica, world: World) -> Coverage:
    """Decode passes: the engine logs them on one rank of a group, and that rank may stand for it.

    Only where the captured sizes of the others are known: a rank without a graph runs eager.
    """
    ran = _covered(filter(is_statistics, seen), replica, world)
    sized = _covered((one for one in seen if not is_statistics(one)), replica, world)
    stages = {(world.group_of(place), place[1]) for place in ran}
    stood_for = {p for p in sized - ran if (world.group_of(p), p[1]) in stages}
    missing = world.places - ran - stood_for
    if missing:
        idle = {p for p in missing if (world.group_of(p), p[1]) not in stages}
        what = "no decode pass was counted" if idle == missing else "no captured size is known"
        text = f"{what} of {world.named(missing)}"
        return Coverage(text if idle in (set(), missing) else f"{text}, or no pass")
    note = (
        f"passes are counted on {world.named(ran)} alone, and the captured sizes of "
        f"{world.named(stood_for)} are known"
    )
    return Coverage(note=note if stood_for else "")


def _missing(
    missing: Iterable[Place], seen: list[Observation], replica: Replica, world: World
) -> str:
    """The ranks that nothing speaks of, and what would have."""
    names, sources = world.named(missing), {one.source for one in seen}
    heard = {place for report in _heard(replica) for place in _place(report, world)}
    if "report" in sources and not heard & set(missing):
        return f"{names} left no in-engine report"
    if sources == {"generate"}:
        told = any(_dp_ranks(one, replica) for one in seen)
        why = "" if told else ": the answers do not tell which one gave them"
        return f"no answer of {names} is known{why}"
    return f"nothing was seen of {names}"


def _heard(replica: Replica) -> list[Report]:
    # A report of which everything failed is there and says nothing.
    return [report for report in replica.reports if report.target is not None]


def _place(report: Report, world: World) -> Places:
    if report.rank is None:
        return world.places if world.size == 1 else _NONE
    dp = 0 if world.dp == 1 and world.groups > 1 else report.ranks.get("dp_rank", 0)
    return frozenset({(report.rank, report.ranks.get("pp_rank", 0), dp)})


def _of_report(seen: Observation, replica: Replica, world: World) -> Places:
    """The rank of the report, or else the one that the observation names."""
    report = next((one for one in replica.reports if one.file == seen.locator), None)
    if report is None:
        return world.place(seen.rank, None, None)
    return _place(report, world) if report.target is not None else _NONE


def _places(seen: Observation, replica: Replica, world: World) -> Places:
    """The ranks that one observation speaks of."""
    if seen.scope == "all" or (world.size == 1 and seen.source != "report"):
        return world.places
    place = _BY_SOURCE.get(seen.source)
    found = place(seen, replica, world) if place is not None else _NONE
    if seen.scope == "group":
        groups = {world.group_of(one) for one in found}
        return frozenset().union(*(world.group(number) for number in groups))
    return found


def _of_line(seen: Observation, replica: Replica, world: World) -> Places:
    """The rank that wrote the line of the log."""
    number = seen.locator.removeprefix("server.log:")
    if not re.fullmatch(r"[0-9]{1,9}", number):
        return _NONE
    line = next((line for line in replica.log or () if line.number == int(number)), None)
    return world.place(*ranks_in_prefix(line)) if line is not None else _NONE


def _of_trace(seen: Observation, replica: Replica, world: World) -> Places:
    """The rank in the name of the file: the engine puts in those of which there are several."""
    found = dict(_IN_TRACE.findall(seen.locator.rpartition("/")[2]))
    return _from(found, ("TP", "PP", "DP"), world)


def _of_series(seen: Observation, replica: Replica, world: World) -> Places:
    """The rank in the labels of a series of /metrics."""
    return _from(dict(_IN_LABELS.findall(seen.locator)), ("tp", "pp", "dp"), world)


def _from(found: dict[str, str], names: tuple[str, str, str], world: World) -> Places:
    tp, pp, dp = (int(found[name]) if name in found else None for name in names)
    return world.place(tp, pp, dp)


def _of_info(seen: Observation, replica: Replica, world: World) -> Places:
    """The first rank of a data parallel group answers for itself."""
    state = _STATE.search(seen.locator)
    own = world.group(int(state[1]) if state else 0)
    return frozenset({min(own)}) if own else _NONE


def _of_process(seen: Observation, replica: Replica, world: World) -> Places:
    """The ranks of the host of the process: all are its children and have its environment."""
    info = replica.server_info or replica.server_info_startup or {}
    here = world.on_host(as_int(info.get("node_rank")) or 0)
    state = _STATE.search(seen.locator)
    return here & world.group(int(state[1])) if state else here


def _of_answer(seen: Observation, replica: Replica, world: World) -> Places:
    """The ranks of a group compute every answer together."""
    if world.groups == 1:
        return world.places
    groups = _dp_ranks(seen, replica) or _at_work(replica)
    return frozenset().union(*(world.group(number) for number in groups))


def _dp_ranks(seen: Observation, replica: Replica) -> set[int]:
    """The data parallel ranks that the answers name; of one exchange, or of all."""
    name = seen.locator.partition("#")[0]
    own = [one for one in replica.exchanges if one.name == name] or list(replica.exchanges)
    said = (
        as_int(answer["meta_info"].get("dp_rank"))
        for one in own
        if one.status < 400
        for answer in answers_of(one)
    )
    return {rank for rank in said if rank is not None}


def _at_work(replica: Replica) -> set[int]:
    """The data parallel ranks that decoded, as counters and /server_info say."""
    before = {_series(one): one.value for one in replica.metrics_startup or ()}
    found = {
        int(one.labels["dp_rank"])
        for one in replica.metrics or ()
        if one.name.endswith("_total")
        and one.labels.get("mode", "").startswith("decode")
        and re.fullmatch(r"\d{1,5}", one.labels.get("dp_rank", ""))
        and one.value > before.get(_series(one), 0.0)
    }
    was = _speeds(replica.server_info_startup)
    return found | {
        index
        for index, speed in _speeds(replica.server_info).items()
        if speed > 0 and speed != was.get(index)
    }


def _series(sample: Any) -> tuple[str, frozenset[tuple[str, str]]]:
    return sample.name, frozenset(sample.labels.items())


def _speeds(info: dict[str, Any] | None) -> dict[int, float]:
    states = as_dict(info).get("internal_states")
    listed = states if isinstance(states, list) else []
    return {
        index: as_float(as_dict(state).get("last_gen_throughput")) or 0.0
        for index, state in enumerate(listed)
    }


_BY_SOURCE: dict[str, Callable[[Observation, Replica, World], Places]] = {
    "report": _of_report,
    "log": _of_line,
    "trace": _of_trace,
    "metrics": _of_series,
    "server_info": _of_info,
    "environment": _of_process,
    "process": _of_process,
    "generate": _of_answer,
}
