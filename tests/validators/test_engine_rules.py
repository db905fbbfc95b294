"""The rules over the engine's own names and values, on real deployments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from configurator.content import Library
from configurator.launch import launch_of
from configurator.loader import Validators
from configurator.resolve import resolve
from configurator.rules import Finding
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.source import parse_source

RELEASED = {"build": "sglang-0.5.23"}
BUILD = {"build": "ling-v3-mxfp4-humming", "overrides": {"base": {"release": "0.5.23"}}}
NEW = ("ENG106", "ENG107", "ENG108", "ENG109")
ENGINE = ("ENG001", "ENG101", "ENG102", "ENG103", "ENG104", "ENG105", *NEW)
ENVIRONMENT = ("ENV101", "ENV102", "ENV103", "ENV104", "ENV105", "ENV106", "ENV107")


class Judge:
    """The engine rules over a small deployment with some arguments and variables."""

    def __init__(self, library: Library, validators: Validators) -> None:
        self.library = library
        self.validators = validators

    def __call__(
        self,
        args: dict[str, Any] | None = None,
        env: dict[str, Any] | None = None,
        engine: dict[str, Any] | None = None,
    ) -> list[tuple[str, Finding]]:
        profile = {
            "apiVersion": "configurator/v1",
            "kind": "Deployment",
            "name": "small",
            "engine": engine or RELEASED,
            "hardware": {"name": "h200", "gpus": 1},
            "model": {"name": "qwen3-8b"},
            "workload": {"concurrency": 1},
            "serving": {"host": "127.0.0.1", "port": 30000},
            "extra": {"args": args or {}, "env": env or {}},
        }
        layers = self.library.extend(parse_source(yaml.safe_dump(profile), "small.yaml"))
        deployment = resolve(parse(Profile, layers.data, layers.locate), layers, self.library)
        launch = launch_of(deployment)
        return [
            (code, finding)
            for code in (*ENGINE, *ENVIRONMENT)
            for finding in self.validators.rules[code].check(launch)
        ]

    def only(self, **given: Any) -> tuple[str, str, str]:
        """Code, message and remedy of the only finding."""
        ((code, finding),) = self(**given)
        return code, finding.message, finding.remedy


@pytest.fixture
def judge(library: Library, validators: Validators) -> Judge:
    return Judge(library, validators)


def test_a_small_deployment_has_no_findings(judge: Judge) -> None:
    assert judge() == []
    assert judge(engine={"build": "sglang-0.5.17"}) == []


def test_a_removed_argument_and_what_replaces_it(judge: Judge) -> None:
    assert judge.only(args={"cuda-graph-max-bs": 8}) == (
        "ENG109",
        "--cuda-graph-max-bs (from extra.args) is short for each of --cuda-graph-max-bs-decode, "
        "--cuda-graph-max-bs-prefill of sglang 0.5.23",
        "use --cuda-graph-max-bs-decode; cuda-graph-max-bs is known in 0.5.1 to 0.5.19 only",
    )
    old = judge.only(args={"cuda-graph-max-bs": 8}, engine={"build": "sglang-0.5.17"})
    assert old == (
        "ENG103",
        "--cuda-graph-max-bs (from extra.args) is deprecated in sglang-0.5.17",
        "use --cuda-graph-max-bs-decode",
    )


def test_a_remedy_is_no_sentence_of_the_engine_after_use(judge: Judge) -> None:
    code, _, remedy = judge.only(args={"enable-expert-distribution-metrics": True})
    assert code == "ENG101"
    assert remedy == (
        "the engine said: --enable-expert-distribution-metrics is no longer supported. Use "
        "--expert-balancedness-report-mode with one of: off, server_log, prometheus, both; "
        "enable-expert-distribution-metrics is known in 0.5.1 to 0.5.19 only"
    )


def test_an_argument_of_a_later_release(judge: Judge) -> None:
    given: dict[str, Any] = {
        "args": {"enable-nvidia-megakernel": True},
        "engine": {"build": "sglang-0.5.17"},
    }
    code, message, remedy = judge.only(**given)
    assert (code, remedy) == ("ENG101", "it is known in 0.5.23 only")
    assert message.endswith("is unknown to sglang 0.5.17")


def test_mistyped_arguments(judge: Judge) -> None:
    assert judge.only(args={"max-runing-requests": 8})[2].startswith(
        "did you mean 'max-running-requests'"
    )
    assert judge.only(args={"max_running_requests": 8})[2] == "write max-running-requests"
    assert judge.only(args={"zzzzzzzz": 8})[2] == "remove it"


def test_abbreviations(judge: Judge) -> None:
    assert judge.only(args={"max-running": 8}) == (
        "ENG104",
        "--max-running (from extra.args) is accepted only as short for --max-running-requests",
        "write max-running-requests",
    )
    code, message, _ = judge.only(args={"enable-torch-compil": True})
    assert code == "ENG109"
    assert "short for each of --enable-torch-compile, --enable-torch-compile-debug-mode" in message


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max-running-requests", "many", "takes a whole number, not 'many'"),
        ("max-running-requests", 1.5, "takes a whole number, not '1.5'"),
        ("max-running-requests", True, "takes one value, and is given none"),
        ("max-run", "many", "takes a whole number, not 'many'"),
        ("schedule-conservativeness", "high", "takes a number, not 'high'"),
        ("cuda-graph-bs-decode", ["a"], "takes a whole number, not 'a'"),
        ("cuda-graph-bs-decode", True, "takes at least one value, and is given none"),
        ("attention-backend", "fa33", "does not take 'fa33'"),
        ("json-model-override-args", "{", "takes str, not"),
        ("mm-process-config", "{", "takes JSON, not '{'"),
    ],
)
def test_values_the_parser_refuses(judge: Judge, name: str, value: Any, message: str) -> None:
    found = [f for code, f in judge(args={name: value}) if code == "ENG102"]
    if "takes str" in message:
        # Read as text here; the engine parses it later.
        assert found == []
    else:
        assert message in found[0].message
        assert found[0].path == ("extra", "args", name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max-running-requests", [1, 2], "'2' belongs to no option: --max-running-requests takes "),
        ("enable-metrics", "yes", "'yes' belongs to no option: --enable-metrics takes no value"),
    ],
)
def test_values_too_many(judge: Judge, name: str, value: Any, message: str) -> None:
    code, found, remedy = judge.only(args={name: value})
    assert code == "ENG101"
    assert found.startswith(message)
    assert remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-running-requests", "8"),
        ("schedule-conservativeness", 1),
        ("cuda-graph-bs-decode", [1, 2]),
        ("cuda-graph-bs-decode", 1),
        ("enable-metrics", True),
        ("attention-backend", "fa3"),
        ("mm-process-config", "{}"),
        ("lora-paths", ["a=/x", "b=/y"]),
        ("max-total-tokens", -1),
    ],
)
def test_values_the_parser_takes(judge: Judge, name: str, value: Any) -> None:
    assert judge(args={name: value}) == []


def test_a_choice_that_is_nearly_right(judge: Judge) -> None:
    code, message, remedy = judge.only(args={"moe-runner-backend": "huming"})
    assert code == "ENG102"
    assert message == "--moe-runner-backend (from extra.args) does not take 'huming'"
    assert remedy.startswith("did you mean 'humming'?")
    assert "choices: auto," in remedy


def test_a_build_is_warned_and_never_refused(judge: Judge) -> None:
    given: dict[str, Any] = {
        "args": {"zzzzzzzz": 8, "max-running-requests": "many"},
        "env": {"SGLANG_ZZZZZZZZ": 1},
        "engine": BUILD,
    }
    assert [code for code, _ in judge(**given)] == ["ENG105", "ENG105", "ENV104"]


def test_a_build_on_an_unknown_base_is_said_once(judge: Judge) -> None:
    given: dict[str, Any] = {"args": {"zzzzzzzz": 8}, "engine": {"build": "ling-v3-mxfp4-humming"}}
    code, message, _ = judge.only(**given)
    assert code == "ENG001"
    assert message.endswith("are not checked: its base is unknown")


def test_a_release_without_a_catalogue(judge: Judge) -> None:
    newer = RELEASED | {"overrides": {"version": "0.9.0"}}
    code, message, _ = judge.only(args={"zzzzzzzz": 8}, engine=newer)
    assert code == "ENG001"
    assert message.endswith("are not checked: there is no catalogue of sglang 0.9.0")


def test_names_a_build_adds_and_removes(judge: Judge) -> None:
    engine = BUILD["overrides"] | {  # type: ignore[operator]
        "adds": {"args": ["zzzzzzzz"], "env": ["SGLANG_ZZZZZZZZ"]},
        "removes": {"args": ["page-size"], "env": ["SGLANG_LOG_GC"]},
    }
    found = judge(
        args={"zzzzzzzz": [1, "x"], "page-size": 64},
        env={"SGLANG_ZZZZZZZZ": 1, "SGLANG_LOG_GC": 1},
        engine={"build": BUILD["build"], "overrides": engine},
    )
    assert [(code, f.path[-1]) for code, f in found] == [
        ("ENG105", "page-size"),
        ("ENV104", "SGLANG_LOG_GC"),
    ]


def test_mistyped_variables(judge: Judge) -> None:
    code, message, remedy = judge.only(env={"SGLANG_LOG_GCC": 1})
    assert code == "ENV101"
    assert message == (
        "sglang 0.5.23 does not read SGLANG_LOG_GCC (from extra.env): it is ignored without a word"
    )
    assert remedy.startswith("did you mean 'SGLANG_LOG_GC'")


def test_a_variable_that_is_gone(judge: Judge) -> None:
    engine = {"build": "sglang-0.5.17"}
    assert judge(env={"SGLANG_ENABLE_THINKING": 1}, engine=engine)[0][0] == "ENV103"
    code, _, remedy = judge.only(env={"SGLANG_LOGITS_PROCESSER_CHUNK_SIZE": 1})
    assert code == "ENV105"
    assert remedy == (
        "write SGLANG_LOGPROB_CHUNK_SIZE instead; SGLANG_LOGITS_PROCESSER_CHUNK_SIZE is known in "
        "0.5.4.post3 to 0.5.20 only"
    )


def test_what_only_the_tool_sets_is_not_held_against_the_profile(judge: Judge) -> None:
    engine = {"build": "sglang-0.5.17"}
    assert judge.only(env={"SGLANG_EXPOSE_OWN_ENV_VARS": 1}, engine=engine)[0] == "ENV101"
    assert judge(engine=engine) == []


def test_variables_that_are_not_the_engines_are_left_alone(judge: Judge) -> None:
    assert judge(env={"NCCL_DEBUGG": "INFO", "HF_HOME": "/x", "SGLANG_USE_CPU_ENGINE": 1}) == []


@pytest.mark.parametrize("value", ["on", "", "2", " 1"])
def test_booleans_the_engine_cannot_read(judge: Judge, value: str) -> None:
    code, message, remedy = judge.only(env={"SGLANG_LOG_GC": value})
    assert (code, remedy) == ("ENV102", "give 1 or 0")
    assert message == (
        f"SGLANG_LOG_GC (from extra.env) is {value!r}, which is no bool: the engine takes its "
        "default False"
    )


@pytest.mark.parametrize("value", [True, False, 1, 0, "YES", "n", "true"])
def test_booleans_the_engine_reads(judge: Judge, value: Any) -> None:
    assert judge(env={"SGLANG_LOG_GC": value}) == []


def test_numbers_the_engine_cannot_read(judge: Judge) -> None:
    code, message, remedy = judge.only(env={"SGLANG_SORT_WEIGHT_FILES": "1.5"})
    assert (code, remedy) == ("ENV102", "give a value of type int")
    assert message.endswith("which is no int: the engine takes its default 0")
    assert judge(env={"SGLANG_SORT_WEIGHT_FILES": "-1"}) == []


def test_renamed_variables(judge: Judge) -> None:
    assert judge.only(env={"SGL_LOG_GC": 1}) == (
        "ENV103",
        "SGL_LOG_GC (from extra.env) is deprecated in sglang-0.5.23",
        "write SGLANG_LOG_GC instead",
    )
    assert judge.only(env={"SGLANG_USE_TRITON_ROUTER_SUM": 1})[2] == (
        "write SGLANG_USE_CUSTOM_ROUTER_SUM instead"
    )
    code, message, remedy = judge.only(env={"SGLANG_SKIP_RUST_TESTS": 1})
    assert (code, remedy) == ("ENV103", "remove SGLANG_SKIP_RUST_TESTS")
    assert message.endswith("The Rust tests run in pr-test-rust-workspace.yml now.")


@pytest.mark.parametrize(
    ("version", "code", "remedy"),
    [
        ("0.5.9", "ENV107", "it has no effect"),
        ("0.5.20", "ENV103", "write SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK, with the opposite "),
        ("0.5.23", "ENV105", "write SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK, with the opposite "),
    ],
)
def test_a_variable_that_was_turned_round(
    judge: Judge, version: str, code: str, remedy: str
) -> None:
    found = judge(env={"SGLANG_DISABLE_TP_MEMORY_INBALANCE_CHECK": 1}, engine={"version": version})
    ((got, finding),) = [f for f in found if f[0].startswith("ENV")]
    assert got == code
    assert remedy in finding.remedy
    assert finding.fix is None, "the name alone would turn the meaning round"
