"""Static rules: a function over a `Deployment`, or over a `Launch`, that yields findings.

    @rule("MEM101", "mem-fraction-leaves-no-headroom", source="...")
    def mem_fraction_leaves_no_headroom(deployment: Deployment) -> Iterator[Finding]:
        ...

`launch_rule` is for what an engine's command line, environment and checkpoint alone can tell:
such a rule judges profiles and also the launch commands that people already have.

Both decorators return a frozen `Rule`; there is no registry. The docstring is the rule's page and
its test: `Bad:` and `Good:` hold profiles, each run by the test suite (see docs/rules.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from configurator.deployment import Deployment
from configurator.launch import Launch
from configurator.source import DataPath

Severity = Literal["error", "warning", "info"]
Check = Callable[[Deployment], Iterator["Finding"]]
LaunchCheck = Callable[[Launch], Iterator["Finding"]]


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of one word that leaves the meaning as it was, safe to make unasked."""

    old: str
    """The word as it stands now, for instance `--cuda-graph-bs`."""
    new: str
    """The word to write; empty removes it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: where in the profile, the fact with its values, the remedy."""

    path: DataPath
    message: str
    remedy: str = ""
    fix: Fix | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its identity; `severity` is a field so that it can change without renaming."""

    code: str
    name: str
    severity: Severity
    source: str
    check: Callable[[Any], Iterator[Finding]]
    subject: Literal["deployment", "launch"] = "deployment"
    """What it judges."""

    @property
    def doc(self) -> str:
        """The docstring; empty under `python -OO`."""
        return self.check.__doc__ or ""


def rule(
    code: str, name: str, *, severity: Severity = "error", source: str
) -> Callable[[Check], Rule]:
    """Make a check function into a `Rule`.

    Args:
        code: topic prefix and three digits; 9xx are free for users.
        name: names the bad pattern, in kebab case.
        severity: `error` only if the launch would break or mislead.
        source: where the fact was read: a file of the engine, or a document.
    """

    def wrap(check: Check) -> Rule:
        return Rule(code, name, severity, source, check)

    return wrap


def launch_rule(
    code: str, name: str, *, severity: Severity = "error", source: str
) -> Callable[[LaunchCheck], Rule]:
    """Make a check of a launch into a `Rule`; the arguments are those of `rule`."""

    def wrap(check: LaunchCheck) -> Rule:
        return Rule(code, name, severity, source, check, "launch")

    return wrap
