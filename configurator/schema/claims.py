"""Published figures: what was measured, under which conditions, and how figures hang together.

A file holds the figures of one publication. A run says once what its figures share; a figure says
what is its own. `Published` is both together, which is what everything else reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints, model_validator

from configurator.schema.base import Name, StrictModel, Text
from configurator.schema.content import Entry
from configurator.schema.shapes import PositiveInt

Number = float | int
Quantity = Literal[
    "decode throughput", "output speed", "step time", "part of a step", "TPOT", "TTFT", "latency",
    "acceptance length", "acceptance rate", "launches", "memory", "bytes read", "ratio", "gain",
    "accuracy", "significance", "tokens", "count", "duration", "size", "bandwidth",
]  # fmt: skip
ANYWHERE: tuple[Quantity, ...] = (
    "acceptance length", "acceptance rate", "accuracy", "significance", "tokens",
)  # fmt: skip
"""Quantities that rest on model, draft, text and sampling rather than on the machine."""
LoadKind = Literal["dataset", "prompts", "synthetic", "one request", "component", "not stated"]


class ClaimSampling(StrictModel):
    """How tokens were sampled; what is left out was not stated."""

    temperature: Annotated[float, Field(ge=0)] | Annotated[int, Field(ge=0)] | None = None
    """0 is greedy."""
    top_p: Number | None = None
    """Nucleus sampling."""
    top_k: int | None = None
    """-1 is off."""


class ClaimWorkload(StrictModel):
    """What was asked of the model; what is left out was not stated."""

    kind: LoadKind
    """A data set, a few chosen prompts, generated text, one request, or a part measured alone."""
    text: Text | None = None
    """The name of the data set or load, for instance GSM8K."""
    details: Text | None = None
    """How it was asked: shots, thinking, limits."""
    input_tokens: PositiveInt | None = None
    """Prompt length of every request."""
    output_tokens: PositiveInt | None = None
    """Output length of every request."""
    sampling: ClaimSampling = ClaimSampling()
    """How tokens were sampled."""


class ClaimSpeculation(StrictModel):
    """The shape of speculative decoding; what is left out was not stated."""

    draft: Text | None = None
    """Draft model: an entry of profiles/models/, or the name of its repository."""
    steps: PositiveInt | None = None
    """Draft passes a round."""
    topk: PositiveInt | None = None
    """Candidates a draft pass."""
    width: PositiveInt | None = None
    """Tokens of one verify step, the current one included."""
    shape: Literal["chain", "tree"] | None = None
    """How the candidates hang together."""


class Differing(StrictModel):
    """Conditions that one figure does not share with its run."""

    model: Text | None = None
    """An entry of profiles/models/, or the name of a repository; null: not stated."""
    hardware: Text | None = None
    """The GPU's product name as nvidia-smi prints it; null: not stated."""
    hosts: PositiveInt | None = None
    """Operating systems in all."""
    gpus: PositiveInt | None = None
    """GPUs in all."""
    tensor: PositiveInt | None = None
    """Tensor parallel size of one replica."""
    expert: PositiveInt | None = None
    """Expert parallel size."""
    replicas: PositiveInt | None = None
    """Servers of the same model."""
    batch_size: PositiveInt | None = None
    """Sequences in one decode step."""
    concurrency: PositiveInt | None = None
    """Requests running at the same time, per replica."""
    workload: ClaimWorkload = ClaimWorkload(kind="not stated")
    """What was asked of the model."""
    mechanisms: list[Name] | None = None
    """Mechanisms that were on; an empty list: none was; null: not stated."""
    others: Literal["none", "not stated", "irrelevant"] = "none"
    """Mechanisms beyond these: none of a family that changes a step, not stated, or irrelevant
    to the figure."""
    without: list[Name] = []
    """Mechanisms that were asked for and did not take effect."""
    speculation: ClaimSpeculation = ClaimSpeculation()
    """The shape of speculative decoding."""
    engine: Text | None = None
    """Engine build: an entry of profiles/engines/, or as it was published."""
    notes: list[Text] = []
    """Further conditions that no profile has a key for."""


class Conditions(Differing):
    """What figures hold for. Model, hardware and workload must be said, if only as not stated."""

    model: Text | None
    """An entry of profiles/models/, or the name of a repository; null: not stated."""
    hardware: Text | None
    """The GPU's product name as nvidia-smi prints it; null: not stated."""
    workload: ClaimWorkload
    """What was asked of the model."""


class Sample(StrictModel):
    """How much was measured; what is left out was not stated."""

    requests: PositiveInt | None = None
    """Requests in the figure."""
    steps: PositiveInt | None = None
    """Decode steps in the figure."""


