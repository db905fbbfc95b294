"""Every recording of a real server is judged as what is true in it."""

from __future__ import annotations

from collections import Counter

import pytest
from recordings_table import RECORDINGS, Row, faults, rows

from configurator.content import ROOT
from configurator.loader import Validators


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_verdict_is_the_truth(row: Row, validators: Validators) -> None:
    assert list(faults(row, validators)) == []


def test_every_recording_has_a_truth() -> None:
    cases = {
        f"{path.parent.parent.name}/{path.parent.name}"
        for name in ("case.json", "manifest.json")
        for path in RECORDINGS.rglob(name)
    }
    assert cases == {f"{row.group}/{row.case}" for row in rows()}
    assert len(rows()) > 60


@pytest.mark.parametrize("group", ["h200-probe", "h200-trace", "h200-nodes"])
def test_a_page_of_measurements_counts_its_rows(group: str) -> None:
    page = (ROOT / "docs" / "measurements" / f"{group}.md").read_text()
    assert f"judges them: {Counter(row.group for row in rows())[group]} rows, 0 wrong" in page
