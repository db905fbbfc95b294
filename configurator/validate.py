"""Running the rules over a profile: findings with positions, and one exit code."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.launch import Launch, launch_of
from configurator.layers import Layers
from configurator.loader import Validators
from configurator.resolve import resolve
from configurator.rules import Fix, Rule, Severity
from configurator.schema.base import dotted
from configurator.schema.profile import Profile
from configurator.source import DataPath
from configurator.suppress import Suppressions

FailOn = Literal["error", "warning", "info", "never"]
"""The least severity that makes the exit code 1."""
_RANK: dict[str, int] = {"info": 0, "warning": 1, "error": 2, "never": 3}
CRASH = "INT001"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding as it is shown: what, where, how bad, what to do."""

    code: str
    name: str
    """The rule's name; empty for unusable input."""
    severity: Severity
    message: str
    remedy: str
    position: Position | None
    path: str
    """Where in the profile, as `memory.mem_fraction_static`; of a launch command the option or
    the variable."""
    source: str
    """Where the rule's fact was read."""
    suppressed: str | None = None
    """The reason of the comment that silences it; such a finding does not count."""
    fix: Fix | None = None
    """A change that is safe to make unasked."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result for one profile."""

    argument: str
    deployment: Deployment | None
    """None when the input is unusable."""
    findings: tuple[Diagnostic, ...]
    unusable: bool = False
    """The profile cannot be read or resolved, so no rule has judged it."""

    def exit_code(self, fail_on: FailOn = "error") -> int:
        """The exit code of this profile alone, as `exit_code` says it."""
        return exit_code(self.findings, fail_on, usable=not self.unusable)


def exit_code(findings: Iterable[Diagnostic], fail_on: FailOn, *, usable: bool = True) -> int:
    """3: a rule crashed; 2: not usable; 1: a finding that counts; else 0."""
    found = tuple(findings)
    if any(finding.code == CRASH for finding in found):
        return 3
    return int(any(counts(finding, fail_on) for finding in found)) if usable else 2


def counts(finding: Diagnostic, fail_on: FailOn) -> bool:
    """The finding makes the exit code 1: nothing silences it, and it is grave enough."""
    return finding.suppressed is None and _RANK[finding.severity] >= _RANK[fail_on]


def validate(argument: str, library: Library, validators: Validators) -> Validation:
    """Judge the profile that a command's PROFILE argument names.

    Never raises for what a person may write: unusable input is findings too.
    """
    try:
        profile, layers = library.profile(argument)
    except ConfiguratorError as error:
        return _unusable(argument, error)
    return validate_profile(argument, profile, layers, library, validators)


def validate_profile(
    argument: str, profile: Profile, layers: Layers, library: Library, validators: Validators
) -> Validation:
    """Judge a profile that is already read; `argument` is what to call it."""
    try:
        deployment = resolve(profile, layers, library)
    except ConfiguratorError as error:
        return _unusable(argument, error, tuple(_idle_nulls(layers)))
    return Validation(argument, deployment, judge(deployment, validators))


def judge(deployment: Deployment, validators: Validators) -> tuple[Diagnostic, ...]:
    """Every rule's findings, in the order of the file, with suppressions applied."""
    layers = deployment.layers
    suppressions = Suppressions(layers)
    findings = list(_idle_nulls(layers))
    launch = launch_of(deployment)
    for rule in validators.rules.values():
        subject = launch if rule.subject == "launch" else deployment
        findings += run_rule(rule, subject, deployment.locate, suppressions)
    for severity, problem in suppressions.problems(validators.rules):
        findings.append(_from_problem(problem, severity))
    return in_order(findings)


def run_rule(
    rule: Rule,
    subject: Deployment | Launch,
    locate: Callable[[DataPath], Position | None],
    suppressions: Suppressions,
    name: Callable[[DataPath], str] = dotted,
) -> list[Diagnostic]:
    """What one rule finds, placed by `locate` and called by `name`; a crash is a finding too."""
    diagnostics: list[Diagnostic] = []
    try:
        for found in rule.check(subject):
            position = locate(found.path)
            diagnostics.append(
                Diagnostic(
                    rule.code,
                    rule.name,
                    rule.severity,
                    found.message,
                    found.remedy,
                    position,
                    name(found.path),
                    rule.source,
                    suppressions.reason(rule.code, position),
                    found.fix,
                )
            )
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # One faulty rule, possibly a user's, must not hide what the others found; nor may it end
        # the program with an exit code of its own.
        diagnostics.append(_crash(rule, error))
    return diagnostics


def _crash(rule: Rule, error: BaseException) -> Diagnostic:
    last = traceback.extract_tb(error.__traceback__)[-1]
    # The name alone: reports go to others, and folders are of this machine.
    place = f"{Path(last.filename).name}:{last.lineno}"
    return Diagnostic(
        CRASH,
        "rule-crashed",
        "error",
        f"rule {rule.code} {rule.name} crashed at {place}: {type(error).__name__}: {error}",
        "mend it, or report it with this profile; the other rules have run",
        None,
        "",
        "",
    )


def _idle_nulls(layers: Layers) -> Iterator[Diagnostic]:
    for path in layers.idle_nulls:
        near = did_you_mean(str(path[-1]), _keys(layers.data, path[:-1]))
        problem = Problem(
            "SCH010",
            f"{dotted(path)} is null, but there is nothing to remove",
            near if near.startswith("did you mean") else "remove the line",
            layers.locate(path),
        )
        yield _from_problem(problem, "warning", dotted(path))


def _keys(data: object, path: DataPath) -> list[str]:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return [str(key) for key in data] if isinstance(data, dict) else []


def _unusable(
    argument: str, error: ConfiguratorError, others: tuple[Diagnostic, ...] = ()
) -> Validation:
    problems = [_from_problem(problem, "error") for problem in error.problems]
    return Validation(argument, None, in_order([*problems, *others]), unusable=True)


def _from_problem(problem: Problem, severity: Severity, path: str = "") -> Diagnostic:
    return Diagnostic(
        problem.code, "", severity, problem.message, problem.remedy, problem.position, path, ""
    )


def in_order(findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Findings in the order of the file."""

    def place(finding: Diagnostic) -> tuple[str, int, int, str]:
        at = finding.position
        return (at.file, at.line, at.column, finding.code) if at else ("", 0, 0, finding.code)

    return tuple(sorted(findings, key=place))
