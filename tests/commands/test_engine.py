"""`configurator engine`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configurator.cli import run
from configurator.engine.store import Store

Capture = pytest.CaptureFixture[str]

SOURCES = {
    "sglang/srt/server_args.py": (
        "class ServerArgs:\n"
        "    def add_cli_args(parser):\n"
        "        parser.add_argument('--model-path', type=str, required=True)\n"
        "        parser.add_argument('--own', type=int, default=3)\n"
    ),
    "sglang-0.5.24.dist-info/METADATA": "Name: sglang\nVersion: 0.5.24\n",
}


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIGURATOR_ENGINES", str(tmp_path / "own"))


@pytest.fixture
def build(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "build"


def engine(capsys: Capture, *argv: str, code: int = 0) -> str:
    assert run(["engine", *argv]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err if code else captured.out


def as_json(capsys: Capture, *argv: str) -> Any:
    return json.loads(engine(capsys, *argv, "--format", "json"))


def test_list(capsys: Capture) -> None:
    lines = engine(capsys, "list").splitlines()
    assert lines[0].split() == ["version", "options", "variables", "architectures"]
    assert lines[-1].split() == ["0.5.23", "531", "1260", "290"]
    assert len(lines) == 43
    last = as_json(capsys, "list")[-1]
    assert (last["version"], last["options"], last["own"]) == ("0.5.23", 531, False)


def test_show_one_option_in_full(capsys: Capture) -> None:
    assert engine(capsys, "show", "0.5.23", "--tensor-parallel-size").splitlines() == [
        "--tp-size",
        "  aliases   tensor-parallel-size",
        "  type      int",
        "  default   1",
        "  versions  0.5.1 to 0.5.23",
    ]
    (row,) = as_json(capsys, "show", "0.5.18", "enable-expert-distribution-metrics")["flags"]
    assert row["refused"] is True
    assert row["deprecated"].startswith("--enable-expert-distribution-metrics is no longer")


def test_show_everything_in_lines(capsys: Capture) -> None:
    lines = engine(capsys, "show", "0.5.23").splitlines()
    assert len(lines) == 531
    assert [line.split() for line in lines if line.startswith("--model-path ")] == [
        ["--model-path", "str", "required"]
    ]
    variables = engine(capsys, "show", "0.5.23", "--env").splitlines()
    assert "SGLANG_LOG_GC" in {line.split()[0] for line in variables}
    algorithms = engine(capsys, "show", "0.5.23", "--names", "speculative-algorithm")
    assert ["NEXTN", "EAGLE"] in [line.split() for line in algorithms.splitlines()]
    drafts = engine(capsys, "show", "0.5.23", "--names", "architecture", "BailingMoeV3ForCausalLM")
    assert "  drafts       BailingMoeForCausalLMNextN" in drafts.splitlines()


def test_diff(capsys: Capture) -> None:
    lines = engine(capsys, "diff", "0.5.22", "0.5.23").splitlines()
    assert lines[0] == "options: 11 added, 1 removed, 16 changed"
    assert "  + --enable-nvidia-megakernel" in lines
    assert "  - --speculative-skip-dp-mlp-sync" in lines
    assert "  ~ --moe-runner-backend  choices +lora_cutedsl +lora_triton +lora_marlin" in lines
    assert "  ~ SGLANG_SIMULATE_ACC_GREEDY  default true -> false" in lines
    assert "  ~ requirement openai  detail ==2.6.1 -> ==2.8.0" in lines
    removed = engine(capsys, "diff", "0.5.19", "0.5.20").splitlines()
    assert "  - --cuda-graph-bs  (use --cuda-graph-bs-decode)" in removed
    found = as_json(capsys, "diff", "0.5.22", "0.5.23")
    assert {"section": "flags", "action": "added", "name": "enable-nvidia-megakernel"} in (
        found["changes"]
    )


def test_where(capsys: Capture) -> None:
    assert engine(capsys, "where", "--cuda-graph-bs", "SGLANG_LOG_GC").splitlines() == [
        "--cuda-graph-bs  option  0.5.1 to 0.5.19 "
        "(deprecated since 0.5.14: use --cuda-graph-bs-decode)",
        "SGLANG_LOG_GC  variable  0.5.4.post1 to 0.5.23",
    ]
    values = engine(capsys, "where", "humming").splitlines()
    assert "humming  value of --moe-runner-backend  0.5.16 to 0.5.23" in values
    (found,) = as_json(capsys, "where", "--tp-size")["--tp-size"]
    assert found["versions"][0] == "0.5.1"


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["where", "--cuda-graf-bs"],
         "REF005 no version from 0.5.1 to 0.5.23 knows '--cuda-graf-bs'; did you mean"),
        (["where", "tp-size", "SGLANG_ENABLE_FP8_LM_HEAD"], "knows 'SGLANG_ENABLE_FP8_LM_HEAD'"),
        (["where"], "Missing argument 'NAME...'"),
        (["show", "0.5.99"], "REF005 there is no catalogue of '0.5.99'"),
        (["show", "0.5.23", "--tp-sise"], "0.5.23 knows no '--tp-sise'; did you mean '--tp-size'"),
        (["show", "0.5.23", "--env", "NOPE_NOPE"], "0.5.23 knows no 'NOPE_NOPE'"),
        (["show", "0.5.23", "--names", "colour"], "'colour' is not one of"),
        (["diff", "0.5.23", "x"], "REF005 there is no catalogue of 'x'"),
        (["add", "/no/such.whl"], "CAT001 /no/such.whl is no wheel"),
        (["add", "."], "CAT002"),
    ],
)  # fmt: skip
def test_unusable_input(argv: list[str], fact: str, capsys: Capture) -> None:
    assert fact in " ".join(engine(capsys, *argv, code=2).split())


def test_add(capsys: Capture, build: Path, tmp_path: Path) -> None:
    file = tmp_path / "own" / "catalogue.json.xz"
    assert engine(capsys, "add", str(build)) == (
        f"0.5.24: 2 options, 0 variables, 0 architectures in {file}\n"
    )
    assert engine(capsys, "list").splitlines()[-1].split() == [
        "0.5.24", "2", "0", "0", "your", "own",
    ]  # fmt: skip
    assert engine(capsys, "show", "0.5.24", "own").splitlines()[:3] == [
        "--own", "  type      int", "  default   3",
    ]  # fmt: skip
    assert engine(capsys, "where", "--own") == "--own  option  0.5.24\n"
    assert as_json(capsys, "add", str(build), "--version", "0.5.25.dev1")["version"] == (
        "0.5.25.dev1"
    )
    assert Store(file).versions == ("0.5.24", "0.5.25.dev1")


def test_add_into_another_directory(capsys: Capture, build: Path, tmp_path: Path) -> None:
    engine(capsys, "add", str(build), "--into", str(tmp_path / "there"))
    assert Store(tmp_path / "there" / "catalogue.json.xz").versions == ("0.5.24",)
    assert not (tmp_path / "own").exists()
    (tmp_path / "file").touch()
    said = engine(capsys, "add", str(build), "--into", str(tmp_path / "file"), code=2)
    assert "RND003" in said
    assert "--into DIR" in said


def test_add_nowhere(capsys: Capture, build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIGURATOR_ENGINES", "")
    assert "CONFIGURATOR_ENGINES is empty" in engine(capsys, "add", str(build), code=2)


def test_add_the_installed_engine(
    capsys: Capture, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(build))
    assert engine(capsys, "add", "installed").startswith("0.5.24: 2 options")


def test_where_of_an_abbreviation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engine", "where", "--tp"]) == 0
    assert "--tp  short for --tp-size  0.5.1" in capsys.readouterr().out
