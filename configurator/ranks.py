"""The ranks of one server: how many there are to be, and which of them were heard."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import product
from typing import Any

from configurator.evidence.model import Replica, Report
from configurator.evidence.report_values import as_dict
from configurator.verdicts import Observation

_MOST = 65_536
"""A size beyond it is a broken answer, not a server."""
_DIMENSIONS = {"tp": "tensor parallel", "pp": "pipeline", "dp": "data parallel"}
_SHOWN = 8
_IN_LOG = re.compile(r"^\[[^\]]*?\b(?:DP(\d{1,5}) )?TP(\d{1,5})(?: PP(\d{1,5}))?\b")
"""Ranks as the engine's log prefixes them: [2026-11-30 09:00:00 TP1]."""

Place = tuple[int, int, int]
"""Tensor parallel, pipeline and data parallel rank."""


def silent_ranks(replica: Replica, seen: Iterable[Observation]) -> str:
    """The ranks that neither a report nor an observation of the log speaks of; empty: none.

    The sizes are those of /server_info and of the reports themselves, the larger where they
    differ: a rank that one of them knows of and nobody heard is missing.
    """
    info = replica.server_info or replica.server_info_startup or {}
    sizes = _sizes(info, replica.reports)
    if sizes is None:
        return "how many ranks there are cannot be told, so not every rank is known to be alike"
    wanted = [(tp, pp, dp) for tp, pp, dp in product(*map(range, sizes))]
    # A report of which everything failed is there and says nothing.
    heard = [report for report in replica.reports if report.target is not None]
    if len(wanted) == 1 and any(report.rank is None for report in heard):
        return ""
    divided = info.get("enable_dp_attention") is True
    places = {_place(report, divided) for report in heard if report.rank is not None}
    places |= {place for one in seen if (place := _logged(one, replica, divided)) is not None}
    missing = [place for place in wanted if place not in places]
    return f"{_named(missing, sizes)} left no in-engine report" if missing else ""


def _sizes(info: dict[str, Any], reports: Iterable[Report]) -> list[int] | None:
    """Size of each dimension; None: what is said of them is no size."""
    sizes = []
    for name in _DIMENSIONS:
        key = f"{name}_size"
        said = [info.get(key), *(_said(report, key) for report in reports)]
        found = [_whole(value) for value in said if value is not None]
        sizes.append(max(found, default=1) if 0 not in found else 0)
    if info.get("enable_dp_attention") is True:
        # The tensor parallel ranks are divided among the groups: there are no more of them.
        sizes[2] = min(sizes[2], 1)
    return sizes if 0 < math.prod(sizes) <= _MOST else None


def _said(report: Report, key: str) -> Any:
    """The size as it is in the report, whatever its type."""
    return report.ranks.get(key, as_dict(as_dict(report.raw).get("rank")).get(key))


def _whole(value: Any) -> int:
    """A size, also as text or as a float without a fraction; 0: it is none."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST:
        return 0
    return int(value) if value == int(value) else 0


def _place(report: Report, divided: bool) -> Place:
    dp = 0 if divided else report.ranks.get("dp_rank", 0)
    return (report.rank or 0, report.ranks.get("pp_rank", 0), dp)


def _logged(seen: Observation, replica: Replica, divided: bool) -> Place | None:
    """The rank that wrote the line of the log; None: no line, or it does not say."""
    number = seen.locator.removeprefix("server.log:")
    if seen.source != "log" or not re.fullmatch(r"[0-9]{1,9}", number):
        return None
    text = next((line.text for line in replica.log or () if line.number == int(number)), "")
    found = _IN_LOG.match(text)
    if found is None:
        return None
    dp, tp, pp = (int(rank or 0) for rank in found.groups())
    return (tp, pp, 0 if divided else dp)


def _named(missing: list[Place], sizes: list[int]) -> str:
    """Ranks by the one dimension that there is, or by every dimension."""
    several = [index for index, size in enumerate(sizes) if size > 1]
    index = several[0] if several else 0
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    if len(several) > 1:
        names = ["-".join(map("{}{}".format, _DIMENSIONS, place)) for place in missing[:_SHOWN]]
        word = ""
    else:
        names = [str(place[index]) for place in missing[:_SHOWN]]
        word = f"{list(_DIMENSIONS.values())[index]} "
    return f"{word}rank{'' if len(missing) == 1 else 's'} {', '.join(names)}{more}"
