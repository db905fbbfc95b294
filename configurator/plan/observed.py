"""What a run was seen to do: speed, acceptance and token capacity, from an evidence directory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from configurator.evidence.answers import acceptance_of, answers_of, draft_counts
from configurator.evidence.host import Host
from configurator.evidence.model import Evidence, Exchange, Replica
from configurator.evidence.report_values import as_float, as_int

_LEAST_TOKENS = 16
"""Answers of fewer tokens tell a first token's time more than a step's."""
_DECODE = re.compile(
    r"Decode batch.*?#running-req: (?P<running>\d{1,6}),.*?"
    r"gen throughput \(token/s\): (?P<rate>\d{1,9}(?:\.\d{1,9})?)"
)


@dataclass(frozen=True, slots=True)
class Observed:
    """What one run showed; None: it shows nothing of it."""

    version: str
    """Of the engine; empty: not known."""
    host: str
    """What its host is called; empty: nothing was recorded of it."""
    batch: int
    """Sequences decoded together."""
    context: int | None
    """Tokens of a sequence in the cache, on average over its answers."""
    per_token: float | None
    """Seconds a token of one request, without its first."""
    speed_from: str
    """Where that was read."""
    accepted: float | None
    """Tokens a step, bonus token included; None: no speculation was seen."""
    tokens: int | None
    """Token capacity of one replica's KV cache."""
    doubts: tuple[str, ...] = ()
    """Why figures of this run tell less than they seem to."""


def host_name(host: Host | None) -> str:
    """What a host is called that has no name: its GPUs and memory. Machines alike share it."""
    if host is None or not (host.gpus or host.memory_gib):
        return ""
    products = Counter(gpu.product for gpu in host.gpus)
    parts = [f"{count} x {product}" for product, count in products.items()]
    if host.memory_gib:
        parts.append(f"{host.memory_gib:.0f} GiB")
    return ", ".join(parts)


def observe(evidence: Evidence) -> Observed:
    """What the first replica of a run showed, which decides for all: they run the same."""
    replica = evidence.replicas[0]
    answers = list(_answers(replica))
    batch = _batch(answers)
    together = [(e, a) for e, a in answers if (e.together or 1) == batch]
    per_token, where = _speed(together, replica, batch)
    counts = [c for c in draft_counts(replica) if (c.together or 1) == batch]
    return Observed(
        version=replica.version or "",
        host=host_name(replica.host),
        batch=batch,
        context=_context(together),
        per_token=per_token,
        speed_from=where,
        accepted=acceptance_of(counts).mean if counts else None,
        tokens=_capacity(replica),
        doubts=tuple(_doubts(replica)),
    )


def _answers(replica: Replica) -> Iterator[tuple[Exchange, dict[str, Any]]]:
    for exchange in replica.exchanges:
        if exchange.kind in ("warm-up", "reference") or exchange.status != 200:
            continue
        for answer in answers_of(exchange):
            tokens = as_int(answer["meta_info"].get("completion_tokens"))
            if tokens is not None and tokens >= _LEAST_TOKENS:
                yield exchange, answer["meta_info"]


def _batch(answers: list[tuple[Exchange, dict[str, Any]]]) -> int:
    """The number of requests at a time that most answers were given at; the smaller of two."""
    seen = Counter(exchange.together or 1 for exchange, _ in answers)
    return min(seen, key=lambda batch: (-seen[batch], batch)) if seen else 1


def _context(answers: list[tuple[Exchange, dict[str, Any]]]) -> int | None:
    held = []
    for _, meta in answers:
        prompt, out = as_int(meta.get("prompt_tokens")), as_int(meta.get("completion_tokens"))
        if prompt is not None and out is not None:
            held.append(prompt + out / 2)
    return max(1, round(sum(held) / len(held))) if held else None


def _speed(
    answers: list[tuple[Exchange, dict[str, Any]]], replica: Replica, batch: int
) -> tuple[float | None, str]:
    """Seconds a token: of each answer, else of the decode lines of the log."""
    each = [seconds for _, meta in answers if (seconds := _of_answer(meta)) is not None]
    if each:
        return median(each), f"{len(each)} answers"
    lines = list(_of_log(replica, batch))
    if lines:
        return median(lines), f"{len(lines)} decode lines of the log"
    return None, ""


def _of_answer(meta: dict[str, Any]) -> float | None:
    tokens = as_int(meta.get("completion_tokens")) or 0
    whole, first = as_float(meta.get("e2e_latency")), as_float(meta.get("first_token_latency"))
    if whole is None or first is None or not whole > first > 0:
        # `decode_throughput` beside them is no way round: on 0.5.17 it says 10 % more.
        return None
    return (whole - first) / (tokens - 1)


def _of_log(replica: Replica, batch: int) -> Iterator[float]:
    """The first line after a pause counts the pause too, so that it is passed over."""
    fresh = True
    for line in replica.log or ():
        if not line.message:
            continue
        found = _DECODE.match(line.message)
        if found is None:
            fresh = fresh or line.message.startswith("Prefill batch")
            continue
        rate = float(found["rate"])
        if not fresh and int(found["running"]) == batch and rate > 0:
            yield batch / rate
        fresh = False


def _capacity(replica: Replica) -> int | None:
    info = replica.server_info or replica.server_info_startup or {}
    found = as_int(info.get("max_total_num_tokens"))
    return found if found is not None and found > 0 else None


def _doubts(replica: Replica) -> Iterator[str]:
    info = replica.server_info or replica.server_info_startup or {}
    if as_int(info.get("max_total_tokens")) is not None:
        yield "the token capacity was limited by --max-total-tokens"
    if any(report.simulated_acceptance for report in replica.reports):
        yield "acceptance was simulated"