class Run(StrictModel):
    """What figures of one measurement share."""

    summary: Text
    """One line for lists."""
    conditions: Conditions
    """What the figures hold for."""
    measured_by: Text
    """Who measured; of derived figures who computed."""
    reproduced: Literal["yes", "no", "contradicted"]
    """Whether somebody else got the same."""
    reproduced_by: Text | None = None
    """Who did, or who got something else."""
    date: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}(-[0-9]{2}){0,2}$")] | None = None
    """When it was published, as YYYY-MM-DD or shorter; null: not stated."""
    source: Text
    """Where it is published."""
    sample: Sample = Sample()
    """How much was measured."""
    caveat: str = ""
    """What every figure of the run leaves out."""

    @model_validator(mode="after")
    def _by_whom(self) -> Run:
        if self.reproduced != "no" and self.reproduced_by is None:
            raise ValueError("say in 'reproduced_by' who repeated it, and what they got")
        return self


class Claim(StrictModel):
    """One figure of a run."""

    id: Name
    """Name to refer to it, one over all files."""
    run: Name
    """The run of this file that it belongs to."""
    quantity: Quantity
    """What kind of quantity it is."""
    figure: Text
    """What was measured, in words."""
    value: Number
    """The figure; of a range its lower end."""
    to: Number | None = None
    """The upper end of a range."""
    about: bool = False
    """Published as about this much."""
    unit: str
    """Its unit; empty: a ratio or a count."""
    statistic: Text | None = None
    """Mean, median of what, total; null: not stated."""
    baseline: Name | None = None
    """The figure of what it is compared with, by id."""
    conditions: Differing | None = None
    """What differs from the run's conditions."""
    sample: Sample | None = None
    """How much was measured, where it is not the run's."""
    derived: Text | None = None
    """The formula, of a figure that was computed from others and not published."""
    caveat: str = ""
    """What the figure leaves out."""

    @model_validator(mode="after")
    def _range(self) -> Claim:
        if self.to is not None and self.to <= self.value:
            raise ValueError("'to' is the upper end of a range: give more than 'value'")
        return self


Operand = Name | float | int
"""A claim by its id, or a number."""
_TAKES = {"gain": 2, "rest": 3, "latency": 3, "equal": 1, "at most": 1}
"""Operands that the arithmetic takes; of a kind that is left out at least two."""


class Relation(StrictModel):
    """How figures hang together, as arithmetic computes it.

    product: the operands multiplied. sum: added. quotient: the first over all others. gain: the
    first over the second, where the other side is a gain in per cent. rest: what a gain in per
    cent leaves once speculation is taken out, (1 + gain) / (accepted / cost ratio). latency: first
    token, tokens and throughput make a request's time. equal: as is. at most: no more than.
    """

    name: Text
    """What is compared, in words."""
    kind: Literal["product", "sum", "quotient", "gain", "rest", "latency", "equal", "at most"]
    """The arithmetic."""
    of: Annotated[list[Operand], Field(min_length=1)]
    """Operands of the left side."""
    against: Annotated[list[Operand], Field(min_length=1)]
    """The right side: one figure, or operands for the same arithmetic."""
    tolerance: Annotated[float, Field(gt=0, lt=1)]
    """Part of the right side that the left may be off."""
    note: str = ""
    """What the result means."""

    @model_validator(mode="after")
    def _takes(self) -> Relation:
        takes, given = _TAKES.get(self.kind), len(self.of)
        if given != takes if takes else given < 2:
            raise ValueError(f"{self.kind} takes {takes or 'at least 2'} operands in 'of'")
        others = {1} if self.kind == "at most" else {1, takes or len(self.against)}
        if len(self.against) not in others:
            raise ValueError(f"{self.kind} takes {' or '.join(map(str, others))} in 'against'")
        return self


class Statement(StrictModel):
    """What one source says."""

    says: Text
    """The fact."""
    source: Text
    """Where."""


class Conflict(StrictModel):
    """Sources that say different things of what is no number."""

    about: Text
    """What they differ in."""
    statements: Annotated[list[Statement], Field(min_length=2)]
    """What each says."""
    judgement: str = ""
    """Which is better supported, and why."""


class Claims(Entry):
    """The figures of one publication."""

    kind: Literal["Claims"]
    """What this file describes."""
    runs: dict[Name, Run]
    """Measurements by name."""
    claims: list[Claim]
    """Their figures."""
    relations: list[Relation] = []
    """How they hang together; operands may be of other files."""
    conflicts: list[Conflict] = []
    """Where sources differ in what is no number."""


