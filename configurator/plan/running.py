"""A plan held against a server that runs, or ran: from evidence, never from a request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from configurator.collector.redaction import redact_text
from configurator.engine.catalogue import Catalogue, catalogue_of, load_catalogue
from configurator.evidence.model import Evidence, Replica
from configurator.evidence.report_values import as_dict, as_dicts, as_float, as_int
from configurator.plan.diff import (
    Diff,
    Difference,
    Planned,
    arguments,
    kv_per_token,
    memory_figures,
    safe,
    variables,
)
from configurator.plan.figures import Figure, between, exact
from configurator.plan.observed import Observed, observe
from configurator.plan.step import Asked

_GIB = 2.0**30
_OF_THE_ENGINE = ("SGLANG_", "SGL_")


def held_against(planned: Planned, evidence: Evidence, name: str) -> Diff:
    """What the first replica that answered differs in from the plan, and its figures.

    Args:
        planned: the deployment and its plan.
        evidence: of one server or several; the others are named as not looked at.
        name: what the server is called, a URL or a directory.
    """
    replica = next((r for r in evidence.replicas if _info(r) is not None), evidence.replicas[0])
    given = tuple(_arguments(planned, replica))
    told = {(difference.name, difference.second) for difference in given}
    differences = (
        *given,
        *_environment(planned, replica),
        # What was given otherwise and taken as given is told above.
        *(made for made in _resolved(planned, replica) if (made.name, made.second) not in told),
        *_measured(planned, replica, observe(evidence)),
    )
    others = [str(r.index) for r in evidence.replicas if r is not replica]
    notes = (
        [f"replica {', '.join(others)}: only replica {replica.index} is compared"] if others else []
    )
    return Diff(planned.plan.name, redact_text(name), differences, (*_open(replica), *notes))


def _info(replica: Replica) -> dict[str, Any] | None:
    return replica.server_info or replica.server_info_startup


def _open(replica: Replica) -> Iterator[str]:
    if not replica.requested:
        yield "arguments: the launch command of the server is not known"
    if replica.environment is None and not _shown_variables(replica):
        yield "environment: that of the engine's process is not known"
    if _info(replica) is None:
        yield "resolved settings and memory: there is no /server_info"
    yield from (f"a report does not count: {redact_text(why)}" for why in replica.set_aside)


def _arguments(planned: Planned, replica: Replica) -> Iterator[Difference]:
    """Of the launch command, by the names that the engine's parser gives them."""
    if not replica.requested:
        return
    catalogue = _catalogue(planned, replica)
    asked = {
        _known_as(name, catalogue): value for name, value in arguments(planned.deployment).items()
    }
    given = {
        _known_as(name, catalogue): _shown(name, value) for name, value in replica.requested.items()
    }
    for name in dict.fromkeys((*asked, *given)):
        one, other = asked.get(name), given.get(name)
        secret = one is not None and other is not None and one.startswith("(the ")
        if not secret and not _alike(one, other):
            yield Difference("arguments", name, one, other)


def _catalogue(planned: Planned, replica: Replica) -> Catalogue | None:
    """Of the version that runs, else of the one that the profile names."""
    running = load_catalogue(replica.version) if replica.version else None
    return running or catalogue_of(planned.deployment.engine)


def _known_as(name: str, catalogue: Catalogue | None) -> str:
    plain = name.removeprefix("--").replace("_", "-")
    found = catalogue.resolve(plain) if catalogue is not None else None
    flags = found.flags if found is not None and found.kind != "ambiguous" else ()
    return f"--{flags[0].name if flags else plain}"


def _shown(name: str, value: Any) -> str:
    if value is True:
        return "given"
    words = value if isinstance(value, list) else [value]
    return safe(name, " ".join(map(str, words)))


def _alike(one: str | None, other: str | None) -> bool:
    """The same text, or the same number written otherwise."""
    if one is None or other is None:
        return one == other
    if one.rstrip("/") == other.rstrip("/"):
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return False


def _shown_variables(replica: Replica) -> dict[str, str]:
    """Variables that /server_info tells of its own process, when it was asked to."""
    found: dict[str, str] = {}
    for state in as_dicts((_info(replica) or {}).get("internal_states")):
        found |= {str(k): str(v) for k, v in as_dict(state.get("env_vars")).items()}
    return found


def _environment(planned: Planned, replica: Replica) -> Iterator[Difference]:
    """Variables that the profile sets, and variables of the engine that it does not."""
    there = {**_shown_variables(replica), **(replica.environment or {})}
    if not there:
        return
    whole = replica.environment is not None
    asked = variables(planned.deployment)
    for name, value in asked.items():
        other = there.get(name)
        # What /server_info shows is only the engine's own: of others it says nothing.
        if other is None and not (whole or name.startswith(_OF_THE_ENGINE)):
            continue
        if not _alike(value, None if other is None else safe(name, other)):
            yield Difference("environment", name, value, other and safe(name, other))
    for name, value in sorted(there.items()):
        if name.startswith(_OF_THE_ENGINE) and name not in asked:
            yield Difference("environment", name, None, safe(name, value))


