"""What responses of /generate say: their tokens, their drafts, and whether the text is text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from configurator.evidence.model import Exchange, Replica
from configurator.evidence.report_values import as_float, as_int

_Z = 1.96
_REPEATED, _ENOUGH_TOKENS = 0.8, 32


def answers_of(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """Every sequence that a response of /generate holds; each has a `meta_info`."""
    response = exchange.response
    for answer in response if isinstance(response, list) else [response]:
        if isinstance(answer, dict) and isinstance(answer.get("meta_info"), dict):
            yield answer


def has_output(answer: dict[str, Any]) -> bool:
    """The answer holds text or token ids; counters alone are no output."""
    text, tokens = answer.get("text"), answer.get("output_ids")
    is_text = isinstance(text, str) and bool(text.strip("\0 \t\r\n"))
    return is_text or (isinstance(tokens, list) and bool(tokens))


def corruption_of(answer: dict[str, Any]) -> str:
    """The sign of corruption in one answer; empty when there is none."""
    text, tokens = answer.get("text"), answer.get("output_ids")
    text = text if isinstance(text, str) else ""
    if text:
        share = text.count("\ufffd") / len(text)
        if share > 0.05:
            return f"{share:.0%} of the characters are U+FFFD"
    if not isinstance(tokens, list):
        return _repetition(text)
    counted = as_float(answer["meta_info"].get("completion_tokens")) or 0
    if not tokens and not text and counted > 0:
        return f"{counted:g} tokens were counted, none came back"
    if len(tokens) >= _ENOUGH_TOKENS:
        token, times = Counter(map(str, tokens)).most_common(1)[0]
        if times > _REPEATED * len(tokens):
            return f"token {token} makes up {times} of {len(tokens)} tokens"
    return ""


def _repetition(text: str) -> str:
    """What a text without token ids repeats over and over; empty when it does not."""
    for word, parts in (("character", list(text)), ("word", text.split())):
        if len(parts) >= _ENOUGH_TOKENS:
            part, times = Counter(parts).most_common(1)[0]
            if times > _REPEATED * len(parts):
                return f"{word} {part[:20]!r} makes up {times} of {len(parts)} {word}s"
    return ""


@dataclass(frozen=True, slots=True)
class DraftCount:
    """Drafts of one sequence, as its `meta_info` counts them."""

    name: str
    """File of the exchange."""
    kind: str
    """What text was asked for."""
    together: int | None
    """How many requests were sent at the same time; None: not known."""
    steps: int
    """Verify steps."""
    correct: int
    proposed: int
    tokens: int
    squares: float
    """Sum of squared accepted drafts a step; what the interval needs."""
    reported: float | None
    """spec_accept_length."""
    contradicted: int | None = None
    """The count of accepted drafts that the tokens contradict; `correct` follows the tokens."""
    corruption: str = ""
    """Why the text is no text, if it is none."""
    is_empty: bool = False
    """The response holds neither text nor token ids: the counters stand alone."""

    @property
    def is_contradictory(self) -> bool:
        """More drafts were accepted than were proposed."""
        return 0 < self.proposed < self.correct

    @property
    def length(self) -> float:
        """Mean acceptance length: the accepted drafts and the bonus token."""
        return 1 + self.correct / self.steps


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance length over all steps with its 95 % interval."""

    steps: int
    mean: float
    lower: float
    upper: float
    pinned: bool
    """Every draft was accepted."""

    def __str__(self) -> str:
        return (
            f"{self.mean:.2f} (95 % interval {self.lower:.2f} to {self.upper:.2f}, "
            f"{self.steps} verify steps)"
        )


def draft_counts(replica: Replica) -> list[DraftCount]:
    """What the requests say; warm-up requests, and those sent to compare runs, are left out.

    So are refusals, and answers whose counters are no counts.
    """
    return [
        count
        for exchange in replica.exchanges
        if exchange.kind not in ("warm-up", "reference") and exchange.status < 400
        if all(map(_is_counting, answers_of(exchange)))
        for answer in answers_of(exchange)
        if (count := _count(exchange, answer)) is not None
    ]


_COUNTERS = (
    "spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts", "completion_tokens",
)  # fmt: skip


def _is_counting(answer: dict[str, Any]) -> bool:
    return all(_is_count(answer["meta_info"].get(key)) for key in _COUNTERS)


def _is_count(value: Any) -> bool:
    """A whole number from 0 to 64 bits, or nothing."""
    if value is None or isinstance(value, str):
        return True  # Not counted.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < 2**63 and value == int(value)


def _number(data: dict[str, Any], key: str) -> float | None:
    return as_float(data.get(key))


def _count(exchange: Exchange, answer: dict[str, Any]) -> DraftCount | None:
    meta = answer["meta_info"]
    steps = int(_number(meta, "spec_verify_ct") or 0)
    if steps <= 0:
        return None
    tokens = int(_number(meta, "completion_tokens") or 0)
    counted = _number(meta, "spec_num_correct_drafts")
    # Older engines count no drafts; the first token comes from the prefill.
    by_tokens = max(0, tokens - 1 - steps)
    correct = by_tokens if counted is None else counted
    # The last step may commit more than was asked for; beyond that, a counter is broken.
    broken = tokens > 0 and abs(correct - by_tokens) > max(8, 0.25 * (steps + correct))
    if broken:
        correct = by_tokens
    histogram = meta.get("spec_correct_drafts_histogram")
    whole = isinstance(histogram, list) and all(as_int(n) is not None for n in histogram)
    if isinstance(histogram, list) and whole and not broken:
        squares = float(sum(i * i * n for i, n in enumerate(histogram)))
    else:
        squares = correct * correct / steps
    return DraftCount(
        exchange.name, exchange.kind, exchange.together, steps, int(correct),
        int(_number(meta, "spec_num_proposed_drafts") or 0), tokens, squares,
        _number(meta, "spec_accept_length"), int(counted or 0) if broken else None,
        corruption_of(answer), not has_output(answer),
    )  # fmt: skip


def acceptance_of(counts: Iterable[DraftCount]) -> Acceptance:
    """The acceptance length over at least one count."""
    every = list(counts)
    steps = sum(count.steps for count in every)
    correct = sum(count.correct for count in every)
    proposed = sum(count.proposed for count in every)
    mean = correct / steps
    variance = max(0.0, sum(count.squares for count in every) / steps - mean * mean)
    # Steps that are all alike have no spread, yet tell no more than one step in n/3 could hide.
    half = max(_Z * math.sqrt(variance / steps), 3 / steps)
    most = max(mean, proposed / steps) or mean + half
    return Acceptance(
        steps, 1 + mean, 1 + max(0.0, mean - half), 1 + min(most, mean + half),
        0 < proposed <= correct,
    )  # fmt: skip