@dataclass(frozen=True, slots=True)
class Published:
    """A figure with all that holds for it."""

    claim: Claim
    run: Run
    conditions: Conditions
    """The run's, with what differs for this figure."""
    entry: str
    """The file it is in, by name."""

    @property
    def id(self) -> str:
        """Name to refer to it."""
        return self.claim.id

    @property
    def sample(self) -> Sample:
        """How much was measured."""
        return self.claim.sample or self.run.sample

    @property
    def sample_text(self) -> str:
        """`1 request, 20 steps`, or that it is not stated."""
        sizes = [
            f"{number:,} {name}{'' if number == 1 else 's'}"
            for name, number in (("request", self.sample.requests), ("step", self.sample.steps))
            if number is not None
        ]
        return ", ".join(sizes) or "not stated"

    @property
    def shown(self) -> str:
        """Value and unit: `1,109 tok/s`, `about 1,450 kernels`, `+42.5 %`, `9.6 to 39.9 ms`."""
        claim = self.claim
        sign = "+" if claim.quantity == "gain" and claim.value > 0 else ""
        number = f"{sign}{claim.value:,}" + (f" to {claim.to:,}" if claim.to is not None else "")
        return f"{'about ' if claim.about else ''}{number} {claim.unit}".rstrip()

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the figure leaves out."""
        return tuple(text for text in (self.claim.caveat, self.run.caveat) if text)

    def names_mechanism(self, name: str) -> bool:
        """It is about a mechanism: measured with it, or where it did not take effect."""
        return name in (self.conditions.mechanisms or ()) or name in self.conditions.without

    def concerns(self, model: Iterable[str], mechanisms: Iterable[str]) -> bool:
        """It is of one of these model names, or about one of these mechanisms."""
        return self.conditions.model in tuple(model) or any(map(self.names_mechanism, mechanisms))


def published(entry: Claims, claim: Claim) -> Published:
    """`claim` of `entry` with its run.

    Raises:
        KeyError: the file has no run of that name.
    """
    run = entry.runs[claim.run]
    conditions = run.conditions
    if claim.conditions is not None:
        conditions = _over(conditions, claim.conditions)
    return Published(claim, run, conditions, entry.name)


ModelT = TypeVar("ModelT", bound=StrictModel)


def _over(base: ModelT, top: StrictModel) -> ModelT:
    """`base` with what `top` states; within parts key by key."""
    stated: dict[str, object] = {}
    for name in top.model_fields_set:
        value, below = getattr(top, name), getattr(base, name)
        both = isinstance(value, StrictModel) and isinstance(below, StrictModel)
        stated[name] = _over(below, value) if both else value
    return base.model_copy(update=stated)


def stated(conditions: Conditions) -> Iterator[tuple[str, str]]:
    """Every condition that is stated, as name and text, in a fixed order."""
    for name in ("model", "hardware", "hosts", "gpus", "tensor", "expert", "replicas",
                 "batch_size", "concurrency"):  # fmt: skip
        value = getattr(conditions, name)
        if value is not None:
            yield name.replace("_", " "), str(value)
    load = conditions.workload
    if load.kind != "not stated":
        words = (load.text, load.details)
        yield "workload", f"{load.kind}: {', '.join(filter(None, words))}".removesuffix(": ")
    for name, value in (("input", load.input_tokens), ("output", load.output_tokens)):
        if value is not None:
            yield name, f"{value:,} tokens"
    yield from _settings(load.sampling, conditions.speculation)
    if conditions.mechanisms is not None:
        more = " and others not stated" if conditions.others == "not stated" else ""
        yield "mechanisms", (", ".join(conditions.mechanisms) or "none") + more
    if conditions.without:
        yield "not in effect", ", ".join(conditions.without)
    if conditions.engine is not None:
        yield "engine", conditions.engine
    for note in conditions.notes:
        yield "note", note


def _settings(*parts: StrictModel) -> Iterator[tuple[str, str]]:
    for part in parts:
        for name in type(part).model_fields:
            value = getattr(part, name)
            if value is not None:
                yield "verify width" if name == "width" else name, str(value)


def unstated(conditions: Conditions) -> tuple[str, ...]:
    """Conditions that a plan would need and the publication does not state."""
    load = conditions.workload
    text = load.kind != "component"
    missing = {
        "model": conditions.model is None,
        "hardware": conditions.hardware is None,
        "hosts": conditions.hosts is None,
        "gpus": conditions.gpus is None,
        "tensor": conditions.tensor is None,
        "batch size": text and conditions.batch_size is None and conditions.concurrency is None,
        "workload": load.kind == "not stated",
        "sampling": text and load.sampling.temperature is None,
        "mechanisms": conditions.others != "irrelevant"
        and (conditions.mechanisms is None or conditions.others == "not stated"),
        "engine": conditions.engine is None,
    }
    return tuple(name for name, is_missing in missing.items() if is_missing)
