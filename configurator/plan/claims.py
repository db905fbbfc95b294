"""Which published figures hold for a deployment: compared condition by condition, never scaled.

A figure applies when no condition differs; it nearly applies when only the workload, the batch,
the engine build or the shape of speculation does, or when it does not state its own workload,
sampling, batch or mechanisms; and it does not when model, machine, topology or mechanisms differ,
or when it does not state its model or machine. Acceptance and accuracy rest on
model and text: for them another machine makes a figure nearly apply, not fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from configurator.deployment import Deployment, Mechanism
from configurator.schema.claims import ANYWHERE, Conditions, Published

Status = Literal["applies", "nearly", "does not"]
_ORDER: dict[Status, int] = {"applies": 0, "nearly": 1, "does not": 2}
_DIVISIONS = ("expert", "replicas", "pipeline", "data")
_NEEDED = ("workload", "concurrency", "batch size", "temperature", "mechanisms", *_DIVISIONS)
"""Conditions without which a published figure cannot be said to apply."""
_OPEN_FAMILIES = ("cuda-graphs", "kv-cache")
"""Mechanisms that publications do not name although they have them on."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One condition on both sides; None: not stated there, or not said here."""

    condition: str
    there: str | None
    """As published."""
    here: str | None
    """As the deployment has it."""
    decides: bool
    """A difference here means that the figure does not apply; else it nearly does."""

    @property
    def open(self) -> bool:
        """One side is unknown."""
        return self.there is None or self.here is None

    @property
    def needed(self) -> bool:
        """A publication that does not state it leaves its figure uncertain."""
        return self.condition in _NEEDED

    @property
    def text(self) -> str:
        """`tensor: 8 there, 4 here`."""
        there = "not stated there" if self.there is None else f"{self.there} there"
        here = "not said here" if self.here is None else f"{self.here} here"
        return f"{self.condition}: {there}, {here}"


@dataclass(frozen=True, slots=True)
class Match:
    """A published figure held against a deployment."""

    published: Published
    status: Status
    equal: tuple[Compared, ...]
    differs: tuple[Compared, ...]
    """Both sides known, and different."""
    open: tuple[Compared, ...]
    """One side unknown: the figure applies only if it is the same."""
    other_model: bool
    """It is of another model, and so of no interest here."""

    @property
    def why(self) -> str:
        """Why it does not, or only nearly, apply; empty where it applies."""
        if self.status == "applies":
            return ""
        told = [c for c in self.differs if c.decides] if self.status == "does not" else self.differs
        lacks = [
            c for c in self.open
            if c.there is None and (c.decides or (self.status == "nearly" and c.needed))
        ]  # fmt: skip
        return "; ".join(c.text for c in (*told, *lacks))


def match(deployment: Deployment, claims: Iterable[Published]) -> tuple[Match, ...]:
    """Every claim held against a deployment: first those that apply, the nearest before others,
    published figures before computed ones, else as given."""

    def rank(found: Match) -> tuple[int, bool, bool, int]:
        computed = found.published.claim.derived is not None
        return _ORDER[found.status], found.other_model, computed, len(found.differs)

    return tuple(sorted((_match(deployment, claim) for claim in claims), key=rank))


def _match(deployment: Deployment, published: Published) -> Match:
    rows = tuple(_rows(deployment, published))
    differs = tuple(row for row in rows if not row.open and row.there != row.here)
    unknown = tuple(row for row in rows if row.open)
    lacks = [row for row in unknown if row.there is None]
    if any(row.decides for row in (*differs, *lacks)):
        status: Status = "does not"
    elif differs or any(row.needed for row in lacks):
        status = "nearly"
    else:
        status = "applies"
    equal = tuple(row for row in rows if not row.open and row.there == row.here)
    other_model = any(row.condition == "model" for row in (*differs, *lacks))
    return Match(published, status, equal, differs, unknown, other_model)


def _rows(deployment: Deployment, published: Published) -> Iterator[Compared]:
    conditions = published.conditions
    by_machine = published.claim.quantity not in ANYWHERE
    yield _model(deployment, conditions)
    here = deployment.hardware.product or "no GPU"
    if conditions.hardware is None and conditions.others == "irrelevant":
        by_machine = False  # Of the files of a checkpoint, say.
    else:
        yield Compared("hardware", conditions.hardware, here, by_machine)
    yield from _sizes(deployment, conditions, by_machine=by_machine)
    yield from _mechanisms(deployment, conditions)
    yield from _load(deployment, conditions)
    yield from _speculation(deployment, conditions)
    if conditions.engine is not None:
        names = (deployment.engine.name, deployment.engine.version)
        same = conditions.engine if conditions.engine in names else deployment.engine.name
        yield Compared("engine", conditions.engine, same, decides=False)
    else:
        yield Compared("engine", None, deployment.engine.name, decides=False)


