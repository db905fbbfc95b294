"""The engine's own command line: names it does not know, values it does not take."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator

from configurator import (
    Arg,
    Catalogue,
    Deployment,
    Finding,
    Flag,
    Resolution,
    catalogue_of,
    did_you_mean,
    load_catalogue,
    rule,
    versions_with,
)

_SIZE = re.compile(r"\s*(-?\d+|\d+(\.\d+)?[kMGT]|\d+[KMGT]i)\s*")
_SOURCE = "the options in the sources of every release: configurator/engine/catalogue.json.xz"


@rule("ENG101", "argument-unknown-to-the-engine", source=_SOURCE)
def argument_unknown_to_the_engine(deployment: Deployment) -> Iterator[Finding]:
    """An argument that this release does not have: the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {cuda-graph-max-bs: 8}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {cuda-graph-max-bs-decode: 8}}
    """
    if deployment.engine.released:
        yield from _unknown(deployment)


@rule("ENG102", "value-the-engine-refuses", source=_SOURCE)
def value_the_engine_refuses(deployment: Deployment) -> Iterator[Finding]:
    """A value of the wrong type, or not among the choices: the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {moe-runner-backend: huming}}

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running-requests: many}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running-requests: 1}}
    """
    if deployment.engine.released:
        yield from _unfit_values(deployment)


@rule("ENG103", "argument-deprecated-in-the-engine", severity="warning", source=_SOURCE)
def argument_deprecated_in_the_engine(deployment: Deployment) -> Iterator[Finding]:
    """An argument that the engine accepts with a warning and will drop in a later release.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {enable-dp-attention: true}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {attn-dp-size: 1}}
    """
    for _, arg, found in _resolved(deployment):
        instead = found.flags[0].deprecated if len(found.flags) == 1 else None
        if instead is not None:
            yield Finding(
                arg.path,
                f"--{arg.name} (from {arg.origin}) is deprecated in {deployment.engine.name}",
                f"use {instead}" if instead else f"remove {arg.name}: nothing replaces it",
            )


@rule(
    "ENG104",
    "argument-is-an-abbreviation",
    severity="warning",
    source="argparse with allow_abbrev, as sglang 0.5.23 builds its parser in server_args.py",
)
def argument_is_an_abbreviation(deployment: Deployment) -> Iterator[Finding]:
    """A name that is short for one option of this release. The next release may add an option
    that begins alike, and then the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running: 1}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running-requests: 1}}
    """
    for _, arg, found in _resolved(deployment):
        if found.kind == "prefix":
            yield Finding(
                arg.path,
                f"--{arg.name} is accepted only as short for --{found.names[0]}",
                f"write {found.names[0]}",
            )


@rule("ENG001", "engine-without-a-catalogue", severity="info", source="the engine entry")
def engine_without_a_catalogue(deployment: Deployment) -> Iterator[Finding]:
    """Nobody knows which arguments and variables this build reads, so none is checked.

    Bad:
        extends: ling-3.0-flash-spark-baseline

    Good:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}}}
    """
    engine = deployment.engine
    if catalogue_of(engine) is None:
        release = engine.version if engine.released else engine.base.release
        fact = f"there is no catalogue of sglang {release}" if release else "its base is unknown"
        yield Finding(
            ("engine",),
            f"names and values of arguments and variables of {engine.name} are not checked: {fact}",
            "set base.release in the engine entry where it is known",
        )


@rule("ENG105", "argument-unknown-to-the-base-release", severity="warning", source=_SOURCE)
def argument_unknown_to_the_base_release(deployment: Deployment) -> Iterator[Finding]:
    """An argument, or a value, that the release below this build does not take; the build may
    have added it without its entry saying so.

    Bad:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}}}
        extra: {args: {enable-everything: true}}

    Good:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}, adds: {args: [enable-everything]}}}
        extra: {args: {enable-everything: true}}
    """
    if not deployment.engine.released:
        yield from _unknown(deployment)
        yield from _unfit_values(deployment)


def _resolved(deployment: Deployment) -> Iterator[tuple[Catalogue, Arg, Resolution]]:
    """Every argument with what the engine's parser makes of its name; none without a catalogue."""
    known = catalogue_of(deployment.engine)
    if known is not None:
        for arg in deployment.args.values():
            yield known, arg, known.resolve(arg.name)


def _unknown(deployment: Deployment) -> Iterator[Finding]:
    for known, arg, found in _resolved(deployment):
        if found.kind in ("unknown", "ambiguous"):
            likes = f", and short for each of {_list(found.names)}" if found.names else ""
            yield Finding(
                arg.path,
                f"--{arg.name} (from {arg.origin}) is unknown to sglang {known.version}{likes}",
                _remedy(arg.name, known),
            )


def _remedy(name: str, known: Catalogue) -> str:
    """What replaced it, as an older release says; or where it exists; or what is spelled alike."""
    spans = versions_with("flags", name)
    last = load_catalogue(spans.rpartition(" ")[2]) if spans else None
    before = last.flag(name) if last else None
    if before is not None and before.deprecated:
        return f"use {before.deprecated}; {name} is known in {spans} only"
    # Many names share words, so only much likeness means anything.
    near = difflib.get_close_matches(name.replace("_", "-"), known.flags, n=2, cutoff=0.8)
    parts = [f"did you mean {' or '.join(map(repr, near))}?"] if near else []
    parts += [f"it is known in {spans} only"] if spans else []
    return "; ".join(parts) or "remove it"


def _unfit_values(deployment: Deployment) -> Iterator[Finding]:
    for _, arg, found in _resolved(deployment):
        if len(found.flags) == 1 and (problem := _unfit(found.flags[0], arg.value)):
            fact, remedy = problem
            yield Finding(arg.path, f"--{arg.name} (from {arg.origin}) {fact}", remedy)


def _unfit(flag: Flag, value: object) -> tuple[str, str] | None:
    """Why the engine's parser refuses `value`, and what to write; None when it takes it."""
    if flag.type == "any" or not isinstance(value, bool | str | int | float | tuple):
        return None
    if flag.type is None:
        wrong = value is not True
        return (f"takes no value, and is given {value!r}", "write true") if wrong else None
    words = [] if value is True else list(value) if isinstance(value, tuple) else [value]
    if not _fits_count(flag, len(words)):
        wanted = {None: "one value", "+": "at least one value"}.get(flag.nargs, flag.nargs)
        return f"takes {wanted}, and is given {len(words)}", "give it as many"
    for word in map(str, words):
        if not _parses(flag.type, word):
            return f"takes {flag.type}, not {word!r}", f"give {flag.type}"
        if flag.choices and word not in flag.choices:
            near = did_you_mean(word, flag.choices)
            return f"does not take {word!r}", f"{near} (choices: {_list(flag.choices)})"
    return None


def _fits_count(flag: Flag, count: int) -> bool:
    if flag.nargs in ("+", "*"):
        return count > 0 or flag.nargs == "*"
    if flag.nargs == "?":
        return count <= 1
    return count == (int(flag.nargs) if flag.nargs and flag.nargs.isdigit() else 1)


def _parses(kind: str, word: str) -> bool:
    """Whether the engine's parser of this type accepts the word."""
    if kind == "size":
        return _SIZE.fullmatch(word) is not None
    try:
        if kind in ("int", "float"):
            int(word) if kind == "int" else float(word)
        elif kind == "json":
            json.loads(word)
    except ValueError:
        return False
    return True


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
