"""Probes: pure functions from evidence to an outcome.

    @probe("served-model-name", takes="NAME", proof_rung="resolved")
    def served_model_name(check: Check) -> Outcome:
        ...

A probe never talks to a server, never waits and never retries: collectors observe, probes judge.
It sees one replica; `judge.py` joins replicas and applies the policy of the profile. The docstring
is the probe's page: what proves it, what refutes it, what leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment, Expectation
from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Replica
from configurator.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class Check:
    """What a probe is given."""

    expectation: Expectation
    replica: Replica
    catalogue: Catalogue | None
    """Flags and variables of the engine version that runs; None when it is not known."""
    deployment: Deployment | None = None
    """The profile's launch; None when judging by `--expect` alone."""


Judge = Callable[[Check], Outcome]


@dataclass(frozen=True, slots=True)
class Probe:
    """A judge with its identity."""

    name: str
    kind: Literal["mechanism", "invariant"]
    takes: str | None
    """What `--expect NAME=...` takes, for help texts; None: no value."""
    requires_value: bool
    proof_rung: str
    judge: Judge

    @property
    def doc(self) -> str:
        """The docstring; empty under `python -OO`."""
        return self.judge.__doc__ or ""


def probe(
    name: str,
    *,
    kind: Literal["mechanism", "invariant"] = "mechanism",
    takes: str | None = None,
    requires_value: bool = False,
    proof_rung: str = "built",
) -> Callable[[Judge], Probe]:
    """Make a judge function into a `Probe`.

    Args:
        name: the name `--expect` and kernel entries use.
        kind: an invariant must hold for any evidence to count.
        takes: the value it compares with, as shown in help texts.
        requires_value: it cannot judge without a value.
        proof_rung: lowest rung that may say PROVEN when no kernel entry says otherwise.
    """

    def wrap(judge: Judge) -> Probe:
        return Probe(name, kind, takes, requires_value, proof_rung, judge)

    return wrap
