"""The process that asks the engine, and its client, over a small engine of our own."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from oracle.engines import ARGUMENTS, write_engine, write_model

from configurator.content import Library
from configurator.errors import ConfiguratorError
from configurator.launch import Launch, LaunchEnv, LaunchWord
from configurator.oracle.client import (
    Oracle,
    OracleLaunch,
    OracleResult,
    gpu_facts,
    oracle_launch,
)

H200 = {"arch": "sm_90", "memory_gb": 141, "gpus_per_host": 8, "product": "NVIDIA H200"}
B300 = {"arch": "sm_103", "memory_gb": 288, "gpus_per_host": 8, "product": "NVIDIA B300"}


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write_model(tmp_path / "model"))


@pytest.fixture
def oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    monkeypatch.setenv("PYTHONPATH", str(write_engine(tmp_path / "engine")))
    return Oracle(Path(sys.executable), timeout_s=20)


def ask(oracle: Oracle, *argv: str, **more: Any) -> OracleResult:
    """The answer for one launch on an H200."""
    (result,) = oracle.check([OracleLaunch("one", argv, gpu=more.pop("gpu", H200), **more)])
    return result


def test_a_good_launch_is_resolved_with_what_was_asked(oracle: Oracle, model: str) -> None:
    result = ask(oracle, "--model-path", model, "--tp", "8")
    assert (result.state, result.version, result.error) == ("resolved", "0.5.23", "")
    assert result.resolved["tp_size"] == 8
    assert result.resolved["model_type"] == "llama"
    assert result.asked == {"model_path": model, "tp_size": 8}
    assert result.spellings["tp_size"] == ["--tp-size", "--tp"]
    assert result.notes == ()
    assert oracle.version == "0.5.23"


def test_the_engine_believes_in_the_gpu_it_is_told_of(oracle: Oracle, model: str) -> None:
    argv = ("--model-path", model)
    gpus = [H200, B300, {"arch": "sm_121a", "memory_gb": 128}]
    launches = [OracleLaunch(str(i), argv, gpu=gpu) for i, gpu in enumerate(gpus)]
    results = list(oracle.check(launches))
    assert [r.resolved["cuda"] for r in results] == [
        [True, True, [9, 0]],
        [True, True, [10, 3]],
        [True, True, [12, 1]],
    ]
    assert [r.resolved["memory"] for r in results] == [141_000, 288_000, 128_000]


def test_no_launch_sees_what_another_left(oracle: Oracle, model: str) -> None:
    first = OracleLaunch("a", ("--model-path", model, "--page-size", "16"), gpu=H200)
    other = OracleLaunch(
        "b",
        ("--model-path", model, "--page-size", "32"),
        {"SGLANG_HINT": "asked"},
        B300,
    )
    results = list(oracle.check([first, other, first]))
    assert [r.id for r in results] == ["a", "b", "a"]
    assert results[0] == results[2]
    assert results[0].resolved["hint"] is None
    assert results[1].resolved["hint"] == "asked"
    # Only the warm-up, which all of them share, came before.
    assert [r.resolved["seen"] for r in results] == [[None]] * 3


def test_variables_of_this_process_do_not_reach_a_launch(
    oracle: Oracle, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_HINT", "ours")
    assert ask(oracle, "--model-path", model).resolved["hint"] is None


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("--tp", "x"), "argument --tp-size/--tp: invalid int value: 'x'"),
        (("--tpp", "8"), "unrecognized arguments: --tpp 8"),
        (("--backend", "fa4"), "argument --backend: invalid choice: 'fa4'"),
    ],
)
def test_what_the_parser_refuses_is_refused(
    oracle: Oracle, model: str, argv: tuple[str, ...], error: str
) -> None:
    result = ask(oracle, "--model-path", model, *argv)
    assert result.state == "refused"
    assert result.error.startswith(error)
    assert result.where == "the engine's argument parser"


def test_arguments_that_only_print_are_skipped(oracle: Oracle) -> None:
    result = ask(oracle, "--help")
    assert (result.state, result.error) == ("skipped", "these arguments print something and end")


def test_an_exception_is_a_refusal_with_its_place(oracle: Oracle, model: str) -> None:
    result = ask(oracle, "--model-path", model, "--trouble", "value", "--page-size", "7")
    assert result.state == "refused"
    assert result.error == f"ValueError: page_size 7 is wrong in {model}"
    line = 1 + ARGUMENTS.splitlines().index(
        """        raise ValueError(f"page_size {self.values['page_size']} is wrong in \""""
    )
    assert result.where == f"sglang/srt/server_args.py:{line}"


