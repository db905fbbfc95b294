"""The page of a self-check, with the command that makes it again from the evidence."""

from __future__ import annotations

import shlex

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.evidence.read import read_evidence
from configurator.judge import Judgement
from configurator.loader import Validators
from configurator.up.report import Report


def write_page(
    report: Report,
    judgement: Judgement,
    deployment: Deployment,
    validators: Validators,
    library: Library,
) -> str:
    """Write `report.html`; why there is none, empty when there is one."""
    from configurator.report.html import Asked, page
    from configurator.report.plan_html import planned_view

    folder = shlex.quote(str(report.directory))
    replay = f"configurator check {folder}/profile.yaml --replay {folder}/evidence"
    try:
        asked = Asked(
            deployment.expectations, validators.probes, deployment,
            f"{replay} --format html -o report.html",
            planned_view(deployment, library, f"{folder}/profile.yaml"),
        )  # fmt: skip
        text = page(judgement, read_evidence(report.evidence), asked)
    except Exception as error:
        # The page is for reading; a fault of it must not stop a launch that is good.
        return f"{type(error).__name__}: {error}"
    report.write("report.html", text)
    return ""
