"""Probes of what the engine answers: a text with one right continuation, and another run's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from configurator import (
    Check,
    Exchange,
    Observation,
    Outcome,
    Replica,
    Rung,
    answers_of,
    inconclusive,
    not_applicable,
    probe,
    proven,
    refuted,
)

_ENOUGH = 32
"""Tokens below which equal answers say little."""
_SHOWN = 3
"""Numbers of the continuation that are looked at."""


@probe("known-answer", kind="invariant", proof_rung="executed")
def known_answer(check: Check) -> Outcome:
    """A row of numbers is continued with the next ones.

    Proven: the answer to the request with a known answer begins with the right numbers.

    Refuted: it does not, and the reference run (`--reference`) has it right.

    Open: it does not. Either the model is too weak for it, or its output is corrupted: a server
    can answer with status 200 and nonsense at temperature 0. Also open where no request was sent.
    Not applicable where others were sent (a server without tokenizer), or where the server read
    fewer tokens than there are numbers and commas: then it did not read the numbers.
    """
    asked = list(_continuations(check.replica.exchanges))
    if not asked and not check.replica.exchanges:
        return inconclusive(None, "no request was sent", remedy="send requests")
    if not asked:
        return not_applicable("no request with a known answer was sent and read as numbers")
    seen = [
        Observation("generate", "continuation", text[:60], Rung.EXECUTED, name)
        for name, _, text, _ in asked
    ]
    wrong = next((one for one in asked if not one[3]), None)
    if wrong is None:
        name, expected, _, _ = asked[0]
        text = f"{name}: the numbers go on with {', '.join(map(str, expected))}"
        return proven(Rung.EXECUTED, text, *seen)
    name, expected, answer, _ = wrong
    text = f"{name}: not {', '.join(map(str, expected))}, but {answer[:40]!r}"
    remedy = "compare with a run without the optimizations: check --reference DIR"
    reference = check.replica.reference
    right = list(_continuations(reference.exchanges)) if reference else []
    if reference is not None and right and all(good for _, _, _, good in right):
        return refuted(
            Rung.EXECUTED, f"{text}; the reference {reference.directory} has it right", *seen,
            remedy="the output is corrupted: drop the optimizations one by one",
        )  # fmt: skip
    return inconclusive(
        Rung.EXECUTED, f"{text}: a model too weak for it, or corrupted output", *seen,
        remedy=remedy,
    )  # fmt: skip


def _continuations(
    exchanges: tuple[Exchange, ...],
) -> Iterator[tuple[str, list[int], str, bool]]:
    """File, the numbers that must come, the answer, and whether it has them."""
    for exchange in exchanges:
        if exchange.kind != "known-answer" or exchange.status != 200:
            continue
        request = exchange.request if isinstance(exchange.request, dict) else {}
        given = re.findall(r"\d{1,9}", str(request.get("text", "")))
        for answer in answers_of(exchange):
            text = str(answer.get("text") or "")
            read = answer["meta_info"].get("prompt_tokens")
            # Every number and every comma is a token at least.
            unread = isinstance(read, int) and read < 2 * len(given)
            if given and not unread:
                wanted = [int(given[-1]) + 1 + i for i in range(_SHOWN)]
                found = [int(number) for number in re.findall(r"\d{1,9}", text)[:_SHOWN]]
                starts = re.match(r"\s*\d", text) is not None
                yield exchange.name, wanted, text, starts and found == wanted


@dataclass(frozen=True, slots=True)
class _Greedy:
    """The tokens of one greedy request that was sent alone."""

    name: str
    tokens: list[int]
    limit: int | None
    """Tokens that were asked for."""


@probe("greedy-equality", proof_rung="executed")
def greedy_equality(check: Check) -> Outcome:
    """Greedy answers are those of a reference run, token by token (`--reference DIR`).

    For optimizations that claim to be bitwise equal. The greedy requests of the reference are sent
    again, one at a time, and the token ids are compared. A megakernel claims it where its log line
    says "bitwise numerics", or against a reference with expert parallelism.

    Proven: all compared tokens are equal, 32 or more (executed). It is proven for these texts.

    Refuted: a token differs; the position is named.

    Open: a token differs, and a megakernel runs that declares a tolerance; no reference was given,
    it is of the same server or was launched by the same command (the mechanism is on in both, and
    so are its faults), it is of another model, it answers the same request in two ways, or no
    greedy request was answered with token ids in both runs.
    """
    reference = check.replica.reference
    if reference is None:
        return inconclusive(None, "no reference run was given", remedy="check --reference DIR")
    if reference.alike:
        remedy = "give the evidence of a run without the mechanism: another launch, another start"
        return inconclusive(None, reference.alike, remedy=remedy)
    ours, theirs = _model(check), reference.model
    if ours and theirs and ours != theirs:
        text = f"the reference ran {theirs}, this server {ours}"
        return inconclusive(None, text, remedy="give the evidence of a run of the same model")
    wanted = _greedy(reference.exchanges)
    found = _greedy(check.replica.exchanges)
    wavering = next((key for key, several in wanted.items() if _differ(several)), None)
    if wavering is not None:
        first, second = _differ(wanted[wavering]) or ("", "")
        text = f"the reference answers one greedy request in two ways ({first}, {second})"
        return inconclusive(Rung.EXECUTED, text, remedy="use a deterministic reference")
    pairs = [
        (one, wanted[key][0]) for key, several in found.items() if key in wanted for one in several
    ]
    seen: list[Observation] = []
    total = 0
    for one, other in pairs:
        place = _first_difference(one, other)
        window = f"{other.name} of {reference.directory}"
        if place is not None:
            shown = f"{_token(one, place)}, in the reference {_token(other, place)}"
            where = Observation(
                "generate", f"token {place}", shown, Rung.EXECUTED, f"{one.name}#/output_ids",
                window=window,
            )  # fmt: skip
            fact = f"{one.name}: token {place} is {shown} ({other.name})"
            tolerant = None if reference.expert_parallel else _tolerance(check.replica)
            if tolerant is not None:
                return inconclusive(
                    Rung.EXECUTED, f"{fact}; its megakernel declares a tolerance, not equality",
                    where, tolerant,
                    remedy="hold its logits against that tolerance, or take a reference with "
                    "expert parallelism",
                )  # fmt: skip
            return refuted(
                Rung.EXECUTED, fact, where,
                remedy="the claim of equality does not hold here: drop the optimization, or accept "
                "other answers and set on_refuted: warn",
            )  # fmt: skip
        alike = min(len(one.tokens), len(other.tokens))
        total += alike
        seen.append(
            Observation(
                "generate", "equal tokens", alike, Rung.EXECUTED, f"{one.name}#/output_ids",
                window=window,
            )
        )  # fmt: skip
    if total < _ENOUGH:
        text = f"{total} tokens of {len(pairs)} common greedy requests could be compared"
        return inconclusive(
            Rung.EXECUTED if seen else None, text, *seen,
            remedy="record the reference with --level 2, then check again with --reference",
        )  # fmt: skip
    text = f"all {total} tokens of {len(pairs)} greedy requests are those of the reference"
    return proven(Rung.EXECUTED, text, *seen)


_NUMERICS = re.compile(r"NVIDIA megakernel: active \(.*; (?P<kind>\w+) numerics[;)]")


def _tolerance(replica: Replica) -> Observation | None:
    """The line with which a megakernel declares that its numbers are not the ordinary ones."""
    for line, match in replica.said(_NUMERICS, while_starting=True):
        if match["kind"] != "bitwise":
            excerpt = line.message.strip()[:400]
            return Observation(
                "log", "numerics", match["kind"], Rung.BUILT, f"server.log:{line.number}", excerpt
            )
    return None


def _model(check: Check) -> str:
    info = check.replica.server_info or check.replica.server_info_startup or {}
    return str(info.get("model_path") or "").rstrip("/").rpartition("/")[2]


def _greedy(exchanges: tuple[Exchange, ...]) -> dict[str, list[_Greedy]]:
    """The greedy requests that were sent alone and answered with tokens, by their text."""
    found: dict[str, list[_Greedy]] = {}
    for exchange in exchanges:
        request = exchange.request if isinstance(exchange.request, dict) else {}
        params = request.get("sampling_params")
        params = params if isinstance(params, dict) else {}
        alone = exchange.together in (None, 1)
        if params.get("temperature") != 0 or not alone or exchange.status != 200:
            continue
        key = repr(request.get("text", request.get("input_ids")))
        limit = params.get("max_new_tokens")
        for answer in answers_of(exchange):
            tokens = answer.get("output_ids")
            if isinstance(tokens, list) and tokens:
                limited = limit if isinstance(limit, int) else None
                found.setdefault(key, []).append(_Greedy(exchange.name, tokens, limited))
    return found


def _differ(several: list[_Greedy]) -> tuple[str, str] | None:
    """Two answers of one run that are not alike."""
    for one in several[1:]:
        if _first_difference(several[0], one) is not None:
            return several[0].name, one.name
    return None


def _first_difference(one: _Greedy, other: _Greedy) -> int | None:
    """Position of the first token that differs; None where all that can be compared is equal."""
    for place, (left, right) in enumerate(zip(one.tokens, other.tokens, strict=False)):
        if left != right:
            return place
    shorter, longer = sorted((one, other), key=lambda answer: len(answer.tokens))
    ended = shorter.limit is not None and len(shorter.tokens) < shorter.limit
    return len(shorter.tokens) if ended and len(longer.tokens) > len(shorter.tokens) else None


def _token(answer: _Greedy, place: int) -> Any:
    return answer.tokens[place] if place < len(answer.tokens) else "none (it ended)"
