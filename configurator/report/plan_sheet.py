"""What every form of a plan's report shows, and its verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from configurator.plan.model import Memory, Pass, Plan, Share, SpeedUp, Step
from configurator.report.plan_values import amount, per_second, said, span

if TYPE_CHECKING:
    from configurator.deployment import Deployment
    from configurator.plan.claims import Match
    from configurator.plan.opinion import Opinion

Word = Literal["fits", "does not fit", "cannot be told"]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One plan with what stands around it in a report."""

    plan: Plan
    argument: str
    """PROFILE as it was given, for commands that a reader can run."""
    place: str
    """`dgx-spark, 1 replica of 1 GPU`."""
    status: str | None = None
    """`unverified`: nobody has yet run this composition."""
    refused: tuple[str, ...] = ()
    """Codes of what validation holds for an error."""
    claims: tuple[Match, ...] | None = None
    """Published figures held against it; None: they were not looked at."""
    opinion: Opinion | None = None
    """What another program says; None: it was not asked."""

    @property
    def exit_code(self) -> int:
        """1 where it is known not to fit, else 0."""
        return int(self.plan.memory is not None and self.plan.memory.fits is False)


def place_of(deployment: Deployment) -> str:
    """`gb300-nvl72, 2 replicas of 4 GPUs`."""
    replicas, gpus = deployment.profile.topology.replicas, deployment.gpus_per_replica
    hosts = deployment.hosts_per_replica
    return (
        f"{deployment.hardware.name}, {replicas} replica{'' if replicas == 1 else 's'} of "
        f"{gpus} GPU{'' if gpus == 1 else 's'}{f' over {hosts} hosts' if hosts > 1 else ''}"
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether it fits: a word, and the sentence with the values behind it."""

    word: Word
    sentence: str


def outcome(plan: Plan) -> Outcome:
    """The first line of a report."""
    memory = plan.memory
    if memory is None or memory.fits is None:
        remarks = memory.remarks if memory is not None and memory.tokens is not None else ()
        why = next(iter((*remarks, *plan.unknown)), "")
        return Outcome("cannot be told", why or "nothing is known of its memory")
    if memory.fits:
        return Outcome("fits", _room(memory))
    return Outcome("does not fit", _lack(memory))


def decoding(step: Step) -> str:
    """What decoding comes to, in one sentence."""
    requests = "1 request" if step.batch == 1 else f"{step.batch:,} requests"
    if step.per_token is not None:
        text = f"decode of {requests}: {span(per_second(step.per_token))}"
        text += " each" if step.batch > 1 else ""
    elif step.step is not None:
        text = f"decode of {requests}: {span(step.step)} a step, over the tokens it accepts"
    else:
        text = f"decode of {requests}: {span(step.plain)} a token without speculation"
    if step.accepted is not None and step.ratio is not None:
        text += f" at {said(step.accepted)} accepted a step"
    if step.ratio is not None:
        text += f"; speculation pays above {said(step.ratio)} accepted"
    return text


def taken(memory: Memory) -> tuple[Share, ...]:
    """The shares that something takes; what is left over is none."""
    return tuple(share for share in memory.shares if share.kind != "free")


def passes_of(step: Step) -> tuple[Pass, ...]:
    """The passes that a step is made of: plain decode only where nothing is speculated."""
    speculating = tuple(one for one in step.passes if one.name != "plain decode")
    return speculating or step.passes


def plain_of(step: Step) -> Pass | None:
    """The plain decode that a speculating step is compared with; None where it is the step."""
    if passes_of(step) == step.passes:
        return None
    return next(one for one in step.passes if one.name == "plain decode")


def at_acceptance(curve: tuple[SpeedUp, ...], accepted: float) -> SpeedUp:
    """The speed-up at one acceptance length, between the two nearest points of a curve.

    Beyond its ends the end; the curve has at least one point, in order of acceptance.
    """
    above = next((point for point in curve if point.accepted >= accepted), curve[-1])
    below = next((p for p in reversed(curve) if p.accepted <= accepted), curve[0])
    if above.accepted <= below.accepted:
        return above
    share = (accepted - below.accepted) / (above.accepted - below.accepted)

    def between(low: float, high: float) -> float:
        return low + share * (high - low)

    return SpeedUp(
        accepted, between(below.low, above.low), between(below.value, above.value),
        between(below.high, above.high),
    )  # fmt: skip


def _room(memory: Memory) -> str:
    parts = []
    if memory.requests is not None:
        one = memory.requests.exact and memory.requests.value == 1
        parts.append(
            f"{said(memory.requests)} request{'' if one else 's'} of the profile's context at once"
        )
    if memory.tokens is not None:
        parts.append(f"{said(memory.tokens)} of cache a replica")
    if memory.context is not None:
        parts.append(f"longest single sequence {said(memory.context)}")
    return "; ".join(parts) or f"{said(memory.total)} a GPU are enough"


def _lack(memory: Memory) -> str:
    """Where it ends and by how much, and what would do."""
    needed = sum(share.size.value for share in taken(memory))
    fact = memory.breaks_first or (
        f"{amount(needed, 'B')} are needed of {said(memory.total)} a GPU"
    )
    if memory.fraction is not None:
        return f"{fact}; --mem-fraction-static {span(memory.fraction)} would do"
    return (
        f"{fact}; no --mem-fraction-static would do: divide the weights over more GPUs "
        "(topology.tensor), or take less context or a smaller chunk of prefill"
    )
