"""The matrix as data: twins, cases, and what a case takes from its twin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError
from configurator.judge import expectation_from
from configurator.loader import Validators
from configurator.selftest.engine import RIG
from configurator.selftest.matrix import Matrix, Trial, load_matrix

MATRIX = load_matrix()
CASES = [test for test in MATRIX.tests if not test.healthy]


def test_every_kind_of_sabotage_has_a_case() -> None:
    assert len(CASES) >= 34
    assert len(MATRIX.tests) - len(CASES) >= 9
    assert len(MATRIX.starts()) < len(MATRIX.tests)


@pytest.mark.parametrize("test", MATRIX.tests, ids=lambda test: test.name)
def test_questions_and_expectations_name_probes(test: Trial, validators: Validators) -> None:
    asked = {expectation_from(text, validators.probes).mechanism for text in test.ask}
    invariants = {name for name, probe in validators.probes.items() if probe.kind == "invariant"}
    assert set(test.expect) <= asked | invariants


@pytest.mark.parametrize("test", MATRIX.tests, ids=lambda test: test.name)
def test_sabotages_exist_in_the_plugin(test: Trial) -> None:
    source = (RIG / "sabotage" / "configurator_sabotage.py").read_text()
    names = re.findall(r'^    "([a-z0-9-]+)": ', source, re.MULTILINE)
    assert test.start.sabotage in ("", *names)


@pytest.mark.parametrize("test", MATRIX.tests, ids=lambda test: test.name)
def test_what_only_pretends_a_gpu_is_labelled(test: Trial) -> None:
    asks = any(text.startswith("nvidia-megakernel") for text in test.ask)
    label = "contract in-process, pretended platform" if asks else ""
    assert test.label == label
    assert asks or not test.start.megakernel
    assert asks == ("--enable-nvidia-megakernel" in test.start.flags)


def test_the_megakernels_contract_is_seen_to_cover_all_some_and_none() -> None:
    contract = [test for test in MATRIX.tests if test.label]
    assert len([test for test in contract if test.healthy]) >= 7
    assert len([test for test in contract if not test.healthy]) >= 12
    variants = {test.start.megakernel for test in contract}
    source = (RIG / "megakernel" / "configurator_megakernel.py").read_text()
    names = re.findall(r'^    "([a-z0-9-]+)": Variant', source, re.MULTILINE)
    assert variants - {""} == set(names)
    assert {"covers-all", "covers-some", "covers-none"} <= variants


@pytest.mark.parametrize("test", CASES, ids=lambda test: test.name)
def test_every_case_differs_from_its_twin_and_expects_a_difference(test: Trial) -> None:
    twin = MATRIX.by_name[test.twin]
    assert twin.healthy
    assert (test.start, test.view, test.ask) != (twin.start, twin.view, twin.ask)
    answers = {expected.answer for expected in test.expect.values()}
    assert answers & {"REFUTED", "INCONCLUSIVE"} or test.server != "ready"


@pytest.mark.parametrize("test", MATRIX.tests, ids=lambda test: test.name)
def test_a_healthy_server_is_expected_to_be_proven(test: Trial) -> None:
    if test.healthy:
        assert {expected.answer for expected in test.expect.values()} == {"PROVEN"}
        assert test.server == "ready"


def test_models_of_the_matrix_are_made() -> None:
    source = (RIG / "make_models.py").read_text()
    for test in MATRIX.tests:
        stem = test.start.model.removeprefix("mtp-")
        assert f'"{stem}"' in source, test.start.model


def test_only_takes_the_twins_along() -> None:
    few = MATRIX.only(["draft-weak"])
    assert [test.name for test in few.tests] == ["standalone", "draft-weak"]


def test_only_an_unknown_name() -> None:
    with pytest.raises(ConfiguratorError, match=r"no case is named 'draft-week'.*draft-weak"):
        MATRIX.only(["draft-week"])


YAML = """
twins:
  plain:
    about: plain
    label: no GPU
    start: {model: good, flags: --a 1, env: {A: 1}, megakernel: covers-all}
    view: {level: 2}
    ask: [draft-used]
    expect: {draft-used: PROVEN executed}
cases:
  added:
    twin: plain
    about: more flags
    start: {flags: --b 2, env: {B: 2}, rank: tp1}
    view: {passive: true}
    expect: {draft-used: {answer: INCONCLUSIVE, says: no request}}
  replaced:
    twin: plain
    about: other flags
    start: {only_flags: --c, megakernel: ""}
    ask: [draft-tokens=4]
    expect: {draft-tokens: {answer: REFUTED, lacks: [accepted, a floor]}}
  alike:
    twin: plain
    about: the same server
    ask: [draft-tokens=5]
    expect: {draft-tokens: REFUTED}
"""


@pytest.fixture
def small(tmp_path: Path) -> Matrix:
    path = tmp_path / "cases.yaml"
    path.write_text(YAML)
    return load_matrix(path)


def test_a_case_adds_to_its_twin(small: Matrix) -> None:
    test = small.by_name["added"]
    assert test.start.flags == ("--a", "1", "--b", "2")
    assert test.start.env == (("A", "1"), ("B", "2"))
    assert (test.start.model, test.start.rank) == ("good", "tp1")
    assert (test.view.level, test.view.passive) == (2, True)
    assert test.ask == ("draft-used",)
    assert test.expect["draft-used"].says == "no request"
    assert test.expect["draft-used"].lacks == ()
    assert (test.label, test.start.megakernel) == ("no GPU", "covers-all")


def test_a_case_can_replace_flags_and_questions(small: Matrix) -> None:
    test = small.by_name["replaced"]
    assert test.start.flags == ("--c",)
    assert test.start.env == (("A", "1"),)
    assert test.ask == ("draft-tokens=4",)
    assert test.expect["draft-tokens"].lacks == ("accepted", "a floor")
    assert (test.label, test.start.megakernel) == ("no GPU", "")


def test_rungs_are_read(small: Matrix) -> None:
    expected = small.by_name["plain"].expect["draft-used"]
    assert (expected.answer, expected.rung) == ("PROVEN", "executed")


def test_the_same_start_is_one_server(small: Matrix) -> None:
    names = [[test.name for test in tests] for tests in small.starts().values()]
    assert names == [["plain", "alike"], ["added"], ["replaced"]]
