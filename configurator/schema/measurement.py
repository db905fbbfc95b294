"""A measured decode step: what predictions of other steps rest on, and are held against."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configurator.schema.base import ArgName, Name, Scalar, Text
from configurator.schema.content import Entry
from configurator.schema.profile import Count, Optimization, Overrides, Topology
from configurator.schema.shapes import Positive, PositiveInt

Day = Annotated[str, Field(pattern=r"^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$")]
"""A year, a month or a day: 2026, 2026-08, 2026-08-25."""


class Measurement(Entry):
    """The speed of one configuration at one batch size, with all that it was measured under."""

    kind: Literal["Measurement"]
    """What this file describes."""
    hardware: Name
    """An entry of profiles/hardware/."""
    model: Name
    """An entry of profiles/models/."""
    overrides: Overrides = {}
    """Values that replace those of the model entry, for this measurement only."""
    topology: Topology = Topology()
    """How the GPUs were divided; one replica."""
    optimizations: dict[str, Optimization] = {}
    """Mechanisms that were on, as a profile writes them."""
    args: dict[ArgName, Scalar] = {}
    """Engine arguments that change what a step reads, without the leading dashes."""
    batch: Count = 1
    """Sequences decoded together."""
    context: PositiveInt | None = None
    """Tokens of a sequence in the cache, on average over the run; null: not said."""
    experts: Positive | None = None
    """Distinct routed experts a layer that a step was seen to read; null: not counted."""
    tpot_ms: Positive | None = None
    """Milliseconds a token of one request, without its first."""
    tokens_per_s: Positive | None = None
    """Tokens a second over the whole batch while decoding; instead of `tpot_ms`."""
    accepted: Annotated[float, Field(ge=1.0, le=64.0)] | None = None
    """Tokens a step, bonus token included; null: no speculation, one token a step."""
    plain_ms: Positive | None = None
    """With speculation only: milliseconds of a step of the same launch without it, at the same
    batch and context; null: not measured."""
    prefills: bool = False
    """A token's time holds prefills of other requests; other steps are predicted from it only
    where nothing without them is as near."""
    measured_by: Text
    """Who measured."""
    date: Day | None = None
    """When it was published; null: not said."""
    series: Text | None = None
    """Measurements of the same people and run share it: none of them predicts another."""
    conditions: dict[Text, Scalar]
    """Workload and whatever else the figure holds for."""
    caveat: str = ""
    """What the figure leaves out, or has in it beside the step."""

    @model_validator(mode="after")
    def _whole(self) -> Measurement:
        if (self.tpot_ms is None) == (self.tokens_per_s is None):
            raise ValueError("give exactly one of 'tpot_ms' and 'tokens_per_s'")
        if self.plain_ms is not None and self.accepted is None:
            raise ValueError("'plain_ms' stands beside a speculative step: give its 'accepted'")
        if not self.sources:
            raise ValueError("give its source under 'sources': a figure without one is no evidence")
        if not self.conditions:
            raise ValueError("give its 'conditions': a figure without them applies to nothing")
        if self.topology.replicas != 1:
            raise ValueError("a measurement is of one replica: set topology.replicas to 1")
        return self

    @property
    def per_token(self) -> float:
        """Seconds a token of one request."""
        if self.tpot_ms is not None:
            return self.tpot_ms / 1000
        assert self.tokens_per_s is not None
        return self.batch / self.tokens_per_s

    @property
    def step(self) -> float:
        """Seconds of one step, whose tokens speculation may be several of."""
        return self.per_token * (self.accepted or 1.0)
