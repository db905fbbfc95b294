"""Which of the reports found for one server count: those of this start, this model, this engine.

Files outlive a server and directories are shared, so a file alone proves nothing of the server
that answers. A report that does not count is named with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from configurator.evidence.model import Report, Sharing
from configurator.evidence.report_start import (
    has_seed_of,
    of_another_start,
    of_another_world,
    of_one_process,
    process_of,
    several_starts,
    start_of,
    time_of,
)
from configurator.evidence.report_values import as_dict
from configurator.evidence.reports import latest, place_of, stage_order

_SPREAD = 600.0
"""Seconds between which all ranks of one start are ready: they wait for each other."""
_ONE_MOMENT = 60.0
"""Seconds by which two copies of one report may differ at most."""
_PUBLISHES = ".get_internal_state"
"""End of the hooks that put the report of a rank into /server_info."""

Chosen = tuple[tuple[Report, ...], tuple[str, ...]]


def choose(
    files: Iterable[Report],
    live: Iterable[Report],
    info: dict[str, Any] | None,
    model: str,
    *,
    drawn: bool = False,
) -> Chosen:
    """One report a rank, and of every report that does not count why.

    Args:
        files: reports of files, in the order of their names.
        live: reports in the answer of /server_info.
        info: /server_info; None: it never answered.
        model: path of the model that is served; empty: not known.
        drawn: the engine drew its seed by itself, so that no other start has it.
    """
    why: list[str] = []
    answered = [one for one in live if _kept(one, _foreign(one, info, model), why)]
    of_rank = {place_of(one): one for one in answered}
    started = any(map(start_of, answered))
    kept = []
    for one in files:
        own = of_rank.get(place_of(one)) or (_only_rank(answered) if one.rank is None else None)
        reason = _foreign(one, info, model) or _stale(one, own, info)
        if not reason and started and not start_of(one):
            reason = "it does not say of which start it is, and the one that answers does"
        if _kept(one, reason, why):
            kept.append(one)
    if several_starts(kept, info):
        text = "there are reports of several starts, and nothing says which of them answers"
        kept = [one for one in kept if _kept(one, text if start_of(one) else "", why)]
    sure = [one for one in kept if drawn and has_seed_of(one, info)]
    kept = list(_of_one_start(kept, answered or sure, sure, why))
    answered, kept = _of_processes(answered, kept, why)
    return _agreeing([*answered, *kept], answered, why), tuple(why)


def _of_processes(
    live: list[Report], files: list[Report], why: list[str]
) -> tuple[list[Report], list[Report]]:
    """Without what one process says of two ranks; the server's own answer stays."""
    doubled = [one for one in live if any(of_one_process(one, other) for other in live)]
    text = "one process is said to be two ranks"
    own = [one for one in live if _kept(one, text if one in doubled else "", why)]
    every = [*live, *files]
    kept = []
    for one in files:
        other = next((two for two in every if of_one_process(one, two)), None)
        is_own = any(place_of(one) == place_of(two) and _same_process(one, two) for two in own)
        reason = f"{text}, here and in {other.file}" if other is not None and not is_own else ""
        if _kept(one, reason, why):
            kept.append(one)
    return own, kept


def _same_process(one: Report, other: Report) -> bool:
    return process_of(one) is not None and process_of(one) == process_of(other)


def _kept(report: Report, reason: str, why: list[str]) -> bool:
    if reason:
        why.append(f"{report.file} does not count: {reason}")
    return not reason


def _only_rank(live: list[Report]) -> Report | None:
    """The server's own report where it has one rank: no file can be of another."""
    sizes = [live[0].ranks.get(f"{name}_size") for name in ("tp", "pp", "dp")] if live else []
    return live[0] if len(live) == 1 and sizes == [1, 1, 1] else None


def _foreign(report: Report, info: dict[str, Any] | None, model: str) -> str:
    """Why the report is of another engine or model than the one that answers."""
    engine, served = report.versions.get("engine"), as_dict(info).get("version")
    known = isinstance(served, str) and bool(served) and bool(engine)
    if known and str(engine).partition("+")[0] != str(served).partition("+")[0]:
        return f"it is of engine {engine}, and {served} answers"
    path = report.target.path if report.target is not None else ""
    ours, theirs = _name(path), _name(model)
    if ours and theirs and ours != theirs:
        return f"it is of the model {ours}, and {theirs} is served"
    held = as_dict(info)
    return of_another_start(report, held) or of_another_world(report, held)


def _name(path: str) -> str:
    """Last part of a path; empty for a snapshot of a hub, which is named by its commit."""
    name = path.rstrip("/").rpartition("/")[2]
    is_commit = len(name) == 40 and all(letter in "0123456789abcdef" for letter in name)
    return "" if is_commit else name


