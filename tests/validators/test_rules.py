"""Every rule, by the examples in its docstring, and every good deployment through every rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rule_examples import Example, examples

from configurator.content import ROOT, Library
from configurator.deployment import Deployment
from configurator.launch import launch_of
from configurator.lint import Around, engine_named, launch_of_command
from configurator.loader import Validators, load_validators
from configurator.readers.files import read_text
from configurator.resolve import resolve
from configurator.rules import Rule
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.source import parse_source

RULES = tuple(load_validators([ROOT]).rules.values())
PREFIXES = "SCH REF HW PAR SPEC HEAD MEGA MOE MEM CTX SEC CLM ENG ENV CKPT NET"


def deployment_of(text: str, library: Library) -> Deployment:
    """A profile that is given as text, resolved."""
    layers = library.extend(parse_source(text, "example.yaml"))
    return resolve(parse(Profile, layers.data, layers.locate), layers, library)


def cases(kind: str) -> list[object]:
    """Every example of one kind, with a name that says which rule it is of."""
    return [
        pytest.param(rule, example, id=f"{rule.code}-{index}")
        for rule in RULES
        for index, example in enumerate(examples(rule.doc))
        if example.kind == kind
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_described(rule: Rule) -> None:
    assert re.fullmatch(rf"({PREFIXES.replace(' ', '|')})[0-9]{{3}}", rule.code)
    assert not rule.code[-3:].startswith("9"), "9xx are the users'"
    assert rule.name == rule.check.__name__.replace("_", "-")
    assert rule.source.strip()
    assert rule.severity in ("error", "warning", "info")
    kinds = {example.kind for example in examples(rule.doc)}
    assert kinds == {"bad", "good"}, f"{rule.code} has {sorted(kinds)}"
    assert len(rule.doc.strip().splitlines()[0]) > 30


def test_codes_and_names_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert len(RULES) >= 60


def subject_of(rule: Rule, example: Example, library: Library, folder: Path) -> Any:
    """What a rule judges in an example, and how a place in it is found."""
    if not example.is_command:
        deployment = deployment_of(example.profile, library)
        return (launch_of(deployment) if rule.subject == "launch" else deployment), deployment
    assert rule.subject == "launch", "a rule over deployments has profiles as examples"
    around = example.around
    (command,) = read_text(example.written(folder), "example.sh").commands
    engine = engine_named(around.get("engine", "0.5.23"), library)
    machine = library.hardware(around["hardware"]) if "hardware" in around else None
    return launch_of_command(command, engine, Around(engine, machine), library), None


@pytest.mark.parametrize(("rule", "example"), cases("bad"))
def test_bad_examples_are_found(
    rule: Rule, example: Example, library: Library, tmp_path: Path
) -> None:
    subject, deployment = subject_of(rule, example, library, tmp_path)
    findings = list(rule.check(subject))
    assert findings
    for finding in findings:
        assert finding.message
        assert finding.remedy, "every finding says what to do"
        if deployment is not None:
            # The place must be written somewhere, or be where it would belong.
            assert finding.path
            assert deployment.locate(finding.path).line >= 1


@pytest.mark.parametrize(("rule", "example"), cases("good"))
def test_good_examples_are_not_found(
    rule: Rule, example: Example, library: Library, tmp_path: Path
) -> None:
    subject, _ = subject_of(rule, example, library, tmp_path)
    assert list(rule.check(subject)) == []


def test_no_rule_prints_a_secret(library: Library, validators: Validators) -> None:
    deployment = deployment_of(
        "apiVersion: configurator/v1\nkind: Deployment\nname: leaky\n"
        "extends: ling-3.0-flash-spark\n"
        "extra: {args: {api-key: sk-very-secret, admin-api-key: sk-other-secret}}\n",
        library,
    )
    launch = launch_of(deployment)
    found = [
        (rule.code, finding)
        for rule in RULES
        for finding in rule.check(launch if rule.subject == "launch" else deployment)
    ]
    assert "SEC101" in {code for code, _ in found}
    assert not [f for _, f in found if "secret" in (f.message + f.remedy).replace("a secret", "")]
