"""Self-tests that are right, slow, wrong, silent, crash or hang: each is a result."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kerneltests.programs import FIGURE, answer, content, printing

from configurator.kerneltests.model import Chosen, Promise, Result
from configurator.kerneltests.running import run_selftest
from configurator.report.kernels import as_json, lines
from configurator.signals import Stop

PROMISE = Promise("mine", "speedup", 1.7)


def ran(folder: Path, text: str, *promises: Promise, timeout_s: float = 60) -> Result:
    path = content(folder, mine=text) / "kernels" / "mine_selftest.py"
    chosen = Chosen("mine", path, promises, ("humming-kernels",))
    return run_selftest(chosen, sys.executable, Stop(), timeout_s)


def test_a_promise_that_is_kept(tmp_path: Path) -> None:
    result = ran(tmp_path, printing(answer(speedup=FIGURE)), PROMISE)
    assert (result.verdict, result.reason, result.failed) == ("ok", "", False)
    assert dict(result.figures)["speedup"].value == 1.9
    assert dict(result.machine)["gpu"] == "NVIDIA H200"
    assert result.checks[-1].reason == "speedup is 1.9, promised 1.7"


def test_below_what_is_promised_is_slow(tmp_path: Path) -> None:
    low = FIGURE | {"value": 1.52, "low": 1.4, "high": 1.6}
    result = ran(tmp_path, printing(answer(speedup=low)), PROMISE)
    assert (result.verdict, result.failed) == ("slow", True)
    assert result.reason == (
        "promise of mine: speedup is 1.52 (1.4 to 1.6, 50 runs), below the promised 1.7"
    )


def test_wrong_numbers_outweigh_everything(tmp_path: Path) -> None:
    reason = "relative error 0.4 is above 0.06"
    result = ran(tmp_path, printing(answer("wrong", reason, speedup=FIGURE)), PROMISE)
    assert (result.verdict, result.reason) == ("wrong", f"numbers: {reason}")


def test_what_is_not_run_is_no_failure_and_breaks_no_promise(tmp_path: Path) -> None:
    result = ran(tmp_path, printing(answer("not_run", "no GPU")), PROMISE)
    assert (result.verdict, result.reason, result.failed) == ("not_run", "numbers: no GPU", False)


def test_what_is_partly_not_run_is_not_ok(tmp_path: Path) -> None:
    data = answer()
    data["checks"].append({"name": "speed", "verdict": "not_run", "reason": "no GPU"})
    assert ran(tmp_path, printing(data)).verdict == "not_run"


def test_a_promised_figure_that_is_not_reported_is_wrong(tmp_path: Path) -> None:
    result = ran(tmp_path, printing(answer()), PROMISE)
    assert result.verdict == "wrong"
    assert "speedup of at least 1.7 is promised, and the self-test reports none" in result.reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('no such op')", "crashed: exit code 1; its last line: ValueError: no s"),
        ("import os; os.kill(os.getpid(), 11)", "crashed: SIGSEGV"),
        ("import sys; sys.exit(3)", "crashed: exit code 3"),
        ("", "it printed nothing"),
        ("print('all is well')", "its last line is no JSON object: 'all is well'"),
        ("def (", "crashed: exit code 1; its last line: SyntaxError: "),
    ],
)
def test_a_crash_is_a_result(tmp_path: Path, text: str, said: str) -> None:
    result = ran(tmp_path, text)
    assert (result.verdict, result.figures) == ("wrong", ())
    assert result.reason.startswith(said)


def test_a_hang_ends_with_everything_it_started(tmp_path: Path) -> None:
    text = "import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)\n"
    began = time.monotonic()
    result = ran(tmp_path, text, timeout_s=1.5)
    assert (result.verdict, result.reason) == ("wrong", "no answer within 1.5 s")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "the whole: "),
        ({"checks": []}, "checks: List should have at least 1 item"),
        ({"checks": [{"name": "a", "verdict": "fine"}]}, "checks.0.verdict: "),
        (answer(speedup=FIGURE | {"value": 0}), "figures.speedup.value: Input should be greater"),
        (answer(speedup=FIGURE | {"value": "1"}), "figures.speedup.value: "),
        (answer(speedup={"value": 1}), "figures.speedup.low: Field required"),
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, data: Any, said: str) -> None:
    result = ran(tmp_path, printing(data))
    assert result.verdict == "wrong"
    assert result.reason.startswith(f"its answer is no self-test's: {said}")


def test_a_number_that_is_none_is_no_answer(tmp_path: Path) -> None:
    text = printing(answer(speedup=FIGURE)).replace("1.9", "NaN")
    assert ran(tmp_path, text).reason.startswith("its last line is no JSON object")


def test_what_libraries_print_before_is_no_answer(tmp_path: Path) -> None:
    noise = "print('{\"checks\": 1}')\nimport sys; print('loading', file=sys.stderr)\n"
    assert ran(tmp_path, noise + printing(answer())).verdict == "ok"


def test_settings_and_the_kit_reach_a_file_in_another_folder(tmp_path: Path) -> None:
    text = "import json, sys, selftest_kit\n" + printing(answer()).replace(
        "print(", "assert json.loads(sys.argv[1]) == {'packages': ['humming-kernels']}\nprint("
    )
    assert ran(tmp_path, text).verdict == "ok"


def test_a_secret_in_the_last_line_is_not_repeated(tmp_path: Path) -> None:
    result = ran(tmp_path, "raise SystemExit('--api-key sk-verysecret123 refused')")
    assert "sk-verysecret123" not in result.reason
    assert "refused" in result.reason


def test_no_secret_and_nothing_that_steers_a_terminal_is_in_an_answer(tmp_path: Path) -> None:
    key = "sk-verysecret12345678"
    data = answer(reason=f"api_key={key} \x1b[2J")
    data["checks"][0] |= {"name": "a\x1b]0;b", "facts": {"api_key": key, "said": f"Bearer {key}"}}
    data["figures"] = {"x\x1b": FIGURE}
    data["machine"] = {"gpu": "\x1b[31mNVIDIA", "HF_TOKEN": "hf_abcdefghijklmnopqrst"}
    result = ran(tmp_path, printing(data))
    assert result.verdict == "ok"
    for shown in (as_json([result], "python", None), "\n".join(lines([result]))):
        assert key not in shown
        assert "hf_abc" not in shown
    (check,) = result.checks
    assert (check.name, check.facts["api_key"]) == ("a ]0;b", "<redacted>")
    assert [name for name, _ in result.figures] == ["x "]
    assert dict(result.machine)["gpu"] == " [31mNVIDIA"


def test_a_figure_outside_of_its_own_spread_is_no_answer(tmp_path: Path) -> None:
    result = ran(tmp_path, printing(answer(speedup={**FIGURE, "low": 2.0})))
    assert result.verdict == "wrong"
    assert "1.9 is not between 2 and 2" in result.reason