def _sizes(
    deployment: Deployment, conditions: Conditions, *, by_machine: bool
) -> Iterator[Compared]:
    """How many of what. Of divisions that a publication does not state, 1 goes without saying."""
    topology = deployment.profile.topology
    sizes = {"hosts": deployment.hosts, "gpus": deployment.profile.hardware.gpus}
    sizes |= {"tensor": topology.tensor}
    divisions = {name: getattr(topology, name) for name in _DIVISIONS}
    alone = conditions.workload.kind == "component"
    for name, size in {**sizes, **divisions}.items():
        there = getattr(conditions, name, None)
        if there is not None:
            yield Compared(name, str(there), str(size), by_machine)
        elif by_machine and (name in sizes or (size > 1 and not alone)):
            yield Compared(name, None, str(size), decides=False)


def _model(deployment: Deployment, conditions: Conditions) -> Compared:
    model = deployment.model
    same = conditions.model in (model.name, model.repository)
    return Compared("model", conditions.model, conditions.model if same else model.name, True)


def _mechanisms(deployment: Deployment, conditions: Conditions) -> Iterator[Compared]:
    here = set(deployment.mechanisms)
    expected = here | {expectation.mechanism for expectation in deployment.expectations}
    if conditions.mechanisms is None:
        if conditions.others != "irrelevant":
            yield Compared("mechanisms", None, _names(here), decides=False)
    else:
        there = set(conditions.mechanisms)
        missing = there - here
        more = {m.name for m in deployment.mechanisms.values() if m.name not in there}
        weighty = {name for name in more if _changes_a_step(deployment.mechanisms[name])}
        if missing or (weighty and conditions.others == "none"):
            yield Compared("mechanisms", _names(there), _names((here & there) | weighty), True)
        elif weighty and conditions.others == "not stated":
            yield Compared("mechanisms", None, _names(weighty), decides=False)
        else:
            yield Compared("mechanisms", _names(there), _names(there), True)
    broken = [name for name in conditions.without if name in expected]
    if broken:
        yield Compared("in effect", f"not {_names(broken)}", _names(broken), True)


def _changes_a_step(mechanism: Mechanism) -> bool:
    """It sets something of the launch that publications name when they have it on."""
    kernel = mechanism.kernel
    return kernel.family not in _OPEN_FAMILIES and bool(kernel.args or kernel.env)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _load(deployment: Deployment, conditions: Conditions) -> Iterator[Compared]:
    wanted, load = conditions.workload, deployment.profile.workload
    at_once = conditions.concurrency or conditions.batch_size
    if wanted.kind == "component" and at_once is None:
        return  # A part measured alone: no text, no sampling, no batch.
    said = str(load.concurrency) if "concurrency" in load.model_fields_set else None
    name = "concurrency" if conditions.concurrency or not at_once else "batch size"
    yield Compared(name, None if at_once is None else str(at_once), said, decides=False)
    if wanted.kind == "component":
        return
    there = None if wanted.kind == "not stated" else wanted.text or wanted.kind
    here = load.text
    if here and there and here.casefold() == there.casefold():
        here = there
    yield Compared("workload", there, here, decides=False)
    for name, asked, mine in (
        ("input tokens", wanted.input_tokens, load.input_tokens),
        ("output tokens", wanted.output_tokens, load.output_tokens),
    ):
        if asked is not None:
            yield Compared(name, str(asked), str(mine) if mine else None, decides=False)
    yield from _sampling(deployment, conditions)


def _sampling(deployment: Deployment, conditions: Conditions) -> Iterator[Compared]:
    wanted, load = conditions.workload.sampling, deployment.profile.workload
    said = "sampling" in load.model_fields_set
    here = f"{load.sampling.temperature:g}" if said else None
    there = None if wanted.temperature is None else f"{wanted.temperature:g}"
    yield Compared("temperature", there, here, decides=False)
    if wanted.temperature == 0:
        return  # Greedy: nothing else of the sampling matters.
    for name in ("top_p", "top_k"):
        asked, mine = getattr(wanted, name), getattr(load.sampling, name)
        if asked is not None:
            yield Compared(name, f"{asked:g}", f"{mine:g}" if said else None, decides=False)


def _speculation(deployment: Deployment, conditions: Conditions) -> Iterator[Compared]:
    wanted, drafting = conditions.speculation, deployment.speculation
    if drafting is None:
        return  # Whether it is on the mechanisms say.
    options, draft = drafting.options, drafting.draft
    topk = options.get("topk")
    tree = topk != 1 if isinstance(topk, int) else drafting.kernel.topk == "tree"
    block = options.get("block_size")
    width = options.get("draft_tokens", block + 1 if isinstance(block, int) else None)
    if wanted.draft is not None and draft is not None:
        same = wanted.draft in (draft.name, draft.repository)
        yield Compared("draft", wanted.draft, wanted.draft if same else draft.name, True)
    for name, asked, mine in (
        ("steps", wanted.steps, options.get("steps")),
        ("topk", wanted.topk, topk),
        ("verify width", wanted.width, width),
        ("candidates", wanted.shape, "tree" if tree else "chain"),
    ):
        if asked is not None:
            here = None if mine is None else str(mine)
            yield Compared(name, str(asked), here, decides=False)
