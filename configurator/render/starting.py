"""START.md of the targets for Kubernetes: the exact commands, and what to know before them."""

from __future__ import annotations

from typing import Any

from configurator.deployment import Deployment
from configurator.render.common import heading, templates
from configurator.render.containers import start_period_of
from configurator.render.files import RenderedFile
from configurator.render.pods import AGAIN_S
from configurator.render.quoting import comment


def start_file(deployment: Deployment, target: str, **known: Any) -> RenderedFile:
    """What to run, for a person; `known` is what the target knows of its objects."""
    profile = deployment.profile
    text = templates().get_template(f"START-{target}.md.j2").render(
        heading=heading(deployment),
        name=comment(deployment.name),
        status=profile.status,
        replicas=profile.topology.replicas,
        hosts=deployment.hosts_per_replica,
        timeout_s=profile.startup.timeout_s,
        ready_s=start_period_of(deployment),
        again_s=AGAIN_S,
        **{**known, "notes": [comment(note) for note in known["notes"]]},
    )  # fmt: skip
    return RenderedFile("START.md", text)
