"""Predicted against measured: one record a run, with the run's acceptance as input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from configurator.content import Library
from configurator.deployment import Deployment, Word
from configurator.errors import ConfiguratorError
from configurator.evidence.model import Evidence
from configurator.evidence.read import model_of
from configurator.evidence.report_values import as_dict, as_dicts, as_float, as_int
from configurator.plan.efficiency import Plain, known_as
from configurator.plan.figures import Figure
from configurator.plan.measured import Geometer
from configurator.plan.model import Geometry, Memory, Step
from configurator.plan.observed import Observed, observe
from configurator.plan.settings import speculates
from configurator.plan.step import Asked, step_of
from configurator.plan.step_passes import round_of
from configurator.plan.step_time import size_of


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity, predicted as a range and measured."""

    quantity: str
    unit: str
    low: float
    value: float
    high: float
    measured: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.value / self.measured

    @property
    def inside(self) -> bool:
        """The measured value lies in the predicted range."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True)
class Record:
    """One run held against what was predicted of it."""

    date: str
    """When it was recorded, as the evidence says."""
    deployment: str
    launch: str
    """Digest of arguments and environment; runs of one launch share it."""
    engine: str
    host: str
    hardware: str
    model: str
    batch: int
    context: int
    accepted: float | None
    evidence: str
    """Name of the evidence directory."""
    compared: tuple[Compared, ...]
    plain: Plain | None = None
    """Without speculation: the step, which calibrates later plans on this host."""
    doubts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the store keeps it."""
        return asdict(self)


def record_of(
    deployment: Deployment,
    library: Library,
    evidence: Evidence,
    geometry_of: Geometer,
    *,
    memory: Memory | None,
    own: Sequence[Plain] = (),
    host: str | None = None,
) -> Record:
    """What was predicted of `deployment` and what a run of it showed.

    Args:
        deployment: what ran.
        library: content; its measurements and `own` tell what the machine reaches.
        evidence: of the run.
        geometry_of: counts the parts of deployments.
        memory: what was planned of its memory; None: not planned.
        own: plain steps of this host, those of other launches only.
        host: what the host is called; None: by its GPUs and memory.

    Raises:
        ConfiguratorError: PLN002, evidence of another launch; PLN003, nothing to compare.
    """
    seen = observe(evidence)
    _refuse_another(deployment, evidence, seen)
    asked = Asked(seen.batch, seen.context, None, seen.accepted)
    geometry = geometry_of(deployment, library)
    step = step_of(deployment, geometry, library, geometry_of, asked, own)
    compared = tuple(_compared(step, memory, seen))
    if not compared:
        raise ConfiguratorError.single(
            "PLN003",
            f"{evidence.directory} and {deployment.name} have no figure in common: "
            + _lacking(step, seen),
            "record it with `configurator check -o DIR --level 2`, which sends longer requests",
        )
    return Record(
        date=str(evidence.manifest.get("collected_at") or "not known"),
        deployment=deployment.name,
        launch=launch_digest(deployment),
        engine=seen.version,
        host=host or seen.host,
        hardware=deployment.hardware.name,
        model=deployment.model.name,
        batch=seen.batch,
        context=seen.context or (step.context if step else 0),
        accepted=seen.accepted,
        evidence=_name(evidence),
        compared=compared,
        plain=_plain(deployment, geometry, step, seen, host or seen.host, evidence),
        doubts=seen.doubts,
    )


