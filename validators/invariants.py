"""Propositions that must hold for any evidence to count, or for the launch to be sane."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from configurator import (
    Check,
    Exchange,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    answers_of,
    as_int,
    corruption_of,
    has_output,
    inconclusive,
    probe,
    proven,
    refuted,
)

_UNKNOWN = re.compile(r"Unknown vLLM environment variable detected: (\w+)")
_SIMULATED = "SGLANG_SIMULATE_ACC"
_READ_ELSEWHERE = {"SGLANG_RUN_ID", "SGLANG_USE_CPU_ENGINE", "SGLANG_CPU_OMP_THREADS_BIND"}
"""Variables that the engine reads although its registry does not declare them."""
_GIVE_ENVIRONMENT = (
    "give --pid or the in-engine report, or start the server with SGLANG_EXPOSE_OWN_ENV_VARS=1"
)


def _environments(replica: Replica) -> list[tuple[dict[str, str], str]]:
    """What is known of the environment, with where it was read.

    An empty one says nothing: the engine's processes set their own title, which wipes what /proc
    shows of them, and what the engine exposes of itself holds at least the variable that asks for
    it.
    """
    found: list[tuple[dict[str, str], str]] = []
    if replica.environment is not None and "error" not in replica.environment:
        found.append((replica.environment, "environment"))
    found += [
        (variables, f"server_info.json#/internal_states/{index}/env_vars")
        for index, variables in _exposed(replica)
    ]
    return [(variables, place) for variables, place in found if any(map(_is_name, variables))]


def _is_name(name: str) -> bool:
    return bool(name.strip("\0 "))


def _exposed(replica: Replica) -> Iterator[tuple[int, dict[str, str]]]:
    """What the engine exposes of its own environment, by data parallel rank."""
    states = (replica.server_info or {}).get("internal_states")
    for index, state in enumerate(states if isinstance(states, list) else []):
        variables = state.get("env_vars") if isinstance(state, dict) else None
        if isinstance(variables, dict) and "error" not in variables:
            texts = {name: value for name, value in variables.items() if isinstance(value, str)}
            yield index, texts


def _unknown_ranks(replica: Replica) -> str:
    """Which data parallel ranks keep their environment to themselves while another tells it.

    Each rank is a process of its own, perhaps on another host, and answers for itself alone.
    """
    told = {index for index, variables in _exposed(replica) if any(map(_is_name, variables))}
    size = as_int((replica.server_info or {}).get("dp_size")) or 1
    if size <= 1 or not any(_exposed(replica)) or len(told) >= size:
        return ""
    return f": {len(told)} of {size} data parallel ranks tell it"


def _modern(name: str) -> str:
    """The variable's present name: the engine rewrites the old prefix SGL_ at import."""
    return "SGLANG_" + name.removeprefix("SGL_") if name.startswith("SGL_") else name


def _simulates(name: str, value: str) -> bool:
    if _modern(name) != f"{_SIMULATED}_LEN":
        return False
    if value == "<set>" or "redacted" in value:
        return True
    try:
        return float(value) > 0
    except ValueError:
        return False


