"""The arithmetic between published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.errors import ConfiguratorError
from configurator.plan.consistency import Checked, consistency, of_claims

FILE = """apiVersion: configurator/v1
kind: Claims
name: mine
summary: Mine
runs:
  one:
    summary: A run
    conditions: {model: qwen3-8b, hardware: NVIDIA H200, workload: {kind: not stated}}
    measured_by: me
    reproduced: no
    source: my notes
claims:
  - {id: rate, run: one, quantity: decode throughput, figure: f, value: 100, unit: tok/s}
  - {id: step, run: one, quantity: step time, figure: f, value: 30, unit: ms}
  - {id: part, run: one, quantity: part of a step, figure: f, value: 9000, unit: us}
  - {id: accepted, run: one, quantity: acceptance length, figure: f, value: 3, unit: tokens}
  - {id: gain, run: one, quantity: gain, figure: f, value: 50, unit: "%"}
  - {id: loss, run: one, quantity: gain, figure: f, value: -20, unit: "%"}
  - {id: zero, run: one, quantity: count, figure: f, value: 0, unit: ""}
relations:
"""


def checked(folder: Path, relation: str) -> Checked:
    path = folder / "profiles" / "claims" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(f"{FILE}  - {{name: r, tolerance: 0.03, {relation}}}\n")
    (found,) = [c for c in consistency(Library([folder])) if c.entry == "mine"]
    return found


@pytest.mark.parametrize(
    ("relation", "left", "right", "holds", "text"),
    [
        ("kind: product, of: [rate, step], against: [accepted]", 3.0, 3.0, True,
         "100 tok/s x 30 ms = 3 tokens against 3 tokens: 0.0 % off, 3 % allowed"),
        ("kind: product, of: [rate, step], against: [2.9]", 3.0, 2.9, False,
         "100 tok/s x 30 ms = 3 against 2.9: 3.4 % off, 3 % allowed"),
        ("kind: sum, of: [part, part, 0.012], against: [step]", 0.03, 0.03, True,
         "9,000 us + 9,000 us + 0.012 = 30 ms against 30 ms: 0.0 % off, 3 % allowed"),
        ("kind: quotient, of: [accepted, step], against: [rate]", 100.0, 100.0, True,
         "3 tokens / 30 ms = 100 tok/s against 100 tok/s: 0.0 % off, 3 % allowed"),
        ("kind: quotient, of: [step, part], against: [10, accepted]", 10 / 3, 10 / 3, True,
         "30 ms / 9,000 us = 3.333 against 10 / 3 tokens = 3.333: 0.0 % off, 3 % allowed"),
        ("kind: gain, of: [150, rate], against: [gain]", 1.5, 1.5, True,
         "150 / 100 tok/s = 1.5 against +50 % = 1.5: 0.0 % off, 3 % allowed"),
        ("kind: gain, of: [75, rate], against: [loss]", 0.75, 0.8, False,
         "75 / 100 tok/s = 0.75 against -20 % = 0.8: 6.3 % off, 3 % allowed"),
        ("kind: rest, of: [gain, accepted, 2], against: [loss, accepted, 2]", 1.0, 0.8 / 1.5,
         False, "(1 + 50 %) / (3 tokens / 2) = 1 against (1 - 20 %) / (3 tokens / 2) = 0.5333: "
         "87.5 % off, 3 % allowed"),
        ("kind: latency, of: [0.5, 50, rate], against: [1]", 1.0, 1.0, True,
         "0.5 + 50 / 100 tok/s = 1 against 1: 0.0 % off, 3 % allowed"),
        ("kind: equal, of: [part], against: [step]", 0.009, 0.03, False,
         "9,000 us against 30 ms: 70.0 % off, 3 % allowed"),
        ("kind: at most, of: [accepted], against: [4]", 3.0, 4.0, True,
         "3 tokens against at most 4"),
        ("kind: at most, of: [accepted], against: [2]", 3.0, 2.0, False,
         "3 tokens against at most 2"),
    ],
)  # fmt: skip
def test_the_arithmetic(
    relation: str, left: float, right: float, holds: bool, text: str, tmp_path: Path
) -> None:
    found = checked(tmp_path, relation)
    assert [found.left, found.right] == pytest.approx([left, right])
    assert found.holds is holds
    assert found.text == text


def test_the_tolerance_itself_is_allowed(tmp_path: Path) -> None:
    assert checked(tmp_path, "kind: equal, of: [1.03], against: [1]").holds


@pytest.mark.parametrize(
    ("relation", "code", "message"),
    [
        ("kind: product, of: [rate, stp], against: [1]", "REF001", "no claim is named 'stp'"),
        ("kind: quotient, of: [rate, zero], against: [1]", "SCH007",
         "'r' cannot be computed"),
        ("kind: equal, of: [rate], against: [zero]", "SCH007",
         "'r' cannot be computed"),
        ("kind: product, of: [1.0e+300, 1.0e+300], against: [1]", "SCH007",
         "'r' cannot be computed"),
        ("kind: rest, of: [gain, zero, 2], against: [1]", "SCH007",
         "'r' cannot be computed"),
    ],
)  # fmt: skip
def test_a_relation_that_cannot_be_computed_is_refused_with_its_place(
    relation: str, code: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        checked(tmp_path, relation)
    (problem,) = caught.value.problems
    assert (problem.code, problem.message) == (code, message)
    assert problem.position is not None
    assert (Path(problem.position.file).name, problem.position.line) == ("mine.yaml", 21)


def test_the_relations_of_a_claim() -> None:
    found = of_claims(["muse-megakernel-decode-1109"], consistency(Library()))
    assert [c.relation.name for c in found] == [
        "throughput x step time = tokens accepted",
        "ratio of step times = ratio of throughputs",
        "ratio of throughputs as published",
        "throughput per GPU",
    ]
    assert of_claims(["none"], consistency(Library())) == ()
