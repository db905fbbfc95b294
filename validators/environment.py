"""Environment variables of the engine: unknown, unreadable and renamed ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from configurator import (
    Catalogue,
    Finding,
    Fix,
    Launch,
    LaunchEnv,
    launch_rule,
    load_catalogue,
    versions_with,
)

_PREFIXES = ("SGLANG_", "SGL_")
_SOURCE = "the variables in the sources of every release: configurator/engine/catalogue.json.xz"
# HEAD102 says more about this one, whoever set it.
_ELSEWHERE = ("SGLANG_ENABLE_FP8_LM_HEAD",)
# Nobody wrote what this one sets: a release that ignores it only shows less evidence.
_OURS = "evidence.instrument"
_BOOLEANS = ("true", "1", "yes", "y", "false", "0", "no", "n")


@launch_rule("ENV101", "variable-unknown-to-the-engine", source=_SOURCE)
def variable_unknown_to_the_engine(launch: Launch) -> Iterator[Finding]:
    """A variable that this release does not read: it is ignored without a word, so a mistyped
    switch looks as if it were set.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_LOG_GCC: 1}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_LOG_GC: 1}}
    """
    if launch.engine.released:
        yield from _unknown(launch)


@launch_rule(
    "ENV102",
    "variable-value-unreadable",
    severity="warning",
    source="sglang 0.5.23: environ.py, EnvField.get",
)
def variable_value_unreadable(launch: Launch) -> Iterator[Finding]:
    """A value that the engine cannot read: it warns once and takes its default instead.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_LOG_GC: "on"}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_LOG_GC: "yes"}}
    """
    for known, env in _set(launch):
        variable = known.variables.get(env.name)
        if variable is None or env.value is None or _reads(variable.type, env.value):
            continue
        wanted = "1 or 0" if variable.type == "bool" else f"a value of type {variable.type}"
        default = "its default" if variable.default is None else f"its default {variable.default}"
        yield Finding(
            env.path,
            f"{_said(env)} is {env.value!r}, which is no {variable.type}: the "
            f"engine takes {default}",
            f"give {wanted}",
        )


@launch_rule("ENV103", "variable-renamed-in-the-engine", severity="warning", source=_SOURCE)
def variable_renamed_in_the_engine(launch: Launch) -> Iterator[Finding]:
    """A variable that the engine has renamed or replaced, and warns of at every start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGL_LOG_GC: 1}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {env: {SGLANG_LOG_GC: 1}}
    """
    for known, env in _set(launch):
        present, old = known.renamed(env.name), known.retired.get(env.name)
        if not known.knows_env(env.name) or (present is None and old is None):
            continue
        note = old.note if old else ""
        remedy = f"write {present} instead" if present else ""
        yield Finding(
            env.path,
            f"{_said(env)} is deprecated in {launch.engine.name}" + (f": {note}" if note else ""),
            remedy or f"remove {env.name}",
            Fix(env.name, present) if present in known.variables and not note else None,
        )


@launch_rule("ENV104", "variable-unknown-to-the-base-release", severity="warning", source=_SOURCE)
def variable_unknown_to_the_base_release(launch: Launch) -> Iterator[Finding]:
    """A variable that the release below this build does not read; the build may have added it
    without its entry saying so.

    Bad:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}}}
        extra: {env: {SGLANG_ENABLE_EVERYTHING: 1}}

    Good:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}, adds: {env: [SGLANG_ENABLE_EVERYTHING]}}}
        extra: {env: {SGLANG_ENABLE_EVERYTHING: 1}}
    """
    if not launch.engine.released:
        yield from _unknown(launch)


def _set(launch: Launch) -> Iterator[tuple[Catalogue, LaunchEnv]]:
    """Every variable with the catalogue to look it up in; none without one."""
    known = launch.catalogue
    if known is not None:
        for env in launch.env.values():
            yield known, env


def _said(env: LaunchEnv) -> str:
    return f"{env.name} (from {env.origin})" if env.origin else env.name


def _unknown(launch: Launch) -> Iterator[Finding]:
    for known, env in _set(launch):
        if not env.name.startswith(_PREFIXES) or known.knows_env(env.name):
            continue
        if env.name in _ELSEWHERE or env.origin == _OURS:
            continue
        yield Finding(
            env.path,
            f"sglang {known.version} does not read {_said(env)}: it is ignored without a word",
            _remedy(env.name, known),
        )


def _remedy(name: str, known: Catalogue) -> str:
    """What replaced it, as an older release says; or where it exists; or what is spelled alike."""
    spans = versions_with("env", name)
    last = load_catalogue(spans.rpartition(" ")[2]) if spans else None
    present = last.renamed(name) if last else None
    if present is not None and present in known.variables:
        return f"write {present} instead; {name} is known in {spans} only"
    # All names begin alike, so only much likeness means anything.
    near = difflib.get_close_matches(name, known.env | known.env_read, n=2, cutoff=0.8)
    parts = [f"did you mean {' or '.join(map(repr, near))}?"] if near else []
    parts += [f"it is known in {spans} only"] if spans else []
    return "; ".join(parts) or f"remove {name}"


def _reads(kind: str, value: str) -> bool:
    """Whether the engine's parser of this type accepts the text."""
    if kind == "bool":
        return value.lower() in _BOOLEANS
    if kind not in ("int", "float"):
        return True
    try:
        int(value) if kind == "int" else float(value)
    except ValueError:
        return False
    return True
