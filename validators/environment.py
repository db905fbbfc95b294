"""Environment variables of the engine: unknown, unreadable and renamed ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from configurator import (
    Catalogue,
    Finding,
    Fix,
    Launch,
    LaunchEnv,
    before,
    launch_rule,
    load_catalogue,
    versions_with,
)

_PREFIXES = ("SGLANG_", "SGL_")
_UNCHECKED = "FLASHINFER_DISABLE_VERSION_CHECK"
_SOURCE = "the variables in the sources of every release: configurator/engine/catalogue.json.xz"
# HEAD102 says more about this one to a profile, whoever set it there.
_ELSEWHERE = ("SGLANG_ENABLE_FP8_LM_HEAD",)
# Nobody wrote what this one sets: a release that ignores it only shows less evidence.
_OURS = "evidence.instrument"
_OPTIONS_OF_VLLM = {
    "VLLM_ATTENTION_BACKEND": "attention-backend",
    "VLLM_ALL2ALL_BACKEND": "moe-a2a-backend",
    "VLLM_FLASHINFER_MOE_BACKEND": "moe-runner-backend",
    "VLLM_HOST_IP": "dist-init-addr",
    "VLLM_USE_FLASHINFER_MOE_FP4": "moe-runner-backend",
    "VLLM_USE_FLASHINFER_MOE_FP8": "moe-runner-backend",
}
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
        yield from (finding for gone, finding in _unknown(launch) if not gone)


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
        note, change = (old.note, old.change) if old else ("", "")
        remedy = f"write {present}{_changed(change)} instead" if present else ""
        yield Finding(
            env.path,
            f"{_said(env)} is deprecated in {launch.engine.name}" + (f": {note}" if note else ""),
            remedy or f"remove {env.name}",
            Fix(env.name, present) if present in known.variables and not (note or change) else None,
        )


@launch_rule("ENV105", "variable-gone-from-the-engine", severity="warning", source=_SOURCE)
def variable_gone_from_the_engine(launch: Launch) -> Iterator[Finding]:
    """A variable that earlier releases read and this one does not: whatever it switched on or off
    is now as the engine decides, and nothing says so.

    Bad:
        # engine: 0.5.23
        SGLANG_ENABLE_SPEC_V2=1 sglang serve --model-path m

    Good:
        # engine: 0.5.9
        SGLANG_ENABLE_SPEC_V2=1 sglang serve --model-path m
    """
    if launch.engine.released:
        yield from (finding for gone, finding in _unknown(launch) if gone)


@launch_rule("ENV107", "variable-that-nothing-reads", severity="warning", source=_SOURCE)
def variable_that_nothing_reads(launch: Launch) -> Iterator[Finding]:
    """A variable that stands in the engine's registry and is named nowhere else: it has no effect.

    Bad:
        # engine: 0.5.9
        SGLANG_DISABLE_TP_MEMORY_INBALANCE_CHECK=1 sglang serve --model-path m

    Good:
        # engine: 0.5.9
        SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0 sglang serve --model-path m
    """
    for known, env in _set(launch):
        variable = known.variables.get(env.name)
        if variable is not None and variable.unread:
            yield Finding(
                env.path,
                f"{_said(env)} is declared in sglang {known.version}, and nothing there reads it",
                f"remove {env.name}: it has no effect",
            )


@launch_rule(
    "ENV106",
    "variable-of-another-engine",
    severity="warning",
    source="vLLM 0.33: envs.py; sglang reads VLLM_ names only where its catalogue has them",
)
def variable_of_another_engine(launch: Launch) -> Iterator[Finding]:
    """A variable of vLLM, which this engine does not read.

    Bad:
        VLLM_FLASHINFER_MOE_BACKEND=latency sglang serve --model-path m

    Good:
        sglang serve --model-path m --moe-runner-backend flashinfer_trtllm
    """
    for known, env in _set(launch):
        if env.name.startswith("VLLM_") and not known.knows_env(env.name):
            option = _OPTIONS_OF_VLLM.get(env.name)
            yield Finding(
                env.path,
                f"{_said(env)} is a variable of vLLM: sglang {known.version} does not read it",
                f"use --{option}" if option else f"remove {env.name}",
            )


@launch_rule(
    "ENV108",
    "version-check-switched-off",
    severity="warning",
    source="0xBakeer/ling3-flash-spark: flashinfer-cubin must match FlashInfer",
)
def version_check_switched_off(launch: Launch) -> Iterator[Finding]:
    """FlashInfer compares its own version with that of its cubins when it is loaded; the variable
    hides that they differ.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {FLASHINFER_DISABLE_VERSION_CHECK: 1}}

    Good:
        extends: ling-3.0-flash-spark

    Bad:
        FLASHINFER_DISABLE_VERSION_CHECK=1 sglang serve --model-path m
    """
    variable = launch.env.get(_UNCHECKED)
    if variable is not None and variable.value not in ("", "0"):
        pinned = launch.engine.packages.get("flashinfer-python", "unknown")
        same = "the version of flashinfer-python" if pinned == "unknown" else pinned
        yield Finding(
            variable.path,
            f"{_UNCHECKED} hides a flashinfer-cubin that does not match FlashInfer",
            f"remove it, and install flashinfer-cubin of {same}",
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
        yield from (finding for _, finding in _unknown(launch))


def _set(launch: Launch) -> Iterator[tuple[Catalogue, LaunchEnv]]:
    """Every variable with the catalogue to look it up in; none without one."""
    known = launch.catalogue
    if known is not None:
        for env in launch.env.values():
            yield known, env


def _said(env: LaunchEnv) -> str:
    return f"{env.name} (from {env.origin})" if env.origin else env.name


def _unknown(launch: Launch) -> Iterator[tuple[bool, Finding]]:
    """Variables that are not read, each with whether an earlier release read it."""
    for known, env in _set(launch):
        if not env.name.startswith(_PREFIXES) or known.knows_env(env.name):
            continue
        if (env.name in _ELSEWHERE and env.path[0] != "env") or env.origin == _OURS:
            continue
        spans = versions_with("env", env.name)
        last = load_catalogue(spans.rpartition(" ")[2]) if spans else None
        yield (
            before(last, known.version),
            Finding(
                env.path,
                f"sglang {known.version} does not read {_said(env)}: it is ignored without a word",
                _remedy(env.name, known, spans, last),
            ),
        )


def _remedy(name: str, known: Catalogue, spans: str, older: Catalogue | None) -> str:
    """What replaced it, as an older release says; or where it exists; or what is spelled alike."""
    present = older.renamed(name) if older else None
    if older and present is not None and present in known.variables:
        changed = _changed(older.retired[name].change) if name in older.retired else ""
        return f"write {present}{changed} instead; {name} is known in {spans} only"
    note = older.retired[name].note if older and name in older.retired else ""
    if spans:
        return f"remove it: it is known in {spans} only" + (f" ({note})" if note else "")
    option = re.sub("^SGL(ANG)?_", "", name).replace("_", "-").lower()
    if known.resolve(option).kind in ("exact", "alias"):
        return f"use the option --{option}: there is no such variable"
    # All names begin alike, so only much likeness means anything.
    near = difflib.get_close_matches(name, known.env | known.env_read, n=2, cutoff=0.8)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"remove {name}"


def _changed(change: str) -> str:
    """How the new value differs from the old one."""
    if not change:
        return ""
    words = {"invert_bool": "with the opposite value", "ms_to_s": "in seconds, not milliseconds"}
    return f", {words.get(change, change.replace('_', ' '))},"


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
