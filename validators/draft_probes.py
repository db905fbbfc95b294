"""Probes of drafts: whether any are proposed, and how many at a time."""

from __future__ import annotations

import math
from typing import Any

from configurator import (
    Check,
    Observation,
    Outcome,
    Replica,
    Rung,
    as_int,
    inconclusive,
    probe,
    proven,
    refuted,
    speculation_off,
)


def _counted(replica: Replica) -> list[tuple[str, int, int, int]]:
    """File, verify steps, proposed and accepted drafts of every response that counts them."""
    found = []
    for exchange in replica.exchanges:
        if exchange.status >= 400:
            continue  # A refusal counts nothing, whatever else it says.
        response = exchange.response
        for answer in response if isinstance(response, list) else [response]:
            meta = answer.get("meta_info") if isinstance(answer, dict) else None
            if isinstance(meta, dict) and all(_is_count(meta.get(key)) for key in _KEYS):
                steps, proposed, correct = (meta.get(key) or 0 for key in _KEYS)
                if steps and proposed:
                    found.append((exchange.name, steps, proposed, correct))
    return found


_KEYS = ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts")


def _is_count(value: Any) -> bool:
    """A count or nothing: no truth value, fraction, infinity, nothing negative, below 64 bits."""
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _resolved(replica: Replica) -> dict[str, Any]:
    return replica.server_info or replica.server_info_startup or {}


def _off(replica: Replica, is_counted: bool) -> tuple[Outcome | None, tuple[str, ...]]:
    """What follows where the engine resolved no speculation, and what contradicts it."""
    off = speculation_off(replica)
    if off is None:
        return None, ()
    fact = "/server_info says speculative_algorithm null, but "
    if is_counted:
        return None, (f"{fact}responses count drafts",)
    if not any(report.drafts for report in replica.reports):
        return off, ()
    text = f"{fact}a draft is reported"
    remedy = "collect reports and /server_info of the same start"
    return inconclusive(
        Rung.RESOLVED, text, *off.observations, remedy=remedy, conflicts=(text,)
    ), ()


def _proposed(name: str, steps: int, proposed: int, correct: int) -> Observation:
    return Observation(
        "generate", "proposed drafts", proposed, Rung.EXECUTED,
        f"{name}#/meta_info/spec_num_proposed_drafts",
        f"{correct} of {proposed} accepted in {steps} verify steps", window=name,
    )  # fmt: skip


@probe("draft-used", proof_rung="executed")
def draft_used(check: Check) -> Outcome:
    """Drafts are proposed and verified while requests are answered.

    Proven: responses of /generate count proposed drafts (`spec_num_proposed_drafts`), executed.
    That says nothing of their worth: see speculative-acceptance.

    Refuted: /server_info resolved `speculative_algorithm` to null.

    Open: no request was sent, none was long enough to verify a draft, or the server speculates
    but the responses do not count drafts.
    """
    counts = _counted(check.replica)
    off, conflicts = _off(check.replica, bool(counts))
    if off is not None:
        return off
    if counts:
        proposed, correct = sum(c[2] for c in counts), sum(c[3] for c in counts)
        text = f"{proposed:,} drafts were proposed and {correct:,} accepted"
        return proven(
            Rung.EXECUTED, text, *(_proposed(*count) for count in counts), conflicts=conflicts
        )
    algorithm = _resolved(check.replica).get("speculative_algorithm")
    if algorithm is None:
        return inconclusive(None, "no response counts drafts", remedy="send requests")
    return inconclusive(
        Rung.RESOLVED,
        f"the engine resolved {algorithm}, but no response counts proposed drafts",
        remedy="send requests of 64 tokens or more (leave out --passive)",
    )


@probe("draft-tokens", takes="N", requires_value=True, proof_rung="resolved")
def draft_tokens(check: Check) -> Outcome:
    """Each verify step holds N tokens: the drafts and the token they continue.

    Proven: the proposed drafts of every response divided by its verify steps, and one more, are N
    (executed).

    Refuted: that number differs in every response, or /server_info resolved another
    `speculative_num_draft_tokens`. With topk 1 the engine silently makes it steps + 1.

    Open: the number differs between responses; or only the resolved value is there and equals N.
    It may be an echo, and an adaptive engine changes the number while it runs.
    """
    counts = _counted(check.replica)
    off, conflicts = _off(check.replica, bool(counts))
    if off is not None:
        return off
    wanted = int(check.expectation.value or 0)
    resolved = as_int(_resolved(check.replica).get("speculative_num_draft_tokens"))
    observations = []
    if resolved is not None:
        pointer = "server_info.json#/speculative_num_draft_tokens"
        observations.append(
            Observation("server_info", "draft tokens", resolved, Rung.RESOLVED, pointer)
        )
    remedy = f"with topk 1 ask for steps + 1 draft tokens: {wanted - 1} steps for {wanted}"
    if resolved is not None and resolved != wanted:
        text = f"the engine resolved {resolved} draft tokens, not {wanted}"
        return refuted(Rung.RESOLVED, text, *observations, remedy=remedy)
    if counts:
        steps = sum(count[1] for count in counts)
        used = sum(count[2] for count in counts) / steps + 1
        observations += [
            Observation(
                "generate", "tokens a verify step", round(count[2] / count[1] + 1, 3),
                Rung.EXECUTED, f"{count[0]}#/meta_info/spec_num_proposed_drafts",
                window=f"{count[0]}, {count[1]} verify steps",
            )
            for count in counts
        ]  # fmt: skip
        each = [count[2] / count[1] + 1 for count in counts]
        alike = [math.isclose(value, wanted, abs_tol=0.01) for value in each]
        if all(alike):
            text = f"every verify step held {wanted} tokens ({steps} steps)"
            return proven(Rung.EXECUTED, text, *observations, conflicts=conflicts)
        if any(alike) or min(each) < wanted < max(each):
            text = (
                f"a verify step held {min(each):.2f} to {max(each):.2f} tokens, {used:.2f} on "
                f"average: not always {wanted}"
            )
            return inconclusive(Rung.EXECUTED, text, *observations, remedy=remedy)
        text = f"a verify step held {used:.2f} tokens, not {wanted}"
        return refuted(Rung.EXECUTED, text, *observations, remedy=remedy)
    return inconclusive(
        Rung.RESOLVED if observations else None,
        f"the resolved value is {resolved}; no response shows how many were used"
        if observations
        else "no evidence of the number of draft tokens",
        *observations,
        remedy="send requests (leave out --passive)",
    )
