"""The result of `check` as one page that a person can read anywhere.

The page holds everything it needs: no script has to run, nothing is fetched. All text of the
evidence is untrusted: it is redacted, made printable and escaped on its way into the template.
The same judgement of the same evidence gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from configurator import __version__
from configurator.engine.catalogue import Catalogue, load_catalogue
from configurator.evidence.model import Evidence, Replica, ServerState
from configurator.report.html_acceptance import HEIGHT, LEFT, RIGHT, WIDTH, charts
from configurator.report.html_environment import environments, not_looked_at, server_count
from configurator.report.html_evidence import Fact, facts, held_back
from configurator.report.html_template import environment
from configurator.report.html_text import clean, counted, numbers, shown
from configurator.report.html_timeline import timelines
from configurator.report.html_values import tables
from configurator.verdicts import Answer, Rung, Verdict

if TYPE_CHECKING:
    from configurator.deployment import Deployment, Expectation
    from configurator.judge import Judgement
    from configurator.probes import Probe
    from configurator.report.plan_html import PlanView

_MOST_FACTS = 12
SYMBOLS = {
    Answer.PROVEN: "✓",
    Answer.REFUTED: "✗",
    Answer.INCONCLUSIVE: "?",
    Answer.NOT_APPLICABLE: "∅",
}
"""A verdict has a word, a colour and a sign, so that it can be read without colours."""
_TONES = {Answer.PROVEN: "good", Answer.REFUTED: "bad", Answer.INCONCLUSIVE: "open"}
_WORDS = {Answer.NOT_APPLICABLE: "NOT APPLICABLE"}
_FIRST = (Answer.REFUTED, Answer.INCONCLUSIVE, Answer.PROVEN, Answer.NOT_APPLICABLE)
_RUNGS = {
    Rung.REQUESTED: "somebody asked for it",
    Rung.RESOLVED: "the engine took the argument",
    Rung.BUILT: "the object exists in the engine",
    Rung.CAPTURED: "it is in the captured graphs",
    Rung.EXECUTED: "it ran",
    Rung.EFFECTIVE: "it gained what was asked of it",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was to be judged, as far as a judgement does not say it itself."""

    expectations: tuple[Expectation, ...]
    probes: Mapping[str, Probe]
    deployment: Deployment | None = None
    command: str = ""
    """The command that gives this page again."""
    plan: PlanView | None = None
    """What was planned of the deployment before it ran; None: it is not shown."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rung of the ladder of a verdict."""

    name: str
    meaning: str
    state: str
    """`reached`, `top` (the rung the verdict speaks of) or `open`."""
    is_proof: bool
    """The lowest rung that may prove this."""