@probe("no-simulated-acceptance", kind="invariant", proof_rung="resolved")
def no_simulated_acceptance(check: Check) -> Outcome:
    """The engine does not make acceptance up (`SGLANG_SIMULATE_ACC_LEN`).

    Proven: the environment of the engine's process, or the in-engine report, is known and has no
    SGLANG_SIMULATE_ACC_LEN above 0.

    Refuted: it has. Tokens are then committed whatever the draft said, the output is garbage, and
    every figure of acceptance is the number that was asked for.

    Open: the environment is not known, empty (a process that sets its own title shows none), or
    not known of every data parallel rank. Acceptance figures cannot tell: a simulated 3.05 looks
    like a real one.
    """
    bad: list[Observation] = []
    known: list[Observation] = []
    partly = _unknown_ranks(check.replica)
    for variables, locator in _environments(check.replica):
        seen = Observation("environment", "variables", len(variables), Rung.BUILT, locator)
        known += [] if partly else [seen]
        bad += [
            Observation("environment", name, value, Rung.EXECUTED, locator)
            for name, value in variables.items()
            if _simulates(name, value)
        ]
    silent = _silent(check.replica, "knows_simulation", known)
    for report in check.replica.reports:
        values = _simulated_by(report)
        if report.knows_simulation:
            text = values or "none"
            known.append(
                Observation("report", "simulated acceptance", text, Rung.BUILT, report.file)
            )
        bad += [
            Observation("report", name, value, Rung.EXECUTED, report.file, rank=report.rank)
            for name, value in values.items()
            if _simulates(name, value)
        ]
    if bad:
        return refuted(
            Rung.EXECUTED, f"{bad[0].subject} is {bad[0].value}: acceptance is simulated", *bad,
            remedy=f"unset {bad[0].subject} and start the server again",
        )  # fmt: skip
    if known and not silent:
        text = f"{_SIMULATED}_LEN is not set above 0"
        return proven(Rung.BUILT, text, *known)
    text = f"the environment of the engine is not known{silent or partly}"
    return inconclusive(None, text, remedy=_GIVE_ENVIRONMENT)


def _simulated_by(report: Report) -> dict[str, str]:
    """Variables of simulated acceptance; one that is only listed as renamed is set to something."""
    said = report.simulated_acceptance
    old = [name for name in report.env_renamed if _modern(name).startswith(_SIMULATED)]
    return {name: "<set>" for name in old if _modern(name) not in said} | said


def _silent(replica: Replica, part: str, known: list[Observation]) -> str:
    """The reports without that part of the environment, where nothing else shows it."""
    files = [report.file for report in replica.reports if not getattr(report, part)]
    return f": {', '.join(files[:3])} does not say it" if files and not known else ""


@probe("no-undeclared-environment", kind="invariant", proof_rung="resolved")
def no_undeclared_environment(check: Check) -> Outcome:
    """Every SGLANG_ and SGL_ variable that is set is one that this engine version reads.

    Proven: the environment or the in-engine report is known, and every such variable is in the
    catalogue of the version, or, where there is no catalogue, in the engine's own registry.

    Refuted: one is not. The engine ignores it without a word, so what it was to switch on is off;
    SGLANG_ENABLE_FP8_LM_HEAD is of this kind in every released version. So is one that the engine
    has given up and only warns of, and one that the log of vLLM calls unknown.

    Open: neither environment nor report is known, the environment is empty or not known of every
    data parallel rank, or there is only the environment and no catalogue of the version.
    """
    names: dict[str, str] = {}
    sources: list[Observation] = []
    partly = _unknown_ranks(check.replica)
    for variables, locator in _environments(check.replica):
        own = [name for name in variables if name.startswith(("SGLANG_", "SGL_"))]
        seen = Observation("environment", "variables", len(own), Rung.RESOLVED, locator)
        sources += [] if partly else [seen]
        if check.catalogue is not None:
            names |= dict.fromkeys(own, locator)
    silent = _silent(check.replica, "knows_undeclared", sources)
    for report in check.replica.reports:
        own = list(report.env_undeclared)
        names |= dict.fromkeys(own, report.file)
        if report.knows_undeclared:
            sources.append(Observation("report", "undeclared", own, Rung.RESOLVED, report.file))
    unknown = [
        Observation("environment", name, "ignored by the engine", Rung.RESOLVED, locator)
        for name, locator in sorted(names.items())
        if not _is_read(name, check)
    ]
    unknown += _called_unknown(check.replica)
    if unknown:
        shown = ", ".join(observation.subject for observation in unknown)
        version = check.replica.version or "of this version"
        return refuted(
            Rung.RESOLVED, f"the engine {version} does not read {shown}", *unknown,
            remedy="remove the variable, or use an engine build that declares it",
        )  # fmt: skip
    if silent or not sources:
        text = f"the environment of the engine is not known{silent or partly}"
        return inconclusive(None, text, remedy=_GIVE_ENVIRONMENT)
    if check.catalogue is None and all(seen.source != "report" for seen in sources):
        text = "there is no catalogue of this engine version to compare the environment with"
        return inconclusive(
            Rung.REQUESTED, text, *sources, remedy="give the in-engine report (--reports)"
        )
    return proven(Rung.RESOLVED, "every SGLANG_ variable is one that the engine reads", *sources)


