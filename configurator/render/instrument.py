"""What the in-engine probe needs in the environment of an engine: for scripts and for `up` alike.

Folders are known only where a launch is written or run, so none of it is part of a deployment.
"""

from __future__ import annotations

import os

from configurator.deployment import Deployment
from configurator.engine.catalogue import catalogue_of
from configurator.inengine.bundle import DIRECTORY, GROUP, MODULE, REQUIRED

SEARCH = "PYTHONPATH"
"""Variable with the folders where Python finds modules and entry points."""
ALLOWED = "SGLANG_PLUGINS"
"""The engine's own list of the plugins that it may load; all where it is empty."""


def instrumented(deployment: Deployment) -> bool:
    """Whether a launch brings the probe along: the profile lets it, and the engine has plugins.

    A build without a catalogue gets the benefit of the doubt: the variables cost nothing.
    """
    if deployment.profile.evidence.instrument != "standard":
        return False
    catalogue = catalogue_of(deployment.engine)
    return catalogue is None or GROUP in catalogue.named("plugin-group")


def probe_variables(deployment: Deployment, bundle: str, reports: str) -> dict[str, str]:
    """What the probe asks of every variable, to be put over an engine's with `joined`; or nothing.

    Args:
        deployment: what is launched.
        bundle: the folder of the probe.
        reports: the folder of the replica's reports.
    """
    if not instrumented(deployment):
        return {}
    required = {REQUIRED: "1"} if deployment.profile.evidence.require_report else {}
    names = ",".join(loaded(deployment))
    return {SEARCH: bundle, DIRECTORY: reports, **required, ALLOWED: names}


def loaded(deployment: Deployment) -> tuple[str, ...]:
    """Entry points that the engine must load from the bundle: the probe's, and those beside it."""
    return (MODULE, *(plugin.package for plugin in deployment.plugins))


def joined(name: str, value: str, held: str | None) -> str | None:
    """A variable with what the probe asks of it; None: it is left as it is.

    Args:
        name: the variable.
        value: what the probe asks, as `probe_variables` has it.
        held: its value without the probe; None where it is not set.
    """
    if name == SEARCH:
        return f"{value}{os.pathsep}{held}" if held else value
    if name == ALLOWED:
        # Without a list every plugin is loaded; a list of ours alone would shut others out.
        left_out = [each for each in value.split(",") if held and not allows(held, each)]
        return ",".join([held, *left_out]) if held and left_out else None
    return value


def allows(names: str, plugin: str) -> bool:
    """Whether a list of plugins, as the engine reads it, lets this one be loaded."""
    return not names or plugin in [name.strip() for name in names.split(",")]
