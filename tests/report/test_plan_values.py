"""Figures as people read them."""

from __future__ import annotations

import math

import pytest

from configurator.plan.figures import Figure, between, exact
from configurator.report.plan_values import amount, per_second, said, span


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (exact(62.9e9, "B", "", ""), "62.9 GB"),
        (exact(12e9, "B", "", ""), "12.0 GB"),
        (exact(1.7e9, "B", "", ""), "1.70 GB"),
        (exact(8.26e6, "B", "", ""), "8.26 MB"),
        (exact(373, "B", "", ""), "373 B"),
        (exact(8064, "B/token", "", ""), "8,064 B/token"),
        (exact(262_144, "tokens", "", ""), "262,144 tokens"),
        (exact(2.68, "tokens", "", ""), "2.68 tokens"),
        (exact(1, "", "", ""), "1"),
        (exact(0, "s", "", ""), "0"),
        (exact(0, "B", "", ""), "0 B"),
        (between(0.0145, 0.0174, 0.0206, "s", "", ""), "17.4 ms (14.5 to 20.6)"),
        (between(0, 20e-6, 185.3e-6, "s", "", ""), "20.0 us (0.00 to 185.3)"),
        (between(1.77, 2.06, 2.41, "", "", ""), "2.06 (1.77 to 2.41)"),
        (between(48.5, 57.5, 1069.1, "tok/s", "", ""), "57.5 tok/s (48.5 to 1,069)"),
    ],
)
def test_a_figure_has_its_unit_once_and_its_range(figure: Figure, text: str) -> None:
    assert said(figure) == text


def test_what_is_not_known_is_not_0() -> None:
    nan = Figure(math.nan, "B", "", "", math.nan, math.nan)
    assert said(None) == said(nan) == span(None) == "not known"
    assert said(Figure(1.0, "s", "", "", 0.0, math.inf)) == "not known"


def test_a_range_alone_and_one_number() -> None:
    assert span(between(0.0145, 0.0174, 0.0206, "s", "", "")) == "14.5 to 20.6 ms"
    assert span(exact(0.68, "", "", "")) == "0.68"
    assert amount(8.064e9, "B") == "8.06 GB"


def test_a_rate_turns_the_range_around() -> None:
    rate = per_second(between(0.010, 0.0125, 0.020, "s", "", "measured"))
    assert (rate.low, rate.value, rate.high) == (50.0, 80.0, 100.0)
    assert rate.source == "measured"