def _called_unknown(replica: Replica) -> Iterator[Observation]:
    """Variables that the engine's own log calls unknown, each once."""
    told: set[str] = set()
    for line, found in replica.said(_UNKNOWN):
        if found[1] not in told:
            told.add(found[1])
            locator = f"server.log:{line.number}"
            yield Observation("log", found[1], "ignored by the engine", Rung.RESOLVED, locator)


def _is_read(name: str, check: Check) -> bool:
    if name in _READ_ELSEWHERE:
        return True
    if check.catalogue is None:
        return False
    given_up = check.catalogue.retired.get(name)
    if given_up is not None and given_up.replacement is None:
        return False
    return check.catalogue.knows_env(name) or check.catalogue.knows_env(_modern(name))


@probe("requested-equals-resolved", kind="invariant", proof_rung="resolved")
def requested_equals_resolved(check: Check) -> Outcome:
    """Every argument of the profile and of the launch command is what the engine resolved it to.

    Proven: each argument that /server_info shows has the requested value. NEXTN counts as EAGLE,
    which the engine makes of it; `auto` may become anything; an attention backend may stand in
    the fields of prefill and decode instead.

    Refuted: one differs, for instance 8 draft tokens resolved to 4, with one warning in the log;
    or the server was started with other arguments than the profile's.

    Open: the command or /server_info is not known, or none of the arguments can be compared.
    """
    info = check.replica.server_info or check.replica.server_info_startup
    requested = check.replica.requested | _profile_arguments(check)
    if not requested or info is None:
        missing = "/server_info" if info is None else "the launch command"
        return inconclusive(None, f"{missing} is not known", remedy="keep it with the evidence")
    different: list[Observation] = []
    compared = 0
    for name, wanted in requested.items():
        key = _field(name, info)
        if key is None:
            continue
        compared += 1
        if not _same(wanted, info[key], key, info):
            text = f"asked {_plain(wanted)}, resolved {_plain(info[key])}"
            pointer = f"server_info.json#/{key}"
            different.append(Observation("server_info", key, text, Rung.RESOLVED, pointer))
    if different:
        shown = "; ".join(f"{seen.subject}: {seen.value}" for seen in different)
        return refuted(
            Rung.RESOLVED, shown, *different,
            remedy="ask for the resolved value, or find the engine's warning about it in the log; "
            "where the profile's value is missing altogether, start the server from the profile",
        )  # fmt: skip
    if not compared:
        text = "/server_info shows none of the arguments that were asked for"
        return inconclusive(Rung.REQUESTED, text, remedy="keep the whole launch command")
    text = f"all {compared} arguments that /server_info shows are resolved as asked"
    seen_all = Observation("server_info", "arguments", compared, Rung.RESOLVED, "server_info.json")
    return proven(Rung.RESOLVED, text, seen_all)


def _profile_arguments(check: Check) -> dict[str, Any]:
    """What the profile asks for; a faithful launch command asks for the same."""
    if check.deployment is None:
        return {}
    return {
        arg.name.replace("-", "_"): list(arg.value) if isinstance(arg.value, tuple) else arg.value
        for arg in check.deployment.args.values()
        if isinstance(arg.value, str | int | float | bool | tuple)
    }


_RENAMED_PARSERS = {"qwen25": "qwen", "glm45": "glm"}
"""Tool-call parsers that the engine takes under an old name, of the same class."""
_SHORT = {
    "tp": "tp_size", "dp": "dp_size", "pp": "pp_size", "ep": "ep_size", "model": "model_path",
    "tensor_parallel_size": "tp_size", "data_parallel_size": "dp_size",
    "pipeline_parallel_size": "pp_size", "expert_parallel_size": "ep_size",
    "speculative_algo": "speculative_algorithm",
}  # fmt: skip
_SECRET = ("key", "token_file", "password", "secret")


