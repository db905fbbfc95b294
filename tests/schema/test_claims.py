"""Files of claims: what they must say, and where a mistake is placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.errors import ConfiguratorError, Problem
from configurator.schema.claims import stated, unstated

HEAD = "apiVersion: configurator/v1\nkind: Claims\nname: mine\nsummary: Mine\n"
RUN = """runs:
  one:
    summary: A run
    conditions: {model: qwen3-8b, hardware: NVIDIA H200, workload: {kind: not stated}}
    measured_by: me
    reproduced: no
    source: my notes
"""
CLAIM = "  - {id: mine-1, run: one, quantity: TPOT, figure: time, value: 5, unit: ms}\n"


def library(folder: Path, text: str) -> Library:
    path = folder / "profiles" / "claims" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return Library([folder])


def problem(folder: Path, text: str) -> Problem:
    with pytest.raises(ConfiguratorError) as caught:
        library(folder, text).claims()
    (found,) = caught.value.problems
    return found


def test_a_users_file_is_read_like_ours(tmp_path: Path) -> None:
    found = library(tmp_path, f"{HEAD}{RUN}claims:\n{CLAIM}").claims()
    mine = found["mine-1"]
    assert (mine.entry, mine.shown, mine.run.source) == ("mine", "5 ms", "my notes")
    assert mine.sample_text == "not stated"
    assert dict(stated(mine.conditions)) == {"model": "qwen3-8b", "hardware": "NVIDIA H200"}
    assert unstated(mine.conditions) == (
        "hosts", "gpus", "tensor", "batch size", "workload", "sampling", "mechanisms", "engine",
    )  # fmt: skip
    assert "muse-megakernel-decode-1109" in found


@pytest.mark.parametrize(
    ("old", "new", "code", "message", "line"),
    [
        ("    source: my notes\n", "", "SCH006", "'runs.one.source' is missing", 6),
        ("    source: my notes\n", '    source: ""\n', "SCH007", "runs.one.source is ''", 11),
        ("conditions:", "condition:", "SCH005", "unknown key 'runs.one.condition'", 8),
        ("workload: {kind: not stated}", "gpus: 1", "SCH006",
         "'runs.one.conditions.workload' is missing", 8),
        ("{model: qwen3-8b, hardware: NVIDIA H200, workload: {kind: not stated}}", "{}", "SCH006",
         "'runs.one.conditions.model' is missing", 8),
        ("    measured_by: me\n", "", "SCH006", "'runs.one.measured_by' is missing", 6),
        ("reproduced: no", "reproduced: maybe", "SCH007", "runs.one.reproduced is 'maybe'", 10),
        ("run: one, ", "", "SCH006", "'claims[0].run' is missing", 13),
        ("run: one, ", "run: on, ", "REF001", "no run is named 'on'", 13),
        ("quantity: TPOT", "quantity: speed", "SCH007", "claims[0].quantity is 'speed'", 13),
        ("value: 5,", "value: five,", "SCH007", "claims[0].value is 'five'", 13),
        ("unit: ms}", "unit: ms, to: 4}", "SCH007", "claims[0] is a mapping", 13),
        ("reproduced: no", "reproduced: yes", "SCH007", "runs.one is a mapping", 6),
        ("source: my notes", "source: my notes\n    date: May", "SCH007", "runs.one.date is 'May'",
         12),
        ("unit: ms}", "unit: ms, conditions: {mechanisms: [nextn-mpt]}}", "REF001",
         "no kernel is named 'nextn-mpt'", 13),
        ("kind: not stated}}", "kind: not stated}, without: [lm-head]}", "REF001",
         "no kernel is named 'lm-head'", 8),
        ("unit: ms}", "unit: ms, baseline: none-such}", "REF001",
         "the baseline 'none-such' of mine-1 is no claim", 13),
    ],
)  # fmt: skip
def test_what_a_figure_needs_is_refused_with_its_place(
    old: str, new: str, code: str, message: str, line: int, tmp_path: Path
) -> None:
    text = f"{HEAD}{RUN}claims:\n{CLAIM}"
    assert text.count(old) == 1
    problems: tuple[Problem, ...] = ()
    with pytest.raises(ConfiguratorError) as caught:
        library(tmp_path, text.replace(old, new)).claims()
    problems = caught.value.problems
    found = next(p for p in problems if p.message == message)
    assert found.code == code
    assert found.position is not None
    assert (Path(found.position.file).name, found.position.line) == ("mine.yaml", line)


def test_two_figures_of_one_id(tmp_path: Path) -> None:
    found = problem(tmp_path, f"{HEAD}{RUN}claims:\n{CLAIM}{CLAIM}")
    assert found.code == "REF006"
    assert "claim 'mine-1' is also in " in found.message
    assert found.position is not None
    assert found.position.line == 14


@pytest.mark.parametrize(
    ("relation", "fact"),
    [
        ("{name: r, kind: product, of: [1], against: [1], tolerance: 0.1}",
         "product takes at least 2 operands in 'of'"),
        ("{name: r, kind: rest, of: [1, 2], against: [1], tolerance: 0.1}",
         "rest takes 3 operands in 'of'"),
        ("{name: r, kind: gain, of: [1, 2], against: [1, 2, 3], tolerance: 0.1}",
         "gain takes 1 or 2 in 'against'"),
        ("{name: r, kind: at most, of: [1], against: [1, 2], tolerance: 0.1}",
         "at most takes 1 in 'against'"),
        ("{name: r, kind: sum, of: [1, 2], against: [1], tolerance: 0}", "greater than 0"),
    ],
)  # fmt: skip
def test_a_relation_takes_the_operands_of_its_arithmetic(
    relation: str, fact: str, tmp_path: Path
) -> None:
    text = f"{HEAD}{RUN}claims:\n{CLAIM}relations:\n  - {relation}\n"
    found = problem(tmp_path, text)
    assert found.code == "SCH007"
    assert fact in found.remedy
    assert found.position is not None
    assert found.position.line == 15


def test_a_figure_says_what_it_does_not_share_with_its_run(tmp_path: Path) -> None:
    shared = RUN.replace(
        "workload: {kind: not stated}",
        "tensor: 8, workload: {kind: dataset, text: GSM8K, sampling: {temperature: 0.6, top_p: 1}}",
    )
    own = CLAIM.replace(
        "unit: ms}",
        "unit: ms, conditions: {gpus: 2, workload: {kind: dataset, sampling: {temperature: 0}}}}",
    )
    conditions = library(tmp_path, f"{HEAD}{shared}claims:\n{own}").claims()["mine-1"].conditions
    assert (conditions.gpus, conditions.tensor, conditions.model) == (2, 8, "qwen3-8b")
    assert conditions.workload.text == "GSM8K"
    assert conditions.workload.sampling.temperature == 0
    assert conditions.workload.sampling.top_p == 1
