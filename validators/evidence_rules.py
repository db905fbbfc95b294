"""Reports from inside the engine: wishes for one that cannot come true."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, catalogue_of, rule

_GROUP = "sglang.srt.plugins"
_PROBE = "configurator_probe"
_ALLOWED = "SGLANG_PLUGINS"
_PLUGINS = "sglang 0.5.11 to 0.5.23: srt/plugins/__init__.py, load_plugins_by_group"
_REQUIRED = ("evidence", "require_report")


def _wanted(deployment: Deployment) -> bool:
    return deployment.profile.evidence.require_report


def _brought_along(deployment: Deployment) -> bool:
    """A script or `up` puts the probe on PYTHONPATH and onto the list of plugins itself."""
    return deployment.profile.evidence.instrument == "standard"


@rule("ENG311", "report-required-of-an-engine-without-plugins", source=_PLUGINS)
def report_required_of_an_engine_without_plugins(deployment: Deployment) -> Iterator[Finding]:
    """The report comes from a plugin, and releases before 0.5.11 load none: the launch would be
    stopped for a report that cannot be made.

    Bad:
        extends: muse-spark-open-gb300x8
        engine: {build: null, version: 0.5.10}

    Good:
        extends: muse-spark-open-gb300x8
        engine: {build: null, version: 0.5.11}
    """
    known = catalogue_of(deployment.engine)
    if _wanted(deployment) and known is not None and _GROUP not in known.named("plugin-group"):
        yield Finding(
            _REQUIRED,
            f"a report from inside the engine is required, and sglang {known.version} loads no "
            "plugin that could make it",
            "use an engine from 0.5.11 on, or set evidence.require_report: false",
        )


@rule("ENG312", "plugin-list-shuts-the-probe-out", source=_PLUGINS)
def plugin_list_shuts_the_probe_out(deployment: Deployment) -> Iterator[Finding]:
    """SGLANG_PLUGINS is an allow-list. With `instrument: standard` a launch adds the probe to it;
    with `none` nothing does, and the report that the profile requires will be missing.

    Bad:
        extends: muse-spark-open-gb300x8
        evidence: {instrument: none}
        extra: {env: {PYTHONPATH: /probe, SGLANG_PLUGINS: nvidia_megakernel}}

    Good:
        extends: muse-spark-open-gb300x8
        evidence: {instrument: standard}
        extra: {env: {SGLANG_PLUGINS: nvidia_megakernel}}
    """
    allowed = deployment.env.get(_ALLOWED)
    if not _wanted(deployment) or _brought_along(deployment) or not allowed or not allowed.value:
        return
    if _PROBE not in [name.strip() for name in allowed.value.split(",")]:
        yield Finding(
            allowed.path,
            f"{_ALLOWED} allows {allowed.value} and not {_PROBE}, so the report that "
            "evidence.require_report asks for will be missing",
            f"set it to {allowed.value},{_PROBE}, or set evidence.instrument: standard",
        )


@rule(
    "ENG313",
    "report-required-and-no-probe",
    severity="warning",
    source="docs/report-schema.md: the engine loads the probe from its PYTHONPATH",
)
def report_required_and_no_probe(deployment: Deployment) -> Iterator[Finding]:
    """With `instrument: none` nothing brings the probe along, so the report can only come from a
    bundle that the profile or the image puts on PYTHONPATH.

    Bad:
        extends: ling-3.0-flash-spark
        evidence: {instrument: none}

    Good:
        extends: ling-3.0-flash-spark
        evidence: {instrument: none}
        extra: {env: {PYTHONPATH: /probe, CONFIGURATOR_PROBE_DIR: /reports}}
    """
    placed = _brought_along(deployment) or "PYTHONPATH" in deployment.env
    if _wanted(deployment) and not placed:
        yield Finding(
            _REQUIRED,
            "a report from inside the engine is required, and evidence.instrument is none, so "
            "nothing brings the probe along that makes it",
            "set evidence.instrument: standard, or put a probe bundle on PYTHONPATH in extra.env "
            "(configurator probe-bundle -o DIR)",
        )
