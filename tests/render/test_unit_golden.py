"""Units and jobs as text, to be read by people when they change."""

from __future__ import annotations

import pytest
from stand_in import LIBRARY

from configurator.content import ROOT
from configurator.render import TARGETS
from configurator.resolve import resolve

GOLDEN = ROOT / "tests" / "golden" / "units"
WHOLE = ["ling-3.0-flash-spark", "muse-spark-open-gb300x8", "muse-spark-open-gb300x8-tp8"]
_OWN = (".service", ".target", ".sbatch", "START.md", "reserve.sh", "replica0-host1.sh")


@pytest.mark.parametrize("target", ["systemd", "slurm"])
@pytest.mark.parametrize("name", WHOLE)
def test_golden_units(name: str, target: str, update_golden: bool) -> None:
    files = TARGETS[target](resolve(*LIBRARY.profile(name), LIBRARY))
    shown = {file.path: file.text for file in files if file.path.endswith(_OWN)}
    folder = GOLDEN / target / name
    for path, text in shown.items():
        if update_golden:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        assert text == (folder / path).read_text(), "run: pytest --update-golden"
    kept = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert kept == set(shown)
