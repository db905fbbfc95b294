"""SARIF 2.1.0: every property the standard requires, none that it does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from configurator.deployment import Deployment
from configurator.errors import Position
from configurator.loader import Validators
from configurator.report.findings import FileFindings, Policy
from configurator.report.sarif import document
from configurator.rules import Finding, rule
from configurator.validate import Diagnostic

LEVELS = ("none", "note", "warning", "error")
# The objects that are written, as OASIS SARIF 2.1.0 defines them: property -> (required, type).
# A type in brackets is an array of it.
Shape = dict[str, tuple[bool, Any]]
SHAPES: dict[str, Shape] = {
    "log": {"$schema": (False, str), "version": (True, ("2.1.0",)), "runs": (True, ["run"])},
    "run": {
        "tool": (True, "tool"),
        "invocations": (False, ["invocation"]),
        "originalUriBaseIds": (False, dict),
        "columnKind": (False, ("utf16CodeUnits", "unicodeCodePoints")),
        "results": (False, ["result"]),
    },
    "tool": {"driver": (True, "toolComponent")},
    "toolComponent": {
        "name": (True, str),
        "version": (False, str),
        "semanticVersion": (False, str),
        "rules": (False, ["reportingDescriptor"]),
    },
    "reportingDescriptor": {
        "id": (True, str),
        "name": (False, str),
        "shortDescription": (False, "multiformatMessageString"),
        "fullDescription": (False, "multiformatMessageString"),
        "help": (False, "multiformatMessageString"),
        "defaultConfiguration": (False, "reportingConfiguration"),
        "properties": (False, dict),
    },
    "multiformatMessageString": {"text": (True, str), "markdown": (False, str)},
    "reportingConfiguration": {"level": (False, LEVELS)},
    "invocation": {
        "executionSuccessful": (True, bool),
        "exitCode": (False, int),
        "toolExecutionNotifications": (False, ["notification"]),
    },
    "notification": {
        "descriptor": (False, "reference"),
        "level": (False, LEVELS),
        "message": (True, "message"),
        "locations": (False, ["location"]),
    },
    "reference": {"id": (False, str)},
    "message": {"text": (False, str)},
    "result": {
        "ruleId": (False, str),
        "ruleIndex": (False, int),
        "level": (False, LEVELS),
        "message": (True, "message"),
        "locations": (False, ["location"]),
        "suppressions": (False, ["suppression"]),
    },
    "location": {
        "physicalLocation": (False, "physicalLocation"),
        "logicalLocations": (False, ["logicalLocation"]),
    },
    "physicalLocation": {
        "artifactLocation": (False, "artifactLocation"),
        "region": (False, "region"),
    },
    "artifactLocation": {"uri": (False, str), "uriBaseId": (False, str)},
    "region": {"startLine": (False, int), "startColumn": (False, int)},
    "logicalLocation": {"fullyQualifiedName": (False, str)},
    "suppression": {
        "kind": (True, ("inSource", "external")),
        "status": (False, ("accepted", "underReview", "rejected")),
        "justification": (False, str),
    },
}


def conforms(value: Any, kind: Any, where: str = "log") -> None:
    """Assert that a value has the shape the standard gives it."""
    if isinstance(kind, list):
        assert isinstance(value, list), where
        for index, item in enumerate(value):
            conforms(item, kind[0], f"{where}[{index}]")
    elif isinstance(kind, tuple):
        assert value in kind, where
    elif isinstance(kind, str):
        assert isinstance(value, dict), where
        shape = SHAPES[kind]
        assert set(value) <= set(shape), where
        assert {name for name, (required, _) in shape.items() if required} <= set(value), where
        for name, item in value.items():
            conforms(item, shape[name][1], f"{where}.{name}")
    else:
        assert type(value) is kind, where
        if kind is int:
            assert value >= 0, where


@rule("MEM901", "too-much", severity="warning", source="a test")
def too_much(deployment: Deployment) -> Any:
    """Too much leaves
    too little.

    The rest of it.

    Bad:
        memory: {mem_fraction_static: 0.97}

    Good:
        memory: {mem_fraction_static: 0.5}
    """
    yield Finding((), "")


RULES = {"MEM901": too_much}
PLACE = Position("my dir/50% ä:x.yaml", 2, 3)


def finding(
    code: str = "MEM901",
    severity: Literal["error", "warning", "info"] = "warning",
    *,
    message: str = "0.97 is too much",
    remedy: str = "",
    position: Position | None = PLACE,
    path: str = "memory.mem_fraction_static",
    suppressed: str | None = None,
) -> Diagnostic:
    name = "too-much" if code == "MEM901" else ""
    return Diagnostic(code, name, severity, message, remedy, position, path, "", suppressed)


def run_of(*files: FileFindings) -> dict[str, Any]:
    data = json.loads(document(files, RULES))
    conforms(data, "log")
    assert data["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert len(result["locations"]) == 1
        physical = result["locations"][0].get("physicalLocation")
        assert physical is None or physical["region"]["startLine"] >= 1
    assert isinstance(run, dict)
    return run


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_clean_run() -> None:
    run = run_of(Policy().over("a.yaml", ()))
    assert run["results"] == run["tool"]["driver"]["rules"] == []
    assert run["invocations"] == [
        {"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}
    ]
    assert run["tool"]["driver"]["name"] == "configurator"


def test_a_rule_with_its_page() -> None:
    run = run_of(Policy().over("a.yaml", (finding(), finding())))
    (described,) = run["tool"]["driver"]["rules"]
    assert described["name"] == "too-much"
    assert described["shortDescription"] == {"text": "Too much leaves too little."}
    assert described["fullDescription"] == {"text": "Too much leaves too little. The rest of it."}
    assert described["help"]["text"].startswith("MEM901 too-much (warning)\n\nToo much leaves\n")
    assert described["help"]["text"].endswith("Source: a test")
    assert described["defaultConfiguration"] == {"level": "warning"}
    assert described["properties"] == {"problem.severity": "warning", "tags": ["MEM"]}


def test_a_result_with_its_place(repository: Path) -> None:
    (result,) = run_of(Policy().over("a.yaml", (finding(remedy="set 0.88"),)))["results"]
    assert (result["ruleId"], result["level"]) == ("MEM901", "warning")
    assert result["message"] == {"text": "0.97 is too much\nremedy: set 0.88"}
    assert "suppressions" not in result
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {
                    "uri": "my%20dir/50%25%20%C3%A4%3Ax.yaml",
                    "uriBaseId": "%SRCROOT%",
                },
                "region": {"startLine": 2, "startColumn": 3},
            },
            "logicalLocations": [{"fullyQualifiedName": "memory.mem_fraction_static"}],
        }
    ]


def test_a_base_that_is_named_is_declared() -> None:
    assert list(run_of(FileFindings("a", ()))["originalUriBaseIds"]) == ["%SRCROOT%"]


def test_a_file_outside_of_the_repository_has_a_whole_address() -> None:
    outside = finding(position=Position("/else where/x.yaml", 1, 1))
    (result,) = run_of(Policy().over("a.yaml", (outside,)))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "file:///else%20where/x.yaml"}


def test_a_name_that_is_no_utf8_survives() -> None:
    (result,) = run_of(Policy().over("a", (finding(position=Position("\udcff.yaml", 1, 1)),)))[
        "results"
    ]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == "%FF.yaml"


def test_without_a_place_the_file_or_the_name_is_the_place(repository: Path) -> None:
    (repository / "a.yaml").write_text("x: 1\n")
    placeless = finding(position=None, path="")
    of_file, of_name = run_of(
        Policy().over("a.yaml", (placeless,)), Policy().over("a-deployment", (placeless,))
    )["results"]
    assert of_file["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "a.yaml", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 1},
            }
        }
    ]
    assert of_name["locations"] == [{"logicalLocations": [{"fullyQualifiedName": "a-deployment"}]}]


def test_a_silenced_finding_is_a_suppressed_result() -> None:
    run = run_of(Policy("warning").over("a", (finding(suppressed="measured, fits"),)))
    (result,) = run["results"]
    assert result["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "measured, fits"}
    ]
    assert run["invocations"][0]["exitCode"] == 0


def test_unusable_input_is_a_notification_too() -> None:
    broken = finding("SCH005", "error", message="unknown key 'x'", path="x")
    idle = finding("SCH010", "warning", message="nothing to remove")
    run = run_of(
        Policy().over("a.yaml", (broken, idle), usable=False), Policy().over("b", (finding(),))
    )
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["descriptor"] == {"id": "SCH005"}
    assert notification["message"] == {"text": "unknown key 'x'"}
    assert [result["ruleId"] for result in run["results"]] == ["SCH005", "SCH010", "MEM901"]
    described = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert described["SCH005"]["shortDescription"] == {"text": "A key that is not known here."}
    assert described["SCH005"]["name"] == "SCH005"


def test_a_crash_is_no_successful_execution() -> None:
    run = run_of(Policy("never").over("a", (finding("INT001", "error", position=None),)))
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["exitCode"] == 3


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("{0} of {1}", "{{0}} of {{1}}"),
        ('{"a": [1]}', '{"a": [1]}'),
        ("see [this](1) and [0]", "see \\[this](1) and [0]"),
        ("a\x00\x1b\nb\u2028\ud800ä", "a  \nb  ä"),
    ],
)
def test_a_message_is_text_and_nothing_else(message: str, text: str) -> None:
    (result,) = run_of(Policy().over("a", (finding(message=message),)))["results"]
    assert result["message"] == {"text": text}


def test_every_shipped_rule_can_be_described(validators: Validators) -> None:
    findings = [
        Diagnostic(rule.code, rule.name, rule.severity, "m", "", None, "", "")
        for rule in validators.rules.values()
    ]
    data = json.loads(document([FileFindings("a", tuple(findings))], validators.rules))
    conforms(data, "log")
    rules = data["runs"][0]["tool"]["driver"]["rules"]
    assert len(rules) == len(validators.rules)
    for described in rules:
        for key in ("shortDescription", "fullDescription", "help"):
            assert described[key]["text"].strip(), described["id"]
            assert "Bad:" not in described["shortDescription"]["text"]
