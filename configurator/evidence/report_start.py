"""Which start of which server a report is of, and which replicas are one server.

The seed of a start is drawn once where none was given, is common to all of its ranks, also on
other hosts, and stands in /server_info: nothing else tells a start of yesterday from today's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from configurator.evidence.model import Replica, Report
from configurator.evidence.report_values import as_dict, as_float, as_int
from configurator.evidence.reports import place_of, reports_in

_SEED = "random_seed"
_SIZES = {"tp": "tensor parallel", "pp": "pipeline", "dp": "data parallel"}


def start_of(report: Report) -> dict[str, Any]:
    """What the report says of its start; empty: it is of an older probe, or that part failed."""
    start = as_dict(as_dict(report.raw).get("start"))
    return {} if "error" in start else start


def process_of(report: Report) -> int | None:
    """Process that wrote the report; None: not known. A process 1 has no scheduler: unknown."""
    pid = as_int(as_dict(as_dict(report.raw).get("process")).get("pid"))
    return pid if pid is not None and pid > 1 else None


def time_of(report: Report) -> float | None:
    """Seconds since 1970 at which it was made; None: not known."""
    time = as_float(as_dict(as_dict(report.raw).get("process")).get("time"))
    return time if time is not None and time > 0 else None


def is_drawn(requested: dict[str, Any]) -> bool:
    """The engine drew the seed of this command by itself, so no other start has it."""
    given = any(_SEED.startswith(name) for name in requested if name)
    return bool(requested) and not given and "config" not in requested


def of_another_start(report: Report, info: dict[str, Any]) -> str:
    """Why the report is of another start than the server that answers, as both say; empty: not."""
    start = start_of(report)
    seed, ours = as_int(start.get(_SEED)), as_int(info.get(_SEED))
    if seed is not None and ours is not None and seed != ours:
        return f"the report is of another start: seed {seed}, and the one of seed {ours} answers"
    port, theirs = as_int(start.get("port")), as_int(info.get("port"))
    # Nobody asks the ports of further hosts, and they may be any.
    alone = (as_int(info.get("nnodes")) or 1) == 1
    if alone and port is not None and theirs is not None and port != theirs:
        return f"the report is of the server on port {port}, and the one on port {theirs} answers"
    return ""


def has_seed_of(report: Report, info: dict[str, Any] | None) -> bool:
    """The report has the seed of the server that answers."""
    seed = as_int(start_of(report).get(_SEED))
    return seed is not None and seed == as_int(as_dict(info).get(_SEED))


def of_another_world(report: Report, info: dict[str, Any]) -> str:
    """Why the report is of a server of other sizes, or of a rank that there is not; empty: not."""
    for name, words in _SIZES.items():
        size, rank = report.ranks.get(f"{name}_size"), report.ranks.get(f"{name}_rank")
        live = as_int(info.get(f"{name}_size"))
        if live is None or live < 1:
            continue
        # With data parallel attention not every version means the same by its size.
        compared = name != "dp" or info.get("enable_dp_attention") is not True
        if compared and size is not None and size != live:
            return f"it is of a server of {words} size {size}, and one of {live} answers"
        if rank is not None and rank >= live:
            return f"it is of {words} rank {rank}, and one of {live} answers"
    return ""


def several_starts(files: Iterable[Report], info: dict[str, Any] | None) -> bool:
    """The files are of several starts, and nothing tells which of them answers."""
    if as_int(as_dict(info).get(_SEED)) is not None:
        return False
    seeds = {as_int(start_of(one).get(_SEED)) for one in files}
    return len(seeds - {None}) > 1


def of_one_process(report: Report, other: Report) -> bool:
    """Both were written by one process, though they are of two ranks."""
    pid = process_of(report)
    ranks_known = report.rank is not None and other.rank is not None
    if pid is None or pid != process_of(other) or not ranks_known:
        return False
    if place_of(report) == place_of(other):
        return False
    hosts = [start_of(one).get("host") for one in (report, other)]
    if all(hosts):
        return hosts[0] == hosts[1]
    # On two hosts one number may be two processes, but not in one millisecond.
    return time_of(report) is not None and time_of(report) == time_of(other)


def one_server(replica: Replica, other: Replica) -> str:
    """Why two replicas are one server that was asked twice; empty: nothing says so."""
    infos = [as_dict(one.server_info or one.server_info_startup) for one in (replica, other)]
    ours, theirs = (dict(_signed(info)) for info in infos)
    common = set(ours) & set(theirs)
    if common:
        same = all(ours[place] == theirs[place] for place in common)
        return "both answer with the report of one process" if same else ""
    took = [_took(info) for info in infos]
    if all(took):
        same = took[0] == took[1]
        return "both answer with the same times of a start" if same else ""
    names = (_SEED, "port", "launch_command")
    values = [[info.get(name) for name in names] for info in infos]
    if values[0] == values[1] and None not in values[0][:2]:
        return f"both answer with seed {values[0][0]}, port {values[0][1]} and one launch command"
    return ""


def _took(info: dict[str, Any]) -> list[float]:
    """How long the start of each scheduler took: to a nanosecond, so no two are alike."""
    states = info.get("internal_states")
    times = (
        as_float(as_dict(as_dict(state).get("startup_time")).get("scheduler_e2e"))
        for state in (states if isinstance(states, list) else [])
    )
    return [time for time in times if time]


def _signed(info: dict[str, Any]) -> Iterator[tuple[object, tuple[object, ...]]]:
    """Process and time of every report in an answer of /server_info, by rank."""
    for report in reports_in(info):
        pid, time = process_of(report), time_of(report)
        if pid is not None and time is not None:
            yield place_of(report), (pid, time, start_of(report).get("host"))
