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
        response = exchange.response
        for answer in response if isinstance(response, list) else [response]:
            meta = answer.get("meta_info") if isinstance(answer, dict) else None
            if isinstance(meta, dict):
                steps, proposed, correct = (_whole(meta.get(key)) for key in _KEYS)
                if steps and proposed:
                    found.append((exchange.name, steps, proposed, correct))
    return found


_KEYS = ("spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts")


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _resolved(replica: Replica) -> dict[str, Any]:
    return replica.server_info or replica.server_info_startup or {}


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
    off = speculation_off(check.replica)
    if off is not None:
        return off
    counts = _counted(check.replica)
    if counts:
        proposed, correct = sum(c[2] for c in counts), sum(c[3] for c in counts)
        text = f"{proposed:,} drafts were proposed and {correct:,} accepted"
        return proven(Rung.EXECUTED, text, *(_proposed(*count) for count in counts))
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

    Proven: the proposed drafts of the responses divided by their verify steps, and one more, are
    N (executed).

    Refuted: that number differs, or /server_info resolved another
    `speculative_num_draft_tokens`. With topk 1 the engine silently makes it steps + 1.

    Open: only the resolved value is there and equals N. It may be an echo, and an adaptive engine
    changes the number while it runs.
    """
    off = speculation_off(check.replica)
    if off is not None:
        return off
    wanted = int(check.expectation.value or 0)
    resolved = _resolved(check.replica).get("speculative_num_draft_tokens")
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
    counts = _counted(check.replica)
    if counts:
        steps = sum(count[1] for count in counts)
        used = sum(count[2] for count in counts) / steps + 1
        observations.append(
            Observation(
                "generate", "tokens a verify step", round(used, 3), Rung.EXECUTED,
                f"{counts[0][0]}#/meta_info/spec_num_proposed_drafts",
                window=f"{len(counts)} responses, {steps} verify steps",
            )
        )  # fmt: skip
        if math.isclose(used, wanted, abs_tol=0.01):
            text = f"every verify step held {wanted} tokens ({steps} steps)"
            return proven(Rung.EXECUTED, text, *observations)
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
