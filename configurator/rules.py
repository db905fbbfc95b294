"""Static rules: a function over a `Deployment` that yields findings.

    @rule("MEM101", "mem-fraction-leaves-no-headroom", source="...")
    def mem_fraction_leaves_no_headroom(deployment: Deployment) -> Iterator[Finding]:
        ...

The decorator returns a frozen `Rule`; there is no registry. The docstring is the rule's page and
its test: `Bad:` and `Good:` hold profiles, each run by the test suite (see docs/rules.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment
from configurator.source import DataPath

Severity = Literal["error", "warning", "info"]
Check = Callable[[Deployment], Iterator["Finding"]]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found: where in the profile, the fact with its values, the remedy."""

    path: DataPath
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its identity; `severity` is a field so that it can change without renaming."""

    code: str
    name: str
    severity: Severity
    source: str
    check: Check

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
