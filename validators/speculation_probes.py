"""The probe of speculative decoding: how many drafts are accepted."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from configurator import (
    Acceptance,
    Check,
    DraftCount,
    Observation,
    Outcome,
    Replica,
    Rung,
    acceptance_of,
    draft_counts,
    inconclusive,
    probe,
    proven,
    refuted,
    speculation_off,
)

_ENOUGH = 20
"""Verify steps below which no interval is worth stating."""
_LINES = 3
"""Decode lines, each of an interval of steps, that may refute without requests."""
_USEFUL = 1.1
"""Acceptance length from which drafts do anything at all; 1 is plain decoding."""
_WEAK = 1.5
"""Below this acceptance length no known ratio of verify to decode cost pays."""
_WILD = 1.5
"""Requests whose acceptance differs by this factor speak of the text, not of the draft."""
_MOST_TOGETHER = 256
"""The collector sends no more at a time."""
_DRAFTING = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "DSPARK", "FROZEN_KV_MTP")
"""Algorithms whose drafts come from a model."""
_WITHOUT_MTP = ("gemma", "gemma2", "llama", "mistral", "phi3", "qwen2", "qwen3")
"""Model types that have no prediction layer of their own that could draft."""
_ACCEPT_LEN = re.compile(
    r"Decode batch.*accept len: (\d{1,9}(?:\.\d{1,9})?)(?:, accept rate: (\d{1,9}(?:\.\d{1,9})?))?"
)
_SKIPPED = re.compile(r"(?:Parameter |Audio param )?(\S+) not found in params_dict, skip")


def _observed(counts: list[DraftCount]) -> list[Observation]:
    return [
        Observation(
            "generate", "acceptance length", round(count.length, 4), Rung.EXECUTED,
            f"{count.name}#/meta_info/spec_correct_drafts_histogram",
            f"{count.correct} of {count.proposed} drafts accepted in {count.steps} verify steps",
            window=f"{count.name}, text: {count.kind}"
            + (f", batch {count.together}" if count.together else ""),
        )
        for count in counts
    ]  # fmt: skip


def _no_speculation(replica: Replica, off: Outcome) -> Outcome:
    """The engine resolved no speculation; a draft in a report contradicts that."""
    if not any(report.drafts for report in replica.reports):
        return off
    text = "/server_info says speculative_algorithm null, but a draft is reported"
    return inconclusive(
        Rung.RESOLVED, text, *off.observations, conflicts=(text,),
        remedy="collect reports and /server_info of the same start",
    )  # fmt: skip


def _algorithm(replica: Replica) -> tuple[bool, Any]:
    """Whether /server_info was seen, and the algorithm it resolved."""
    info = replica.server_info or replica.server_info_startup
    if info is None or "speculative_algorithm" not in info:
        return False, None
    return True, info["speculative_algorithm"]


def _draft_is_target(replica: Replica) -> bool | None:
    """The draft is the target itself: its path, and no MTP layer loaded in place; None: open."""
    info = replica.server_info or {}
    path, model = (_path(info.get(key)) for key in ("speculative_draft_model_path", "model_path"))
    is_same = bool(path) and path == model
    if is_same and str(info.get("speculative_algorithm")).upper() == "STANDALONE":
        return True  # It loads whole models only.
    classes = {r.target.model_class for r in replica.reports if r.target}
    drafts = {draft.model_class for r in replica.reports for draft in r.drafts}
    if classes and drafts:
        return bool(classes & drafts) and (is_same or not path)
    kind = (replica.model_info or {}).get("model_type")
    return is_same and (kind in _WITHOUT_MTP if isinstance(kind, str) else None)


def _path(value: Any) -> str:
    """One spelling of a path; empty where there is none."""
    return posixpath.normpath(value) if isinstance(value, str) and value else ""


@probe("speculative-acceptance", takes="FLOOR", proof_rung="executed")
def speculative_acceptance(check: Check) -> Outcome:
    """Drafts are accepted: tokens a verify step, with a 95 % interval from your own requests.

    Requests of one kind of text that were sent in the same number at a time (batch) are judged
    together. The worst of them counts, on the profile's own text where it was sent, and is named
    with its text, its batch and its interval.

    Proven: the interval lies above 1.1 (executed). It is effective only when it also lies above
    the floor or the break-even of the profile, on the profile's own text, at the profile's
    concurrency, with a draft that is not the target itself (one that drafts for itself accepts
    everything and gains nothing), in responses that hold text or tokens, and while
    no-simulated-acceptance is proven.

    Refuted: the interval lies at or below 1.1 (executed), below the floor, or /server_info
    resolved `speculative_algorithm` to null. Such a server is healthy and its text is right.
    Without requests: three decode lines of the log or more, and none above 1.1.

    Open: fewer than 20 verify steps, an interval that holds 1.1 or the floor, one that ends
    below 1.5 where no floor is stated (a weak draft), counters that contradict the tokens, text
    that is no text (acceptance at its ceiling with one token over and over is as suspicious as
    1.0), or no requests: averages of the log and of /server_info include the warm-up prompt,
    which is easy to draft. Requests that disagree by half or more (n-gram drafts on repeated
    text) speak of the text.
    """
    every = draft_counts(check.replica)
    off = speculation_off(check.replica)
    if off is not None and not every:
        return _no_speculation(check.replica, off)
    if not every:
        return _without_requests(check.replica)
    counts, where = _worst(check, every)
    observations = _observed(counts)
    conflicts = tuple(_conflicts(check.replica, every))
    seen = acceptance_of(counts)
    wild = _spread(check.replica, counts)
    foreign = sorted({count.kind for count in counts} - {"profile"})
    on_text = bool(wild or foreign)
    doubt = _doubt(check, counts, seen)
    if doubt:
        why, remedy = doubt
        return inconclusive(
            Rung.EXECUTED, why, *observations, remedy=remedy, conflicts=conflicts,
            depends_on_text=on_text,
        )  # fmt: skip
    if seen.upper <= _USEFUL:
        return refuted(
            Rung.EXECUTED, f"acceptance length {seen}{where}: the drafts are useless",
            *observations, remedy=_USELESS + _skipped(check.replica), conflicts=conflicts,
        )  # fmt: skip
    if seen.lower <= _USEFUL and not wild:
        return inconclusive(
            Rung.EXECUTED, f"acceptance length {seen}{where}: the interval holds {_USEFUL}",
            *observations, remedy="judge with --level 2, which sends more",
            conflicts=conflicts, depends_on_text=on_text,
        )  # fmt: skip
    if wild:
        return _of_the_text(check, counts, seen, f"{wild}{where}", conflicts)
    return _against_floor(check, counts, where, observations, conflicts)


def _worst(check: Check, every: list[DraftCount]) -> tuple[list[DraftCount], str]:
    """The requests that decide, and in words which those are and what the others show."""
    groups: dict[tuple[str, int | None], list[DraftCount]] = {}
    for count in every:
        groups.setdefault((count.kind, count.together), []).append(count)
    enough = {k: g for k, g in groups.items() if sum(c.steps for c in g) >= _ENOUGH}
    own = {k: g for k, g in enough.items() if k[0] == "profile"}
    plain = {k: g for k, g in enough.items() if k[0] != "known-answer"}
    pool = own or plain or enough
    if not pool:
        return every, ""
    floor = _floor(check)[0] or _USEFUL

    def badness(key: tuple[str, int | None]) -> tuple[bool, bool, float]:
        seen = acceptance_of(pool[key])
        return seen.upper > _USEFUL, seen.upper >= floor, seen.lower

    worst = min(pool, key=badness)
    others = [
        f"{acceptance_of(group).mean:.2f}{_words(*key)}"
        for key, group in enough.items()
        if key != worst and key[0] != "known-answer"
    ]
    shown = f" (others: {', '.join(others)})" if others else ""
    return pool[worst], f"{_words(*worst)}{shown}"


def _words(kind: str, together: int | None) -> str:
    """Which requests these are; empty where nothing is known of them."""
    text = {"unknown": "", "profile": " on the profile's text"}.get(kind, f" on {kind} text")
    return text if together is None else f"{text} at batch {together}"


def _doubt(
    check: Check, counts: list[DraftCount], seen: Acceptance
) -> tuple[str, str] | None:  # fmt: skip
    """Why these figures say nothing, and what would help; None when they say something."""
    if seen.steps < _ENOUGH:
        text = f"acceptance length {seen}: fewer than {_ENOUGH} verify steps"
        return text, "judge with --level 2, which sends enough"
    corrupted = next((count for count in counts if count.corruption), None)
    if corrupted is not None and seen.upper > _USEFUL:
        high = "at its ceiling, " if seen.pinned else ""
        return (
            f"acceptance length {seen}: {high}of text that is none; {corrupted.name}: "
            f"{corrupted.corruption}",
            "mend what corrupts the output first (invariant output-not-corrupted)",
        )
    odd = next((count for count in counts if count.is_contradictory), None)
    if odd is not None:
        return (
            f"{odd.name} counts {odd.correct} accepted drafts of {odd.proposed} proposed: its "
            "counters contradict each other",
            "use an engine version that counts drafts right",
        )
    broken = [count.name for count in counts if count.contradicted is not None]
    if broken and seen.lower <= (_floor(check)[0] or _USEFUL):
        return (
            f"the counters of {broken[0]} contradict its tokens, which show {seen}",
            "use an engine version that counts accepted drafts right",
        )
    return None


def _of_the_text(
    check: Check, counts: list[DraftCount], seen: Acceptance, wild: str, conflicts: tuple[str, ...]
) -> Outcome:
    """Acceptance that depends on the text: it happens, and no floor can be held against it."""
    floor, name = _floor(check)
    against = f"; {name} {floor:g} cannot be judged from this" if floor is not None else ""
    text = f"acceptance length {wild}, {seen.mean:.2f} on average: it depends on the text{against}"
    if floor is not None and seen.upper < floor:
        return refuted(
            Rung.EXECUTED, f"{text}, and the interval ends at {seen.upper:.2f}, below it",
            *_observed(counts), remedy=_TOO_LOW, conflicts=conflicts,
        )  # fmt: skip
    return proven(
        Rung.EXECUTED, text, *_observed(counts), depends_on_text=True, conflicts=conflicts
    )


_USELESS = (
    "check that the draft belongs to this target, that its weights are loaded, and that it shares "
    "the target's LM head with its scale"
)


def _skipped(replica: Replica) -> str:
    """A weight that the loader passed over: a draft without weights starts all the same."""
    for line, found in replica.said(_SKIPPED, while_starting=True):
        return f"; server.log:{line.number} says that {found[1]} was not loaded"
    return ""


_TOO_LOW = "drop the mechanism for this workload, or use a draft that fits its text"


def _floor(check: Check) -> tuple[float | None, str]:
    expectation = check.expectation
    if expectation.floor is not None:
        return expectation.floor, "the floor"
    return expectation.verify_cost_ratio, "the break-even"


def _against_floor(
    check: Check, counts: list[DraftCount], where: str, observations: list[Observation],
    conflicts: tuple[str, ...],
) -> Outcome:  # fmt: skip
    """Acceptance above 1.1, held against the floor or break-even of the profile."""
    floor, name = _floor(check)
    seen = acceptance_of(counts)
    foreign = sorted({count.kind for count in counts} - {"profile"})
    text = f"acceptance length {seen}{where}"
    if floor is None and seen.upper < _WEAK:
        return inconclusive(
            Rung.EXECUTED, f"{text}: a weak draft, and no floor or break-even is stated",
            *observations, remedy=f"state acceptance.floor; {_USELESS}{_skipped(check.replica)}",
            conflicts=conflicts, depends_on_text=bool(foreign),
        )  # fmt: skip
    if floor is None:
        text += "; no floor or break-even is stated, so whether it pays is open"
        return proven(
            Rung.EXECUTED, text, *observations, depends_on_text=bool(foreign), conflicts=conflicts
        )
    if seen.upper < floor:
        return refuted(
            Rung.EXECUTED, f"{text}: below {name} {floor:g}", *observations, remedy=_TOO_LOW,
            conflicts=conflicts,
        )  # fmt: skip
    if seen.lower <= floor:
        return inconclusive(
            Rung.EXECUTED, f"{text}: the interval holds {name} {floor:g}", *observations,
            remedy="judge with --level 2, which sends more", conflicts=conflicts,
            depends_on_text=bool(foreign),
        )  # fmt: skip
    text += f": above {name} {floor:g}"
    lacking = _not_effective(check, counts, foreign)
    if not lacking:
        return proven(Rung.EFFECTIVE, text, *observations, conflicts=conflicts)
    return proven(
        Rung.EXECUTED, f"{text}; {lacking}", *observations, depends_on_text=bool(foreign),
        conflicts=conflicts,
    )  # fmt: skip


def _not_effective(check: Check, counts: list[DraftCount], foreign: list[str]) -> str:
    """Why acceptance above the floor does not show a gain; empty when it does."""
    itself = _draft_is_target(check.replica)
    if itself:
        return "the draft is the target itself, so accepting its own tokens gains nothing"
    if itself is None:
        return "not shown to be effective: the draft may be the target itself, whose path it has"
    if any(count.is_empty for count in counts):
        return "not shown to be effective: a response counts drafts and holds no text, no tokens"
    if foreign:
        return f"not shown to be effective: the text is {', '.join(foreign)}, not the profile's"
    if check.deployment is None:
        return ""
    wanted = min(check.deployment.profile.workload.concurrency, _MOST_TOGETHER)
    own = [c for c in draft_counts(check.replica) if c.kind == "profile"]
    most = max((count.together or 1 for count in own), default=1)
    if most >= wanted:
        return ""
    return f"not shown to be effective at batch {wanted} (judge with --level 2)"


def _spread(replica: Replica, counts: list[DraftCount]) -> str:
    """The range of the requests when it is the text that decides; empty otherwise."""
    lengths = [count.length for count in counts]
    shown = f"{min(lengths):.2f} to {max(lengths):.2f} between requests"
    if str(_algorithm(replica)[1]).upper() == "NGRAM":
        return shown
    # A few steps say nothing of a text, and intervals that touch may differ by chance.
    each = [acceptance_of([count]) for count in counts if count.steps >= 8]
    if not each or max(a.lower for a in each) < _WILD * min(a.upper for a in each):
        return ""
    return shown


def _log_lengths(replica: Replica) -> list[tuple[int, float]]:
    return [
        (line.number, float(found[1]))
        for line, found in replica.said(_ACCEPT_LEN)
        # A length of 1 with drafts accepted is a figure of an earlier interval.
        if not (float(found[1]) == 1 and float(found[2] or 0) > 0.05)
    ]


def _conflicts(replica: Replica, counts: list[DraftCount]) -> Iterator[str]:
    """Where other sources disagree with the requests."""
    if speculation_off(replica) is not None:
        yield "/server_info says speculative_algorithm null, but responses count verify steps"
    for count in counts:
        if count.contradicted is not None:
            yield (
                f"{count.name}: {count.contradicted} drafts counted as accepted, but "
                f"{count.tokens} tokens in {count.steps} verify steps need {count.correct}"
            )
        ratio = count.tokens / count.steps
        if count.reported is not None and abs(count.reported - ratio) > 0.25 * ratio:
            yield (
                f"{count.name}: spec_accept_length says {count.reported:g}, but "
                f"{count.tokens} tokens in {count.steps} verify steps are {ratio:.2f}"
            )
    mean = acceptance_of(counts).mean
    lengths = [count.length for count in counts]
    off = [
        (number, value)
        for number, value in _log_lengths(replica)
        if not 0.8 * min(lengths) <= value <= 1.25 * max(lengths)
    ]
    if off:
        yield (
            f"server.log:{off[0][0]} says accept len {off[0][1]:g}, the requests {mean:.2f}; "
            "a line of the log may be of the warm-up or of other text"
        )


def _without_requests(replica: Replica) -> Outcome:
    """Averages include the warm-up: a hint, unless even with it nothing is accepted."""
    lengths = _log_lengths(replica)
    observations = [
        Observation("log", "accept len", value, Rung.EXECUTED, f"server.log:{number}")
        for number, value in lengths[-3:]
    ]
    if len(lengths) >= _LINES and max(value for _, value in lengths) <= _USEFUL:
        text = f"none of {len(lengths)} decode lines has an accept len above {_USEFUL}"
        return refuted(
            Rung.EXECUTED, f"{text}: the drafts are useless", *observations,
            remedy=_USELESS + _skipped(replica),
        )  # fmt: skip
    states = (replica.server_info or {}).get("internal_states")
    for index, state in enumerate(states if isinstance(states, list) else []):
        value = state.get("avg_spec_accept_length") if isinstance(state, dict) else None
        if value is not None:
            pointer = f"server_info.json#/internal_states/{index}/avg_spec_accept_length"
            observations.append(
                Observation("server_info", "average", value, Rung.EXECUTED, pointer)
            )
    remedy = "send requests (leave out --passive)"
    if observations:
        last = observations[-1]
        return inconclusive(
            Rung.EXECUTED,
            f"no request counts drafts; {last.source} says {last.value}, which includes warm-up "
            f"text{_ceiling(replica, [value for _, value in lengths])}",
            *observations, remedy=remedy, depends_on_text=True,
        )  # fmt: skip
    known, algorithm = _algorithm(replica)
    if known:
        text = f"the engine resolved {algorithm}{_without_path(replica, algorithm)}"
        return inconclusive(
            Rung.RESOLVED, f"{text}; no request shows what is accepted", remedy=remedy
        )
    return inconclusive(None, "no evidence of speculation", remedy=remedy)


def _ceiling(replica: Replica, lengths: list[float]) -> str:
    """Every line at the most that can be: as suspicious as 1; empty otherwise."""
    info = replica.server_info or replica.server_info_startup or {}
    most = info.get("speculative_num_draft_tokens")
    if not isinstance(most, int) or len(lengths) < _LINES or min(lengths) < most - 0.005:
        return ""
    return f"; every decode line is at the ceiling of {most}, so look at the text"


def _without_path(replica: Replica, algorithm: Any) -> str:
    """That no path of a draft is resolved where a model drafts; empty otherwise."""
    info = replica.server_info or replica.server_info_startup or {}
    key = "speculative_draft_model_path"
    if str(algorithm).upper() not in _DRAFTING or key not in info or info[key] is not None:
        return ""
    return f", with {key} null: it may draft with nothing"
