"""Requested, resolved, built: one row for each argument or fact, rows that differ first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from configurator.deployment import Deployment
from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Replica
from configurator.report.html_built import FACTS, MAY_DIFFER, OF_FIELDS, by_rank
from configurator.report.html_text import natural, numbers, shown
from configurator.verdicts import Answer, Verdict

Mark = Literal["refuted", "differs", "reads differently", "not shown", "same", "one source"]
_ORDER: tuple[Mark, ...] = get_args(Mark)
_WORDS = 200
_MOST_VALUES = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One argument or fact; an empty cell is one of which there is no evidence."""

    name: str
    requested: str
    resolved: str
    built: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of replicas that are alike in all of them."""

    replicas: str
    """Their indices as text; empty when there is one replica only."""
    rows: tuple[Row, ...]

    @property
    def same(self) -> list[Row]:
        """Rows without a contradiction."""
        return [row for row in self.rows if row.mark in ("same", "one source")]

    @property
    def not_shown(self) -> list[Row]:
        """Rows of which only the request is known."""
        return [row for row in self.rows if row.mark == "not shown"]

    @property
    def other(self) -> list[Row]:
        """Rows to look at."""
        return [row for row in self.rows if row.mark in ("refuted", "differs", "reads differently")]


def tables(
    replicas: Iterable[Replica],
    verdicts: Iterable[Verdict],
    catalogues: dict[int, Catalogue | None],
    deployment: Deployment | None,
) -> list[Table]:
    """One table for each set of replicas that have the same rows; empty ones left out."""
    replicas = list(replicas)
    refuted = {
        (seen.replica, seen.subject)
        for verdict in verdicts
        if verdict.answer is Answer.REFUTED
        for seen in verdict.evidence
        # What lies below the rung of the verdict was seen too, but does not decide it.
        if seen.source == "server_info" and seen.rung is verdict.rung
    }
    alike: dict[tuple[Row, ...], list[int]] = {}
    for replica in replicas:
        named = {subject for index, subject in refuted if index in (None, replica.index)}
        rows = _rows(replica, named, catalogues.get(replica.index), deployment)
        if rows:
            alike.setdefault(rows, []).append(replica.index)
    several = len(replicas) > 1
    return [Table(numbers(indices) if several else "", rows) for rows, indices in alike.items()]


def _rows(
    replica: Replica, refuted: set[str], catalogue: Catalogue | None, deployment: Deployment | None
) -> tuple[Row, ...]:
    info = replica.server_info or replica.server_info_startup
    wanted: dict[str, dict[str, Any]] = {}
    for who, arguments in (
        ("command", replica.requested.items()), ("profile", _of_profile(deployment))
    ):  # fmt: skip
        for name, value in arguments:
            wanted.setdefault(_field(name, info or {}, catalogue), {})[who] = value
    built = {name: by_rank(replica.reports, look) for name, look in OF_FIELDS.items()}
    fields = [name for name in built if info is not None and name in info]
    rows = [
        _row(name, wanted.get(name, {}), info, built.get(name, []), refuted, catalogue)
        for name in dict.fromkeys([*wanted, *fields])
    ]
    rows += [
        _fact(name, values)
        for name, values in (
            *((name, built[name]) for name in built if name not in fields and name not in wanted),
            *((name, by_rank(replica.reports, look)) for name, look in FACTS.items()),
        )
        if values
    ]
    rows.sort(key=lambda row: (_ORDER.index(row.mark), natural(row.name)))
    return tuple(rows)


def _of_profile(deployment: Deployment | None) -> Iterator[tuple[str, Any]]:
    for arg in deployment.args.values() if deployment else ():
        if isinstance(arg.value, str | int | float | bool | tuple):
            value = list(arg.value) if isinstance(arg.value, tuple) else arg.value
            yield arg.name.replace("-", "_"), value


def _field(name: str, info: dict[str, Any], catalogue: Catalogue | None) -> str:
    """The field of /server_info that an argument's name, alias or prefix stands for."""
    if name in info or catalogue is None:
        return name
    found = catalogue.resolve(name.replace("_", "-"))
    spellings = [
        spelling.replace("-", "_")
        for flag in (found.flags if found.kind != "ambiguous" else ())
        for spelling in (flag.name, *flag.aliases)
    ]
    return next((spelling for spelling in spellings if spelling in info), name)


def _row(
    name: str, wanted: dict[str, Any], info: dict[str, Any] | None,
    built: list[tuple[str, list[int | None]]], refuted: set[str], catalogue: Catalogue | None,
) -> Row:  # fmt: skip
    asked = {who: shown(value, name, _WORDS) for who, value in wanted.items()}
    first, last = next(iter(asked.values()), ""), next(reversed(asked.values()), "")
    agree = first == last or (first.lower() != "auto" and _same(first, last))
    known = info is not None and name in info
    resolved = shown(info[name], name, _WORDS) if info is not None and known else ""
    texts = [text for text, _ in built]
    mark: Mark = "same"
    if name in refuted:
        mark = "refuted"
    elif len(built) > 1 or _contradicts(name, resolved, texts, catalogue):
        mark = "differs"
    elif not known and not built:
        mark = "not shown"
    elif not agree or (known and any(not _same(text, resolved) for text in asked.values())):
        mark = "reads differently"
    elif bool(asked) + known + bool(built) == 1:
        mark = "one source"
    told = first if agree else "; ".join(f"{who}: {text}" for who, text in asked.items())
    return Row(name, told, resolved, _cell(built), mark)


def _contradicts(
    name: str, resolved: str, built: list[str], catalogue: Catalogue | None
) -> bool:  # fmt: skip
    """Another choice of the same option was built than the one that was resolved."""
    flag = catalogue.flag(name.replace("_", "-")) if catalogue else None
    choices = {choice.lower() for choice in flag.choices} if flag else set()
    one = resolved.lower()
    if one in ("auto", "null", "") or one not in choices:
        return False
    parts = {part.split(" ")[0] for text in built for part in text.lower().split(", ")}
    return any(part in choices and part != one for part in parts)


def _fact(name: str, built: list[tuple[str, list[int | None]]]) -> Row:
    differs = len(built) > 1 and name not in MAY_DIFFER
    return Row(name, "", "", _cell(built), "differs" if differs else "one source")


def _cell(built: list[tuple[str, list[int | None]]]) -> str:
    if len(built) == 1:
        return built[0][0]
    more = len(built) - _MOST_VALUES
    told = "; ".join(f"{text} ({_ranks(ranks)})" for text, ranks in built[:_MOST_VALUES])
    return told + (f"; and {more} other values" if more > 0 else "")


def _ranks(ranks: list[int | None]) -> str:
    known = [rank for rank in ranks if rank is not None]
    word = "rank" if len(set(known)) == 1 else "ranks"
    return f"{word} {numbers(known)}" if known else "rank not known"


def _same(left: str, right: str) -> bool:
    if left.lower().rstrip("/") == right.lower().rstrip("/") or left.lower() == "auto":
        return True
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-9)
    except ValueError:
        return False
