"""In-engine reports, and what else may lie in their folder."""

from __future__ import annotations

import os
from pathlib import Path

from collector.stub import Stub, read

from configurator.collector.collecting import collect


def test_reports_are_copied_with_their_time(stub: Stub, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "rank0.json").write_text('{"rank": 0, "env": {"HF_TOKEN": "hunter2"}}')
    (reports / "rank1.json").write_text('{"rank": 1')
    os.utime(reports / "rank0.json", (1000.0, 1000.0))
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: reports})
    copy = tmp_path / "out/replica-0/reports/rank0.json"
    assert read(copy) == {"rank": 0, "env": {"HF_TOKEN": "<redacted>"}}
    assert copy.stat().st_mtime == 1000.0
    assert manifest["notes"][0].startswith("report rank1.json left out: ")
    assert not copy.with_name("rank1.json").exists()


def test_a_report_too_deep_to_read_is_left_out(stub: Stub, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "deep.json").write_text("[" * 100_000 + "]" * 100_000)
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    assert "report deep.json left out: nested too deep to be read" in manifest["notes"]


def test_only_regular_files_of_the_folder_are_reports(stub: Stub, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (tmp_path / "outside.json").write_text('{"outside": 1}')
    (folder / "good.json").write_text('{"inside": 1}')
    (folder / "same.json").symlink_to("good.json")
    (folder / "away.json").symlink_to("../outside.json")
    (folder / "endless.json").symlink_to("/dev/zero")
    (folder / "gone.json").symlink_to("nothing")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    kept = tmp_path / "out/replica-0/reports"
    assert sorted(path.name for path in kept.iterdir()) == ["good.json", "same.json"]
    notes = "\n".join(manifest["notes"])
    for name in ("away", "endless", "gone", "loop", "folder", "pipe"):
        assert f"report {name}.json left out: " in notes