@dataclass(frozen=True, slots=True)
class Card:
    """One verdict as the page shows it."""

    name: str
    anchor: str
    verdict: Verdict
    word: str
    symbol: str
    steps: tuple[Step, ...]
    proof: str
    facts: list[Fact]
    more: str

    @property
    def is_open(self) -> bool:
        """Its evidence is worth a look at once."""
        return self.verdict.answer in (Answer.REFUTED, Answer.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Headline:
    """The outcome in one word, one sign and one sentence."""

    word: str
    symbol: str
    tone: str
    """`good`, `open` or `bad`."""
    sentence: str


def page(judgement: Judgement, evidence: Evidence, asked: Asked) -> str:
    """The whole page.

    Args:
        judgement: what was judged of `evidence`.
        evidence: where excerpts, values, times and counts are read from.
        asked: the expectations, the loaded probes, the deployment if there is one.
    """
    cards = _cards(judgement, evidence, asked)
    # What is wrong comes first, in the order in which it was asked for.
    cards.sort(key=lambda card: _FIRST.index(card.verdict.answer))
    mechanisms = [card for card in cards if card.verdict.kind == "mechanism"]
    invariants = [card for card in cards if card.verdict.kind == "invariant"]
    replicas = evidence.replicas
    catalogues = {replica.index: _catalogue(replica) for replica in replicas}
    used = [expectation.probe for expectation in asked.expectations]
    used += [verdict.mechanism for verdict in judgement.verdicts]
    text: str = (
        environment()
        .get_template("page.html.j2")
        .render(
            tone=lambda card: _TONES.get(card.verdict.answer, "none"),
            headline=_headline(judgement),
            about=_about(evidence, asked),
            unverified=asked.deployment is not None
            and asked.deployment.profile.status == "unverified",
            title=_title(asked, evidence),
            exit_code=judgement.exit_code,
            states=_states(judgement),
            mechanisms=mechanisms,
            invariants=invariants,
            to_do=[
                card
                for card in cards
                if card.verdict.answer is Answer.REFUTED or card.verdict.fails
            ],
            tables=tables(replicas, judgement.verdicts, catalogues, asked.deployment),
            charts=charts(replicas, asked.expectations),
            frame={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT},
            environments=environments(replicas, judgement.verdicts, catalogues),
            timelines=timelines(replicas),
            unlooked=not_looked_at(evidence, judgement.unseen, used, asked.probes),
            command=asked.command,
            version=__version__,
            launch_commands=_commands(replicas),
            plan=asked.plan,
        )
    )
    return text


def _catalogue(replica: Replica) -> Catalogue | None:
    return load_catalogue(replica.version) if replica.version else None


def _title(asked: Asked, evidence: Evidence) -> str:
    if asked.deployment is not None:
        return asked.deployment.name
    models = (_model(replica) for replica in evidence.replicas)
    return next((model.rstrip("/").rsplit("/", 1)[-1] for model in models if model), "server")


def _model(replica: Replica) -> str:
    info = replica.server_info or replica.server_info_startup or replica.requested
    model = info.get("model_path") or replica.requested.get("model_path")
    return shown(model, longest=160) if isinstance(model, str) else ""


def _about(evidence: Evidence, asked: Asked) -> list[tuple[str, str]]:
    manifest = evidence.manifest
    versions = sorted({replica.version or "version not known" for replica in evidence.replicas})
    engine = manifest.get("engine")
    name = engine.get("name") if isinstance(engine, dict) else None
    level = manifest.get("level")
    rows = [
        ("Deployment", asked.deployment.name if asked.deployment else "none: judged by --expect"),
        ("Model", next(filter(None, map(_model, evidence.replicas)), "not known")),
        ("Engine", f"{shown(name or 'sglang', longest=60)} {', '.join(versions)}"),
        ("Collected", shown(manifest.get("collected_at") or "time not recorded", longest=60)),
        ("Evidence of", server_count(evidence)),
    ]
    if isinstance(level, int):
        how = ", passive: no request was sent" if manifest.get("passive") is True else ""
        rows.append(("Level", f"{level}{how}"))
    return rows


def _states(judgement: Judgement) -> list[tuple[str, ServerState]]:
    """States of the servers, those that are alike once."""
    alike: dict[ServerState, list[int]] = {}
    for index, state in judgement.states.items():
        same = next((s for s in alike if _say_the_same(s, state)), state)
        alike.setdefault(same, []).append(index)
    return [(numbers(indices), state) for state, indices in alike.items()]


def _say_the_same(left: ServerState, right: ServerState) -> bool:
    return (left.state, left.phase, left.reason) == (right.state, right.phase, right.reason)


def _headline(judgement: Judgement) -> Headline:
    refuted = [v.mechanism for v in judgement.verdicts if v.answer is Answer.REFUTED]
    failing = [v.mechanism for v in judgement.verdicts if v.fails]
    unready = {i: s.state for i, s in judgement.states.items() if s.state != "ready"}
    if judgement.crashed:
        return Headline(
            "Not judged", "!", "bad", "A probe crashed. That is a fault of ours: report it."
        )
    if judgement.exit_code:
        reasons = []
        if unready:
            words = ", ".join(sorted(set(unready.values())))
            reasons.append(f"server {numbers(unready)}: {words}")
        if failing:
            words = "refuted" if set(failing) <= set(refuted) else "refuted or not proven"
            reasons.append(f"{words}: {', '.join(failing)}")
        return Headline("Not good", "✗", "bad", _sentence("; ".join(reasons)))
    if notes := judgement.reservations:
        return Headline("Good so far, but", "?", "open", _sentence("; ".join(notes)))
    number = sum(v.answer is Answer.PROVEN for v in judgement.verdicts)
    nothing = "Nothing was asked that can be proven here."
    return Headline("Good", "✓", "good", f"All {number} proven." if number else nothing)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else "See below."


def _cards(judgement: Judgement, evidence: Evidence, asked: Asked) -> list[Card]:
    proofs = {name: probe.proof_rung for name, probe in asked.probes.items()}
    proofs |= {expectation.mechanism: expectation.proof_rung for expectation in asked.expectations}
    replicas = {replica.index: replica for replica in evidence.replicas}
    found = []
    for number, verdict in enumerate(judgement.verdicts, 1):
        proof = proofs.get(verdict.mechanism, "")
        known = facts(verdict.evidence, replicas)
        found.append(
            Card(
                verdict.mechanism,
                f"v{number}",
                verdict,
                _WORDS.get(verdict.answer, str(verdict.answer)),
                SYMBOLS[verdict.answer],
                _ladder(verdict.rung, proof),
                proof,
                known[:_MOST_FACTS],
                held_back(len(known) - _MOST_FACTS),
            )
        )
    return found


def _ladder(rung: Rung | None, proof: str) -> tuple[Step, ...]:
    return tuple(
        Step(
            str(step), _RUNGS[step],
            "open" if rung is None or step > rung else "top" if step == rung else "reached",
            str(step) == proof,
        )
        for step in Rung
    )  # fmt: skip


def _commands(replicas: tuple[Replica, ...]) -> list[tuple[str, str]]:
    """Launch commands, equal ones once."""
    alike: dict[str, list[int]] = {}
    for replica in replicas:
        if replica.command:
            alike.setdefault(clean(replica.command, 4000), []).append(replica.index)
    several = len(replicas) > 1
    return [
        (f"{counted(len(indices), 'replica')}: {numbers(indices)}" if several else "", command)
        for command, indices in alike.items()
    ]
