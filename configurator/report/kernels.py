"""Results of the kernels' self-tests, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from configurator.kerneltests.model import Check, Measured, Result

_COLOURS = {"ok": "green", "slow": "yellow", "wrong": "red", "not_run": "bright_black"}
_ROWS = "times"
"""The fact that is a table: a list of objects."""
_STATE = "state"
"""The fact that says how a package is: ok, missing or mismatch."""


def as_json(results: Sequence[Result], python: str, stored: Path | None) -> str:
    """One object: `python`, `stored` (a file, or null) and `results`."""
    rows = [
        {
            "name": result.name,
            "verdict": result.verdict,
            "reason": result.reason,
            "seconds": round(result.seconds, 1),
            "checks": [check.model_dump() for check in result.checks],
            "figures": {name: figure.model_dump() for name, figure in result.figures},
            "promises": [asdict(promise) for promise in result.promises],
            "machine": dict(result.machine),
        }
        for result in results
    ]
    whole = {"python": python, "stored": str(stored) if stored else None, "results": rows}
    return json.dumps(whole, indent=2)


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Every self-test with its checks, tables and figures; then what to conclude."""
    yield from dict.fromkeys(_machine(dict(r.machine)) for r in results if r.machine)
    for result in results:
        yield ""
        name = click.style(result.name, bold=True)
        yield f"{_word(result.verdict)}  {name}  {result.seconds:.0f} s"
        if [check.name for check in result.checks] in (["all"], []):
            yield f"         {result.reason}"
            continue
        for check in result.checks:
            yield from _check_lines(check)
        for name, figure in result.figures:
            yield f"  {_figure(name, figure)}"
    yield ""
    yield conclusion(results)


def _word(verdict: str) -> str:
    return click.style(f"{verdict:<7}", fg=_COLOURS[verdict])


def _machine(machine: dict[str, Any]) -> str:
    gpu = machine.get("gpu")
    number, driver = machine.get("gpus"), machine.get("driver")
    where = f"{f'{number} x ' if number else ''}{gpu}" if gpu else "no GPU"
    where += f", driver {driver}" if gpu and driver else ""
    versions = [f"{name} {machine[name]}" for name in ("torch", "triton", "sglang", "python")
                if machine.get(name)]  # fmt: skip
    return f"{where}; {', '.join(versions)}" if versions else where


def _check_lines(check: Check) -> Iterator[str]:
    state = check.facts.get(_STATE)
    # A package that is missing and not needed fails nothing, and is not ok either.
    word = _word(check.verdict)
    if check.verdict == "ok" and isinstance(state, str) and state != "ok":
        word = click.style(f"{state:<7}", fg="yellow")
    yield f"  {word}  {check.name}{': ' if check.reason else ''}{check.reason}"
    hidden = (_ROWS, _STATE)
    plain = {
        k: v for k, v in check.facts.items() if k not in hidden and v not in (None, "", {}, [])
    }
    if plain:
        yield "           " + ", ".join(f"{name} {_value(value)}" for name, value in plain.items())
    rows = check.facts.get(_ROWS)
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        yield from _table(rows)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "(" + "; ".join(f"{name}: {_value(each)}" for name, each in value.items()) + ")"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([str(row.get(name, "-")) for name in names] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    for row in cells:
        padded = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield "           " + "  ".join(padded)


def _figure(name: str, figure: Measured) -> str:
    unit = f" {figure.unit}" if figure.unit else ""
    return (
        f"{name} = {figure.value:g}{unit} ({figure.low:g} to {figure.high:g}, {figure.runs} runs)"
    )


def conclusion(results: Sequence[Result]) -> str:
    """How many self-tests came to which verdict; what was not run proves nothing."""
    counts = {word: sum(r.verdict == word for r in results) for word in _COLOURS}
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    none = counts["not_run"] and not any(result.figures for result in results)
    return f"{text}: nothing was measured here" if none else text