def _resolved(planned: Planned, replica: Replica) -> Iterator[Difference]:
    """Arguments that the server made something else of."""
    info = _info(replica)
    if info is None:
        return
    catalogue = _catalogue(planned, replica)
    for name, value in arguments(planned.deployment).items():
        field = _known_as(name, catalogue).removeprefix("--").replace("-", "_")
        if field not in info or value.startswith("(the "):
            continue
        made = _resolved_text(name, info[field])
        if value.lower() != "auto" and not _alike(value, made):
            yield Difference("resolved", name, value, made)


def _resolved_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "given" if value else None
    words = value if isinstance(value, list) else [value]
    return safe(name, " ".join(map(str, words)))


def seen_at(asked: Asked, seen: Observed) -> Asked:
    """What was asked, and where nothing was, what the run was seen at."""
    return Asked(
        asked.batch or seen.batch,
        asked.context or seen.context,
        asked.experts,
        asked.accepted or seen.accepted,
    )


def _measured(planned: Planned, replica: Replica, seen: Observed) -> Iterator[Difference]:
    """Every figure that the server tells, beside the one that was predicted."""
    predicted = memory_figures(planned.plan)
    predicted.setdefault("weights", planned.plan.geometry.weights)
    predicted["KV bytes a token"] = kv_per_token(planned.plan.geometry)
    step = planned.plan.step
    for name, figure in measured(replica).items():
        yield Difference("memory", name, predicted.get(name), figure)
    if seen.per_token:
        took = exact(seen.per_token, "s", "as observed", seen.speed_from)
        yield Difference("step", "a token takes", step.per_token if step else None, took)
    accepted = _accepted(replica, seen)
    if accepted is not None:
        yield Difference("step", "accepted a step", step.accepted if step else None, accepted)


def _accepted(replica: Replica, seen: Observed) -> Figure | None:
    """Tokens a step: of the answers, else the server's mean so far."""
    if seen.accepted:
        return exact(seen.accepted, "tokens", "of the answers", "evidence")
    states = as_dicts((_info(replica) or {}).get("internal_states"))
    mean = as_float(states[0].get("avg_spec_accept_length")) if states else None
    source = "/server_info, avg_spec_accept_length"
    return exact(mean, "tokens", "mean so far", source) if mean else None


def measured(replica: Replica) -> dict[str, Figure]:
    """What a server says of its memory, by the names that `memory_figures` gives.

    /server_info has sizes in units of 2^30 bytes with three digits, and the target's weights as a
    difference of free memory; an in-engine report counts the tensors and is taken instead.
    """
    info = _info(replica) or {}
    states = as_dicts(info.get("internal_states"))
    state = states[0] if states else {}
    usage = as_dict(state.get("memory_usage"))
    where = "/server_info, internal_states/0/memory_usage"
    found: dict[str, Figure | None] = {
        "weights": _counted_weights(replica) or _gib(usage.get("weight"), f"{where}/weight"),
        "KV cache": _gib(usage.get("kvcache"), f"{where}/kvcache"),
        "CUDA graphs": _graphs(usage.get("graph"), f"{where}/graph"),
    }
    tokens = as_int(usage.get("token_capacity"))
    tokens = as_int(info.get("max_total_num_tokens")) if tokens is None else tokens
    if tokens:
        found["token capacity"] = exact(tokens, "tokens", "as reported", f"{where}/token_capacity")
    found["KV bytes a token"] = _kv_per_token(found["KV cache"], tokens)
    running = as_int(state.get("effective_max_running_requests_per_dp"))
    if running:
        found["requests at once"] = exact(
            running, "", "as reported", "/server_info, effective_max_running_requests_per_dp"
        )
    return {name: figure for name, figure in found.items() if figure is not None}


def _counted_weights(replica: Replica) -> Figure | None:
    for report in replica.reports:
        sizes = dict(report.target.weight_bytes) if report.target is not None else {}
        sizes.pop("counted_before", None)
        if sizes:
            formula = " + ".join(f"{name} {size:,} B" for name, size in sizes.items())
            return exact(sum(sizes.values()), "B", formula, f"in-engine report {report.file}")
    return None


def _gib(value: Any, source: str) -> Figure | None:
    """A size with three digits behind the point; nothing where it says 0."""
    size = as_float(value)
    if not size or size < 0:
        return None
    half = 0.0005
    low, high = max(0.0, size - half) * _GIB, (size + half) * _GIB
    return between(low, size * _GIB, high, "B", f"{size:g} x 2^30 B, rounded", source)


def _graphs(value: Any, source: str) -> Figure | None:
    sizes = [as_float(size) or 0.0 for size in as_dict(value).values()]
    return _gib(sum(sizes), source)


def _kv_per_token(cache: Figure | None, tokens: int | None) -> Figure | None:
    if cache is None or not tokens:
        return None
    return between(
        cache.low / tokens, cache.value / tokens, cache.high / tokens, "B/token",
        f"KV cache / {tokens:,} tokens", cache.source,
    )  # fmt: skip
