"""`configurator kernels list | test`: output, exit codes, and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kerneltests.programs import FIGURE, answer, content, kernel, printing

from configurator.cli import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for what is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("platform.node", lambda: "gpu7")
    return tmp_path / "state" / "configurator" / "hosts" / "gpu7.json"


def mine(tmp_path: Path, text: str) -> list[str]:
    """Words that choose a self-test of one's own, for which speedup 1.7 is promised."""
    folder = content(tmp_path / "own", mine=text)
    kernel(folder, "my-kernel", "[{name: mine, minimum: {speedup: 1.7}}]")
    return ["mine", "--content", str(folder)]


def test_the_list_names_kernels_and_promises(capsys: Capture) -> None:
    assert run(["kernels", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("fp8-lm-head")
    assert lines[at + 1].startswith("    FP8 LM head against BF16")
    assert lines[at + 2] == "    of fp8-lm-head (speedup at least 1.7)"
    assert run(["kernels", "list", "--format", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["moe-reads"]["kernels"] == [
        "flashinfer-mxfp4-moe", "humming-mxfp4-moe", "nextn-mtp",
    ]  # fmt: skip
    assert rows["fp8-lm-head"]["promises"] == [
        {"kernel": "fp8-lm-head", "figure": "speedup", "least": 1.7}
    ]


def test_the_page_of_a_kernel_names_what_tries_it(capsys: Capture) -> None:
    assert run(["explain", "fp8-lm-head"]) == 0
    out = capsys.readouterr().out
    assert "Tried by:\n  - `configurator kernels test fp8-lm-head`: speedup at least 1.7\n" in out


def test_a_good_run_keeps_its_figures(tmp_path: Path, state: Path, capsys: Capture) -> None:
    words = mine(tmp_path, printing(answer(speedup=FIGURE)))
    assert run(["kernels", "test", *words]) == 0
    out = capsys.readouterr().out
    assert "speedup = 1.9 (1.8 to 2, 50 runs)" in out
    assert "promise of my-kernel: speedup is 1.9, promised 1.7" in out
    assert out.endswith(f"1 ok\nfigures of this host are kept in {state}\n")
    kept = json.loads(state.read_text())
    assert kept["host"] == "gpu7"
    assert kept["selftests"]["mine"]["figures"]["speedup"] == FIGURE


def test_json(tmp_path: Path, capsys: Capture) -> None:
    data = answer(speedup=FIGURE | {"value": 1.2, "low": 1.1})
    data["checks"][0]["facts"] = {"times": [{"m": 1, "us": 103.5}]}
    store = tmp_path / "there.json"
    words = [*mine(tmp_path, printing(data)), "--format", "json", "--store", str(store)]
    assert run(["kernels", "test", *words]) == 1
    whole = json.loads(capsys.readouterr().out)
    assert (whole["python"], whole["stored"]) == (sys.executable, str(store))
    (result,) = whole["results"]
    assert (result["name"], result["verdict"]) == ("mine", "slow")
    assert "below the promised 1.7" in result["reason"]
    assert result["checks"][0] == {
        "name": "numbers", "verdict": "ok", "reason": "",
        "facts": {"times": [{"m": 1, "us": 103.5}]},
    }  # fmt: skip
    assert result["figures"]["speedup"]["value"] == 1.2
    assert result["promises"] == [{"kernel": "my-kernel", "figure": "speedup", "least": 1.7}]
    assert result["machine"] == {"gpu": "NVIDIA H200", "gpus": 1}


def test_tables_and_facts_for_people(tmp_path: Path, capsys: Capture) -> None:
    data = answer("wrong", "relative error 0.4 is above 0.06")
    data["checks"][0]["facts"] = {
        "kernel": "k", "code": ["sm_80", "sm_90"], "empty": None,
        "times": [{"m": 1, "us": 103.5}, {"m": 16, "us": 9}],
    }  # fmt: skip
    assert run(["kernels", "test", *mine(tmp_path, printing(data))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 x NVIDIA H200"
    assert "  wrong    numbers: relative error 0.4 is above 0.06" in lines
    assert "           kernel k, code sm_80 sm_90" in lines
    assert lines[lines.index("            m     us") + 1 :][:2] == [
        "            1  103.5",
        "           16      9",
    ]
    assert lines[-1] == "1 wrong"


def test_a_package_that_is_missing_is_not_called_ok(tmp_path: Path, capsys: Capture) -> None:
    data = answer("ok", "not installed; pip install it", speedup=FIGURE)
    data["checks"][0]["facts"] = {"state": "missing", "version": None}
    assert run(["kernels", "test", *mine(tmp_path, printing(data))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  missing  numbers: not installed; pip install it" in lines
    assert "           state missing" not in lines


def test_a_machine_without_a_gpu_fails_nothing_and_proves_nothing(
    tmp_path: Path, state: Path, capsys: Capture
) -> None:
    data = {"checks": [{"name": "all", "verdict": "not_run", "reason": "no GPU: torch sees none"}]}
    assert run(["kernels", "test", *mine(tmp_path, printing(data))]) == 0
    out = capsys.readouterr().out
    assert "         no GPU: torch sees none" in out
    assert out.endswith("1 not_run: nothing was measured here\n")
    assert not state.exists()


def test_the_shipped_self_tests_without_torch_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    # A torch that cannot be imported, wherever these tests run.
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run(["kernels", "test", "fp8-lm-head", "moe-reads", "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert {r["verdict"] for r in whole["results"]} == {"not_run"}
    assert whole["results"][0]["reason"].startswith("torch is not installed in ")
    assert whole["stored"] is None


def test_a_crash_and_a_hang_are_results(tmp_path: Path, capsys: Capture) -> None:
    folder = content(tmp_path / "own", crash="1 / 0", hang="import time; time.sleep(60)")
    words = ["crash", "hang", "--content", str(folder), "--timeout", "1", "--format", "json"]
    assert run(["kernels", "test", *words]) == 1
    out, err = capsys.readouterr()
    reasons = {r["name"]: (r["verdict"], r["reason"]) for r in json.loads(out)["results"]}
    assert reasons["hang"] == ("wrong", "no answer within 1 s")
    assert reasons["crash"][1].startswith("crashed: exit code 1; its last line: ZeroDivisionError")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "REF005 no self-test and no kernel is named 'nope'"),
        (["dflash"], "REF007 kernel 'dflash' has no self-test"),
        (["--python", "/no/such/python"], "KRN001 /no/such/python cannot be run: No such file"),
        (["--python", "/bin/false"], "KRN001 /bin/false cannot be run: exit code 1"),
        (["--timeout", "0"], "0.0 is not in the range"),
        (["--content", "/no/such"], "REF002"),
    ],
)
def test_bad_input(words: list[str], said: str, capsys: Capture) -> None:
    assert run(["kernels", "test", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_store_that_was_asked_for_must_be_had(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    words = mine(tmp_path, printing(answer(speedup=FIGURE)))
    store = tmp_path / "file" / "host.json"
    assert run(["kernels", "test", *words, "--store", str(store)]) == 2
    assert "KRN002" in capsys.readouterr().err


def test_a_default_store_that_cannot_be_had_is_only_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    words = mine(tmp_path, printing(answer(speedup=FIGURE)))
    assert run(["kernels", "test", *words]) == 0
    assert "figures are not kept: KRN002" in capsys.readouterr().err


def test_who_is_asked_to_end_ends_with_its_self_test(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    words = [sys.executable, "-m", "configurator", "kernels", "test", *mine(tmp_path, text)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "stopped; nothing is kept" in process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
