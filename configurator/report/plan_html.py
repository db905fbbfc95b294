"""A plan as a page of its own, and as a section of the page of `check`.

No script, nothing fetched; every text is redacted and escaped on its way into the template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from configurator import __version__
from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.report.html_template import environment
from configurator.report.plan_blocks import blocks_of
from configurator.report.plan_rows import Block, Sources
from configurator.report.plan_sheet import Outcome, Sheet, decoding, outcome, place_of
from configurator.report.plan_svg import plan_svg

_SYMBOLS = {"fits": ("✓", "good"), "does not fit": ("✗", "bad"), "cannot be told": ("?", "open")}


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan as a template shows it."""

    name: str
    place: str
    unverified: bool
    verdict: Outcome
    symbol: str
    tone: str
    """`good`, `bad` or `open`."""
    decoding: str
    """What decoding comes to; empty: not known."""
    remarks: tuple[str, ...]
    picture: Any
    """The SVG, safe to be put in as it is."""
    blocks: tuple[Block, ...]
    sources: tuple[tuple[str, int], ...]
    """Each source with its number."""
    exit_code: int


def plan_view(sheet: Sheet) -> PlanView:
    """What a template needs of a plan, every formula included."""
    # The writer of the picture escapes its own texts.
    from markupsafe import Markup

    sources = Sources()
    blocks = tuple(blocks_of(sheet, sources, verbose=True))
    verdict = outcome(sheet.plan)
    symbol, tone = _SYMBOLS[verdict.word]
    memory = sheet.plan.memory
    refused = (f"Validation refuses it: {', '.join(sheet.refused)}.",) if sheet.refused else ()
    return PlanView(
        sheet.plan.name, sheet.place, sheet.status == "unverified", verdict, symbol, tone,
        decoding(sheet.plan.step) if sheet.plan.step is not None else "",
        (*refused, *(memory.remarks if memory is not None else ())),
        Markup(plan_svg(sheet.plan, sheet.place)), blocks, tuple(sources.numbers.items()),
        sheet.exit_code,
    )  # fmt: skip


def planned_view(deployment: Deployment, library: Library, argument: str) -> PlanView | None:
    """The plan of a deployment that ran, for the page of its check; None: it cannot be planned.

    Args:
        deployment: what was judged.
        library: the content that it was resolved from.
        argument: how the profile is named in commands.
    """
    from configurator.plan.claims import match
    from configurator.plan.planning import plan_of

    try:
        plan = plan_of(deployment, library)
        claims = match(deployment, library.claims().values())
    except ConfiguratorError:
        # A page of evidence is worth having without what was expected.
        return None
    status = deployment.profile.status
    return plan_view(Sheet(plan, argument, place_of(deployment), status, claims=claims))


def plan_page(sheet: Sheet) -> str:
    """The page."""
    text: str = (
        environment()
        .get_template("plan.html.j2")
        .render(plan=plan_view(sheet), version=__version__)
    )
    return text
