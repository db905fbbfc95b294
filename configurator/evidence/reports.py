"""In-engine reports as `Report`: what every rank was built as.

`configurator/report/1` is described in docs/report-schema.md. Two older shapes are read beside it:
one report a rank once everything is built (`schema: 1`), and reports of the LM heads alone
(`schema: head-probe/1`). A value of an unexpected type becomes None: a report must never stop a
judgement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from configurator.evidence.model import Hooks, Report
from configurator.evidence.report_models import parse_model
from configurator.evidence.report_values import as_dict, as_dicts, as_float, as_int, as_text, texts

SCHEMA = "configurator/report/1"
_FAMILY = "configurator/report/"
HOOKS_SCHEMA = "configurator/hooks/1"
KEY = "configurator_probe"
"""Key of a report in /server_info."""
RANKS_KEY = f"{KEY}_ranks"
"""Key of the list beside it with the reports of the other ranks, on whatever host they run."""
SET = "<set>"
"""Value of a variable that is set to something that the report does not say."""
# Stages in the order in which a start goes through them.
_ORDER = {"after_head_sharing": 0, "loaded": 0, "ready": 1}
_STAGE_IN_NAME = re.compile(r"-(?:early|ready)(?=[-.])")


def parse_report(file: str, data: Any) -> Report | None:
    """The report in `data`; None when it is no report.

    A report of which everything failed has no target and says why in `errors`.
    """
    if not isinstance(data, dict):
        return None
    if not is_known(data.get("schema")):
        return None
    is_new = data.get("schema") == SCHEMA
    if not is_new and not isinstance(data.get("target"), dict):
        return None
    target = data.get("target")
    if not isinstance(target, dict) or "error" in target:
        target = None
    environment = as_dict(data.get("environment" if is_new else "env"))
    if "error" in environment:
        environment = {}
    undeclared = environment.get("unregistered" if is_new else "unknown_set")
    declared = environment.get("registered" if is_new else "known_set")
    simulated = environment.get("simulated_acceptance" if is_new else "simulate_acc")
    hooks = as_dict(data.get("hooks"))
    took = data.get("build_ms")
    return Report(
        file=file,
        rank=_rank(data),
        stage=str(data.get("stage", "ready")),
        target=None if target is None else parse_model(target, is_draft=False),
        drafts=tuple(
            parse_model(draft, is_draft=True, target=target)
            for draft in as_dicts(data.get("drafts"))
            if "error" not in draft
        ),
        env_undeclared=(tuple(map(str, undeclared)) if isinstance(undeclared, list | dict) else ()),
        simulated_acceptance=_simulated(simulated),
        knows_simulation=_is_plain(simulated),
        knows_undeclared=_is_plain(undeclared),
        raw=data,
        schema=SCHEMA if is_new else "",
        versions=texts(data.get("versions")),
        ranks=_ranks(data),
        device=texts(data.get("device")),
        env_declared=texts(declared),
        env_renamed=texts(environment.get("renamed"), none=""),
        hooks_applied=_names(hooks.get("applied")),
        hooks_missing=texts(hooks.get("missing")),
        errors={
            str(failed.get("part", "")): str(failed.get("error", ""))
            for failed in as_dicts(data.get("errors"))
        },
        build_ms=as_float(took),
    )


def is_known(schema: Any) -> bool:
    """Whether a report of this schema can be read: a later one may mean something else."""
    return schema == SCHEMA or not str(schema).startswith(_FAMILY)


def parse_hooks(file: str, data: Any) -> Hooks | None:
    """What a process says of the probe's hooks; None when `data` is something else."""
    if not isinstance(data, dict) or data.get("schema") != HOOKS_SCHEMA:
        return None
    return Hooks(
        file=file,
        process=as_int(data.get("pid")),
        registered=_names(data.get("registered")),
        missing=texts(data.get("missing")),
        error=str(data.get("error") or ""),
    )


def reports_in(info: Any, file: str = "server_info.json") -> tuple[Report, ...]:
    """Reports in an answer of /server_info: of every rank of every replica behind it."""
    states = as_dict(info).get("internal_states")
    held = [(f"{file}#/{KEY}", as_dict(info).get(KEY))]
    for index, state in enumerate(states if isinstance(states, list) else []):
        place = f"{file}#/internal_states/{index}"
        others = as_dict(state).get(RANKS_KEY)
        held.append((f"{place}/{KEY}", as_dict(state).get(KEY)))
        held += [
            (f"{place}/{RANKS_KEY}/{number}", report)
            for number, report in enumerate(others if isinstance(others, list) else [])
        ]
    found = (parse_report(place, data) for place, data in held)
    return latest(report for report in found if report is not None)


def latest(reports: Iterable[Report]) -> tuple[Report, ...]:
    """One report a rank: the one of the last stage that it reached."""
    best: dict[object, Report] = {}
    for report in reports:
        key = place_of(report)
        kept = best.get(key)
        if kept is None or stage_order(report) >= stage_order(kept):
            best[key] = report
    return tuple(best.values())


def place_of(report: Report) -> object:
    """What tells the ranks of one server apart.

    One tensor parallel rank exists once in every pipeline stage and data parallel group. Reports
    that do not know their rank are kept apart by their file, less the stage in it.
    """
    if report.rank is None:
        return _STAGE_IN_NAME.sub("", report.file)
    place = as_dict(as_dict(report.raw).get("rank"))
    return (report.rank, as_int(place.get("pp_rank")) or 0, as_int(place.get("dp_rank")) or 0)


def stage_order(report: Report) -> int:
    """How far the start had come; a stage that is not known is before every other."""
    return _ORDER.get(report.stage, -1)


def _rank(data: dict[str, Any]) -> int | None:
    return as_int(as_dict(data.get("rank")).get("tp_rank", data.get("tp_rank")))


def _ranks(data: dict[str, Any]) -> dict[str, int]:
    found = {str(name): as_int(value) for name, value in as_dict(data.get("rank")).items()}
    return {name: value for name, value in found.items() if value is not None}


def _simulated(value: Any) -> dict[str, str]:
    """Variables of simulated acceptance, from a mapping or from a list of NAME=VALUE."""
    if not isinstance(value, list):
        return texts(value)
    pairs = (str(item).partition("=") for item in value)
    return {name: text if equals else SET for name, equals, text in pairs}


def _is_plain(value: Any) -> bool:
    """A list or mapping of single values: the part of the report is there and whole."""
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list) or "error" in value:
        return False
    return all(as_text(item) is not None for item in items)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
