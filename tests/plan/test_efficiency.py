"""The share of the bandwidth and what is beside it, from the nearest measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configurator.content import Library
from configurator.plan.efficiency import HABIT, REST_SPREAD, Plain, at_most, efficiency_of
from configurator.plan.figures import exact

H200 = Library().hardware("h200")
SPARK = Library().hardware("dgx-spark")


def plain(name: str, share: float, hardware: str = "dgx-spark", model: str = "m") -> Plain:
    """A step of 273 GB at 273 GB/s, so that it takes 1 / share seconds."""
    return Plain(name, hardware, model, 1 / share, 273e9, 10, 273)


def test_without_a_measurement_only_habit_is_left_and_says_so() -> None:
    found = efficiency_of(SPARK, "m", [])
    assert (found.share.low, found.share.value, found.share.high) == HABIT
    assert "not measured on this hardware" in found.share.formula
    assert (found.rests_on, found.layer.value, found.host) == ((), 0.0, "")


def test_of_unmeasured_hardware_anything_seen_elsewhere_may_be_beside_the_bytes() -> None:
    slow = replace(plain("slow", 0.2), hardware="h200")
    fast = replace(plain("fast", 0.7), hardware="h200")
    found = efficiency_of(SPARK, "m", [slow, fast])
    assert found.rests_on == ()
    assert found.layer.low == 0.0
    assert found.layer.high == pytest.approx(slow.rest)
    assert slow.rest == pytest.approx((1 / 0.2 - 1 / 0.7) / 10)


def test_a_share_above_the_least_is_taken_as_measured() -> None:
    found = efficiency_of(SPARK, "m", [plain("a", 0.66)])
    assert found.share.value == pytest.approx(0.66)
    assert found.share.low == pytest.approx(0.66 * 0.60 / 0.70)
    assert found.share.high == pytest.approx(0.66 * 0.82 / 0.70)
    assert (found.layer.value, found.rests_on) == (0.0, ("a",))


def test_a_small_share_is_not_read_as_slow_memory() -> None:
    found = efficiency_of(SPARK, "m", [plain("a", 0.1)])
    assert found.share.value == 0.70
    rest = (10 - 1 / 0.7) / 10
    assert found.layer.value == pytest.approx(rest)
    assert found.layer.low == pytest.approx(rest / REST_SPREAD)
    assert found.layer.high == pytest.approx(rest * REST_SPREAD)


def test_several_measurements_give_their_median_and_their_ends() -> None:
    found = efficiency_of(SPARK, "m", [plain("a", 0.60), plain("b", 0.66), plain("c", 0.90)])
    assert found.share.value == pytest.approx(0.66)
    assert found.share.low == pytest.approx(0.66 * 0.60 / 0.70)
    assert found.share.high == pytest.approx(0.90)


def test_no_share_is_above_the_bandwidth_unless_it_was_measured() -> None:
    assert efficiency_of(SPARK, "m", [plain("a", 0.95)]).share.high == 1.0


def test_times_with_prefills_in_them_count_where_nothing_else_is_as_near() -> None:
    mixed = replace(plain("mixed", 0.65), prefills=True)
    far = plain("far", 0.80, model="x")
    assert efficiency_of(SPARK, "m", [mixed, far]).rests_on == ("mixed",)
    assert efficiency_of(SPARK, "m", [mixed, plain("clean", 0.7), far]).rests_on == ("clean",)


def test_the_nearest_measurements_count_alone() -> None:
    other = plain("other model", 0.80, model="x")
    same = plain("same model", 0.70)
    own = replace(plain("own", 0.62, model="x"), host="mine")
    elsewhere = plain("elsewhere", 0.90, hardware="h200")
    every = [elsewhere, other, same, own]
    assert efficiency_of(SPARK, "m", every).rests_on == ("own",)
    assert efficiency_of(SPARK, "m", every).host == "mine"
    assert efficiency_of(SPARK, "m", every[:3]).rests_on == ("same model",)
    assert efficiency_of(SPARK, "m", every[:2]).rests_on == ("other model",)
    assert efficiency_of(SPARK, "m", every[:1]).rests_on == ()
    assert efficiency_of(H200, "m", every).rests_on == ("elsewhere",)


def test_no_step_reads_faster_than_the_host_does() -> None:
    found = efficiency_of(SPARK, "m", [])
    assert at_most(found, None, 273) == found
    assert at_most(found, exact(250, "GB/s", "read", "here"), 273) == found
    slow = at_most(found, exact(0.65 * 273, "GB/s", "read", "here"), 273)
    assert (slow.share.low, slow.share.value, slow.share.high) == pytest.approx((0.60, 0.65, 0.65))
    assert "at most 0.65, for this host reads 177 of 273 GB/s" in slow.share.formula
    assert slow.share.source.endswith("here")
    lame = at_most(found, exact(27.3, "GB/s", "read", "here"), 273)
    assert (lame.share.low, lame.share.high) == pytest.approx((0.1, 0.1))
