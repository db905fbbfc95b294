"""A rule of one's own: the same kind of module as the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, rule


@rule("SEC901", "no-served-model-name", severity="warning", source="our own conventions")
def no_served_model_name(deployment: Deployment) -> Iterator[Finding]:
    """The server has no name that clients can rely on.

    Clients would have to use the checkpoint's path, which changes with every release.

    Bad:
        extends: ling-3.0-flash-spark
        serving: {served_model_name: null}

    Good:
        extends: ling-3.0-flash-spark
    """
    if deployment.profile.serving.served_model_name is None:
        yield Finding(
            ("serving",),
            f"{deployment.name} has no served_model_name",
            f"set serving.served_model_name, for instance to {deployment.model.name}",
        )