def test_the_last_checks_of_the_launcher_count_too(oracle: Oracle, model: str) -> None:
    result = ask(oracle, "--model-path", model, "--tp", "0")
    assert (result.state, result.error) == ("refused", "AssertionError: tp_size must be positive")


def test_a_change_is_told_with_who_decided_it_and_the_log(oracle: Oracle, model: str) -> None:
    result = ask(oracle, "--model-path", model, "--backend", "trtllm", "--page-size", "1")
    assert (result.asked["page_size"], result.resolved["page_size"]) == (1, 64)
    assert result.decided_by == {"page_size": "page_rule"}
    assert result.warnings == ("trtllm needs pages of 64",)


@pytest.mark.parametrize(
    ("trouble", "error"), [("network", "no network"), ("import", "a_package_that_nobody_has")]
)
def test_what_this_machine_lacks_is_no_refusal(
    oracle: Oracle, model: str, trouble: str, error: str
) -> None:
    result = ask(oracle, "--model-path", model, "--trouble", trouble)
    assert result.state == "skipped"
    assert "cannot be told on this machine" in result.error
    assert error in result.error


def test_no_program_is_started(oracle: Oracle, model: str) -> None:
    result = ask(oracle, "--model-path", model, "--trouble", "program")
    assert result.error.startswith("FileNotFoundError")
    assert "no program is started" in result.error


def test_one_that_hangs_or_dies_does_not_take_the_others_along(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(write_engine(tmp_path / "engine")))
    oracle = Oracle(Path(sys.executable), timeout_s=3)
    trouble = [("hang",), ("abort",), ()]
    launches = [
        OracleLaunch("x", ("--model-path", model, *[f"--trouble={t}" for t in kind]), gpu=H200)
        for kind in trouble
    ]
    hung, died, good = oracle.check(launches)
    assert (hung.state, hung.error) == ("crashed", "no answer within 3 s")
    assert (died.state, died.error) == ("crashed", "the engine's process died by signal 6")
    assert good.state == "resolved"


def test_a_config_stands_in_for_a_checkpoint_elsewhere(oracle: Oracle) -> None:
    result = ask(oracle, "--model-path", "org/model", config={"model_type": "deepseek_v3"})
    assert result.state == "resolved"
    assert result.resolved["model_type"] == "deepseek_v3"
    assert result.resolved["model_path"] == "org/model"
    assert result.notes == ("org/model: only its config was given, not its files",)


def test_without_config_only_the_words_are_judged(oracle: Oracle) -> None:
    skipped = ask(oracle, "--model-path", "org/model")
    assert skipped.state == "skipped"
    assert skipped.error == (
        "--model-path org/model is no directory with a config.json on this machine"
    )
    assert ask(oracle, "--model-path", "org/model", "--tp", "x").state == "refused"


def test_a_draft_elsewhere_needs_a_config_too(oracle: Oracle, model: str) -> None:
    argv = ("--model-path", model, "--speculative-draft-model-path", "org/draft")
    skipped = ask(oracle, *argv)
    assert skipped.state == "skipped"
    assert skipped.error.startswith("--speculative-draft-model-path org/draft is no directory")
    given = ask(oracle, *argv, draft_config={"model_type": "eagle"})
    assert given.resolved["speculative_draft_model_path"] == "org/draft"
    assert given.notes == ("org/draft: only its config was given, not its files",)


def test_a_draft_inside_the_target_has_its_config(oracle: Oracle) -> None:
    argv = ("--model-path", "org/model", "--speculative-draft-model-path", "org/model")
    result = ask(oracle, *argv, config={"model_type": "llama"})
    assert result.state == "resolved"
    assert result.notes == ("org/model: only its config was given, not its files",)


def test_without_a_machine_nothing_is_judged_but_the_words(oracle: Oracle, model: str) -> None:
    unknown = ask(oracle, "--model-path", model, gpu=None)
    assert (unknown.state, unknown.error) == ("skipped", "which GPU it is for is not said")
    assert ask(oracle, "--model-path", model, "--tp", "x", gpu=None).state == "refused"
    on_cpu = ask(oracle, "--model-path", model, "--device", "cpu", gpu=None)
    assert on_cpu.resolved["cuda"] == [False, False, None]


