"""`configurator lint` and `configurator import` as a person or a program calls them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configurator.cli import run
from configurator.source import parse_source

SHELL = Path(__file__).parents[1] / "fixtures" / "shell"
LAUNCH = Path(__file__).parents[1] / "fixtures" / "launch"
BAD = "#!/bin/bash\n# keep this comment\nexport SGL_LOG_GC=1\nsglang serve --model-path m --tp 2\n"
MENDED = BAD.replace("SGL_LOG", "SGLANG_LOG").replace("--tp 2", "--tp-size 2")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(BAD)
    return path


def answer(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, Any]:
    code = run([*map(str, argv), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_json_has_every_launch_with_its_findings(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, data = answer(capsys, "lint", "--engine", "0.5.23", bad)
    assert (code, data["exit_code"]) == (0, 0)
    (file,) = data["files"]
    assert (file["file"], file["format"], file["findings"]) == (str(bad), "shell", [])
    (command,) = file["commands"]
    assert command["argv"] == ["--model-path", "m", "--tp", "2"]
    assert command["env"] == {"SGL_LOG_GC": "1"}
    assert command["engine_accepts"] is True
    assert (command["engine"], command["engine_because"]) == ("0.5.23", "asked for")
    assert [
        (f["code"], f["severity"], f["subject"], f["line"], f["column"])
        for f in command["findings"]
    ] == [("ENV103", "warning", "SGL_LOG_GC", 3, 8), ("ENG104", "warning", "--tp", 4, 29)]
    assert all(f["message"] and f["remedy"] for f in command["findings"])


def test_every_shape_gives_its_launch(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        (folder / row["file"], row["cases"][0])
        for folder in (SHELL, LAUNCH)
        for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines())
    ]
    assert len(rows) == 20
    _, data = answer(capsys, "lint", *(path for path, _ in rows))
    for file, (path, case) in zip(data["files"], rows, strict=True):
        found = [{"env": c["env"], "argv": c["argv"]} for c in file["commands"]]
        assert found == case["expected"], path.name


def test_what_the_caller_sets(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = answer(capsys, "lint", SHELL / "S05.sh", "--set", "PORT=31000", "--set", "TP=2")
    argv = data["files"][0]["commands"][0]["argv"]
    assert argv[argv.index("--port") + 1] == "31000"
    assert argv[argv.index("--tp") + 1] == "2"


@pytest.mark.parametrize("given", ["PORT", "=1", "1A=2", "A-B=1"])
def test_what_the_caller_sets_must_be_an_assignment(given: str, bad: Path) -> None:
    assert run(["lint", str(bad), "--set", given]) == 2


def test_argv_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "argv.json"
    path.write_text('{"argv": ["--model-path", "m", "--zzz", "${PORT}"], "env": {"A": "1"}}\n')
    code, data = answer(capsys, "lint", "--engine", "0.5.23", "--argv-json", path)
    (command,) = data["files"][0]["commands"]
    assert (code, command["engine_accepts"], command["unknown"]) == (1, False, ["${PORT}"])
    assert [f["subject"] for f in command["findings"]] == ["--zzz"]


def test_a_key_never_reaches_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        "export HF_TOKEN=hf_abcdefghijklmnopqrstuv\n"
        "sglang serve --model-path m --api-key sk-very-secret-key-1234 --admin-api-key=sk-other-1\n"
    )
    for form in ("json", "terminal", "sarif", "junit", "github"):
        run(["lint", str(path), "--format", form])
        said = capsys.readouterr()
        for secret in ("very-secret", "sk-other-1", "abcdefghij"):
            assert secret not in said.out + said.err, form
    run(["import", str(path)])
    said = capsys.readouterr()
    assert "very-secret" not in said.out + said.err


def test_fix_changes_the_words_and_nothing_else(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lint", "--fix", "--engine", "0.5.23", str(bad)]) == 0
    assert bad.read_text() == MENDED
    said = capsys.readouterr()
    assert "2 fixed" in said.err
    assert "clean" in said.out
    before = bad.stat().st_mtime_ns
    assert run(["lint", "--fix", "--engine", "0.5.23", str(bad)]) == 0
    assert bad.stat().st_mtime_ns == before, "nothing to mend, nothing written"


def test_fix_keeps_line_ends_and_the_byte_order_mark(bad: Path) -> None:
    bad.write_bytes(b"\xef\xbb\xbf" + BAD.replace("\n", "\r\n").encode())
    run(["lint", "--fix", "--engine", "0.5.23", str(bad)])
    assert bad.read_bytes() == b"\xef\xbb\xbf" + MENDED.replace("\n", "\r\n").encode()


def test_a_script_on_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))
    _, data = answer(capsys, "lint", "-")
    assert data["files"][0]["file"] == "<stdin>"
    assert len(data["files"][0]["commands"]) == 1


@pytest.mark.parametrize(
    "argv",
    [
        ["lint"],
        ["lint", "nothing-here.sh"],
        ["lint", "RUN", "--engine", "9.9.9"],
        ["lint", "RUN", "--hardware", "h2000"],
        ["lint", "RUN", "--checkpoint", "nowhere"],
        ["lint", "RUN", "--ignore", "XYZ"],
        ["lint", "--argv-json", "RUN"],
        ["import", "nothing-here.sh"],
        ["import", "RUN", "--hardware", "h2000"],
        ["import", "RUN", "--number", "2"],
        ["import", "RUN", "-o", "RUN"],
        ["import", "EMPTY"],
    ],
)
def test_unusable_input_is_exit_code_2(
    argv: list[str], bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = bad.with_name("empty.sh")
    empty.write_text("echo hello\n")
    words = {"RUN": str(bad), "EMPTY": str(empty)}
    assert run([words.get(word, word) for word in argv]) == 2
    said = capsys.readouterr()
    assert said.out + said.err


def test_fail_on_and_selection(bad: Path) -> None:
    common = ["lint", str(bad), "--engine", "0.5.23"]
    assert run(common) == 0
    assert run([*common, "--fail-on", "warning"]) == 1
    assert run([*common, "--fail-on", "warning", "--ignore", "ENG104,ENV103"]) == 0
    assert run([*common, "--fail-on", "warning", "--select", "CKPT"]) == 0


def test_import_writes_a_profile_that_validates(
    bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = bad.with_name("profile.yaml")
    assert run(["import", str(bad), "-o", str(out), "--engine", "0.5.23"]) == 0
    capsys.readouterr()
    data = parse_source(out.read_text(), "profile.yaml").data
    assert (data["name"], data["engine"], data["topology"]) == (
        "run", {"version": "0.5.23"}, {"tensor": 2},
    )  # fmt: skip
    assert run(["validate", str(out)]) == 0
    out.write_text("precious")
    assert run(["import", str(bad), "-o", str(out)]) == 2
    assert out.read_text() == "precious"
    assert run(["import", str(bad), "-o", str(out), "--force"]) == 0


def test_import_of_one_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    script = str(SHELL / "S18.sh")
    assert run(["import", script]) == 2
    assert "--number" in capsys.readouterr().err
    assert run(["import", script, "--number", "2"]) == 0
    assert "CUDA_VISIBLE_DEVICES: '1'" in capsys.readouterr().out


UNSAFE = [
    # Two releases share the words.
    "A=(--cuda-graph-max-bs 8)\n"
    'docker run lmsysorg/sglang:v0.5.10 sglang serve --model-path m "${A[@]}"\n'
    'docker run lmsysorg/sglang:v0.5.20 sglang serve --model-path m "${A[@]}"\n',
    # Something compares the word.
    "A=--tp\n[ $A = --tp ] && sglang serve --model-path m $A 2\n",
    # Another program gets it too.
    "A='--tp 2'\nsglang serve --model-path m $A\nother-program $A\n",
    'A=(--tp 2)\nsglang serve --model-path m "${A[@]}"\nother-program "${A[@]}"\n',
    # The successor takes other values.
    "sglang serve --model-path m --nsa-prefill-cp-mode round-robin-split\n",
    # The successor is there already.
    "sglang serve --model-path m --cuda-graph-max-bs 8 --cuda-graph-max-bs-decode 16\n",
    # The meaning is turned round.
    "export SGLANG_DISABLE_TP_MEMORY_INBALANCE_CHECK=1\nsglang serve --model-path m\n",
]


@pytest.mark.parametrize("text", UNSAFE)
def test_a_fix_that_could_change_a_meaning_is_not_made(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(text)
    run(["lint", "--fix", str(path)])
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ('A=(\n  --tp 2 # two\n)\nsglang serve --model-path m "${A[@]}"\n', "--tp-size 2 # two"),
        ("SGL_LOG_GC=1 sglang serve --model-path m\n", "SGLANG_LOG_GC=1 sglang"),
        (
            "for i in 1 2; do sglang serve --model-path m --tp 2 --port 300$i; done\n",
            "--tp-size 2 --port",
        ),
        ("sglang serve --model-path m --cuda-graph-max-bs 8\n", "--cuda-graph-max-bs-decode 8"),
        ("sglang serve --model-path m --reasoning_parser qwen3\n", "--reasoning-parser qwen3"),
    ],
)
def test_a_safe_fix_is_made(text: str, mended: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(text)
    run(["lint", "--fix", "--engine", "0.5.23", str(path)])
    assert mended in path.read_text()


def test_a_long_line_is_shown_around_its_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_text("sglang serve --model-path m" + " --zz 1" * 1000 + "\n")
    run(["lint", str(path)])
    out = capsys.readouterr().out
    assert len(out) < 1000 * 1500
    excerpts = [line for line in out.splitlines() if line.startswith("  1 | ...")]
    assert len(excerpts) > 900
    assert all(line[6:].startswith("...") and line.count("--zz") > 5 for line in excerpts)


def test_the_report_does_not_go_over_the_file(bad: Path) -> None:
    assert run(["lint", str(bad), "-o", str(bad)]) == 2
    assert bad.read_text() == BAD


def test_import_from_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BAD))
    assert run(["import", "-", "--engine", "0.5.23"]) == 0
    assert "Imported from <stdin>" in capsys.readouterr().out


def test_output_that_cannot_be_written_is_no_fault_of_ours(bad: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    command = [sys.executable, "-m", "configurator", "lint", str(bad)]
    with full.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False, text=True)
    assert (done.returncode, "fault of configurator" in done.stderr) == (2, False)