def launch_digest(deployment: Deployment) -> str:
    """Tells launches apart by arguments and environment of their first process; no secret is
    in it."""
    process = deployment.processes[0]
    words = [_word(word) for word in process.argv]
    text = json.dumps([words, sorted(process.env)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def own_steps(records: Iterable[Record], host: str, *, without: str = "") -> tuple[Plain, ...]:
    """Plain steps of one host, the last of each launch.

    Args:
        records: of a store, oldest first.
        host: its name.
        without: digest of a launch that must not predict itself.
    """
    found = {
        record.launch: record.plain
        for record in records
        if record.plain is not None and host and record.host == host and record.launch != without
    }
    return tuple(found.values())


def record_from(data: Any) -> Record | None:
    """A record as the store kept it; None where it is none."""
    held = as_dict(data)
    texts = {key: held.get(key) for key in _TEXTS}
    batch, context = as_int(held.get("batch")), as_int(held.get("context"))
    if batch is None or context is None or not all(isinstance(v, str) for v in texts.values()):
        return None
    compared = [_compared_from(each) for each in as_dicts(held.get("compared"))]
    whole = tuple(each for each in compared if each is not None)
    if not whole or len(whole) != len(compared):
        return None
    doubts = held.get("doubts")
    return Record(
        **{key: str(value) for key, value in texts.items()},
        batch=batch,
        context=context,
        accepted=as_float(held.get("accepted")),
        compared=whole,
        plain=_plain_from(held.get("plain")),
        doubts=tuple(map(str, doubts)) if isinstance(doubts, list) else (),
    )


_TEXTS = (
    "date", "deployment", "launch", "engine", "host", "hardware", "model", "evidence",
)  # fmt: skip


def _compared_from(data: dict[str, Any]) -> Compared | None:
    numbers = [as_float(data.get(key)) for key in ("low", "value", "high", "measured")]
    if any(number is None or number <= 0 for number in numbers):
        return None
    low, value, high, measured = (float(number or 0) for number in numbers)
    if not low <= value <= high:
        return None
    return Compared(str(data.get("quantity")), str(data.get("unit")), low, value, high, measured)


def _plain_from(data: Any) -> Plain | None:
    held = as_dict(data)
    seconds, size = as_float(held.get("seconds")), as_float(held.get("size"))
    bandwidth, layers = as_float(held.get("bandwidth")), as_int(held.get("layers"))
    if not seconds or not size or not bandwidth or layers is None:
        return None
    if min(seconds, size, bandwidth) <= 0 or layers < 0:
        return None
    names = [held.get(key) for key in ("name", "hardware", "model", "host")]
    if not all(isinstance(name, str) for name in names):
        return None
    name, hardware, model, host = map(str, names)
    tensor = as_int(held.get("tensor")) or 1
    return Plain(name, hardware, model, seconds, size, layers, bandwidth, tensor=tensor, host=host)


def _name(evidence: Evidence) -> str:
    return Path(evidence.directory).resolve().name


def _word(word: Word) -> str:
    return word if isinstance(word, str) else f"<{type(word).__name__}>"


def _refuse_another(deployment: Deployment, evidence: Evidence, seen: Observed) -> None:
    """Evidence of another launch would publish an error that is none of ours."""
    replica = evidence.replicas[0]
    info = replica.server_info or replica.server_info_startup or {}
    tensor, wanted = as_int(info.get("tp_size")), deployment.profile.topology.tensor
    served, model = model_of(replica), _model(deployment)
    fact = ""
    if served and model and served != model:
        fact = f"served {served}, {deployment.name} has {model}"
    elif tensor is not None and tensor != wanted:
        fact = f"has tensor {tensor}, {deployment.name} has {wanted}"
    elif speculates(deployment) == (seen.accepted is None) and seen.per_token:
        drafts = seen.accepted is not None
        fact = f"{'drafts' if drafts else 'does not draft'}, {deployment.name} does" + (
            " not" if drafts else ""
        )
    if fact:
        raise ConfiguratorError.single(
            "PLN002", f"the run of {evidence.directory} {fact}",
            "give the profile that was launched, or the evidence of its launch",
        )  # fmt: skip


def _model(deployment: Deployment) -> str:
    path = deployment.arg("model-path")
    return path.rstrip("/").rpartition("/")[2] if isinstance(path, str) else ""


def _compared(step: Step | None, memory: Memory | None, seen: Observed) -> list[Compared]:
    found: list[Compared] = []
    token = seen.per_token
    if step is not None and token is not None and step.per_token is not None:
        found.append(_held("time a token", step.per_token, token))
        if step.step is not None:
            found.append(_held("step", step.step, token * (seen.accepted or 1.0)))
        if step.throughput is not None:
            found.append(_held("throughput", step.throughput, seen.batch / token))
    limited = any("--max-total-tokens" in doubt for doubt in seen.doubts)
    if memory is not None and memory.tokens is not None and seen.tokens and not limited:
        found.append(_held("token capacity", memory.tokens, seen.tokens))
    return found


def _held(quantity: str, figure: Figure, measured: float) -> Compared:
    return Compared(quantity, figure.unit, figure.low, figure.value, figure.high, measured)


def _lacking(step: Step | None, seen: Observed) -> str:
    lacks = []
    if step is None:
        lacks.append("no step is predicted, its bytes or the bandwidth are not known")
    if seen.per_token is None:
        lacks.append("the run has no answer with times and no decode line")
    if seen.tokens is None:
        lacks.append("it says no token capacity")
    return "; ".join(lacks) or "its acceptance or its memory is not known"


def _plain(
    deployment: Deployment, geometry: Geometry, step: Step | None, seen: Observed, host: str,
    evidence: Evidence,
) -> Plain | None:  # fmt: skip
    bandwidth = deployment.hardware.bandwidth_gb_s
    if step is None or seen.per_token is None or bandwidth is None or not host:
        return None
    if speculates(deployment):
        return None
    return Plain(
        name=f"{deployment.name} ({_name(evidence)})",
        hardware=deployment.hardware.name,
        model=known_as(deployment.model),
        seconds=seen.per_token,
        size=size_of(step.passes[0].reads).value,
        layers=round_of(deployment, geometry).plain.layers,
        bandwidth=float(bandwidth),
        tensor=deployment.profile.topology.tensor,
        host=host,
    )
