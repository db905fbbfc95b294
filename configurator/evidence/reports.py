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
from configurator.evidence.report_values import as_dict, as_dicts, as_int, texts

SCHEMA = "configurator/report/1"
HOOKS_SCHEMA = "configurator/hooks/1"
KEY = "configurator_probe"
"""Key of a report in /server_info."""
# Stages in the order in which a start goes through them.
_ORDER = {"after_head_sharing": 0, "loaded": 0, "ready": 1}
_STAGE_IN_NAME = re.compile(r"-(?:early|ready)(?=[-.])")


def parse_report(file: str, data: Any) -> Report | None:
    """The report in `data`; None when it is no report.

    A report of which everything failed has no target and says why in `errors`.
    """
    if not isinstance(data, dict):
        return None
    is_new = data.get("schema") == SCHEMA
    if not is_new and not isinstance(data.get("target"), dict):
        return None
    target = data.get("target")
    if not isinstance(target, dict) or "error" in target:
        target = None
    environment = as_dict(data.get("environment" if is_new else "env"))
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
        simulated_acceptance=texts(simulated),
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
        build_ms=float(took) if isinstance(took, int | float) else None,
    )


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
    """Reports in an answer of /server_info: of the first rank of every replica behind it."""
    states = as_dict(info).get("internal_states")
    held = [(f"{file}#/{KEY}", as_dict(info).get(KEY))]
    held += [
        (f"{file}#/internal_states/{index}/{KEY}", as_dict(state).get(KEY))
        for index, state in enumerate(states if isinstance(states, list) else [])
    ]
    found = (parse_report(place, data) for place, data in held)
    return latest(report for report in found if report is not None)


def latest(reports: Iterable[Report]) -> tuple[Report, ...]:
    """One report a rank: the one of the last stage that it reached."""
    best: dict[object, Report] = {}
    for report in reports:
        # Reports that do not know their rank are kept apart by their file, less the stage in it.
        # One tensor parallel rank exists once in every pipeline stage and data parallel group.
        place = as_dict(as_dict(report.raw).get("rank"))
        key = (
            (report.rank, str(place.get("pp_rank")), str(place.get("dp_rank")))
            if report.rank is not None
            else _STAGE_IN_NAME.sub("", report.file)
        )
        kept = best.get(key)
        if kept is None or _ORDER.get(report.stage, 1) >= _ORDER.get(kept.stage, 1):
            best[key] = report
    return tuple(best.values())


def _rank(data: dict[str, Any]) -> int | None:
    return as_int(as_dict(data.get("rank")).get("tp_rank", data.get("tp_rank")))


def _ranks(data: dict[str, Any]) -> dict[str, int]:
    found = {str(name): as_int(value) for name, value in as_dict(data.get("rank")).items()}
    return {name: value for name, value in found.items() if value is not None}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
