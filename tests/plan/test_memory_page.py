"""docs/measurements/memory-plans.md against the table that its script prints."""

from __future__ import annotations

import re

import memory_table
import pytest

from configurator.content import ROOT

PAGE = (ROOT / "docs" / "measurements" / "memory-plans.md").read_text()
FIGURES = re.compile(r"^\| [^|]+ \| (\d[\d,]*)[^|]*\| (\d[\d,]*) \| ([-+][\d.]+%) \|", re.MULTILINE)
"""Of a row: what a plan says, what the engine made, and the error."""


def test_the_page_has_what_the_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    memory_table.main()
    printed = FIGURES.findall(capsys.readouterr().out)
    told = FIGURES.findall(PAGE)
    assert len(told) == 7 + 5 + 7
    assert [row for row in told if row not in printed] == []
    left_out = [float(error.rstrip("%")) for *row, error in printed if (*row, error) not in told]
    # "Seven more with a pool of 1 GiB are off by -11 to +11 %."
    assert len(left_out) == 7
    assert (round(min(left_out)), round(max(left_out))) == (-11, 11)
