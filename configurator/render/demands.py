"""What a rendering demands of its launch, so that a profile edited beside it is noticed.

The fingerprint is of what is launched alone: a profile with the same words and weaker policies or
floors has the same. Every rendered file says both, and `configurator check` of a rendered profile
refuses one that is no longer what its first line says.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError, Position
from configurator.render.files import MARK, fingerprint

_HEADING = re.compile(rf"# {MARK} (\S+), launch ([0-9a-f]{{16}}), demands ([0-9a-f]{{16}}):")


def demands(deployment: Deployment) -> str:
    """SHA-256 over what must be proven, and of which work; 16 digits of it."""
    text = json.dumps(_demanded(deployment), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _demanded(deployment: Deployment) -> dict[str, Any]:
    """Every demand by its place: expectations with their policies, evidence, and the workload.

    What is not set is left out: a later version that can be asked for more demands no more of an
    old profile.
    """
    found: dict[str, Any] = {}
    for one in deployment.expectations:
        place = ".".join(map(str, one.path))
        for name, value in dataclasses.asdict(one).items():
            if name != "path" and value is not None:
                found[f"{place} ({one.mechanism}): {name}"] = value
    profile = deployment.profile
    for part in ("evidence", "workload"):
        for name, value in getattr(profile, part).model_dump(mode="json", exclude_none=True).items():
            found[f"{part}: {name}"] = value
    return found


def differences(held: Deployment, wanted: Deployment) -> Iterator[str]:
    """What one demands otherwise than the other, with both values."""
    there, here = _demanded(held), _demanded(wanted)
    for name in dict.fromkeys((*there, *here)):
        if there.get(name) != here.get(name):
            yield f"{name} is {_shown(there, name)}, the profile has {_shown(here, name)}"


def _shown(demanded: dict[str, Any], name: str) -> str:
    return json.dumps(demanded[name]) if name in demanded else "not asked for"


def refuse_edited(deployment: Deployment) -> None:
    """Refuse a rendered profile that is not what its first line says.

    Raises:
        ConfiguratorError: RND008, with what it said and what it is.
    """
    source = deployment.layers.sources[0]
    said = _HEADING.match(source.text)
    if said is None:
        return
    version, *held = said.groups()
    found = [fingerprint(deployment), demands(deployment)]
    if held != found:
        raise ConfiguratorError.single(
            "RND008", f"this profile was rendered by {version} as launch {held[0]}, demands "
            f"{held[1]}, and is launch {found[0]}, demands {found[1]}: it, or an entry that it "
            "names, was changed since",
            "change the profile that it was rendered from and render again, with the configurator "
            "and the content that check it", Position(source.name, 1, 1),
        )  # fmt: skip
