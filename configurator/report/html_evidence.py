"""What a verdict stands on, as a page shows it: equal facts once, each with its place and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from configurator.collector.redaction import is_secret
from configurator.evidence.model import Json, Replica
from configurator.report.html_text import clean, counted, natural, numbers, shown
from configurator.verdicts import Observation

_MOST_PLACES = 3
_LINE = re.compile(r"server\.log:(\d+)")
_EXCERPT = 320


@dataclass(slots=True)
class Fact:
    """Observations that say the same, of one or many ranks and replicas."""

    source: str
    subject: str
    value: str
    rung: str
    window: str
    absence_meaningful: bool
    places: list[str] = field(default_factory=list)
    excerpt: str = ""
    ranks: set[int] = field(default_factory=set)
    replicas: set[int] = field(default_factory=set)

    @property
    def where(self) -> list[str]:
        """The first places, and how many more there are."""
        more = len(self.places) - _MOST_PLACES
        return self.places[:_MOST_PLACES] + ([f"and {more} more"] if more > 0 else [])

    @property
    def who(self) -> str:
        """The replicas and ranks it was seen on; empty where neither is known."""
        parts = []
        if self.replicas:
            word = "replica" if len(self.replicas) == 1 else "replicas"
            parts.append(f"{word} {numbers(self.replicas)}")
        if self.ranks:
            parts.append(f"{'rank' if len(self.ranks) == 1 else 'ranks'} {numbers(self.ranks)}")
        return ", ".join(parts)


def facts(observations: Iterable[Observation], replicas: Mapping[int, Replica]) -> list[Fact]:
    """Observations as facts, in their order, those that differ only in rank or replica joined.

    Args:
        observations: of one verdict.
        replicas: by index; where the text of a place is read from.
    """
    several = len(replicas) > 1
    found: dict[tuple[object, ...], Fact] = {}
    for seen in observations:
        value = shown(seen.value, seen.subject)
        # A window that begins with the place's own file would say it twice.
        window = seen.window.removeprefix(seen.locator.partition("#")[0]).lstrip(", ")
        key = (seen.source, seen.subject, value, seen.rung, window, seen.excerpt)
        fact = found.get(key)
        if fact is None:
            fact = found[key] = Fact(
                seen.source, clean(seen.subject), value, str(seen.rung), clean(window),
                seen.absence_meaningful,
            )  # fmt: skip
            fact.excerpt = excerpt(seen, replicas.get(seen.replica or 0))
        if seen.locator and seen.locator not in fact.places:
            fact.places.append(clean(seen.locator))
        if seen.rank is not None:
            fact.ranks.add(seen.rank)
        if several and seen.replica is not None:
            fact.replicas.add(seen.replica)
    for fact in found.values():
        fact.places.sort(key=natural)
    return list(found.values())


def excerpt(seen: Observation, replica: Replica | None) -> str:
    """The text at an observation's place; empty where it cannot be read or says nothing new."""
    if seen.excerpt:
        return clean(seen.excerpt, _EXCERPT)
    if replica is None:
        return ""
    line = _LINE.fullmatch(seen.locator)
    if line:
        number = int(line[1])
        texts = (entry.text for entry in replica.log or () if entry.number == number)
        return clean(next(texts, ""), _EXCERPT)
    file, sharp, pointer = seen.locator.partition("#")
    if not sharp:
        return ""
    found, value = _at(_document(file, replica), pointer)
    name = pointer.rsplit("/", 1)[-1]
    if not found or (is_secret(name, value)) or shown(value) == shown(seen.value):
        return ""
    return f"{clean(name)}: {shown(value, name, _EXCERPT)}"


def _document(file: str, replica: Replica) -> Json:
    named = {
        "server_info.json": replica.server_info,
        "server_info_startup.json": replica.server_info_startup,
        "model_info.json": replica.model_info,
        "loads.json": replica.loads,
    }
    if file in named:
        return named[file]
    for report in replica.reports:
        if report.file == file:
            return report.raw
    return next((e.response for e in replica.exchanges if e.name == file), None)


def _at(document: Json, pointer: str) -> tuple[bool, Any]:
    """What a JSON pointer names; a response of one sequence may be kept as a list of one."""
    if isinstance(document, list) and len(document) == 1 and not pointer.startswith("/0"):
        document = document[0]
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isascii() and name.isdigit():
            if int(name) >= len(document):
                return False, None
            document = document[int(name)]
        else:
            return False, None
    return True, document


def held_back(number: int) -> str:
    """How many facts a page leaves out."""
    return f"{counted(number, 'fact')} more: --format json has all of them" if number > 0 else ""
