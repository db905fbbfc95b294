"""The container that a deployment runs in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from configurator import Deployment, Finding, rule

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


@rule(
    "ENG111",
    "image-by-tag",
    severity="warning",
    source="OCI distribution specification: a tag may move, a digest may not",
)
def image_by_tag(deployment: Deployment) -> Iterator[Finding]:
    """A tag names whatever was pushed last, so tomorrow's start may be of another engine.

    Bad:
        extends: ling-3.0-flash-spark
        container: {image: "registry.example/sglang:v0.5.23"}

    Good:
        extends: ling-3.0-flash-spark
        container:
          image: "registry.example/sglang@sha256:\
0000000000000000000000000000000000000000000000000000000000000000"
    """
    container = deployment.profile.container
    for key, image in (("image", container.image), ("checker", container.checker)):
        if image is not None and not _DIGEST.search(image):
            yield Finding(
                ("container", key),
                f"the image {image} has no digest: what it names can change between two starts",
                f"write {image.partition('@')[0]}@sha256:DIGEST, as `docker image inspect` or the "
                "registry shows it",
            )
