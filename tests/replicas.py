"""Replicas built from a few literals, for tests of probes."""

from __future__ import annotations

import functools
from typing import Any

from configurator.content import Library
from configurator.deployment import Deployment, Expectation
from configurator.engine.catalogue import Catalogue
from configurator.evidence.model import Exchange, LogLine, Replica, ServerState
from configurator.families import Families
from configurator.loader import Validators
from configurator.probes import Check
from configurator.verdicts import Outcome


def judged(
    validators: Validators, asked: str, *, catalogue: Catalogue | None = None,
    deployment: Deployment | None = None, state: str = "ready", floor: float | None = None,
    **evidence: Any,
) -> Outcome:  # fmt: skip
    """The outcome of `NAME[=VALUE]` on a replica of the given evidence."""
    name, _, value = asked.partition("=")
    replica = Replica(0, ServerState(state), **evidence)  # type: ignore[arg-type]
    expectation = Expectation(name, name, value=value or None, floor=floor)
    check = Check(expectation, replica, catalogue, deployment, families())
    return validators.probes[name].judge(check)


@functools.cache
def families() -> Families:
    """The built-in families of kernels."""
    return Families.of_content(Library().families())


def said(outcome: Outcome) -> tuple[str, str | None]:
    """Answer and rung, as words."""
    return str(outcome.answer), str(outcome.rung) if outcome.rung is not None else None


def log(*texts: str) -> tuple[LogLine, ...]:
    """The lines of a log: messages get the engine's prefix, lines that have one stay as they are.

    Indented lines are the code of a traceback, which has no prefix.
    """
    return raw_log(
        *(
            text
            if LogLine(0, text).message or text.startswith(" ")
            else f"[2026-11-30 09:00:00] {text}"
            for text in texts
        )
    )


def raw_log(*texts: str) -> tuple[LogLine, ...]:
    """The lines of a log, character by character."""
    return tuple(LogLine(number, text) for number, text in enumerate(texts, 1))


def spoken(
    histogram: list[int], *, name: str = "001.json", kind: str = "profile", width: int = 4,
    together: int | None = None, tokens: list[int] | None = None, **meta: Any,
) -> Exchange:  # fmt: skip
    """A response that accepted drafts as the histogram says."""
    steps, correct = sum(histogram), sum(i * n for i, n in enumerate(histogram))
    counters = {
        "completion_tokens": steps + correct + 1,
        "spec_verify_ct": steps,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": steps * (width - 1),
        "spec_accept_length": (steps + correct + 1) / steps if steps else 0,
        "spec_correct_drafts_histogram": histogram,
        **meta,
    }
    body = {"text": "words", "output_ids": tokens or list(range(40)), "meta_info": counters}
    return Exchange(name, "/generate", 200, None, body, kind, together)  # type: ignore[arg-type]


def answered(
    name: str, prompt: str, tokens: list[int] | None, *, text: str = "words", kind: str = "easy",
    temperature: float = 0, limit: int = 64, together: int | None = 1,
) -> Exchange:  # fmt: skip
    """A request with its answer, greedy unless a temperature is given."""
    request = {
        "text": prompt,
        "sampling_params": {"temperature": temperature, "max_new_tokens": limit},
    }
    meta = {"completion_tokens": len(tokens or [])}
    body: dict[str, Any] = {"text": text, "meta_info": meta}
    if tokens is not None:
        body["output_ids"] = tokens
    return Exchange(name, "/generate", 200, request, body, kind, together)  # type: ignore[arg-type]
