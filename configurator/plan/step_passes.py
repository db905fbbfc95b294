"""The forward passes of one decode step, from the kernel entry of the speculation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment, Mechanism
from configurator.plan.model import Geometry, Owner
from configurator.plan.settings import algorithm_of
from configurator.schema.drafting import OfOption


@dataclass(frozen=True, slots=True)
class Forward:
    """One kind of forward pass of a step."""

    name: Literal["plain decode", "draft", "verify"]
    owner: Owner
    tokens: int
    """Tokens a sequence in it."""
    times: int
    """How often it runs in one step."""
    layers: int
    """Decoder layers in it; 0: not known."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a step runs."""

    plain: Forward
    drafts: tuple[Forward, ...]
    verify: Forward | None
    """None: no speculation, or its passes are not known."""
    unknown: str = ""
    """Why the passes of the profile's speculation are not known; empty: they are."""

    @property
    def width(self) -> int:
        """Most tokens that one step can give a sequence."""
        return self.verify.tokens if self.verify else 1


def round_of(deployment: Deployment, geometry: Geometry) -> Round:
    """The passes of a step of `deployment`, whose model is `geometry`."""
    layers = geometry.layers or deployment.model.layers or 0
    plain = Forward("plain decode", "target", 1, 1, layers)
    mechanism = deployment.speculation
    if mechanism is None:
        asked = algorithm_of(deployment)
        unknown = (
            f"the passes of --speculative-algorithm {asked} are not known: no mechanism under "
            "optimizations brings it"
        )
        return Round(plain, (), None, unknown if asked else "")
    width = _width(mechanism)
    drafting = mechanism.kernel.drafting
    if drafting is None or width is None:
        what = "its kernel entry has no 'drafting'" if drafting is None else "its width is not said"
        return Round(plain, (), None, f"the passes of {mechanism.name} are not known: {what}")
    passes = _number(drafting.passes, mechanism) or 1
    tokens = _number(drafting.tokens, mechanism) or 1
    deep = geometry.draft_layers or _draft_layers(deployment, mechanism)
    extends = 1 if drafting.extends else 0
    drafts = (
        Forward("draft", "draft", tokens, passes - extends, deep),
        Forward("draft", "draft", width, extends, deep),
    )
    verify = Forward("verify", "target", width, 1, layers)
    return Round(plain, tuple(each for each in drafts if each.times > 0), verify)


def _number(wanted: int | OfOption, mechanism: Mechanism) -> int | None:
    if isinstance(wanted, int):
        return wanted
    value = mechanism.options.get(wanted.option)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return int(value) + wanted.plus if is_number else None  # type: ignore[arg-type]


def _width(mechanism: Mechanism) -> int | None:
    drafting = mechanism.kernel.drafting
    if drafting is not None and drafting.verify is not None:
        width = _number(drafting.verify, mechanism)
        if width is not None:
            return width
    facts = mechanism.draft.draft if mechanism.draft else None
    return facts.verify_width if facts else None


def _draft_layers(deployment: Deployment, mechanism: Mechanism) -> int:
    if mechanism.separate_draft:
        return (mechanism.draft.layers or 0) if mechanism.draft else 0
    return deployment.model.nextn_layers
