"""The second opinion of another program beside ours, in a terminal."""

from __future__ import annotations

from configurator.plan.diff import kv_per_token
from configurator.plan.opinion import PROGRAM, Opinion
from configurator.report.plan_rows import Row, Sources, print_rows
from configurator.report.plan_sheet import Sheet
from configurator.report.plan_values import UNKNOWN, said
from configurator.report.terminal import heading, paragraph


def print_opinion(sheet: Sheet, opinion: Opinion, sources: Sources) -> None:
    """Each figure that both have, theirs and ours."""
    heading(f"second opinion: {PROGRAM}")
    if opinion.note:
        paragraph(opinion.note, "  ")
        return
    plan = sheet.plan
    plain = plan.step.plain if plan.step is not None else None
    pairs = (
        ("plain decode", opinion.per_token, plain),
        ("weights a GPU", opinion.weights, plan.geometry.weights),
        ("KV bytes a token", opinion.kv_per_token, kv_per_token(plan.geometry)),
    )
    print_rows([
        Row(name, f"{said(theirs)}; ours {said(ours) if ours is not None else UNKNOWN}",
            sources.mark(theirs.source).strip())
        for name, theirs, ours in pairs if theirs is not None
    ])  # fmt: skip
