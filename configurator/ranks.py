"""The ranks of one server: how many there are to be, which work together, and their names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from configurator.deployment import Deployment
from configurator.evidence.model import LogLine, Replica, Report
from configurator.evidence.report_values import as_dict

_MOST = 65_536
"""A size beyond it is a broken answer, not a server."""
_DIMENSIONS = {"tp": "tensor parallel", "pp": "pipeline", "dp": "data parallel"}
_SHOWN = 8

Place = tuple[int, int, int]
"""Tensor parallel, pipeline and data parallel rank."""


@dataclass(frozen=True, slots=True)
class World:
    """The ranks that one server is to have."""

    tp: int
    pp: int
    dp: int
    """1 with data parallel attention, which divides the tensor parallel ranks instead."""
    groups: int = 1
    """Data parallel groups, whose ranks answer a request together."""
    hosts: int = 1

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(self.sizes)

    @property
    def places(self) -> frozenset[Place]:
        """Every rank."""
        return frozenset(product(range(self.tp), range(self.pp), range(self.dp)))

    def group(self, number: int) -> frozenset[Place]:
        """The ranks of one data parallel group."""
        return frozenset(place for place in self.places if self.group_of(place) == number)

    def group_of(self, place: Place) -> int:
        """The data parallel group of a rank."""
        return place[2] if self.dp > 1 else place[0] * self.groups // self.tp

    def on_host(self, node: int) -> frozenset[Place]:
        """The ranks of one host: pipeline stages are spread first, then the ranks of a stage."""
        stages, hosts_a_stage = max(self.pp // self.hosts, 1), max(self.hosts // self.pp, 1)
        ranks = max(self.tp // hosts_a_stage, 1)
        stage, first = node // hosts_a_stage * stages, node % hosts_a_stage * ranks
        return frozenset(
            place
            for place in self.places
            if stage <= place[1] < stage + stages and first <= place[0] < first + ranks
        )

    def place(self, tp: int | None, pp: int | None, dp: int | None) -> frozenset[Place]:
        """The rank of these numbers; none where a dimension of several is not told."""
        told = (tp, pp, 0 if self.dp == 1 else dp)
        if any(rank is None and size > 1 for rank, size in zip(told, self.sizes, strict=True)):
            return frozenset()
        return frozenset({(told[0] or 0, told[1] or 0, told[2] or 0)})

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Size of each dimension, in the order of a place."""
        return (self.tp, self.pp, self.dp)

    def named(self, ranks: Iterable[Place]) -> str:
        """Ranks by the one dimension that there is, or by every dimension."""
        missing = sorted(ranks)
        several = [index for index, size in enumerate(self.sizes) if size > 1]
        index = several[0] if several else 0
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        if len(several) > 1:
            names = ["-".join(map("{}{}".format, _DIMENSIONS, place)) for place in missing[:_SHOWN]]
            word = ""
        else:
            names = [str(place[index]) for place in missing[:_SHOWN]]
            word = f"{list(_DIMENSIONS.values())[index]} "
        return f"{word}rank{'' if len(missing) == 1 else 's'} {', '.join(names)}{more}"


def world_of(replica: Replica, deployment: Deployment | None = None) -> World | None:
    """The ranks that there are to be; None: what is said of them is no size.

    The sizes are those of /server_info, of the reports and of the profile, the largest where they
    differ: a rank that one of them knows of and nobody heard is missing.
    """
    info = replica.server_info or replica.server_info_startup or {}
    topology = deployment.profile.topology if deployment is not None else None
    wished = {
        "tp": topology.tensor if topology else None,
        "pp": topology.pipeline if topology else None,
        "dp": topology.data if topology else None,
    }
    sizes = {name: _size(name, info, replica.reports, wished[name]) for name in _DIMENSIONS}
    if info.get("enable_dp_attention") is None and wished["dp"]:
        divided = wished["dp"] > 1
    else:
        divided = info.get("enable_dp_attention") is True
    groups = sizes["dp"]
    if divided:
        # The tensor parallel ranks are divided among the groups: there are no more of them.
        sizes["dp"] = min(groups, 1)
    if not 0 < math.prod(sizes.values()) <= _MOST:
        return None
    hosts = max(_whole(info.get("nnodes")), deployment.hosts_per_replica if deployment else 0, 1)
    return World(sizes["tp"], sizes["pp"], sizes["dp"], groups, hosts)


def _size(name: str, info: dict[str, Any], reports: Iterable[Report], wished: int | None) -> int:
    """The size of one dimension; 0: one of those who speak of it says what is no size."""
    key = f"{name}_size"
    said = [info.get(key), wished, *(_said(report, key) for report in reports)]
    found = [_whole(value) for value in said if value is not None]
    return max(found, default=1) if 0 not in found else 0


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


def ranks_in_prefix(line: LogLine) -> tuple[int | None, int | None, int | None]:
    """Tensor parallel, pipeline and data parallel rank that wrote a line, as far as it says.

    The processes that serve HTTP and the ranks of a server of one rank have none.
    """
    return line.ranks.get("tp"), line.ranks.get("pp"), line.ranks.get("dp")
