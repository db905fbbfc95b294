"""What an answer of the engine says about the words of a launch."""

from __future__ import annotations

from typing import Any

import pytest

from configurator.content import Library
from configurator.launch import Launch, LaunchWord
from configurator.oracle.client import OracleResult
from configurator.oracle.findings import OracleFinding, findings, same
from configurator.rules import Severity
from configurator.validate import Diagnostic


def launch(line: str, engine: str = "sglang-0.5.23") -> Launch:
    """A launch whose words are written at `words[i]`."""
    words = tuple(LaunchWord(text, ("words", i)) for i, text in enumerate(line.split()))
    return Launch(Library().engine(engine), words, {})


def resolved(asked: dict[str, object], became: dict[str, object], **more: Any) -> OracleResult:
    spellings = {name: [f"--{name.replace('_', '-')}"] for name in asked}
    return OracleResult(
        "x", "resolved", "0.5.23", resolved=became, asked=asked, spellings=spellings, **more
    )


def refused(error: str, version: str = "0.5.23") -> OracleResult:
    return OracleResult("x", "refused", version, error, "sglang/srt/a.py:7")


def ours(code: str, severity: Severity, message: str = "it is wrong") -> Diagnostic:
    return Diagnostic(code, "a-rule", severity, message, "", None, "", "")


def said(found: list[OracleFinding]) -> list[tuple[str, str, Any]]:
    return [(f.code, f.severity, f.path) for f in found]


def test_nothing_is_said_about_a_launch_that_is_taken_as_it_is() -> None:
    answer = resolved({"tp_size": 8}, {"tp_size": 8, "page_size": 64})
    assert findings(launch("--tp-size 8"), answer) == []


def test_a_refusal_points_at_the_word_it_names() -> None:
    error = "AssertionError: chunked_prefill_size must be divisible by page_size"
    found = findings(launch("--page-size 64 --chunked-prefill-size=100"), refused(error))
    assert said(found) == [
        ("ORC101", "error", ("words", 2)),
        ("ORC104", "info", ("words", 2)),
    ]
    assert found[0].message == f"SGLang 0.5.23 refuses this launch: {error}"
    assert found[0].source == "sglang/srt/a.py:7"


@pytest.mark.parametrize(
    ("line", "error", "index"),
    [
        ("--tp 8 --enable-torch-compil", "ambiguous option: --enable-torch-compil could", 2),
        ("--attention-backend trtllm_mla", "ValueError: TRTLLM MLA backend is only", 0),
        ("--speculative-algorithm BOGUS", "ValueError: Unknown algorithm name: BOGUS", 0),
        ("--tp 8 --pp 2", "ambiguous option: --pp could match --pp-size", 2),
        # The longest name counts, and the last of two.
        ("--page-size 1 --page-size 2", "ValueError: page_size", 2),
        ("--size 3 --page-size 1", "ValueError: page_size and size", 2),
    ],
)
def test_where_a_refusal_points(line: str, error: str, index: int) -> None:
    assert findings(launch(line), refused(error))[0].path == ("words", index)


def test_a_refusal_that_names_nothing_points_at_the_launch() -> None:
    # `tp` is in "http", and `length` is not the option `--context-length`.
    found = findings(launch("--tp 8 --context-length 9"), refused("ValueError: http length"))
    assert found[0].path == ()


def test_an_exception_by_accident_is_told_as_one() -> None:
    (first, _) = findings(launch("--tp 8"), refused("TypeError: '>' not supported"))
    assert first.code == "ORC101"
    assert "fails over these arguments" in first.message
    assert "sglang/srt/a.py:7" in first.remedy


def test_what_only_this_python_lacks_is_no_error_of_the_launch() -> None:
    found = findings(launch("--tp 8"), refused("ValueError: the 'x' plugin is not installed"))
    assert said(found) == [("ORC001", "info", ())]
    assert found[0].remedy == "ask a Python of the image that serves"


def test_a_changed_value_points_at_its_word_and_names_who_changed_it() -> None:
    answer = resolved({"page_size": 1}, {"page_size": 64}, decided_by={"page_size": "pages"})
    (found,) = findings(launch("--tp 8 --page-size 1"), answer)
    assert (found.code, found.severity, found.path) == ("ORC102", "warning", ("words", 2))
    assert found.message == "--page-size asks for 1, and SGLang 0.5.23 makes it 64"
    assert found.remedy == "write 64, or change what the engine objects to"
    assert found.source == "SGLang 0.5.23, pages"


def test_a_short_spelling_is_found_too() -> None:
    answer = resolved({"chunked_prefill_size": 100}, {"chunked_prefill_size": 64})
    (found,) = findings(launch("--tp 8 --chunked-pre 100"), answer)
    assert found.path == ("words", 2)


def test_a_new_name_for_the_same_is_only_told() -> None:
    answer = resolved({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "EAGLE"})
    (found,) = findings(launch("--speculative-algorithm NEXTN"), answer)
    assert (found.code, found.severity, found.remedy) == ("ORC102", "info", "")
    assert found.message.endswith("asks for NEXTN, and SGLang 0.5.23 makes it EAGLE, its name for "
                                  "the same")  # fmt: skip


def test_another_algorithm_is_more_than_a_name() -> None:
    answer = resolved({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "STANDALONE"})
    (found,) = findings(launch("--speculative-algorithm NEXTN"), answer)
    assert found.severity == "warning"


