"""Which ways through a script are walked, and in which order, where conditions are unknown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from configurator.readers.shell_state import MAX_RUNS, Run

_LAUNCHES = re.compile(r"sglang|vllm|launch|docker|podman|\bserve\b")
Decisions = tuple[bool, ...]
Found = frozenset[tuple[tuple[str, ...], tuple[tuple[str, str | None], ...]]]


@dataclass(frozen=True, slots=True)
class _Way:
    decisions: Decisions = ()
    condition: str = ""
    """The one that its last decision answers."""
    beside: Found = frozenset()
    """What is found when the last decision is the other one."""


@dataclass(slots=True)
class Ways:
    """The ways still to walk: each condition alone first, then several at once.

    A condition that changed nothing of what is started is not tried again together with others
    while there are better ways, and it is no loss when none of those is walked.
    """

    pending: list[_Way] = field(default_factory=lambda: [_Way()])
    unlikely: list[_Way] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)
    """Conditions that changed nothing."""
    current: _Way = field(default_factory=_Way)
    walked: int = 0

    @property
    def left(self) -> bool:
        """Ways that may lead elsewhere are not walked yet."""
        return any(way.condition not in self.idle for way in self.pending)

    def take(self) -> Decisions | None:
        """The next way; None when there are none, or when enough were walked."""
        self.unlikely += [way for way in self.pending if way.condition in self.idle]
        self.pending = [way for way in self.pending if way.condition not in self.idle]
        ways = self.pending or self.unlikely
        if not ways or self.walked >= MAX_RUNS:
            return None
        self.walked += 1
        self.current = ways.pop(0)
        return self.current.decisions

    def walked_as(self, run: Run) -> None:
        """Note where a way led, and the ways that branch off from it."""
        found = _found(run)
        keys = list(run.assumed)
        known = len(self.current.decisions)
        beside = self.current.beside
        idle = known > 0 and (found == beside or (run.failed and found <= beside))
        if idle:
            self.idle.add(self.current.condition)
        last = len(run.taken) - 1
        for at in range(known, last + 1):
            way = _Way((*run.taken[:at], not run.taken[at]), keys[at], found)
            # A script that fails does so for what was assumed last, most likely.
            doubtful = at < last if run.failed else idle
            (self.unlikely if doubtful else self.pending).append(way)


def _found(run: Run) -> Found:
    """What a way starts; without the programs that cannot be a launch, if it has launches."""
    every = {
        (tuple(word.text for word in one.words), tuple((n, s.value) for n, s in one.env.items()))
        for one in run.found
    }
    launches = {one for one in every if _LAUNCHES.search(" ".join(one[0]))}
    return frozenset(launches or every)
