"""The same deployment without mechanisms that were refuted (`on_refuted: drop`)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.judge import Judgement
from configurator.layers import Layers
from configurator.loader import Validators
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.validate import Validation, validate_profile
from configurator.verdicts import Answer, Verdict


@dataclass(frozen=True, slots=True)
class Dropped:
    """A mechanism that was left out, and why."""

    name: str
    why: str


def refuted_mechanisms(deployment: Deployment, judgement: Judgement) -> tuple[Dropped, ...]:
    """The optimizations of refuted verdicts whose policy is to drop them.

    Verdicts come in the order of the expectations, the invariants that nobody asked for last.
    """
    found: dict[str, str] = {}
    for expectation, verdict in zip(deployment.expectations, judgement.verdicts, strict=False):
        if _to_drop(verdict) and len(expectation.path) > 1:
            reason = f"{verdict.mechanism} is refuted: {verdict.summary}"
            found.setdefault(str(expectation.path[1]), reason)
    return tuple(Dropped(name, why) for name, why in found.items())


def fails_beyond_drops(judgement: Judgement) -> bool:
    """Something fails that leaving out the refuted mechanisms is not meant to mend."""
    unready = any(state.state != "ready" for state in judgement.states.values())
    failing = (verdict for verdict in judgement.verdicts if verdict.fails)
    return unready or judgement.crashed or any(not _to_drop(verdict) for verdict in failing)


def _to_drop(verdict: Verdict) -> bool:
    return verdict.answer is Answer.REFUTED and verdict.on_refuted == "drop"


def with_dependents(deployment: Deployment, dropped: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
    """`dropped`, and every mechanism that needs one of them and has no other to lean on."""
    found = {each.name: each for each in dropped}
    while True:
        left = [name for name in deployment.mechanisms if name not in found]
        orphans = [name for name in left if _leans_on_nothing(deployment, name, left)]
        if not orphans:
            return tuple(found.values())
        for name in orphans:
            needs = deployment.mechanisms[name].kernel.needs.with_any
            gone = ", ".join(need for need in needs if need in found)
            found[name] = Dropped(name, f"it needs {gone or ' or '.join(needs)}")


def _leans_on_nothing(deployment: Deployment, name: str, left: list[str]) -> bool:
    needs = deployment.mechanisms[name].kernel.needs.with_any
    return bool(needs) and not any(need in left for need in needs)


def without(
    deployment: Deployment, names: tuple[str, ...], library: Library, validators: Validators
) -> Validation:
    """The deployment without `names`, validated anew; their claims go with them."""
    data: dict[str, Any] = copy.deepcopy(deployment.layers.data)
    wishes = data.get("optimizations", {})
    claims = {c.id for c in deployment.claims if any(map(c.names_mechanism, names))}
    for name in names:
        wishes.pop(name, None)
    if "claims" in data:
        data["claims"] = [claim for claim in data["claims"] if claim not in claims]
    layers = Layers(data, deployment.layers.sources)
    profile = parse(Profile, data, layers.locate)
    return validate_profile(deployment.name, profile, layers, library, validators)