def test_a_value_that_moved_to_another_argument_is_only_told() -> None:
    answer = resolved({"dp_size": 8}, {"dp_size": 1, "attn_dp_size": 8})
    (found,) = findings(launch("--dp-size 8"), answer)
    assert found.severity == "info"
    assert found.message == (
        "--dp-size asks for 8, and SGLang 0.5.23 makes it 1, and attn_dp_size 8"
    )


def test_a_changed_list_is_shown_as_it_became() -> None:
    answer = resolved({"cuda_graph_bs": [1, 16]}, {"cuda_graph_bs": [1, 8]})
    (found,) = findings(launch("--cuda-graph-bs 1 16"), answer)
    assert found.message == "--cuda-graph-bs asks for [1, 16], and SGLang 0.5.23 makes it [1, 8]"


def test_places_of_files_are_not_compared() -> None:
    asked: dict[str, object] = {"model_path": "org/model", "tokenizer_path": "a"}
    became: dict[str, object] = {"model_path": "/tmp/x", "tokenizer_path": "b"}
    assert findings(launch("--model-path org/model"), resolved(asked, became)) == []


@pytest.mark.parametrize(
    ("asked", "became"),
    [
        (1, 1.0),
        ("auto", "fa3"),
        (None, 4),
        ("half", "float16"),
        ("EAGLE", "eagle"),
        ('{"a": 1}', {"a": 1, "b": 2}),
        ('{"decode": {"bs": [1]}}', {"decode": {"bs": [1], "backend": "full"}}),
        (["x"], "x"),
        (["a=/x"], [{"lora_id": "7f", "lora_name": "a", "lora_path": "/x"}]),
    ],
)
def test_values_that_are_the_same(asked: object, became: object) -> None:
    assert same(asked, became)


@pytest.mark.parametrize(
    ("asked", "became"),
    [
        (8192, 1024),
        (True, False),
        ("fa3", "triton"),
        ('{"a": 1}', {"a": 2}),
        ('{"a": 1}', {"b": 1}),
        ([1, 2], [1]),
        ([1, 2], [1, 3]),
        (["a=/x"], [{"lora_name": "b", "lora_path": "/x"}]),
        ("bfloat16", "auto"),
        (0.9, None),
    ],
)
def test_values_that_differ(asked: object, became: object) -> None:
    assert not same(asked, became)


def test_the_log_of_the_engine_is_passed_on() -> None:
    answer = resolved({}, {}, warnings=("max_running_requests is reset to 48",))
    (found,) = findings(launch("--max-running-requests 64"), answer)
    assert (found.code, found.severity, found.path) == ("ORC103", "info", ("words", 0))
    assert found.message == "SGLang 0.5.23 warns: max_running_requests is reset to 48"


def test_an_error_of_ours_that_the_engine_does_not_share() -> None:
    answer = resolved({}, {})
    found = findings(launch("--tp 8"), answer, [ours("HW105", "error"), ours("MOE1", "warning")])
    assert said(found) == [("ORC104", "info", ())]
    assert found[0].message == "the engine takes what HW105 calls an error: it is wrong"


def test_no_difference_where_both_refuse() -> None:
    found = findings(launch("--tp 8"), refused("ValueError: no"), [ours("PAR101", "error")])
    assert said(found) == [("ORC101", "error", ())]


def test_warnings_of_ours_do_not_say_that_it_is_refused() -> None:
    found = findings(launch("--tp 8"), refused("ValueError: no"), [ours("PAR101", "warning")])
    assert [f.code for f in found] == ["ORC101", "ORC104"]


def test_another_version_is_named_and_not_held_against_the_rules() -> None:
    answer = refused("ValueError: no", "0.5.20")
    found = findings(launch("--tp 8"), answer)
    assert [f.code for f in found] == ["ORC001", "ORC101"]
    assert found[0].message == "judged by SGLang 0.5.20, and this launch is for 0.5.23"
    assert found[0].remedy == "name a Python with SGLang 0.5.23"


@pytest.mark.parametrize(
    ("state", "error", "message", "remedy"),
    [
        (
            "skipped",
            "--model-path a is no directory with a config.json on this machine",
            "the engine did not judge this: --model-path a is no directory",
            "run it where the checkpoint is, or give its config.json",
        ),
        (
            "skipped",
            "which GPU it is for is not said",
            "the engine did not judge this: which GPU",
            "name the hardware, as h200",
        ),
        ("crashed", "no answer within 3 s", "the engine gave no answer: no answer within 3 s", ""),
    ],
)
def test_no_judgement_is_no_error(state: Any, error: str, message: str, remedy: str) -> None:
    answer = OracleResult("x", state, "0.5.23", error, warnings=("a warning",))
    (found,) = findings(launch("--tp 8"), answer, [ours("HW105", "error")])
    assert (found.code, found.severity, found.remedy) == ("ORC001", "info", remedy)
    assert found.message.startswith(message)


def test_assumptions_are_told() -> None:
    answer = resolved({}, {}, notes=("org/model: only its config was given",))
    (found,) = findings(launch("--tp 8"), answer)
    assert found.code == "ORC001"
    assert found.message == "judged with assumptions: org/model: only its config was given"
