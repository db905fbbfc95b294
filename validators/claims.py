"""Published figures: shown with every condition they hold for, and never scaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from configurator import Deployment, Finding, did_you_mean, rule


def _known(deployment: Deployment) -> dict[str, Any]:
    """Claims of the mechanisms of this profile, by id."""
    kernels = (mechanism.kernel for mechanism in deployment.mechanisms.values())
    return {claim.id: claim for kernel in kernels for claim in kernel.claims}


def _claimed(deployment: Deployment) -> Iterator[tuple[int, Any]]:
    known = _known(deployment)
    for index, name in enumerate(deployment.profile.claims):
        if name in known:
            yield index, known[name]


def _conditions(deployment: Deployment) -> dict[str, object]:
    """What this profile has under the names that claims use for their conditions."""
    profile, drafting = deployment.profile, deployment.speculation
    options = dict(drafting.options) if drafting else {}
    here: dict[str, object] = {
        "hardware": deployment.hardware.product,
        "gpus": profile.hardware.gpus,
        "tensor": profile.topology.tensor,
        "replicas": profile.topology.replicas,
        "concurrency": profile.workload.concurrency,
        "batch_size": profile.workload.concurrency,
        **{name: options[name] for name in ("steps", "topk", "block_size") if name in options},
    }
    if "sampling" in profile.workload.model_fields_set:
        here |= profile.workload.sampling.model_dump(include={"temperature", "top_p", "top_k"})
    if "draft_tokens" in options:
        here["verify_width"] = options["draft_tokens"]
    return here


@rule("CLM101", "figure-with-its-conditions", severity="info", source="the kernel entry's claims")
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
    for index, claim in _claimed(deployment):
        conditions = "; ".join(f"{name}: {value}" for name, value in claim.conditions.items())
        baseline = f" (baseline {claim.baseline:,})" if claim.baseline is not None else ""
        again = "reproduced by others" if claim.reproduced else "not reproduced by others"
        caveat = f"; {claim.caveat.rstrip('.')}" if claim.caveat else ""
        yield Finding(
            ("claims", index),
            f"{claim.figure}: {claim.value:,} {claim.unit}{baseline}; {conditions}; measured by "
            f"{claim.measured_by}, {again}{caveat}; not scaled",
            "measure your own workload before planning with it",
        )


@rule("CLM102", "figure-of-no-mechanism", source="the kernel entries' claims")
def figure_of_no_mechanism(deployment: Deployment) -> Iterator[Finding]:
    """A claim that no mechanism of this profile publishes.

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
                f"no mechanism of this profile publishes a figure {name!r}",
                did_you_mean(name, known),
            )


@rule(
    "CLM103",
    "figure-measured-under-other-conditions",
    severity="info",
    source="the kernel entry's claims",
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
    here = _conditions(deployment)
    for index, claim in _claimed(deployment):
        other = [
            f"{name} {wanted} there, {here[name]} here"
            for name, wanted in claim.conditions.items()
            if name in here and here[name] != wanted
        ]
        if other:
            yield Finding(
                ("claims", index),
                f"{claim.figure} ({claim.value:,} {claim.unit}) was measured under other "
                f"conditions: {'; '.join(other)}",
                "do not carry the figure over: measure this deployment",
            )
