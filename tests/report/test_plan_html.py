"""The page of a plan, and the plan on the page of a check."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import plans

from configurator.content import Library
from configurator.report.plan_html import plan_page, plan_view, planned_view
from configurator.report.plan_sheet import Sheet
from configurator.resolve import resolve

PLACE = "dgx-spark, 1 replica of 1 GPU"


class Ids(HTMLParser):
    """Ids and elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]


def test_the_page_has_the_verdict_the_picture_and_every_figure() -> None:
    page = plan_page(Sheet(plans.plan(), "mine.yaml", PLACE))
    seen = Ids()
    seen.feed(page)
    assert "Fits</span>" in page
    assert seen.tags.count("svg") == 1
    assert "script" not in seen.tags
    assert "41 x 31.3 of 512" in page
    assert "model entry ling-3.0-flash-fp4" in page
    assert len(seen.ids) == len(set(seen.ids))
    assert page == plan_page(Sheet(plans.plan(), "mine.yaml", PLACE))


def test_texts_of_others_are_escaped_and_redacted() -> None:
    share = dataclasses.replace(plans.memory().shares[0], name="<script>alert(1)</script>")
    memory = plans.memory(shares=(share,), breaks_first="token hf_abcdefghijklmnopqrst")
    page = plan_page(Sheet(plans.plan(memory=memory), "mine.yaml", PLACE, refused=("MEM101",)))
    assert "<script>" not in page
    assert "hf_abcdefghijklmnop" not in page
    assert "Validation refuses it: MEM101." in page


def test_what_cannot_be_told_is_said_on_the_page() -> None:
    view = plan_view(Sheet(plans.unknown_plan(), "mine.yaml", PLACE))
    assert (view.symbol, view.tone, view.exit_code) == ("?", "open", 0)


def test_a_deployment_that_ran_is_planned_for_its_page(library: Library) -> None:
    deployment = resolve(*library.profile("ling-3.0-flash-spark"), library)
    view = planned_view(deployment, library, "ling-3.0-flash-spark")
    assert view is not None
    assert view.place == PLACE
    titles = [block.title for block in view.blocks]
    assert any(title.startswith("decode step of 1 request") for title in titles)
    assert any(title.startswith("published figures of its model: ") for title in titles)
