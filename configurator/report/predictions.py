"""How wrong predictions are: for people, for programs, and as a page of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from configurator.plan.prediction_errors import Held, Wrong, errors_of, errors_of_runs
from configurator.plan.prediction_store import Stored
from configurator.plan.predictions import Compared, Record
from configurator.report.findings import printable

SCHEMA = "configurator/predictions/1"


def as_data(
    held: Sequence[Held], unseen: Sequence[Held], stored: Stored, store: str
) -> dict[str, Any]:
    """Everything, for programs.

    Args:
        held: measurements, each predicted without itself.
        unseen: the same, each predicted without any of its model.
        stored: the runs.
        store: where they are kept.
    """
    return {
        "schema": SCHEMA,
        "measurements": _measurements(held),
        "models_never_measured": _measurements(unseen),
        "runs": {
            "store": store,
            "broken_lines": stored.broken,
            "errors": [_wrong(each) for each in errors_of_runs(stored.records)],
            "each": [record.to_json() for record in stored.records],
        },
    }


def as_text(held: Sequence[Held], unseen: Sequence[Held], stored: Stored, store: str) -> str:
    """All tables, for people; arguments as for `as_data`."""
    lines = [
        "Measurements of the content, each predicted without itself and its series:",
        *_table(_by_kind(held)),
        "Each predicted as if its model had never been measured anywhere:",
        *_table(_by_kind(unseen)),
        "",
        *(_line(each) for each in held),
        "",
        f"Runs in {printable(store)}:",
    ]
    if stored.records:
        lines += [*_table(errors_of_runs(stored.records)), ""]
        lines += [line for record in stored.records for line in _run(record)]
    else:
        lines.append("  none yet; add one: configurator predictions --add PROFILE EVIDENCE_DIR")
    if stored.broken:
        lines.append(f"  {stored.broken} lines are no records and were passed over")
    return "\n".join(lines)


def as_page(held: Sequence[Held], unseen: Sequence[Held]) -> list[str]:
    """Markdown of the measurements of the content; arguments as for `as_data`."""
    return [
        "Every measurement under `profiles/measurements` against what the others predict of it.",
        "Ratios are predicted over measured; 1.00 is right. `configurator predictions` says the",
        "same, and how wrong it was of runs of your own.",
        "",
        "## Each without itself and its series",
        "",
        *_page_of(held),
        "",
        "## Each as if its model had never been measured",
        "",
        *_page_of(unseen),
    ]


def _page_of(held: Sequence[Held]) -> list[str]:
    lines = [
        "| quantity | n | median | worst | inside the range |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {w.quantity} | {w.count} | {w.median:.2f} | {w.worst:.2f} | {w.inside} of {w.count} |"
        for w in _by_kind(held)
    ]
    lines += [
        "",
        "| measurement | measured | predicted | ratio | inside |",
        "|---|---|---|---|---|",
    ]
    for each in held:
        c = each.compared
        scale, unit = (1e3, " ms") if c.unit == "s" else (1.0, "")
        name = each.measurement.name if c.unit == "s" else f"{each.measurement.name}, {c.quantity}"
        lines.append(
            f"| {name} | {c.measured * scale:.2f}{unit} | {c.value * scale:.2f} ("
            f"{c.low * scale:.2f} to {c.high * scale:.2f}){unit} | {c.ratio:.2f} | "
            f"{'yes' if c.inside else 'no'} |"
        )
    return lines


def _measurements(held: Sequence[Held]) -> dict[str, Any]:
    return {
        "errors": [_wrong(each) for each in _by_kind(held)],
        "each": [_held(each) for each in held],
    }


def _by_kind(held: Sequence[Held]) -> tuple[Wrong, ...]:
    """All times together, then plain steps, then those that speculate, then break-evens."""
    times = [each for each in held if each.compared.unit == "s"]
    groups = {
        "time a token": times,
        "time a token, plain": [each for each in times if each.measurement.accepted is None],
        "time a token, speculation": [each for each in times if each.measurement.accepted],
        "break-even": [each for each in held if each.compared.unit != "s"],
    }
    return tuple(
        Wrong(name, each.count, each.median, each.worst, each.inside)
        for name, group in groups.items()
        for each in errors_of(one.compared for one in group)
    )


def _table(errors: Sequence[Wrong]) -> list[str]:
    width = max((len(each.quantity) for each in errors), default=0)
    return [
        f"  {each.quantity:<{width}}  n {each.count:>3}  predicted/measured: median "
        f"{each.median:.2f}, worst {each.worst:.2f}; {each.inside} of {each.count} inside the range"
        for each in errors
    ]


def _line(held: Held) -> str:
    what = "" if held.compared.unit == "s" else f"{held.compared.quantity}: "
    return f"  {held.measurement.name:<42} {what}{_of(held.compared)}"


def _run(record: Record) -> list[str]:
    accepted = "" if record.accepted is None else f", {record.accepted:.2f} tokens a step"
    host = printable(record.host) or "a host without a name"
    lines = [
        f"  {printable(record.deployment)} on {host}, batch {record.batch}{accepted} "
        f"({printable(record.date)})"
    ]
    lines += [f"    {each.quantity:<16} {_of(each)}" for each in record.compared]
    return lines + [f"    {printable(doubt)}" for doubt in record.doubts]


def _of(compared: Compared) -> str:
    scale, unit = (1e3, "ms") if compared.unit == "s" else (1.0, compared.unit)
    low, value, high, measured = (
        number * scale
        for number in (compared.low, compared.value, compared.high, compared.measured)
    )
    seen = f"{_short(measured)} {unit}".rstrip()
    return (
        f"measured {seen}, predicted {_short(value)} ({_short(low)} to "
        f"{_short(high)}), ratio {compared.ratio:.2f}{'' if compared.inside else ', outside'}"
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _wrong(wrong: Wrong) -> dict[str, Any]:
    return {
        "quantity": wrong.quantity, "n": wrong.count, "median": wrong.median,
        "worst": wrong.worst, "inside": wrong.inside,
    }  # fmt: skip


def _held(held: Held) -> dict[str, Any]:
    compared, measurement = held.compared, held.measurement
    return {
        "name": measurement.name, "measured_by": measurement.measured_by,
        "quantity": compared.quantity, "unit": compared.unit, "low": compared.low,
        "value": compared.value, "high": compared.high, "measured": compared.measured,
        "ratio": compared.ratio, "inside": compared.inside, "rests_on": list(held.rests_on),
    }  # fmt: skip
