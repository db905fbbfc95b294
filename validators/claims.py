"""Published figures: shown with every condition they hold for, and never scaled."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Published, did_you_mean, match, rule, stated, unstated


def _known(deployment: Deployment) -> dict[str, Published]:
    """Figures of this profile's model and mechanisms, by id."""
    return {claim.id: claim for claim in deployment.claims}


def _claimed(deployment: Deployment) -> Iterator[tuple[int, Published]]:
    known = _known(deployment)
    for index, name in enumerate(deployment.profile.claims):
        if name in known:
            yield index, known[name]


def _told(published: Published, baseline: Published | None) -> str:
    """Everything that is published of a figure, in one line."""
    claim, run = published.claim, published.run
    compared = f" (baseline {baseline.shown})" if baseline else ""
    conditions = [f"{name}: {text}" for name, text in stated(published.conditions)]
    if claim.statistic:
        conditions.append(f"statistic: {claim.statistic}")
    missing = unstated(published.conditions)
    if missing:
        conditions.append(f"not stated: {', '.join(missing)}")
    again = {"yes": "reproduced", "no": "not reproduced by others", "contradicted": "contradicted"}
    by = f" by {run.reproduced_by}" if run.reproduced_by else ""
    derived = f"; computed and not published: {claim.derived}" if claim.derived else ""
    caveats = "".join(f"; {text.rstrip('.')}" for text in published.caveats)
    return (
        f"{claim.figure}: {published.shown}{compared}; {'; '.join(conditions)}; measured by "
        f"{run.measured_by}, {again[run.reproduced]}{by}{derived}{caveats}; not scaled"
    )


@rule("CLM101", "figure-with-its-conditions", severity="info", source="profiles/claims")
def figure_with_its_conditions(deployment: Deployment) -> Iterator[Finding]:
    """A published figure the profile refers to, with every condition it was measured under. It is
    never scaled to other sizes.

    Bad:
        extends: ling-3.0-flash-spark
        claims: [ling-three-optimizations-53.89]

    Good:
        extends: ling-3.0-flash-spark
        claims: []
    """
    known = _known(deployment)
    for index, published in _claimed(deployment):
        yield Finding(
            ("claims", index),
            _told(published, known.get(published.claim.baseline or "")),
            "measure your own workload before planning with it",
        )


@rule("CLM102", "figure-of-no-mechanism", source="profiles/claims")
def figure_of_no_mechanism(deployment: Deployment) -> Iterator[Finding]:
    """A claim that is of neither this profile's model nor any of its mechanisms.

    Bad:
        extends: ling-3.0-flash-spark
        claims: [no-such-figure]

    Good:
        extends: ling-3.0-flash-spark
        claims: []
    """
    known = _known(deployment)
    for index, name in enumerate(deployment.profile.claims):
        if name not in known:
            yield Finding(
                ("claims", index),
                f"no published figure of this model or its mechanisms is named {name!r}",
                did_you_mean(name, known),
            )


@rule(
    "CLM103",
    "figure-measured-under-other-conditions",
    severity="info",
    source="profiles/claims",
)
def figure_measured_under_other_conditions(deployment: Deployment) -> Iterator[Finding]:
    """The profile differs from the conditions of a figure it refers to: the figure does not hold.

    Bad:
        extends: ling-3.0-flash-spark
        claims: [ling-three-optimizations-53.89]
        workload: {concurrency: 8}

    Good:
        extends: ling-3.0-flash-spark
        claims: []
    """
    for index, published in _claimed(deployment):
        (found,) = match(deployment, [published])
        if found.differs:
            yield Finding(
                ("claims", index),
                f"{published.claim.figure} ({published.shown}) was measured under other "
                f"conditions: {'; '.join(row.text for row in found.differs)}",
                "do not carry the figure over: measure this deployment",
            )
