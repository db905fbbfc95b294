"""Fixes: exactly the word, exactly there, or not at all."""

from __future__ import annotations

import pytest

from configurator.errors import Position
from configurator.fixes import fix_text
from configurator.rules import Fix
from configurator.validate import Diagnostic

TEXT = "sglang serve --model-path m \\\n  --tp 8 \\\n  '--tp=8'  # --tp stays\nSGL_LOG_GC=1 x\n"


def finding(line: int, column: int, old: str, new: str, **more: str) -> Diagnostic:
    at = Position("run.sh", line, column)
    return Diagnostic("ENG104", "n", "warning", "m", "r", at, "", "", fix=Fix(old, new), **more)


@pytest.mark.parametrize(
    ("line", "column", "old", "new", "changed"),
    [
        (2, 3, "tp", "tp-size", "  --tp-size 8 \\"),
        (3, 3, "tp", "tp-size", "  '--tp-size=8'  # --tp stays"),
        (3, 4, "tp", "tp-size", "  '--tp-size=8'  # --tp stays"),
        (4, 1, "SGL_LOG_GC", "SGLANG_LOG_GC", "SGLANG_LOG_GC=1 x"),
    ],
)
def test_one_word_changes(line: int, column: int, old: str, new: str, changed: str) -> None:
    fixed = fix_text(TEXT, "run.sh", [finding(line, column, old, new)])
    assert fixed.text.splitlines()[line - 1] == changed
    before, after = TEXT.splitlines(), fixed.text.splitlines()
    assert [a for a, b in zip(after, before, strict=True) if a != b] == [changed]
    assert len(fixed.made) == 1
    assert fixed.left == ()


@pytest.mark.parametrize(
    ("line", "column", "old"),
    [
        (1, 1, "tp"),
        (2, 1, "tp"),
        (2, 3, "t"),
        (9, 1, "tp"),
        (0, 0, "tp"),
        (2, 3, ""),
        (2, 99, "tp"),
    ],
)
def test_a_word_that_does_not_stand_there_is_left(line: int, column: int, old: str) -> None:
    fixed = fix_text(TEXT, "run.sh", [finding(line, column, old, "x")])
    assert fixed.text == TEXT
    assert (fixed.made, len(fixed.left)) == ((), 1)


def test_several_fixes_of_one_line_do_not_move_each_other() -> None:
    line = "--tp 8 --dp 2 --tp 4\n"
    found = [
        finding(1, 1, "tp", "tp-size"),
        finding(1, 8, "dp", "dp-size"),
        finding(1, 15, "tp", "tp-size"),
    ]
    assert fix_text(line, "run.sh", found).text == "--tp-size 8 --dp-size 2 --tp-size 4\n"


def test_two_fixes_of_one_word_do_not_both_happen() -> None:
    fixed = fix_text(TEXT, "run.sh", [finding(2, 3, "tp", "tp-size"), finding(2, 3, "tp", "x")])
    assert "--tp-size 8" in fixed.text
    assert (len(fixed.made), len(fixed.left)) == (1, 1)


def test_suppressed_findings_and_other_files_are_left_alone() -> None:
    kept = finding(2, 3, "tp", "tp-size", suppressed="wanted so")
    assert fix_text(TEXT, "run.sh", [kept]).text == TEXT
    assert fix_text(TEXT, "other.sh", [finding(2, 3, "tp", "tp-size")]).text == TEXT


def test_line_ends_stay() -> None:
    text = "--tp 8 \\\r\n--x\r\n"
    assert fix_text(text, "run.sh", [finding(1, 1, "tp", "tp-size")]).text == (
        "--tp-size 8 \\\r\n--x\r\n"
    )
