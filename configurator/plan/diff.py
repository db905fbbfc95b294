"""What differs between two plans with their launches, or between a plan and a running server.

Only differences, in the order in which a reader looks for causes: what the deployment is, the
words and variables of the launch, what the server made of them, memory, the decode step. A secret
is never a value here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from configurator.assemble import arg_words
from configurator.collector.redaction import REDACTED, redact_text
from configurator.deployment import Arg, Deployment, HostPlaceholder
from configurator.plan.figures import Figure
from configurator.plan.model import Geometry, Memory, Plan, Step
from configurator.schema.profile import SecretRef
from configurator.secrets import is_secret_value

Section = Literal["deployment", "arguments", "environment", "resolved", "memory", "step"]
Value = Figure | str | None
"""A figure, a text, or nothing: not set, or not known."""
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides."""

    section: Section
    name: str
    first: Value
    second: Value


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that differs, and what could not be compared."""

    first: str
    """What the first side is called."""
    second: str
    differences: tuple[Difference, ...]
    open: tuple[str, ...] = ()
    """What was not compared, and why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A deployment with its plan."""

    deployment: Deployment
    plan: Plan


def diff(first: Planned, second: Planned) -> Diff:
    """Two profiles."""
    differences = [
        *_texts("deployment", _about(first.deployment), _about(second.deployment)),
        *_texts("arguments", arguments(first.deployment), arguments(second.deployment)),
        *_texts("environment", variables(first.deployment), variables(second.deployment)),
        *_figures("memory", memory_figures(first.plan), memory_figures(second.plan)),
        *_figures("step", step_figures(first.plan.step), step_figures(second.plan.step)),
    ]
    return Diff(first.plan.name, second.plan.name, tuple(differences))


def _about(deployment: Deployment) -> dict[str, str]:
    profile = deployment.profile
    topology, workload = profile.topology, profile.workload
    facts = {
        "model": deployment.model.name,
        "engine": deployment.engine.name,
        "hardware": deployment.hardware.name,
        "GPUs": profile.hardware.gpus,
        "hosts": deployment.hosts,
        "replicas": topology.replicas,
        "tensor": topology.tensor,
        "pipeline": topology.pipeline,
        "expert": topology.expert,
        "data": topology.data,
        "mechanisms": ", ".join(deployment.mechanisms) or "none",
        "concurrency": workload.concurrency,
        "context": workload.context,
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def arguments(deployment: Deployment) -> dict[str, str]:
    """The engine's arguments by name with their values as text, secrets hidden."""
    return {f"--{arg.name}": _value(arg) for arg in deployment.args.values()}


def _value(arg: Arg) -> str:
    if isinstance(arg.value, SecretRef):
        kept = f"variable {arg.value.env}" if arg.value.env else f"file {arg.value.file}"
        return f"(the secret in {kept})"
    if isinstance(arg.value, HostPlaceholder):
        return f"(the address of replica {arg.value.replica}, host {arg.value.host})"
    if arg.value is True:
        return "given"
    text = " ".join(str(word) for word in arg_words(arg.value))
    return safe(arg.name, text)


def variables(deployment: Deployment) -> dict[str, str]:
    """What the launch sets in the engine's environment, secrets hidden."""
    return {env.name: safe(env.name, env.value) for env in deployment.env.values()}


def safe(name: str, value: str) -> str:
    """A value as it may be shown: without the secret that its name or its shape tells."""
    return REDACTED if is_secret_value(name, value) else redact_text(value)


def _texts(section: Section, first: dict[str, str], second: dict[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys((*first, *second)):
        one, other = first.get(name), second.get(name)
        # Two hidden values may be the same or not: nothing is said of them.
        if one != other:
            yield Difference(section, name, one, other)


def memory_figures(plan: Plan) -> dict[str, Value]:
    """Memory of one GPU by share, and what it holds; sizes of a kind together."""
    memory = plan.memory
    if memory is None:
        return {}
    found: dict[str, Value] = {"the engine sees": memory.total}
    found |= {name: _of_kind(memory, kind) for kind, name in _KINDS.items()}
    found = {name: value for name, value in found.items() if value is not None}
    found["--mem-fraction-static that works"] = memory.fraction
    found["token capacity"] = memory.tokens
    found["requests at once"] = memory.requests
    found["longest sequence"] = memory.context
    found["fits"] = {True: "yes", False: "no", None: None}[memory.fits]
    return found


_KINDS = {
    "weights": "weights", "draft": "draft weights", "kv": "KV cache", "state": "states",
    "graphs": "CUDA graphs", "workspace": "workspace", "reserve": "reserve", "free": "free",
}  # fmt: skip


def _of_kind(memory: Memory, kind: str) -> Figure | None:
    sizes = [share.size for share in memory.shares if share.kind == kind]
    if not sizes:
        return None
    formulas = " + ".join(dict.fromkeys(size.formula for size in sizes))
    sources = "; ".join(dict.fromkeys(size.source for size in sizes))
    return Figure(
        sum(size.value for size in sizes), "B", formulas, sources,
        sum(size.low for size in sizes), sum(size.high for size in sizes),
    )  # fmt: skip


def kv_per_token(geometry: Geometry) -> Figure | None:
    """KV bytes that a token adds on one GPU; None where that depends on how long a sequence is."""
    caches = [cache for cache in geometry.caches if cache.per_token.high > 0]
    if not caches or any(cache.window is not None for cache in caches):
        return None
    figures = [cache.per_token for cache in caches]
    return Figure(
        sum(f.value for f in figures), "B/token", " + ".join(f.formula for f in figures),
        figures[0].source, sum(f.low for f in figures), sum(f.high for f in figures),
    )  # fmt: skip


def step_figures(step: Step | None) -> dict[str, Value]:
    """The decode step in a few figures."""
    if step is None:
        return {}
    return {
        "batch": str(step.batch),
        "context": str(step.context),
        "plain decode": step.plain,
        "a step": step.step,
        "accepted a step": step.accepted,
        "a token takes": step.per_token,
        "over the batch": step.throughput,
        "breaks even at": step.ratio,
    }


def _figures(
    section: Section, first: dict[str, Value], second: dict[str, Value]
) -> Iterator[Difference]:
    for name in dict.fromkeys((*first, *second)):
        one, other = first.get(name), second.get(name)
        if not same(one, other):
            yield Difference(section, name, one, other)


def same(one: Value, other: Value) -> bool:
    """The same text, or the same range in the same unit, however the figure was come by."""
    if not isinstance(one, Figure) or not isinstance(other, Figure):
        return one == other
    pairs = ((one.low, other.low), (one.value, other.value), (one.high, other.high))
    return one.unit == other.unit and all(
        math.isclose(a, b, rel_tol=_EQUAL) for a, b in pairs
    )  # fmt: skip


def in_section(differences: Iterable[Difference], section: Section) -> tuple[Difference, ...]:
    """The differences of one section."""
    return tuple(found for found in differences if found.section == section)
