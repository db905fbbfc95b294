"""pydantic's errors as problems with positions."""

from __future__ import annotations

import pytest

from configurator.errors import ConfiguratorError
from configurator.schema.base import dotted, field_names, parse, short
from configurator.schema.profile import Profile
from configurator.source import parse_source

GOOD = """\
apiVersion: configurator/v1
kind: Deployment
name: example
engine: {version: 0.5.23}
hardware: {name: h200, gpus: 1}
model: {name: qwen3-8b}
"""


def problems(text: str) -> list[str]:
    source = parse_source(text, "p.yaml")
    with pytest.raises(ConfiguratorError) as caught:
        parse(Profile, source.data, lambda path: source.nearest(path)[1])
    return [str(problem) for problem in caught.value.problems]


def test_a_minimal_profile_has_documented_defaults() -> None:
    source = parse_source(GOOD, "p.yaml")
    profile = parse(Profile, source.data, lambda path: source.nearest(path)[1])
    assert profile.topology.tensor == 1
    assert profile.evidence.instrument == "standard"
    assert profile.serving.port == 30000
    assert profile.startup.timeout_s == 1200


def test_an_unknown_key_has_position_and_suggestion() -> None:
    assert problems(GOOD + "memory: {mem_fraction_statc: 0.8}\n") == [
        "p.yaml:7:10: SCH005 unknown key 'memory.mem_fraction_statc'; "
        "did you mean 'mem_fraction_static'?"
    ]


def test_an_unknown_key_below_a_list() -> None:
    text = GOOD + "deviations:\n- {published: a, here: b, reason: c, resaon: d}\n"
    assert problems(text) == [
        "p.yaml:8:38: SCH005 unknown key 'deviations[0].resaon'; did you mean 'reason'?"
    ]


def test_every_problem_is_reported_at_once() -> None:
    text = GOOD.replace("gpus: 1", "gpus: one").replace("kind: Deployment\n", "") + "nmae: x\n"
    found = problems(text)
    assert len(found) == 3
    assert found[0] == "p.yaml:1:1: SCH006 'kind' is missing; add it"
    assert found[1].startswith("p.yaml:4:24: SCH007 hardware.gpus is 'one'; ")
    assert found[2] == "p.yaml:6:1: SCH005 unknown key 'nmae'; did you mean 'name'?"


def test_what_should_be_a_mapping_is_said_in_words_of_yaml() -> None:
    for line in ("topology: [1]", "topology: 2", "optimizations: all"):
        (found,) = problems(f"{GOOD}{line}\n")
        assert found.endswith("; write a mapping (KEY: VALUE)"), found


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("memory: {mem_fraction_static: 1.5}", "memory.mem_fraction_static is 1.5"),
        ("memory: {mem_fraction_static: '0.8'}", "memory.mem_fraction_static is '0.8'"),
        ("memory: {min_available_gib: lots}", "memory.min_available_gib is 'lots'"),
        ("serving: {port: 70000}", "serving.port is 70000"),
        ("serving: {port: 30000.5}", "serving.port is 30000.5"),
        ("topology: {tensor: true}", "topology.tensor is True"),
        ("topology: [1]", "topology is a list"),
        ("serving: {api_key: sk-live}", "serving.api_key is written in clear"),
        ("serving: {api_key: {file: /a, env: B}}", "serving.api_key is a mapping"),
        ("serving: {api_key: {file: keys/a}}", "serving.api_key.file cannot be used"),
        ("serving: {api_key: {file: ~/a}}", "serving.api_key.file cannot be used"),
        ("container: {cache: /a/../b}", "container.cache is '/a/../b'"),
        ("container: {cache: '/a:b'}", "container.cache is '/a:b'"),
        ("extra: {args: {x: {y: 1}}}", "extra.args.x is a mapping"),
        ("optimizations: {a: {on_refuted: explode}}", "optimizations.a.on_refuted is 'explode'"),
    ],
)
def test_wrong_values_say_where_and_what(line: str, path: str) -> None:
    found = problems(f"{GOOD}{line}\n")
    assert len(found) == 1
    assert f"SCH007 {path}; " in found[0]
    assert found[0].startswith("p.yaml:7:")


def test_an_engine_needs_exactly_one_of_build_and_version() -> None:
    found = problems(GOOD.replace("{version: 0.5.23}", "{version: 0.5.23, build: x}"))
    assert found == [
        "p.yaml:4:1: SCH007 engine is a mapping; give exactly one of 'build' and 'version'"
    ]


def test_field_names_follow_lists_and_optional_models() -> None:
    assert "published" in field_names(Profile, ("deviations", 0))
    assert field_names(Profile, ("serving", "api_key")) == ["file", "env"]
    assert field_names(Profile, ("extra", "args", "anything")) == []


def test_dotted_and_short() -> None:
    assert dotted(("a", "b", 0, "c")) == "a.b[0].c"
    assert short(None) == "empty (null)"
    assert short("x" * 100) == "'" + "x" * 56 + "..."
