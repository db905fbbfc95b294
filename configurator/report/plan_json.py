"""A plan for programs. The shape is documented in docs/json.md."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from configurator.plan.claims import Match
from configurator.report.claims_json import claim_data, match_data
from configurator.report.json_report import document
from configurator.report.plan_sheet import Sheet, decoding, outcome


def plan_json(sheet: Sheet) -> str:
    """One plan as a document; what is not known is null, never 0."""
    plan = sheet.plan
    verdict = outcome(plan)
    return document({
        "deployment": plan.name,
        "status": sheet.status,
        "place": sheet.place,
        "verdict": verdict.word,
        "because": verdict.sentence,
        "decoding": decoding(plan.step) if plan.step is not None else None,
        "refused": list(sheet.refused),
        "memory": plain(plan.memory),
        "geometry": plain(plan.geometry),
        "step": plain(plan.step),
        "second_opinion": plain(sheet.opinion),
        "unknown": list(plan.unknown),
        "exit_code": sheet.exit_code,
    }, {"claims": _claims(sheet.claims)})  # fmt: skip


def _claims(matches: tuple[Match, ...] | None) -> dict[str, Any] | None:
    """How many figures apply, and those that do or nearly do; computed ones are left out."""
    if matches is None:
        return None
    told = [match for match in matches if match.published.claim.derived is None]
    near = [match for match in told if match.status != "does not"]
    return {
        "applies": sum(match.status == "applies" for match in told),
        "nearly": sum(match.status == "nearly" for match in told),
        "does_not": len(told) - len(near),
        "figures": [{**claim_data(m.published), **match_data(m)} for m in near],
    }


def plain(value: Any) -> Any:
    """Dataclasses as objects, tuples as lists; a number that is none of JSON is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
