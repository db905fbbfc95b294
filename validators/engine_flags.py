"""The engine's own command line: names it does not know, values it does not take."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from configurator import (
    ArgvError,
    Catalogue,
    Finding,
    Fix,
    Flag,
    Launch,
    Option,
    did_you_mean,
    launch_rule,
    load_catalogue,
    value_error,
    versions_with,
)

_SOURCE = "the options in the sources of every release: configurator/engine/catalogue.json.xz"
_ARGPARSE = "argparse with allow_abbrev, as sglang 0.5.23 builds its parser in server_args.py"
_OTHERS = "vLLM 0.33: engine/arg_utils.py; sglang 0.5.23: server_args.py"
_ELSEWHERE = {
    "all2all-backend": "--moe-a2a-backend",
    "async-scheduling": "nothing: the overlap scheduler is on by default",
    "block-size": "--page-size",
    "compilation-config": "--cuda-graph-bs-decode and --cuda-graph-backend-decode",
    "cudagraph-capture-sizes": "--cuda-graph-bs-decode",
    "disable-log-requests": "nothing: requests are logged only with --log-requests",
    "enable-auto-tool-choice": "nothing: --tool-call-parser is enough",
    "enable-chunked-prefill": "nothing: it is on by default; --chunked-prefill-size sets the size",
    "enable-expert-parallel": "--ep-size with the number of ranks",
    "enable-log-requests": "--log-requests",
    "enable-prefix-caching": "nothing: the radix cache is on by default",
    "enforce-eager": "--cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled",
    "generation-config": "--sampling-defaults",
    "gpu-memory-utilization": "--mem-fraction-static, which counts weights and KV cache only, so "
    "the same number is not the same memory",
    "guided-decoding-backend": "--grammar-backend",
    "hf-overrides": "--json-model-override-args",
    "kv-cache-memory-bytes": "--max-total-tokens, which is in tokens",
    "kv-transfer-config": "--disaggregation-mode and --disaggregation-transfer-backend",
    "limit-mm-per-prompt": "--limit-mm-data-per-request",
    "master-addr": "--dist-init-addr HOST:PORT",
    "master-port": "--dist-init-addr HOST:PORT",
    "max-loras": "--max-loras-per-batch",
    "max-model-len": "--context-length",
    "max-num-batched-tokens": "--chunked-prefill-size",
    "max-num-seqs": "--max-running-requests",
    "moe-backend": "--moe-runner-backend",
    "no-enable-prefix-caching": "--disable-radix-cache",
    "num-gpu-blocks-override": "--max-total-tokens, which is in tokens",
    "num-nodes": "--nnodes",
    "num-speculative-tokens": "--speculative-num-steps and --speculative-num-draft-tokens",
    "override-generation-config": "--preferred-sampling-params",
    "seed": "--random-seed",
    "speculative-config": "--speculative-algorithm and the other --speculative-* options",
    "speculative-model": "--speculative-draft-model-path",
    "structured-outputs-config": "--grammar-backend",
    "swap-space": "nothing: retracted requests are computed again, or use --enable-hierarchical-"
    "cache",
    "tokenizer": "--tokenizer-path",
    "uvicorn-log-level": "--log-level-http",
}


@launch_rule("ENG101", "argument-unknown-to-the-engine", source=_SOURCE)
def argument_unknown_to_the_engine(launch: Launch) -> Iterator[Finding]:
    """An argument that this release does not have: the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {cuda-graph-max-bs-prefilled: 8}}

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --nsa-decode-backend trtllm

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {cuda-graph-max-bs-decode: 8}}

    Good:
        # engine: 0.5.9
        sglang serve --model-path m --nsa-decode-backend trtllm
    """
    if launch.engine.released:
        yield from _unknown(launch)


@launch_rule("ENG102", "value-the-engine-refuses", source=_SOURCE)
def value_the_engine_refuses(launch: Launch) -> Iterator[Finding]:
    """A value of the wrong type, or not among the choices: the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {moe-runner-backend: huming}}

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --max-running-requests many

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running-requests: 1}}
    """
    if launch.engine.released:
        yield from _unfit(launch)


@launch_rule("ENG103", "argument-deprecated-in-the-engine", severity="warning", source=_SOURCE)
def argument_deprecated_in_the_engine(launch: Launch) -> Iterator[Finding]:
    """An argument that the engine accepts with a warning and will drop in a later release.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {enable-dp-attention: true}}

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {attn-dp-size: 1}}
    """
    for option in launch.options():
        flag = option.flag
        if flag is not None and flag.deprecated is not None and not flag.refused:
            instead = flag.deprecated
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} is deprecated in {launch.engine.name}",
                f"use {instead}" if instead else f"remove {option.name}: nothing replaces it",
                _renaming(option, flag.deprecated, launch.catalogue, flag),
            )


@launch_rule("ENG104", "argument-is-an-abbreviation", severity="warning", source=_ARGPARSE)
def argument_is_an_abbreviation(launch: Launch) -> Iterator[Finding]:
    """A name that is short for one option of this release. The next release may add an option
    that begins alike, and then the server refuses to start.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running: 1}}

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --tp 8

    Good:
        extends: muse-spark-open-gb300x8
        extra: {args: {max-running-requests: 1}}
    """
    for option in launch.options():
        found = option.resolution
        if found is not None and found.kind == "prefix":
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} is accepted only as short for --{found.names[0]}",
                f"write {found.names[0]}",
                Fix(option.name, found.names[0]),
            )


@launch_rule("ENG001", "engine-without-a-catalogue", severity="info", source="the engine entry")
def engine_without_a_catalogue(launch: Launch) -> Iterator[Finding]:
    """Nobody knows which arguments and variables this build reads, so none is checked.

    Bad:
        extends: ling-3.0-flash-spark-baseline

    Good:
        extends: ling-3.0-flash-spark-baseline
        engine: {overrides: {base: {release: 0.5.23}}}
    """
    engine = launch.engine
    if launch.catalogue is None:
        release = engine.version if engine.released else engine.base.release
        fact = f"there is no catalogue of sglang {release}" if release else "its base is unknown"
        yield Finding(
            ("engine",),
            f"names and values of arguments and variables of {engine.name} are not checked: {fact}",
            "set base.release in the engine entry where it is known",
        )


@launch_rule("ENG105", "argument-unknown-to-the-base-release", severity="warning", source=_SOURCE)
def argument_unknown_to_the_base_release(launch: Launch) -> Iterator[Finding]:
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
    if not launch.engine.released:
        yield from _unknown(launch)
        yield from _ambiguous(launch)
        yield from _unfit(launch)


@launch_rule("ENG106", "argument-given-again", severity="warning", source=_ARGPARSE)
def argument_given_again(launch: Launch) -> Iterator[Finding]:
    """An argument that stands on the command line again, under whatever spelling: the last
    counts, and the others are without effect.

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --tp-size 4 --tensor-parallel-size 8

    Good:
        # engine: 0.5.23
        sglang serve --model-path m --tp-size 8
    """
    for option in launch.options():
        last = launch.option(option.canonical)
        if last is None or last is option or option.canonical == "help":
            continue
        same = option.values == last.values
        yield Finding(
            launch.path(option),
            launch.said(option)
            + (" is given twice" if same else f" has no effect: --{last.name} comes later"),
            "remove one of them",
        )


@launch_rule("ENG107", "argument-of-another-engine", source=_OTHERS)
def argument_of_another_engine(launch: Launch) -> Iterator[Finding]:
    """An argument of vLLM, which this engine does not have: the server refuses to start.

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --max-model-len 131072 --gpu-memory-utilization 0.85

    Good:
        # engine: 0.5.23
        sglang serve --model-path m --context-length 131072 --mem-fraction-static 0.80
    """
    for error in launch.parsed.errors:
        instead = _elsewhere(error)
        if instead is not None:
            yield Finding(
                _place(launch, error),
                f"{_said(launch, error)} is an argument of vLLM; sglang "
                f"{_version(launch)} does not have it",
                f"remove it; {instead.removeprefix('nothing: ')}"
                if instead.startswith("nothing: ")
                else f"use {instead}",
            )


@launch_rule("ENG108", "argument-missing", source=_SOURCE)
def argument_missing(launch: Launch) -> Iterator[Finding]:
    """An argument without which the engine's parser refuses the command line.

    Bad:
        # engine: 0.5.23
        python3 -m sglang.launch_server --port 30000

    Good:
        # engine: 0.5.23
        python3 -m sglang.launch_server --model-path m --port 30000
    """
    for error in launch.parsed.errors:
        if error.kind == "required":
            place = ("missing", error.name)
            yield Finding(place, f"--{error.name} is missing", f"give --{error.name}")


@launch_rule("ENG109", "argument-is-ambiguous", source=_ARGPARSE)
def argument_is_ambiguous(launch: Launch) -> Iterator[Finding]:
    """A name that several options begin with: the server refuses to start. Often an option that
    was removed, and whose name lives on in the names of its successors.

    Bad:
        # engine: 0.5.23
        sglang serve --model-path m --cuda-graph-max-bs 64

    Good:
        # engine: 0.5.19
        sglang serve --model-path m --cuda-graph-max-bs 64
    """
    if launch.engine.released:
        yield from _ambiguous(launch)


@launch_rule("ENG110", "entry-unknown-to-the-engine", source=_SOURCE)
def entry_unknown_to_the_engine(launch: Launch) -> Iterator[Finding]:
    """`sglang serve` came with 0.5.5: an earlier release has no such command.

    Bad:
        # engine: 0.5.3
        sglang serve --model-path m

    Good:
        # engine: 0.5.3
        python3 -m sglang.launch_server --model-path m
    """
    known = launch.catalogue
    if launch.serve and known is not None and not known.entry.serve:
        yield Finding(
            (),
            f"sglang {known.version} has no command `sglang serve`",
            "start it with python3 -m sglang.launch_server",
        )


def _ambiguous(launch: Launch) -> Iterator[Finding]:
    for error in launch.parsed.errors:
        if error.kind == "ambiguous":
            remedy, fix = _remedy(launch, error)
            fact = f"{_said(launch, error)} {error.fact} of sglang {_version(launch)}"
            yield Finding(_place(launch, error), fact, remedy, fix)


def _unknown(launch: Launch) -> Iterator[Finding]:
    for error in launch.parsed.errors:
        if error.kind == "refused":
            why = _sentence(error.flag.deprecated or "") if error.flag else ""
            fact = f"{_said(launch, error)} is refused by sglang {_version(launch)}"
            remedy = f"remove {error.name}" + (f"; the engine says: {why}" if why else "")
            yield Finding(_place(launch, error), fact, remedy)
        elif error.kind == "unknown" and _elsewhere(error) is None:
            version = f"sglang {_version(launch)}"
            if _is_option(launch, error):
                fact = f"{_said(launch, error)} is unknown to {version}"
                remedy, fix = _remedy(launch, error)
            else:
                fact = f"{error.name!r} {error.fact}"
                remedy, fix = _stray_remedy(launch, error), None
            yield Finding(_place(launch, error), fact, remedy, fix)


def _stray_remedy(launch: Launch, error: ArgvError) -> str:
    if launch.serve and error.index == 0:
        return f"write --model-path {error.name}"
    return "remove it, or write the option it is for before it"


def _unfit(launch: Launch) -> Iterator[Finding]:
    for error in launch.parsed.errors:
        if error.kind in ("value", "choice", "count"):
            fact = f"{_said(launch, error)} {error.fact}"
            yield Finding(_place(launch, error), fact, _fitting(error))


def _fitting(error: ArgvError) -> str:
    """What to write instead of a value that does not fit."""
    flag = error.flag
    if error.kind == "choice" and flag is not None and error.value is not None:
        longer = [choice for choice in flag.choices if choice.startswith(f"{error.value}_")]
        near = (
            f"did you mean {' or '.join(map(repr, longer[:2]))}?"
            if longer
            else did_you_mean(error.value, flag.choices)
        )
        return f"{near} (choices: {_list(flag.choices)})"
    if error.kind == "value" and flag is not None:
        return f"give {error.fact.removeprefix('takes ').partition(', not')[0]}"
    return "remove the value" if flag is not None and flag.type is None else "give it as many"


def _place(launch: Launch, error: ArgvError) -> tuple[str | int, ...]:
    return launch.words[error.index].path if error.index is not None else ()


def _said(launch: Launch, error: ArgvError) -> str:
    """The option of an error as a message names it: with its spelling and who set it."""
    origin = launch.words[error.index].origin if error.index is not None else ""
    name = error.name if error.name.startswith("-") else f"--{error.name}"
    return f"{name} (from {origin})" if origin else name


def _is_option(launch: Launch, error: ArgvError) -> bool:
    return error.index is not None and launch.words[error.index].text.startswith("-")


def _version(launch: Launch) -> str:
    known = launch.catalogue
    return known.version if known else launch.engine.version


def _elsewhere(error: ArgvError) -> str | None:
    """What to use instead of an option of another engine; None when it is none."""
    return _ELSEWHERE.get(error.name.replace("_", "-")) if error.kind == "unknown" else None


def _renaming(
    option: Option, instead: str | None, known: Catalogue | None, old: Flag | None
) -> Fix | None:
    """A change of the name alone, where the successor takes the same values."""
    name = (instead or "").removeprefix("--")
    new = known.flags.get(name) if known else None
    if new is None or (old is not None and (new.type, new.nargs) != (old.type, old.nargs)):
        return None
    values = [] if new.type is None else list(option.values)
    return Fix(option.name, name) if new.type is None or not value_error(new, values) else None


def _remedy(launch: Launch, error: ArgvError) -> tuple[str, Fix | None]:
    """What replaced it, as an older release says; or where it exists; or what is spelled alike."""
    name, known = error.name, launch.catalogue
    assert known is not None
    option = next(o for o in launch.options() if o.index == error.index)
    spans = versions_with("flags", name)
    last = load_catalogue(spans.rpartition(" ")[2]) if spans else None
    before = last.flag(name) if last else None
    if before is not None and before.deprecated:
        fix = _renaming(option, before.deprecated, known, before)
        said = before.deprecated
        use = f"use {said}" if before.replaced else f"the engine said: {_sentence(said)}"
        return f"{use}; {name} is known in {spans} only", fix
    dashed = name.replace("_", "-")
    if dashed in known.flags:
        return f"write {dashed}", _renaming(option, dashed, known, None)
    # Many names share words, so only much likeness means anything.
    near = difflib.get_close_matches(dashed, known.flags, n=2, cutoff=0.8)
    meant = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
    if spans:
        return f"it is known in {spans} only" + (f"; {meant}" if meant else ""), None
    return meant or "remove it", None


def _sentence(said: str) -> str:
    return said.removeprefix("NOTE: ").strip().rstrip(".")


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