def test_code_of_a_checkpoint_is_left_behind(oracle: Oracle, tmp_path: Path) -> None:
    model = write_model(tmp_path / "own", "own", auto_map={"AutoConfig": "configuration.Own"})
    (model / "configuration.py").write_text("raise SystemExit('run')", encoding="utf-8")
    result = ask(oracle, "--model-path", str(model))
    assert result.state == "resolved"
    assert result.notes == (f"{model}: its own code is not run",)
    assert result.resolved["model_path"] == str(model)


def test_a_model_that_only_its_own_code_knows_is_not_refused(
    oracle: Oracle, tmp_path: Path
) -> None:
    own = write_model(tmp_path / "own", "alien", auto_map={"AutoConfig": "configuration.Own"})
    assert ask(oracle, "--model-path", str(own)).state == "skipped"
    unknown = write_model(tmp_path / "unknown", "alien")
    result = ask(oracle, "--model-path", str(unknown))
    assert (result.state, result.error) == ("refused", "ValueError: unknown model type alien")


def test_a_config_that_is_no_json(oracle: Oracle, tmp_path: Path) -> None:
    broken = write_model(tmp_path / "broken")
    (broken / "config.json").write_text("{", encoding="utf-8")
    result = ask(oracle, "--model-path", str(broken))
    assert result.state == "skipped"
    assert result.error == f"--model-path {broken} has a config.json that is not JSON"


def test_secrets_do_not_come_back(oracle: Oracle, model: str) -> None:
    key = "sk-" + "a1b2c3d4" * 4
    result = ask(oracle, "--model-path", model, "--api-key", key, "--trouble", key)
    assert key not in repr(result)


def test_a_python_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"ORC002 .*nothing cannot be run") as caught:
        list(Oracle(tmp_path / "nothing").check([]))
    assert "name the Python" in caught.value.problems[0].remedy


def test_a_python_without_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ConfiguratorError, match=r"ORC003 .*No module named 'sglang'"):
        list(Oracle(Path(sys.executable), 20).check([]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import os; print('last words', flush=True); os._exit(9)",
         "ended with status 9 while it imports the engine; its last line: last words"),
        ("import time; time.sleep(60)", "said nothing for 1.5 s while it imports the engine"),
    ],
)  # fmt: skip
def test_an_engine_that_ends_or_hangs_at_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(write_engine(tmp_path / "engine", arguments=body)))
    started = time.monotonic()
    with pytest.raises(ConfiguratorError, match="ORC004") as caught:
        list(Oracle(Path(sys.executable), 1.5 if "sleep" in body else 20).check([]))
    assert message in str(caught.value)
    assert time.monotonic() - started < 15


def test_progress_is_told(oracle: Oracle, model: str) -> None:
    told: list[str] = []
    oracle.progress = told.append
    ask(oracle, "--model-path", model)
    assert told[0].startswith("importing the engine with")
    assert told[1].startswith("SGLang 0.5.23 is ready after")
    assert told[2] == "one"


def test_facts_of_shipped_hardware(library: Library) -> None:
    assert gpu_facts(library.hardware("h200")) == {
        "arch": "sm_90",
        "memory_gb": 141,
        "gpus_per_host": 8,
        "product": "NVIDIA H200",
        "sms": 132,
    }
    # 121 GiB are more than 128 GB, so the smaller figure counts.
    assert gpu_facts(library.hardware("dgx-spark"))["memory_gb"] == 128


def test_what_is_known_only_where_it_runs_is_left_out(library: Library) -> None:
    words = (
        LaunchWord("--model-path", ("args",)),
        LaunchWord("org/model", ("args",)),
        LaunchWord("--api-key", ("key",)),
        LaunchWord("...", ("key",), unknown=True),
        LaunchWord("--port=$PORT", ("port",), unknown=True),
        LaunchWord("--tp", ("tp",)),
        LaunchWord("8", ("tp",)),
    )
    env = {
        "SGLANG_A": LaunchEnv("SGLANG_A", "1", ("env",)),
        "SGLANG_B": LaunchEnv("SGLANG_B", None, ("env",)),
    }
    launch = Launch(library.engine("sglang-0.5.23"), words, env, library.hardware("h200"))
    question = oracle_launch(launch, "x")
    assert question.argv == ("--model-path", "org/model", "--tp", "8")
    assert question.env == {"SGLANG_A": "1"}
    assert question.notes == (
        "--api-key is left out: its value is known only where it runs",
        "--port is left out: its value is known only where it runs",
    )
    assert question.gpu is not None
    assert question.gpu["arch"] == "sm_90"
