"""Published figures for programs: everything that is known of each, and how it compares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from configurator.plan.claims import Match
from configurator.plan.consistency import Checked
from configurator.schema.claims import Claims, Published, unstated


def claim_data(published: Published) -> dict[str, Any]:
    """A figure with its conditions, who measured it and where it is published."""
    claim, run = published.claim, published.run
    own = claim.model_dump(exclude={"conditions", "sample", "caveat"})
    return own | {
        "publication": published.entry,
        "summary": run.summary,
        "shown": published.shown,
        "conditions": published.conditions.model_dump(),
        "not_stated": list(unstated(published.conditions)),
        "sample": published.sample.model_dump(),
        "measured_by": run.measured_by,
        "reproduced": run.reproduced,
        "reproduced_by": run.reproduced_by,
        "date": run.date,
        "source": run.source,
        "caveats": list(published.caveats),
    }


def match_data(match: Match) -> dict[str, Any]:
    """How a figure compares with a deployment."""
    return {
        "status": match.status,
        "why": match.why,
        "other_model": match.other_model,
        "differs": [asdict(row) for row in match.differs],
        "unknown": [asdict(row) for row in match.open],
        "equal": [asdict(row) for row in match.equal],
    }


def checked_data(checked: Checked) -> dict[str, Any]:
    """A relation between figures with its numbers, in base units (s, B, tok/s)."""
    return {
        "publication": checked.entry,
        **checked.relation.model_dump(),
        "left": checked.left,
        "right": checked.right,
        "off": checked.off,
        "holds": checked.holds,
        "text": checked.text,
    }


def conflict_data(sets: Sequence[Claims]) -> list[dict[str, Any]]:
    """Where sources differ in what is no number."""
    return [{"publication": s.name, **c.model_dump()} for s in sets for c in s.conflicts]


def library_json(
    sets: Sequence[Claims], claims: Mapping[str, Published], checked: Sequence[Checked]
) -> str:
    """All figures."""
    return _json({
        "claims": [claim_data(published) for published in claims.values()],
        "consistency": [checked_data(each) for each in checked],
        "conflicts": conflict_data(sets),
        "exit_code": 0,
    })  # fmt: skip


def matches_json(
    name: str,
    status: str | None,
    matches: Sequence[Match],
    checked: Sequence[Checked],
    sets: Sequence[Claims],
) -> str:
    """All figures, each held against the deployment `name`."""
    return _json({
        "deployment": name,
        "status": status,
        "claims": [{**claim_data(m.published), "match": match_data(m)} for m in matches],
        "consistency": [checked_data(each) for each in checked],
        "conflicts": conflict_data(sets),
        "exit_code": 0,
    })  # fmt: skip


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
