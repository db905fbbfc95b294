"""The verbs: output, exit codes, and bad input without a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configurator import __version__
from configurator.cli import run

Capture = pytest.CaptureFixture[str]
BROKEN = "apiVersion: configurator/v1\nkind: Deployment\nname: broken\nhardwear: {}\n"


def test_version_and_help(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert run(["--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "validate Judge profiles before a GPU is touched." in words


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["valdate", "x"], "did you mean 'validate'?"),
        (["validate"], "Missing argument 'PROFILE...'"),
        (["validate", "x", "--format", "xml"], "'xml' is not one of"),
        (["list", "kernels", "--content", ""], "an empty name is no directory; write . for"),
        (["list", "kernels", "--content", "/etc/passwd"], "/etc/passwd is not a directory"),
        (["render", "ling-3.0-flash-spark"], "give one of -o DIR, --check DIR and --print json"),
        (["render", "ling-3.0-flash-spark", "-o", "x", "--print", "json"], "give one of -o DIR"),
        (["render", "x", "-o", "y", "--target", "bash", "--all"], "one of --target and --all"),
        (["render", "x", "--print", "json", "--all"], "the same for every target"),
        (["check"], "exactly one of PROFILE and --expect"),
        (["check", "a", "--expect", "b"], "exactly one of PROFILE and --expect"),
        (["check", "a"], "exactly one of --url and --replay"),
        (["check", "a", "--url", "u", "--replay", "d"], "exactly one of --url and --replay"),
        (["check", "a", "--replay", "d", "--level", "1"], "--replay reads what was recorded"),
        (["check", "ling-3.0-flash-spark", "--url", "0=a", "--url", "0=b"], "replica 0 twice"),
        (
            ["check", "ling-3.0-flash-spark", "--url", "http://127.0.0.1:1", "--log", "3=x"],
            "--log is for replica 3, but --url names only 0",
        ),
        (["check", "ling-3.0-flash-spark", "--url", "http://h:1", "--pid", "x"], "whole number"),
        (["list", "nonsense"], "'nonsense' is not one of"),
    ],
)
def test_wrong_usage_is_exit_2(argv: list[str], fact: str, capsys: Capture) -> None:
    assert run(argv) == 2
    captured = capsys.readouterr()
    assert fact in " ".join(captured.err.split())
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["validate", "no-such"], "REF001"),
        (["validate", "./absent.yaml"], "SCH001"),
        (["render", "ling-3.0-flash-spark", "--target", "nomad", "-o", "x"], "nomad"),
        (["explain", "MEM"], "nothing is named 'MEM'"),
        (["check", "--expect", "no-such", "--replay", "."], "no-such"),
        (["check", "--expect", "fp8-lm-head", "--replay", "/no/such/dir"], "/no/such/dir"),
        (["check", "--expect", "fp8-lm-head", "--url", "nonsense"], "COL001"),
        (["list", "--content", "/no/such/dir"], "REF002"),
    ],
)
def test_unusable_input_is_exit_2(
    argv: list[str], fact: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(argv) == 2
    captured = capsys.readouterr()
    assert fact in captured.out + captured.err
    assert "Traceback" not in captured.err


def test_findings_are_placed_with_their_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    assert run(["validate", str(path)]) == 2
    out = capsys.readouterr().out
    assert f"{path}:4:1: error SCH005" in out
    assert "4 | hardwear: {}" in out
    assert "remedy: did you mean 'hardware'?" in out


def test_validate_as_json(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    assert run(["validate", str(path), "muse-spark-open-gb300x8", "--format", "json"]) == 2
    result = json.loads(capsys.readouterr().out)
    broken, muse = result["profiles"]
    assert (result["exit_code"], broken["usable"], muse["exit_code"]) == (2, False, 0)
    assert (muse["name"], muse["status"]) == ("muse-spark-open-gb300x8", "unverified")
    finding = next(f for f in broken["findings"] if f["code"] == "SCH005")
    assert (finding["file"], finding["line"], finding["column"]) == (str(path), 4, 1)


def test_unverified_is_shown(capsys: Capture) -> None:
    assert run(["validate", "muse-spark-open-gb300x8"]) == 0
    assert "[unverified:" in capsys.readouterr().out


def test_fail_on_warning(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: w\nextends: ling-3.0-flash-spark\n"
        "memory: {min_available_gib: null}\n"
    )
    assert run(["validate", str(path)]) == 0
    assert run(["validate", str(path), "--fail-on", "warning"]) == 1


def test_render_writes_nothing_for_a_refused_profile(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(["render", "muse-spark-open-paper", "-o", str(out)]) == 1
    assert not out.exists()
    assert "nothing rendered" in capsys.readouterr().err


def test_list_and_explain_know_everything(capsys: Capture) -> None:
    assert run(["list", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in listed["deployments"]} == {
        "ling-3.0-flash-spark",
        "ling-3.0-flash-spark-baseline",
        "ling-3.0-flash-spark-dspark",
        "ling-3.0-flash-spark-plugin",
        "ling-3.0-flash-spark-upstream",
        "muse-spark-open-gb300x8",
        "muse-spark-open-gb300x8-tp8",
        "muse-spark-open-paper",
    }
    names = [
        row["name"].split("=")[0] for kind in ("rules", "probes", "kernels") for row in listed[kind]
    ]
    for name in names:
        assert run(["explain", name]) == 0
        assert name in capsys.readouterr().out


def test_a_bug_of_ours_is_exit_3_with_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("configurator.commands.list.open_library", broken)
    assert run(["list"]) == 3
    err = capsys.readouterr().err
    assert "a fault of configurator itself: RuntimeError: boom" in err
    assert "Traceback" in Path(err.split("report it with ")[1].strip()).read_text()
