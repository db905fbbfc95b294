"""How far memory plans are from real engines: `PYTHONPATH=tests python tests/memory_table.py`.

Prints, for servers that were started without --max-total-tokens, the tokens that a plan says and
those that the engine made; as docs/measurements/memory-plans.md has them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from plan.test_engine_pools import CASES, H200, QUIET, drift, planned
from plan.test_public import RUNS, planned_run

from configurator.plan.memory import memory_of
from configurator.plan.model import Memory


def row(name: str, memory: Memory | None, tokens: int, note: str) -> str:
    """A line of the table."""
    assert memory is not None
    assert memory.tokens is not None
    said = memory.tokens
    error = said.value / tokens - 1
    return (
        f"| {name} | {said.value:,.0f} ({said.low:,.0f} to {said.high:,.0f}) | {tokens:,} | "
        f"{error:+.1%} | {note} |"
    )


def main() -> None:
    """Print both tables."""
    write = sys.stdout.write
    for title, rows in (("H200", _h200()), ("GPU", _public()), ("CPU", _own())):
        write(f"\n| {title} | plan | engine | error | |\n|---|---|---|---|---|\n")
        write("\n".join(rows) + "\n")


def _h200() -> list[str]:
    rows = []
    for name, case in H200.items():
        with tempfile.TemporaryDirectory() as folder:
            deployment, geometry = planned(Path(folder), name)
            memory = memory_of(deployment, geometry)
        rows.append(row(name, memory, case["tokens"], f"fraction {case['fraction']:g}"))
    return rows


def _public() -> list[str]:
    rows = []
    for run in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            deployment, geometry = planned_run(Path(folder), run)
            memory = memory_of(deployment, geometry)
        rows.append(row(run["name"], memory, run["tokens"], run["source"]))
    return rows


def _own() -> list[str]:
    rows = []
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            deployment, geometry = planned(Path(folder), name)
            memory = memory_of(deployment, geometry)
        note = "" if name in QUIET else f"other processes took {drift(name):+.0%} of the pool"
        rows.append(row(name, memory, case["tokens"], note))
    return rows


if __name__ == "__main__":
    main()
