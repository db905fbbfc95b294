"""The counters of the responses against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator import (
    Check,
    Observation,
    Outcome,
    Rung,
    answers_of,
    inconclusive,
    probe,
    proven,
    refuted,
)


@probe("arithmetic-consistent", kind="invariant", proof_rung="resolved")
def arithmetic_consistent(check: Check) -> Outcome:
    """The counters of each response agree with each other.

    Proven: the histogram of accepted drafts adds up to the verify steps and to the accepted
    drafts, no more drafts are accepted than proposed, and the tokens are those of the steps, but
    for the last, which may be cut short.

    Refuted: they contradict each other, or one is negative or not a number: a counter is wrong,
    so no verdict should rest on it.

    Open: no response counts verify steps, or a counter is no number at all (text, true).
    """
    bad: list[Observation] = []
    unread: list[Observation] = []
    checked = 0
    held = ((one, answer) for one in check.replica.exchanges for answer in answers_of(one))
    for exchange, answer in held:
        meta = answer["meta_info"]
        # Steps alone agree with nothing.
        if not meta.get("spec_verify_ct") or all(meta.get(key) is None for key in _COMPARED):
            continue
        checked += 1
        unread += [
            Observation("generate", key, value, Rung.EXECUTED, f"{exchange.name}#/meta_info")
            for key, value in _unread(meta)
        ]
        bad += [
            Observation("generate", "counters", text, Rung.EXECUTED, f"{exchange.name}#/meta_info")
            for text in _contradictions(meta)
        ]
    if bad:
        text = f"{bad[0].locator.partition('#')[0]}: {bad[0].value}"
        return refuted(
            Rung.EXECUTED, text, *bad, remedy="a counter of the engine is wrong: trust none of it"
        )
    if not checked:
        return inconclusive(None, "no response counts verify steps", remedy="send requests")
    if unread:
        text = f"{unread[0].subject} is {str(unread[0].value)[:40]!r}, which is no number"
        return inconclusive(None, text, *unread, remedy="record the responses as they came")
    seen = Observation("generate", "responses", checked, Rung.EXECUTED, "requests")
    return proven(Rung.EXECUTED, f"the counters of {checked} responses agree", seen)


_COUNTERS = (
    "completion_tokens", "spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts",
    "spec_accept_length", "spec_accept_rate",
)  # fmt: skip


_HISTOGRAM = "spec_correct_drafts_histogram"
_COMPARED = (_HISTOGRAM, "spec_num_correct_drafts")
_MOST = 2**63
"""No counter reaches it."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unread(meta: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Counters that are there and are no number: text, true, or a list with such."""
    for key in _COUNTERS:
        if meta.get(key) is not None and not _is_number(meta[key]):
            yield key, meta[key]
    histogram = meta.get(_HISTOGRAM)
    if histogram is not None and not (
        isinstance(histogram, list) and all(map(_is_number, histogram))
    ):
        yield _HISTOGRAM, histogram


def _contradictions(meta: dict[str, Any]) -> Iterator[str]:
    numbers = {key: meta[key] for key in _COUNTERS if _is_number(meta.get(key))}
    for key, value in numbers.items():
        # The bound comes first: a larger whole number cannot be made a float.
        if not -_MOST < value < _MOST or value < 0:
            yield f"{key} is {str(value)[:40]}"
            return
    steps, correct = numbers.get("spec_verify_ct"), numbers.get("spec_num_correct_drafts")
    histogram = meta.get(_HISTOGRAM)
    if isinstance(histogram, list) and histogram and all(map(_is_number, histogram)):
        if not all(0 <= n < _MOST for n in histogram):
            yield "the histogram of accepted drafts holds what is no count"
            return
        if steps is not None and sum(histogram) != steps:
            yield f"the histogram holds {sum(histogram)} verify steps, spec_verify_ct says {steps}"
        drafts = sum(i * n for i, n in enumerate(histogram))
        if correct is not None and drafts != correct:
            yield f"the histogram holds {drafts} accepted drafts, the counter says {correct:g}"
    proposed, tokens = numbers.get("spec_num_proposed_drafts"), numbers.get("completion_tokens")
    if correct is not None and proposed is not None and correct > proposed:
        yield f"{correct:g} drafts accepted of {proposed:g} proposed"
    if correct is not None and steps is not None and tokens is not None:
        committed = steps + correct + 1
        width = (proposed or 0) / steps + 1
        if abs(tokens - committed) > max(8.0, width, 0.1 * committed):
            yield f"{tokens:g} tokens came back, but {steps:g} verify steps commit {committed:g}"
