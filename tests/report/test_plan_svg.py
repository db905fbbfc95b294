"""The picture of a plan: well formed, within its frame, the same each time, and without secrets."""

from __future__ import annotations

import dataclasses
import sys
from itertools import pairwise
from xml.etree import ElementTree

import plans
import pytest

from configurator.errors import ConfiguratorError
from configurator.plan.figures import between
from configurator.plan.model import Plan, SpeedUp
from configurator.report.plan_png import png
from configurator.report.plan_svg import WIDTH, plan_svg
from configurator.report.svg import Canvas, fitted, wide

NS = "{http://www.w3.org/2000/svg}"
PLACE = "dgx-spark, 1 replica of 1 GPU"


def drawn(plan: Plan) -> ElementTree.Element:
    return ElementTree.fromstring(plan_svg(plan, PLACE))


def words(picture: ElementTree.Element) -> list[str]:
    return [(element.findtext(f"{NS}title") and element[0].tail) or element.text or ""
            for element in picture.iter(f"{NS}text")]  # fmt: skip


def test_it_says_what_it_is_and_needs_nothing() -> None:
    text = plan_svg(plans.plan(), PLACE)
    picture = ElementTree.fromstring(text)
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == "plan-title plan-desc"
    assert picture.findtext(f"{NS}title") == "Plan of ling-3.0-flash-spark"
    described = picture.findtext(f"{NS}desc") or ""
    assert "Memory of one GPU, 129.9 GB: weights 67.3 GB" in described
    assert "breaks even at 2.05 (1.80 to 2.40)" in described
    assert "<script" not in text
    assert "href" not in text
    assert "prefers-color-scheme: dark" in text


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert plan_svg(plans.plan(), PLACE) == plan_svg(plans.plan(), PLACE)


def test_shares_are_as_wide_as_they_are_large() -> None:
    picture = drawn(plans.plan())
    bars = {
        title.text.split(" ")[0]: float(bar.get("width", ""))
        for bar in picture.iter(f"{NS}rect")
        if (title := bar.find(f"{NS}title")) is not None and title.text
        and bar.get("height") == "34"
    }  # fmt: skip
    assert bars["weights"] / bars["free"] == pytest.approx(67.3 / 26.1, rel=0.01)
    assert sum(bars.values()) == pytest.approx(WIDTH - 48, abs=1)


def test_the_asked_fraction_stands_where_it_ends() -> None:
    assert "--mem-fraction-static 0.68" in words(drawn(plans.plan()))
    line = next(e for e in drawn(plans.plan()).iter(f"{NS}line") if e.get("class") == "pl-dash")
    assert float(line.get("x1", "")) == pytest.approx(
        24 + 0.68 * (129.9 - 12) / 129.9 * (WIDTH - 48), abs=0.1
    )


def test_more_than_there_is_goes_beyond_the_mark() -> None:
    memory = plans.memory()
    more = dataclasses.replace(memory.shares[-1], name="more KV", kind="kv", size=plans.size(60))
    picture = drawn(plans.plan(memory=plans.memory(fits=False, shares=(*memory.shares, more))))
    assert "129.9 GB is all there is" in words(picture)
    (over,) = [e for e in picture.iter(f"{NS}rect") if e.get("class") == "pl-over"]
    assert float(over.get("width", "")) == pytest.approx((WIDTH - 48) * 60 / 189.8, rel=0.02)


def test_reads_follow_one_another() -> None:
    picture = drawn(plans.plan())
    bars = [
        (float(e.get("x", "")), float(e.get("width", "")))
        for e in picture.iter(f"{NS}rect") if e.get("class") == "pl-blue"
    ]  # fmt: skip
    assert len(bars) == 6
    for (x, width), (following, _) in pairwise(bars):
        assert following == pytest.approx(x + width, abs=0.3)


def test_break_even_and_acceptance_are_marked() -> None:
    said = words(drawn(plans.plan()))
    assert "breaks even at 2.05 (1.80 to 2.40) accepted" in said
    assert "at 2.68 accepted: 1.12 to 1.49 x" in said
    far = plans.step(ratio=between(5.0, 6.0, 7.0, "", "", ""))
    outside = [text for text in words(drawn(plans.plan(step=far))) if "outside" in text]
    assert outside == ["breaks even at 6 (5 to 7) accepted (outside of the picture)"]


def test_what_is_not_known_is_said_and_not_drawn() -> None:
    said = words(drawn(plans.unknown_plan()))
    assert "Memory: not known" in said
    assert "Decode step: not known" in said
    one = plans.step(curve=(SpeedUp(1.0, 0.4, 0.5, 0.6),))
    assert "Speed-up by speculation over plain decode" in words(drawn(plans.plan(step=one)))
    lost = plans.step(step=None, curve=(), passes=plans.step().passes[:1])
    said = words(drawn(plans.plan(step=lost)))
    head = "Decode, batch 1 at 8,192 tokens, without the draft: its passes are not known"
    assert head in said


@pytest.mark.parametrize("plan", [plans.plan(), plans.unknown_plan()])
@pytest.mark.parametrize("name", ["a", "long-" * 60, "WWWWWWWWWWWWWWWW" * 8])
def test_no_text_leaves_the_picture(plan: Plan, name: str) -> None:
    shares = tuple(
        dataclasses.replace(share, name=f"{name} {share.name}") for share in plans.memory().shares
    )
    memory = plans.memory(shares=shares) if plan.memory is not None else None
    picture = drawn(dataclasses.replace(plan, name=name, memory=memory))
    height = float(picture.get("height", ""))
    for element in picture.iter(f"{NS}text"):
        text = (element[0].tail if len(element) else element.text) or ""
        kind, x = element.get("class", ""), float(element.get("x", ""))
        room = wide(text, kind)
        left = {"middle": x - room / 2, "end": x - room}.get(element.get("text-anchor", ""), x)
        assert left >= 0, text
        assert left + room <= WIDTH, text
        assert 0 < float(element.get("y", "")) < height


def test_texts_are_escaped_cut_and_redacted() -> None:
    canvas = Canvas(100)
    canvas.text(0, 10, "<script>&", room=90)
    canvas.text(0, 30, "a text that is much too long for it", room=60)
    canvas.text(0, 50, "--api-key sk-abcdefghijklmnop1234567890")
    text = canvas.document(60, "t", "d")
    assert "&lt;script&gt;&amp;" in text
    assert "<title>a text that is much too long for it</title>a text…" in text
    assert "sk-abcdefghijklmnop" not in text
    assert fitted("short", 100) == "short"


def test_a_png_is_drawn() -> None:
    data = png(plan_svg(plans.plan(), PLACE))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width = int.from_bytes(data[16:20], "big")
    assert width == 2 * WIDTH


def test_without_the_library_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ConfiguratorError) as caught:
        png("<svg/>")
    (problem,) = caught.value.problems
    assert problem.code == "PLN005"
    assert "pip install 'serving-configurator[plot]'" in problem.remedy


def test_a_png_without_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    blank = types.SimpleNamespace(svg_to_bytes=lambda svg_string, zoom: b"the same")
    monkeypatch.setitem(sys.modules, "resvg_py", blank)
    with pytest.raises(ConfiguratorError, match="no font"):
        png("<svg/>")
