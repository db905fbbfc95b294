"""Running rules: positions, exit codes, crashes, unusable input, speed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.launch import launch_of
from configurator.loader import Validators
from configurator.report.terminal import print_validations
from configurator.rules import Finding, Rule, Severity, rule
from configurator.validate import Validation, validate

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: example\n"


def made(severity: Severity = "error", code: str = "MEM901") -> Rule:
    """A rule that always finds the memory fraction."""

    @rule(code, "made-for-a-test", severity=severity, source="a test")
    def made_for_a_test(deployment: Deployment) -> Iterator[Finding]:
        yield Finding(("memory", "mem_fraction_static"), "too much", "take less")

    return made_for_a_test


@rule("MEM902", "crashing", source="a test")
def crashing(deployment: Deployment) -> Iterator[Finding]:
    yield Finding(("name",), "found before the crash", "none")
    raise RuntimeError("boom")


def only(*rules: Rule) -> Validators:
    return Validators({each.code: each for each in rules}, {}, {})


@pytest.fixture
def check(tmp_path: Path, library: Library) -> object:
    """Validate a profile given as text with some rules."""

    def run(text: str, *rules: Rule) -> Validation:
        path = tmp_path / "profile.yaml"
        path.write_text(HEAD + text)
        return validate(str(path), library, only(*rules))

    return run


def test_a_finding_has_its_place_and_its_source(check) -> None:  # type: ignore[no-untyped-def]
    text = "extends: ling-3.0-flash-spark\nmemory:\n  mem_fraction_static: 0.7\n"
    (finding,) = check(text, made()).findings
    assert (finding.code, finding.name, finding.severity) == ("MEM901", "made-for-a-test", "error")
    assert (finding.message, finding.remedy) == ("too much", "take less")
    assert finding.path == "memory.mem_fraction_static"
    assert finding.source == "a test"
    assert finding.position is not None
    assert (finding.position.line, finding.position.column) == (6, 3)
    assert finding.position.file.endswith("profile.yaml")
    assert finding.suppressed is None


def test_a_finding_in_what_is_extended_points_into_that_file(check) -> None:  # type: ignore[no-untyped-def]
    (finding,) = check("extends: ling-3.0-flash-spark\n", made()).findings
    assert finding.position.file.endswith("ling-3.0-flash-spark-baseline.yaml")


@pytest.mark.parametrize(
    ("severity", "on_error", "on_warning", "on_info"),
    [("error", 1, 1, 1), ("warning", 0, 1, 1), ("info", 0, 0, 1)],
)
def test_exit_code_follows_severity(  # type: ignore[no-untyped-def]
    severity: Severity, on_error: int, on_warning: int, on_info: int, check
) -> None:
    result = check("extends: ling-3.0-flash-spark\n", made(severity))
    codes = [result.exit_code(level) for level in ("error", "warning", "info")]
    assert codes == [on_error, on_warning, on_info]
    assert result.exit_code() == on_error


def test_no_finding_is_exit_code_0(check) -> None:  # type: ignore[no-untyped-def]
    result = check("extends: ling-3.0-flash-spark\n")
    assert (result.findings, result.exit_code("info"), result.unusable) == ((), 0, False)


@rule("MEM904", "leaving", source="a test")
def leaving(deployment: Deployment) -> Iterator[Finding]:
    yield Finding(("name",), "found before it left", "none")
    raise SystemExit(0)


@rule("MEM905", "interrupted", source="a test")
def interrupted(deployment: Deployment) -> Iterator[Finding]:
    yield Finding(("name",), "found before the interrupt", "none")
    raise KeyboardInterrupt


def test_a_rule_that_ends_the_program_crashed(check) -> None:  # type: ignore[no-untyped-def]
    result = check("extends: ling-3.0-flash-spark\n", leaving, made(code="MEM906"))
    assert result.exit_code() == 3
    (crash,) = [finding for finding in result.findings if finding.code == "INT001"]
    assert re.fullmatch(
        r"rule MEM904 leaving crashed at test_validate\.py:\d+: SystemExit: 0", crash.message
    )
    assert [f.message for f in result.findings if f.code == "MEM904"] == ["found before it left"]


def test_an_interrupt_is_no_crash_of_a_rule(check) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KeyboardInterrupt):
        check("extends: ling-3.0-flash-spark\n", interrupted)


def test_a_crashing_rule_is_named_and_hides_nothing(check) -> None:  # type: ignore[no-untyped-def]
    result = check("extends: ling-3.0-flash-spark\n", crashing, made(code="MEM903"))
    assert {finding.code for finding in result.findings} == {"INT001", "MEM902", "MEM903"}
    (crash,) = [finding for finding in result.findings if finding.code == "INT001"]
    assert re.fullmatch(
        r"rule MEM902 crashing crashed at test_validate\.py:\d+: RuntimeError: boom", crash.message
    )
    assert result.exit_code() == 3


def test_unusable_input_is_findings_and_exit_code_2(check) -> None:  # type: ignore[no-untyped-def]
    result = check("extends: ling-3.0-flash-spark\nmemori: {}\nmodel: {name: 3}\n", made())
    assert [(f.code, f.position.line) for f in result.findings] == [("SCH005", 5), ("SCH007", 6)]
    assert result.unusable
    assert result.deployment is None
    assert result.exit_code() == 2
    assert {finding.severity for finding in result.findings} == {"error"}


def test_an_unknown_reference_is_unusable_with_its_place(check) -> None:  # type: ignore[no-untyped-def]
    result = check("extends: ling-3.0-flash-spark\nhardware: {name: dgx-sparc}\n", made())
    (finding,) = result.findings
    assert (finding.code, finding.position.line) == ("REF001", 5)
    assert finding.remedy == "did you mean 'dgx-spark'?"
    assert result.exit_code() == 2


def test_a_file_that_is_not_there(library: Library) -> None:
    result = validate("./no/such.yaml", library, only())
    assert [finding.code for finding in result.findings] == ["SCH001"]
    assert result.exit_code() == 2


def test_a_null_that_removes_nothing_is_a_warning(check) -> None:  # type: ignore[no-untyped-def]
    text = "extends: ling-3.0-flash-spark\noptimizations:\n  nextn-mpt: null\nrouter: null\n"
    near, other = check(text).findings
    assert (near.code, near.severity, near.position.line) == ("SCH010", "warning", 6)
    assert near.path == "optimizations.nextn-mpt"
    assert near.remedy == "did you mean 'nextn-mtp'?"
    assert other.remedy == "remove the line"


def test_findings_are_in_the_order_of_the_file_then_by_code(check) -> None:  # type: ignore[no-untyped-def]
    @rule("MEM904", "early", source="a test")
    def early(deployment: Deployment) -> Iterator[Finding]:
        yield Finding(("name",), "early", "none")

    text = "extends: ling-3.0-flash-spark\nmemory: {mem_fraction_static: 0.7}\n"
    found = check(text, made(code="MEM909"), early, made(code="MEM903")).findings
    assert [finding.code for finding in found] == ["MEM904", "MEM903", "MEM909"]


def test_all_rules_take_less_than_a_few_milliseconds(
    library: Library, validators: Validators
) -> None:
    validate("muse-spark-open-paper", library, validators)
    deployment = validate("muse-spark-open-paper", library, validators).deployment
    assert deployment is not None
    times = []
    for _ in range(20):
        start = time.perf_counter()
        launch = launch_of(deployment)
        for each in validators.rules.values():
            list(each.check(launch if each.subject == "launch" else deployment))
        times.append(time.perf_counter() - start)
    # Under 1 ms on a quiet machine; the bound leaves room for a loaded one.
    assert min(times) < 0.005


@pytest.mark.parametrize(
    "text",
    [
        "serving: {api_key: sk-very-hidden}\n",
        'serving:\n  admin_api_key: "sk-very-hidden"  # a comment\n',
        "extra: {args: {api-key: sk-very-hidden, tp-size: 1}}\n",
        "extra: {args: {--api-key: [sk-very-hidden]}}\n",
        "extra:\n  env: {HF_TOKEN: sk-very-hidden}\n",
    ],
)
def test_a_key_in_clear_is_refused_and_never_shown(
    text: str,
    tmp_path: Path,
    library: Library,
    validators: Validators,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(f"{HEAD}extends: ling-3.0-flash-spark\n{text}")
    result = validate(str(path), library, validators)
    assert result.exit_code() in (1, 2)
    assert {"SEC101", "SCH007"} & {finding.code for finding in result.findings}
    print_validations([result])
    shown = capsys.readouterr().out
    assert "in clear" in " ".join(shown.split())
    assert "hidden" not in shown
    assert not [f for f in result.findings if "hidden" in f.message + f.remedy]
