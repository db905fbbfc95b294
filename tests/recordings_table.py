"""The table of all recordings: what was asked, what is true, what the self-check says.

    python tests/recordings_table.py

Recordings of real SGLang servers, healthy and sabotaged; `fixtures/recordings/truth.yaml` says
what is true. `test_recordings.py` holds every row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configurator.content import Library
from configurator.evidence.model import ServerState
from configurator.evidence.read import read_evidence
from configurator.judge import expectation_from, judge
from configurator.loader import Validators, load_validators
from configurator.source import read_source
from configurator.verdicts import Answer, Verdict

RECORDINGS = Path(__file__).parent / "fixtures" / "recordings"
INVARIANTS = (
    "no-simulated-acceptance",
    "no-undeclared-environment",
    "requested-equals-resolved",
    "arithmetic-consistent",
    "output-not-corrupted",
)


@dataclass(frozen=True)
class Row:
    """One question about one recording."""

    group: str
    case: str
    ask: str
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """How tests and the table call it."""
        return f"{self.group}/{self.case}: {self.ask}"


def rows() -> list[Row]:
    """Every row of the truth."""
    data = read_source(RECORDINGS / "truth.yaml").data
    return [
        Row(group, case, truth["ask"], truth)
        for group, cases in data.items()
        for case, truths in cases.items()
        for truth in truths
    ]


def answer(row: Row, validators: Validators) -> tuple[Verdict, list[Verdict], ServerState]:
    """The verdict asked for, every verdict, and the state of the server."""
    evidence = read_evidence(RECORDINGS / row.group / row.case)
    wanted = expectation_from(row.ask, validators.probes)
    judgement = judge([wanted], evidence, validators)
    verdict = next(v for v in judgement.verdicts if v.mechanism == wanted.mechanism)
    return verdict, list(judgement.verdicts), judgement.states[0]


def faults(row: Row, validators: Validators) -> Iterator[str]:
    """In what the answer differs from the truth."""
    verdict, every, state = answer(row, validators)
    truth = row.truth
    if verdict.answer != truth["is"]:
        yield f"{verdict.answer}, not {truth['is']}: {verdict.summary}"
    if "rung" in truth and str(verdict.rung) != truth["rung"]:
        yield f"rung {verdict.rung}, not {truth['rung']}"
    if truth.get("depends_on_text") and not verdict.depends_on_text:
        yield "does not say that it depends on the text"
    if truth.get("says", "") not in verdict.summary:
        yield f"does not say {truth['says']!r}: {verdict.summary}"
    if state.state != truth.get("state", "ready"):
        yield f"server {state.state}, not {truth.get('state', 'ready')}"
    if truth.get("phase", "") not in state.phase:
        yield f"phase {state.phase!r}, not {truth['phase']!r}"
    if truth.get("reason", "") not in state.reason:
        yield f"reason {state.reason!r}, not {truth['reason']!r}"
    if verdict.answer is Answer.REFUTED and not verdict.evidence:
        yield "REFUTED without an observation"
    expected = {r.ask for r in rows() if (r.group, r.case) == (row.group, row.case)}
    for other in every:
        wrong = other.answer is Answer.REFUTED and other.mechanism in INVARIANTS
        if wrong and other.mechanism not in expected and not row.case.startswith("sim_acc"):
            yield f"invariant {other.mechanism} is REFUTED: {other.summary}"


def main() -> None:
    """Print the table; exit code 1 when a row is wrong."""
    validators = load_validators(Library().roots, "probes")
    wrong = 0
    for row in rows():
        found = list(faults(row, validators))
        wrong += bool(found)
        print(f"{'WRONG' if found else 'ok':<6} {row.truth['is']:<15} {row.name}")
        for fault in found:
            print(f"       {fault}")
    print(f"{len(rows())} rows, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