def _stale(report: Report, live: Report | None, info: dict[str, Any] | None) -> str:
    """Why a file is of another start than the server that answers."""
    pid = process_of(report)
    if live is not None:
        other = process_of(live)
        if pid is not None and other is not None and pid != other:
            return f"the report is of another start: process {pid}, and process {other} answers"
        return _out_of_time(report, live)
    if pid is None or time_of(report) is None or not _would_answer(report, info):
        return ""
    return "/server_info carries no report of this rank, so the file may be of another start"


def _out_of_time(report: Report, live: Report) -> str:
    """Why a file cannot be of the start of `live`: a process number comes again, a time does not.

    What a rank writes to its file it also answers, so both were made at one time.
    """
    mine, other = time_of(report), time_of(live)
    if mine is None or other is None or stage_order(report) < stage_order(live):
        return ""
    earlier = other - mine
    is_same_stage = stage_order(report) == stage_order(live)
    if earlier > _ONE_MOMENT or (is_same_stage and -earlier > _ONE_MOMENT):
        side = "before" if earlier > 0 else "after"
        return f"the report is of another start, {abs(earlier):.0f} s {side} the one that answers"
    return ""


def _would_answer(report: Report, info: dict[str, Any] | None) -> bool:
    """The server's own answer would carry this report if the server had written it."""
    states = as_dict(info).get("internal_states")
    first = not any(report.ranks.get(name) for name in ("tp_rank", "pp_rank", "dp_rank"))
    publishes = any(hook.endswith(_PUBLISHES) for hook in report.hooks_applied)
    return isinstance(states, list) and bool(states) and first and publishes


def _of_one_start(
    files: list[Report], live: list[Report], sure: list[Report], why: list[str]
) -> Iterator[Report]:
    """The files of the start that answers, or of the newest: the ranks are ready together.

    Those that are sure need no clock: that of another host may be wrong.
    """
    known = _ready_times(live) or _ready_times(files)
    for report in files:
        (time,) = _ready_times([report]) or (None,)
        gap = abs(max(known) - time) if known and time is not None else 0.0
        most = _ONE_MOMENT if any(_in_step(report, one) for one in live) else _SPREAD
        text = f"the report is of another start, {gap:.0f} s away from the others"
        is_sure = any(report is one for one in sure)
        if _kept(report, text if gap > most and not is_sure else "", why):
            yield report


def _in_step(report: Report, live: Report) -> bool:
    """Both are of one stage and group on one host: these capture graphs together, by one clock."""
    hosts = [start_of(one).get("host") for one in (report, live)]
    places = [
        [one.ranks.get(name) or 0 for name in ("pp_rank", "dp_rank")] for one in (report, live)
    ]
    return None not in hosts and hosts[0] == hosts[1] and places[0] == places[1]


def _ready_times(reports: list[Report]) -> list[float]:
    # A report of weights that were loaded may be long before the capture of graphs ends.
    times = (time_of(report) for report in reports if report.stage == "ready")
    return [time for time in times if time is not None]


def _agreeing(reports: list[Report], live: list[Report], why: list[str]) -> tuple[Report, ...]:
    """One report a rank, and none of a rank of which two reports contradict each other."""
    by_rank: dict[object, list[Report]] = {}
    for report in reports:
        by_rank.setdefault(place_of(report), []).append(report)
    found: list[Report] = []
    for same in by_rank.values():
        top = max(stage_order(one) for one in same)
        last = _in_full([one for one in same if stage_order(one) == top])
        other = next((one for one in last if _facts(one) != _facts(last[0])), None)
        early = _of_another_process(same, last, live)
        if other is not None:
            names = f"{last[0].file} and {other.file}"
            why.append(f"{names} contradict each other in what one rank is: neither counts")
        elif early is not None:
            names = f"{early.file} (stage {early.stage}) and {last[0].file}"
            why.append(f"{names} may be of different starts: the server's own answer counts")
            found.append(early)
        else:
            found += last
    return latest(found)


def _in_full(reports: list[Report]) -> list[Report]:
    """Without the stand-in for a report that was too large to hand on, where that report is."""
    full = [one for one in reports if "all" not in one.errors]
    made = {(process_of(one), time_of(one)) for one in full if time_of(one) is not None}
    return [one for one in reports if one in full or (process_of(one), time_of(one)) not in made]


def _of_another_process(
    same: list[Report], last: list[Report], live: list[Report]
) -> Report | None:
    """The server's own report where a file claims to be later without being of its process."""
    own = next((one for one in same if one in live), None)
    if own is None or own in last:
        return None
    pid = process_of(own)
    return None if pid is not None and all(process_of(one) == pid for one in last) else own


def _facts(report: Report) -> tuple[object, ...]:
    """What two reports of one rank must say alike."""
    drafts = tuple(
        dataclasses.replace(draft, sharing=None if draft.sharing is None else _plain(draft.sharing))
        for draft in report.drafts
    )
    return (report.target, drafts, report.versions, report.simulated_acceptance)


def _plain(sharing: Sharing) -> Sharing:
    # How much was compared depends on the time that was left, not on the model.
    return dataclasses.replace(sharing, compared="", same_content=None)
