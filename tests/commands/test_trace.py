"""`configurator trace`: what is printed of real traces, as text, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from configurator.cli import run

Capture = pytest.CaptureFixture[str]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings" / "h200-trace"


def path(case: str) -> str:
    return str(RECORDINGS / case / "replica-0" / "trace" / "TP-0.trace.json.gz")


def as_json(capsys: Capture, *cases: str) -> list[dict[str, Any]]:
    assert run(["trace", *map(path, cases), "--format", "json"]) == 0
    traces: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["traces"]
    return traces


def test_one_trace_as_json(capsys: Capture) -> None:
    (trace,) = as_json(capsys, "nograph")
    assert (trace["file"], trace["device"]) == (path("nograph"), "NVIDIA H200")
    assert (trace["kernels"], trace["kernels_outside_of_steps"]) == (1032, 1032 - 15 * 54 - 58)
    decode = next(step for step in trace["steps"] if step["role"] == "decode")
    families = decode.pop("families")
    assert decode == {
        "kind": "DECODE", "role": "decode", "within": None, "steps": 15,
        "batches": [{"size": 1, "steps": 15, "replayed": 0, "eager": 15}],
        "launches": 54.0, "graph_launches": 0.0, "kernels": 54.0, "cpu_us": 3607.273,
        "gpu_us": 122.495, "span_us": 3434.105, "idle_us": 3316.25, "every_us": 5062.628,
        "last_gemm": "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    }  # fmt: skip
    prefill = next(step for step in trace["steps"] if step["role"] == "prefill")
    assert (prefill["steps"], prefill["every_us"]) == (1, None)
    first = families[0]
    assert (first["family"], first["job"], first["kernels"]) == ("gemm-bf16", "gemm", 17.0)
    assert sum(family["share"] for family in families) == pytest.approx(1, abs=0.001)
    assert sum(family["kernels"] for family in families) >= 54


def test_a_file_that_is_not_there_is_not_recorded_again(capsys: Capture) -> None:
    assert run(["trace", "nothere"]) == 2
    said = capsys.readouterr().err
    assert "No such file or directory; give the path of a trace" in " ".join(said.split())


def test_the_head_told_apart(capsys: Capture) -> None:
    before, after = as_json(capsys, "head_bf16", "head_fp8")
    heads = [
        next(step["last_gemm"] for step in trace["steps"] if step["role"] == "verify")
        for trace in (before, after)
    ]
    assert heads == [
        "nvjet_sm90_tst_256x8_64x6_2x1_v_bz_TNT", "nvjet_sm90_qqtst_256x8_128x6_2x1_v_bz_TNT",
    ]  # fmt: skip


def test_files_side_by_side(capsys: Capture) -> None:
    assert run(["trace", path("nograph"), path("dense")]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = "\n".join(" ".join(line.split()) for line in lines)
    assert "step steps launches of graphs kernels GPU us span us idle us CPU us every us" in shown
    assert "NVIDIA H200, 2,317 events, 1,032 kernels, 164 of them outside of steps" in shown
    assert "DECODE bs 1 15 54 0 54 122.5 3,434.1 3,316.2 3,607.3 5,062.6" in shown
    assert "DECODE bs 1 15 7 1 54 120.1 512.7 393.2 582.3 1,912.4" in shown
    assert "family kernels (1) us (1) share (1) kernels (2) us (2) share (2)" in shown
    assert "EXTEND bs 1 1 58 0 58 153.2 3,932.0 3,779.3 4,184.1 -" in shown
    assert "beside (1):" in shown
    assert "decode (2) 54 -> 7 (0.13x) 54 -> 54 (1.00x)" in shown
    assert all(line == line.rstrip() for line in lines)


def test_the_draft_against_the_verification(capsys: Capture) -> None:
    assert run(["trace", path("head_fp8")]) == 0
    assert (
        "a round on the GPU: verify 276.2 us, draft 477.5 us and its extension 281.4 us: the draft "
        "takes 73%"
    ) in capsys.readouterr().out


def test_a_picture(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "steps.svg"
    words = ["trace", path("nograph"), path("dense"), "--plot", str(target)]
    assert run(words) == 0
    text = target.read_text()
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{space}text")]
    assert texts[2].endswith("nograph/replica-0/trace/TP-0.trace.json.gz, NVIDIA H200")
    assert (
        "decode: DECODE bs 1, 54 launches (0 of graphs), 54 kernels, 122 us of kernels in 3,434 "
        "us, 3,316 us idle"
    ) in texts
    kernels = [e for e in root.iter(f"{space}rect") if e.find(f"{space}title") is not None]
    assert len(kernels) == 54 + 54
    # One scale for both: the step without graphs is as wide as the picture, the other is not.
    grounds = [float(e.get("width", 0)) for e in root.iter(f"{space}rect")
               if e.get("fill") == "#eceff1"]  # fmt: skip
    assert grounds[0] == pytest.approx(1048)
    assert grounds[1] == pytest.approx(1048 * 512.7 / 3434.1, rel=0.02)
    # One line below the kernels of the one graph.
    lines = [e for e in root.iter(f"{space}rect") if e.get("fill") == "#202124"]
    assert len(lines) == 1
    assert run(words) == 0
    assert target.read_text() == text
    capsys.readouterr()


def test_a_trace_of_a_cpu(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "cpu.json"
    step = {"cat": "user_annotation", "name": "step[DECODE bs=2]", "ts": 1, "dur": 9, "tid": 1}
    trace.write_text(json.dumps({"traceEvents": [step]}))
    assert run(["trace", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "no GPU named, 1 events, 0 kernels" in out
    assert "no kernels of a GPU: it shows which steps ran" in out
    assert "DECODE bs 2" in out
    assert run(["trace", str(trace), "--plot", str(tmp_path / "a.svg")]) == 2
    assert "EVD005 --plot: no trace has a step with kernels" in capsys.readouterr().err
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["none.json"], "EVD002"),
        (["empty.json"], "EVD005 empty.json holds no events"),
        (["broken.json"], "EVD002 broken.json is cut off"),
        (["empty.json", "--plot", "a.png"], "a name that ends in .svg is wanted"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.json").write_text("{}")
    Path("broken.json").write_text('{"traceEvents": [{}')
    assert run(["trace", *words]) == 2
    said = capsys.readouterr()
    assert fact in said.err
    assert "Traceback" not in said.err


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "a.json"
    events: list[dict[str, Any]] = [
        {"cat": "user_annotation", "name": "step[DECODE bs=1]", "ts": 0, "dur": 9, "tid": 1},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "tid": 1,
         "args": {"correlation": 1}},
        {"cat": "kernel", "name": "\x1b[31m<&>", "ts": 5, "dur": 2, "args": {"correlation": 1}},
    ]  # fmt: skip
    data = {"traceEvents": events, "deviceProperties": [{"name": "\x1b]0;x\x07"}]}
    trace.write_text(json.dumps(data))
    assert run(["trace", str(trace), "--plot", str(tmp_path / "a.svg")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    titles = ElementTree.parse(tmp_path / "a.svg").getroot().iter()
    assert any("other:  [31m<&>, 2 us" in (element.text or "") for element in titles)


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["--replay", "x", "--trace", "y"], "--replay reads what was recorded"),
        (["--replay", "x", "--trace-dir", "/y"], "--replay reads what was recorded"),
        (["--url", "http://127.0.0.1:1", "--trace", "3=y"], "--trace"),
        (["--url", "http://127.0.0.1:1", "--trace", "none.json"], "trace none.json is not a file"),
    ],
)
def test_traces_that_check_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words: list[str], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["check", "--expect", "draft-used", *words]) == 2
    assert fact in capsys.readouterr().err


def test_check_judges_a_trace_that_is_given(tmp_path: Path, capsys: Capture) -> None:
    # Nobody listens: what the trace shows is kept, and nothing of it is proven of a server.
    out = tmp_path / "evidence"
    words = ["--url", "http://127.0.0.1:1", "--trace", path("nograph"), "--out", str(out)]
    asked = ["--expect", "decode-cuda-graphs", "--format", "json"]
    assert run(["check", *asked, *words]) == 1
    (verdict, *_) = json.loads(capsys.readouterr().out)["verdicts"]
    assert "ran eager" in verdict["summary"]
    assert (out / "replica-0" / "trace" / "TP-0.trace.json.gz").is_file()
