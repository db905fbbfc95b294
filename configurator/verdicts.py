"""Observations and verdicts: the vocabulary of every proof.

Evidence climbs a ladder: requested, resolved, built, captured, executed, effective. A verdict
names the rung it reached and keeps the observations it stands on. PROVEN never rests on an echo
of the request; REFUTED rests on a positive contrary fact, never on silence.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

Source = Literal[
    "server_info",
    "log",
    "metrics",
    "generate",
    "report",
    "trace",
    "environment",
    "process",
    "host",
]


class Rung(enum.IntEnum):
    """How far up the ladder an observation reaches."""

    REQUESTED = 0
    RESOLVED = 1
    BUILT = 2
    CAPTURED = 3
    EXECUTED = 4
    EFFECTIVE = 5

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, name: str) -> Rung:
        """The rung named in lower case."""
        return cls[name.upper()]


class Answer(enum.StrEnum):
    """What a probe can say."""

    PROVEN = "PROVEN"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_APPLICABLE = "NOT_APPLICABLE"


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing seen: by whom, of what, the value, how high it reaches, where to find it."""

    source: Source
    subject: str
    value: object
    rung: Rung
    locator: str = ""
    """`server.log:120`, or a JSON pointer such as `server_info.json#/speculative_algorithm`."""
    excerpt: str = ""
    replica: int | None = None
    rank: int | None = None
    window: str = ""
    """The requests or the time it speaks of; empty: the whole run."""
    absence_meaningful: bool = False
    """What is not there was looked for where it would have been."""
    scope: Literal["rank", "group", "all"] = "rank"
    """Whom it speaks of: the rank that says it, the data parallel group of that rank, whose ranks
    settle it together, or all ranks at once."""
    aside: bool = False
    """Shown beside the others; the answer does not rest on it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a probe says of one replica."""

    answer: Answer
    rung: Rung | None
    summary: str
    observations: tuple[Observation, ...] = ()
    remedy: str = ""
    conflicts: tuple[str, ...] = ()
    depends_on_text: bool = False
    """Acceptance from repetitive, warm-up or synthetic text."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one mechanism or invariant over all replicas."""

    mechanism: str
    kind: Literal["mechanism", "invariant"]
    answer: Answer
    rung: Rung | None
    required: bool
    summary: str
    remedy: str = ""
    evidence: tuple[Observation, ...] = field(default=())
    conflicts: tuple[str, ...] = ()
    depends_on_text: bool = False
    on_refuted: Literal["fail", "drop", "warn"] = "fail"
    on_unproven: Literal["fail", "warn"] = "warn"

    @property
    def fails(self) -> bool:
        """This verdict makes the launch fail."""
        if self.answer is Answer.REFUTED:
            return self.on_refuted != "warn"
        return self.answer is Answer.INCONCLUSIVE and self.on_unproven == "fail"


def proven(
    rung: Rung, summary: str, *observations: Observation, depends_on_text: bool = False,
    conflicts: tuple[str, ...] = (),
) -> Outcome:  # fmt: skip
    """The mechanism took effect, as far up as `rung`."""
    return Outcome(
        Answer.PROVEN, rung, summary, observations,
        conflicts=conflicts, depends_on_text=depends_on_text,
    )  # fmt: skip


def refuted(
    rung: Rung, summary: str, *observations: Observation, remedy: str,
    conflicts: tuple[str, ...] = (),
) -> Outcome:  # fmt: skip
    """A positive fact contradicts the mechanism; `rung` is where it was seen."""
    if not observations:
        raise ValueError("REFUTED needs an observation: silence refutes nothing")
    return Outcome(Answer.REFUTED, rung, summary, observations, remedy, conflicts)


def inconclusive(
    rung: Rung | None, summary: str, *observations: Observation, remedy: str = "",
    conflicts: tuple[str, ...] = (), depends_on_text: bool = False,
) -> Outcome:  # fmt: skip
    """Not enough was seen; `rung` is the highest reached."""
    return Outcome(
        Answer.INCONCLUSIVE, rung, summary, observations, remedy, conflicts, depends_on_text
    )


def not_applicable(summary: str, *observations: Observation) -> Outcome:
    """The mechanism has no place in what runs (a MoE runner in a dense model)."""
    return Outcome(Answer.NOT_APPLICABLE, None, summary, observations)
