"""Parts of a plan's report as data, and as a terminal shows them.

A row has a label, a value, and in a third column what it stands on.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from configurator.plan.figures import Figure
from configurator.report.findings import printable
from configurator.report.plan_values import said
from configurator.report.terminal import heading, paragraph

_LEAST_NOTE = 34
"""Characters for the third column, below which it gets lines of its own."""
_SHORT = 6
_LONGEST_LABEL = 36
_LONGEST_VALUE = 32


@dataclass(slots=True)
class Sources:
    """Every source once, by a number that stands behind the figures."""

    numbers: dict[str, int] = field(default_factory=dict)

    def mark(self, source: str) -> str:
        """` [3]`; empty where no source is given."""
        text = " ".join(source.split())
        return f" [{self.numbers.setdefault(text, len(self.numbers) + 1)}]" if text else ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    label: str
    value: str
    note: str = ""
    """What it stands on; shown dim."""
    depth: int = 0
    """How far it is set in."""


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a report: any of a table of rows, a table of numbers and sentences."""

    title: str
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()
    cells: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The name of each line of the table of numbers, and a text for each column."""
    lines: tuple[str, ...] = ()
    level: int = 2
    """3: it belongs to the block before."""


def print_block(block: Block) -> None:
    """A block with its title over it."""
    if block.level == 2:
        heading(block.title)
    elif block.title:
        paragraph(block.title, "  ")
    print_rows(block.rows)
    if block.cells:
        click.echo()
        print_matrix(block.columns, block.cells)
    for line in block.lines:
        paragraph(line, "  - ")


def stands_on(figure: Figure | None, sources: Sources) -> str:
    """The formula and the number of the source."""
    if figure is None:
        return ""
    return f"{figure.formula}{sources.mark(figure.source)}".strip()


def figure_row(label: str, figure: Figure | None, sources: Sources, depth: int = 0) -> Row:
    """A figure with what it stands on; `not known` without one."""
    return Row(label, said(figure), stands_on(figure, sources), depth)


def width() -> int:
    """Columns to write in: those of the terminal, from 60 to 120."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 120))


def print_rows(rows: Sequence[Row]) -> None:
    """A table whose columns are as wide as they need to be.

    What does not fit beside the value stands below it. Control characters become spaces.
    """
    labels = min(max((len(_lead(row)) for row in rows), default=0), _LONGEST_LABEL)
    values = [
        len(row.value)
        for row in rows
        if len(row.note) > _SHORT and len(row.value) <= _LONGEST_VALUE
    ]
    column = labels + 2 + max(values, default=0) + 2
    for row in rows:
        _print_row(row, labels, column)


def print_matrix(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Numbers under each other: a row has its name and one text for each column.

    Where the terminal is too narrow for all columns they go into several tables.
    """
    labels = max([len(name) for name, _ in rows], default=0) + 4
    cells = [
        max(len(column), *(len(texts[index]) for _, texts in rows)) + 2
        for index, column in enumerate(columns)
    ]
    first = 0
    while first < len(columns):
        last = first + 1
        while last < len(columns) and labels + sum(cells[first : last + 1]) <= width():
            last += 1
        shown = range(first, last)
        head = "".join(f"{columns[i]:>{cells[i]}}" for i in shown)
        click.secho(f"{'':<{labels}}{head}", dim=True)
        for name, texts in rows:
            line = "".join(f"{texts[i]:>{cells[i]}}" for i in shown)
            click.echo(f"{f'  {name}':<{labels}}{line}".rstrip())
        first = last


def _lead(row: Row) -> str:
    return f"{'  ' * (row.depth + 1)}{_one_line(row.label)}"


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _print_row(row: Row, labels: int, column: int) -> None:
    wide = width()
    lead = _lead(row)
    head = f"{lead:<{labels}}  " if row.value else lead
    value, note = _one_line(row.value), _one_line(row.note)
    if len(note) <= _SHORT:
        # The number of a source alone stands behind its figure.
        value, note = f"{value} {note}".rstrip(), ""
    lines = _wrapped(value, head, " " * (labels + 2), wide) if value else [head]
    beside = wide - column >= _LEAST_NOTE and len(lines) == 1 and len(lines[0]) + 2 <= column
    if note and beside:
        first, *rest = _wrapped(note, " " * column, " " * column, wide)
        click.echo(f"{lines[0]:<{column}}{click.style(first[column:], dim=True)}")
        lines = [click.style(line, dim=True) for line in rest]
    elif note:
        inset = " " * min(labels + 2, 14)
        notes = _wrapped(note, inset, inset, wide)
        lines += [click.style(line, dim=True) for line in notes]
    for line in lines:
        click.echo(line.rstrip())


def _wrapped(text: str, lead: str, inset: str, wide: int) -> list[str]:
    return textwrap.wrap(
        text, wide, initial_indent=lead, subsequent_indent=inset,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
