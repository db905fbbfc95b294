"""Every rule, by the examples in its docstring, and every good deployment through every rule."""

from __future__ import annotations

import re

import pytest
from rule_examples import Example, examples

from configurator.content import ROOT, Library
from configurator.deployment import Deployment
from configurator.loader import Validators, load_validators
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


@pytest.mark.parametrize(("rule", "example"), cases("bad"))
def test_bad_examples_are_found(rule: Rule, example: Example, library: Library) -> None:
    deployment = deployment_of(example.profile, library)
    findings = list(rule.check(deployment))
    assert findings
    for finding in findings:
        assert finding.message
        assert finding.remedy, "every finding says what to do"
        assert finding.path
        # The place must be written somewhere, or be where it would belong.
        assert deployment.locate(finding.path).line >= 1


@pytest.mark.parametrize(("rule", "example"), cases("good"))
def test_good_examples_are_not_found(rule: Rule, example: Example, library: Library) -> None:
    assert list(rule.check(deployment_of(example.profile, library))) == []


def test_no_rule_prints_a_secret(library: Library, validators: Validators) -> None:
    deployment = deployment_of(
        "apiVersion: configurator/v1\nkind: Deployment\nname: leaky\n"
        "extends: ling-3.0-flash-spark\n"
        "extra: {args: {api-key: sk-very-secret, admin-api-key: sk-other-secret}}\n",
        library,
    )
    found = [finding for rule in RULES for finding in rule.check(deployment)]
    assert "SEC101" in {rule.code for rule in RULES if list(rule.check(deployment))}
    assert not [f for f in found if "secret" in (f.message + f.remedy).replace("a secret", "")]
