"""A plan for people in a terminal: the verdict first, then memory, decode step and claims."""

from __future__ import annotations

import click

from configurator.report.plan_blocks import blocks_of
from configurator.report.plan_rows import Sources, print_block
from configurator.report.plan_sheet import Outcome, Sheet, decoding, outcome
from configurator.report.terminal import UNVERIFIED, heading, paragraph

_COLOURS = {"fits": "green", "does not fit": "red", "cannot be told": "yellow"}


def print_plan(sheet: Sheet, *, verbose: bool = False) -> None:
    """Everything of one plan; formulas in the last column, sources numbered at the end.

    Args:
        sheet: what is told.
        verbose: also the formula of every part of the model and of every read.
    """
    sources = Sources()
    print_head(sheet)
    for block in blocks_of(sheet, sources, verbose=verbose):
        print_block(block)
    print_sources(sources)
    if not verbose:
        click.echo("\nformulas of every part and read: --verbose")


def print_head(sheet: Sheet) -> None:
    """What it is about, whether it fits, and what validation says of it."""
    note = f" [{UNVERIFIED}]" if sheet.status == "unverified" else ""
    click.secho(f"{sheet.plan.name} on {sheet.place}{note}", bold=True)
    verdict = outcome(sheet.plan)
    _print_outcome(verdict)
    if sheet.plan.step is not None:
        paragraph(decoding(sheet.plan.step), "")
    memory = sheet.plan.memory
    for remark in memory.remarks if memory is not None else ():
        if remark != verdict.sentence:
            paragraph(remark, "  - ")
    if sheet.refused:
        paragraph(
            f"validation refuses it ({', '.join(sheet.refused)}): "
            f"configurator validate {sheet.argument}",
            "  - ",
        )


def _print_outcome(verdict: Outcome) -> None:
    word = verdict.word if verdict.word != "cannot be told" else "cannot be told whether it fits"
    paragraph(f"{word}: {verdict.sentence}", "", fg=_COLOURS[verdict.word], bold=True)


def print_sources(sources: Sources) -> None:
    """The sources that figures are marked with."""
    if not sources.numbers:
        return
    heading("sources")
    for text, number in sources.numbers.items():
        paragraph(text, f"  [{number}] ", dim=True)