def _field(name: str, info: dict[str, Any]) -> str | None:
    """The field of /server_info that an argument's name, alias or unique prefix stands for."""
    key = name.lstrip("-").replace("-", "_")
    key = _SHORT.get(key, key)
    if any(key.endswith(word) for word in _SECRET):
        return None
    if key in info:
        return key
    longer = [field for field in info if field.startswith(key)]
    return longer[0] if len(longer) == 1 else None


def _same(wanted: Any, resolved: Any, key: str, info: dict[str, Any]) -> bool:
    if _equal(wanted, resolved):
        return True
    if str(wanted).lower() == "auto":
        return True
    if key == "speculative_algorithm" and str(wanted).upper() == "NEXTN":
        return str(resolved).upper() in ("EAGLE", "FROZEN_KV_MTP")
    if key.endswith("_call_parser") and _RENAMED_PARSERS.get(str(wanted)) == resolved:
        return True
    if key == "attention_backend":
        phases = [info.get(f"{phase}_attention_backend") for phase in ("prefill", "decode")]
        return any(phases) and all(_equal(wanted, phase) for phase in phases if phase)
    # Structured values come back parsed and completed; only plain ones can be compared.
    return isinstance(resolved, dict) or (isinstance(wanted, str) and wanted.startswith("{"))


def _equal(wanted: Any, resolved: Any) -> bool:
    if isinstance(wanted, list | tuple) or isinstance(resolved, list | tuple):
        left = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
        right = list(resolved) if isinstance(resolved, list | tuple) else [resolved]
        return len(left) == len(right) and all(map(_equal, left, right))
    try:
        return math.isclose(float(wanted), float(resolved), rel_tol=1e-9)
    except (TypeError, ValueError, OverflowError):
        pass
    return _plain(wanted).lower().rstrip("/") == _plain(resolved).lower().rstrip("/")


def _plain(value: Any) -> str:
    return "true" if value is True else "false" if value is False else str(value)


_NO_RESPONSE = "no response was recorded"


def _answers(replica: Replica) -> Iterator[tuple[Exchange, dict[str, Any]]]:
    """Every sequence that an accepted request was answered with."""
    for exchange in replica.exchanges:
        for answer in answers_of(exchange) if exchange.status < 400 else ():
            yield exchange, answer


@probe("output-not-corrupted", kind="invariant", proof_rung="resolved")
def output_not_corrupted(check: Check) -> Outcome:
    """What comes back is text: not one token over and over, not broken characters, not nothing.

    Proven: no response shows a sign of corruption. That is no statement on its quality.

    Refuted: more than 5 % of the characters are U+FFFD, one token makes up more than 80 % of 32
    or more (without token ids: one character or word), or tokens were counted and none came back.
    Simulated acceptance, a wrong scale and a broken KV cache look like this.

    Open: no response was recorded, or none that holds text or token ids.
    """
    bad: list[Observation] = []
    checked = 0
    for exchange, answer in _answers(check.replica):
        checked += has_output(answer)
        sign = corruption_of(answer)
        if sign:
            bad.append(Observation("generate", "output", sign, Rung.EXECUTED, exchange.name))
    if bad:
        return refuted(
            Rung.EXECUTED, f"{bad[0].locator}: {bad[0].value}", *bad,
            remedy="compare with the same prompt without speculation and with BF16 weights",
        )  # fmt: skip
    if not checked:
        text = "no response holds text or tokens" if check.replica.exchanges else _NO_RESPONSE
        return inconclusive(None, text, remedy="send requests")
    seen = Observation("generate", "responses", checked, Rung.EXECUTED, "requests")
    return proven(Rung.EXECUTED, f"{checked} responses show no sign of corruption", seen)
