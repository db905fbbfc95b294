"""From a process that a file starts to the launches of the engine in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from configurator.errors import Problem
from configurator.readers import docker, inside
from configurator.readers.options import Words, options, split_options
from configurator.readers.pieces import Places
from configurator.readers.reading import Invocations
from configurator.readers.splitting import split_words
from configurator.readers.wrappers import ENTER, ENTRY, program_name, unwrap
from configurator.words import Command, Invocation, Setting, Span, Word, joined

_LIMIT = 10
"""Scripts in scripts."""
_WRAPPERS = 40
"""Wrappers around one program."""
_CONTAINERS = docker.PROGRAMS | inside.PROGRAMS
_SHELLS = frozenset({"bash", "sh", "dash", "ash", "zsh", "ksh", "rbash", "busybox"})
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "ray", "mpirun_rsh"})
_PARALLEL = ("torch.distributed.run", "torch.distributed.launch", "sglang_router.launch_server")
_DYNAMO = "dynamo.sglang"
_SHELL_OPTIONS = options("-o +o -O +O --rcfile --init-file")


_ASSUMED = ("starts the words it gets", "starts the words after it")
"""How conditions end that leave open which program gets the words."""


class ScriptRunner(Protocol):
    """How the processes of a script are found, for the text after `bash -c`."""

    def __call__(
        self, script: Word, given: Mapping[str, str], env: Mapping[str, Setting]
    ) -> Invocations: ...


Result = tuple[tuple[Command, ...], tuple[Problem, ...]]
_NOTHING: Result = ((), ())


@dataclass(frozen=True, slots=True)
class _Around:
    run: ScriptRunner
    given: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    depth: int = 0


def commands_of(
    invocation: Invocation,
    run: ScriptRunner,
    given: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Result:
    """The launches of the engine that a process leads to, and what could not be resolved.

    `given` are values of variables that the caller has; `folder` is where files of variables are
    looked for. Programs that have nothing to do with an engine give nothing.
    """
    return _commands(invocation, _Around(run, given or {}, folder))


def _commands(invocation: Invocation, around: _Around) -> Result:
    lost: list[Setting] = []
    for _ in range(_WRAPPERS):
        if not invocation.words:
            return _NOTHING
        inner = _skip_unknown(invocation) or unwrap(invocation)
        if inner is None:
            break
        if program_name(invocation.words[0]) == "sudo":
            lost += [one for name, one in invocation.env.items() if name not in inner.env]
        invocation = inner
    commands, problems = _program(invocation, around)
    return commands, (*problems, *_lost(lost, commands, invocation))


def _lost(
    lost: list[Setting], commands: tuple[Command, ...], invocation: Invocation
) -> tuple[Problem, ...]:
    """What is said of variables that sudo takes away from the engine."""
    boxed = program_name(invocation.words[0]) in _CONTAINERS
    lost = [one for one in lost if any(_missed(one.name, each, boxed) for each in commands)]
    if not commands or not lost:
        return ()
    names = ",".join(one.name for one in lost[:5])
    more = f" and {len(lost) - 1} more are" if len(lost) > 1 else " is"
    message = f"{lost[0].name}{more} set here, but sudo starts the engine without"
    remedy = f"use `sudo -E`, or `sudo --preserve-env={names}`"
    return (Problem("LNT008", message, remedy, lost[0].position),)


def _missed(name: str, command: Command, boxed: bool) -> bool:
    """A container has of its caller's variables only those that are handed on by name."""
    if not boxed and command.image is None:
        return True
    handed_on = command.env.get(name)
    return handed_on is not None and handed_on.value is None


def _program(invocation: Invocation, around: _Around) -> Result:
    words = invocation.words
    name = program_name(words[0])
    if name in _CONTAINERS:
        return _container(invocation, around)
    if name in _SHELLS:
        return _shell(invocation, around)
    if _PYTHON.fullmatch(name):
        return _python(invocation, words[1:])
    if name == "sglang":
        return _serve(invocation, words[1:])
    if name == "vllm":
        return (), _vllm(words[0]) if len(words) > 1 and words[1].text == "serve" else ()
    if name in _LAUNCHERS and any(word.text.startswith("sglang.") for word in words):
        return (), (_launcher(words[0], name),)
    if name == "launch_server.py":
        return _found(invocation, words[1:], "launch_server")
    return _one_word(invocation, around)


def _one_word(invocation: Invocation, around: _Around) -> Result:
    """A whole command as one word, which no program is called."""
    first, *rest = invocation.words
    guessed = any(one.endswith(_ASSUMED) for one in invocation.conditions)
    if len(first.text.split()) < 2 or guessed or around.depth >= _LIMIT:
        return _NOTHING
    meant = replace(invocation, words=(*split_words(first).words, *rest))
    commands, problems = _commands(meant, replace(around, depth=around.depth + 1))
    if not commands:
        return _NOTHING
    message = f"`{' '.join(first.text.split()[:3])} ...` is one word, so no program has that name"
    remedy = 'write each word as one of its own, or start it through "bash", "-c"'
    return commands, (Problem("LNT011", message, remedy, first.position), *problems)


def _skip_unknown(invocation: Invocation) -> Invocation | None:
    """A first word that nobody knows, such as `$NUMA`: taken for a wrapper or an interpreter."""
    first, *rest = invocation.words
    if not first.unknown or len(rest) < 2 or "$" not in first.text:
        return None
    if rest[0].text == "-m" or rest[0].text.endswith("launch_server.py"):
        words = (replace(first, text="python", unknown=False, spans=first.spans[:1]), *rest)
        assumed = f"{first.text} is a Python interpreter"
    else:
        words, assumed = tuple(rest), f"{first.text} is empty, or starts the words after it"
    conditions = (*invocation.conditions, assumed)
    return replace(invocation, words=words, conditions=conditions)


def _found(invocation: Invocation, argv: Words, entry: str) -> Result:
    command = Command(
        argv,
        invocation.env,
        invocation.words[0].position,
        entry,
        invocation.image,
        invocation.conditions,
    )
    return (command,), ()


def _serve(invocation: Invocation, rest: Words) -> Result:
    if not rest or rest[0].text != "serve":
        return _NOTHING
    return _found(invocation, rest[1:], "serve")


def _python(invocation: Invocation, words: Words) -> Result:
    module, rest = _module(words)
    if module is not None:
        name = module.text
        if name == "sglang.launch_server":
            return _found(invocation, rest, "launch_server")
        if name in ("sglang.cli.main", "sglang"):
            return _serve(invocation, rest)
        if name == _DYNAMO:
            return (), _foreign(module)
        if name.split(".")[0] == "vllm" and (name != "vllm" or rest[:1]):
            return (), _vllm(module)
        if name in _PARALLEL and any("sglang" in word.text for word in (module, *rest)):
            return (), (_launcher(module, name),)
        return _NOTHING
    if not rest:
        return _NOTHING
    script = program_name(rest[0])
    if script == "launch_server.py":
        return _found(invocation, rest[1:], "launch_server")
    if script == ENTER:
        return _worker(unwrap(replace(invocation, words=rest)) or invocation)
    if script in ("sglang", "vllm", "torchrun"):
        return _program(replace(invocation, words=rest), _Around(_no_script))
    return _NOTHING


def _worker(invocation: Invocation) -> Result:
    """What our own manifest gives a worker of Dynamo: the engine's words, and no others."""
    words = invocation.words
    if not words or not _PYTHON.fullmatch(program_name(words[0])):
        return _NOTHING
    module, rest = _module(words[1:])
    if module is None or module.text != _DYNAMO:
        return _NOTHING
    return _found(invocation, rest, "launch_server")


def _no_script(
    script: Word, given: Mapping[str, str], env: Mapping[str, Setting]
) -> Invocations:  # pragma: no cover - a Python script starts no shell
    return Invocations()


def _module(words: Words) -> tuple[Word | None, Words]:
    """The module of `-m` and the words after it; without -m, the script and the words after it."""
    index = 0
    while index < len(words):
        text = words[index].text
        if not text.startswith("-") or text == "-":
            return None, words[index:]
        if text.startswith("--"):
            index += 2 if text == "--check-hash-based-pycs" else 1
            continue
        for at, letter in enumerate(text[1:], 1):
            attached = at + 1 < len(text)
            if letter == "c":
                return None, ()
            if letter == "m":
                if attached:
                    return words[index].part(at + 1), words[index + 1 :]
                return (words[index + 1], words[index + 2 :]) if words[index + 1 :] else (None, ())
            if letter in "WX":
                index += 0 if attached else 1
                break
        index += 1
    return None, ()


def _container(invocation: Invocation, around: _Around) -> Result:
    known = inside if program_name(invocation.words[0]) in inside.PROGRAMS else docker
    within = known.contained(invocation, around.given, around.folder)
    if within is None or around.depth >= _LIMIT:
        return _NOTHING
    inner = replace(around, given=within.given, depth=around.depth + 1)
    commands, problems = _commands(within.invocation, inner)
    about = within.problems if commands else tuple(p for p in within.problems if p.code != "LNT004")
    return commands, about + problems


def _shell(invocation: Invocation, around: _Around) -> Result:
    words = invocation.words[1:]
    if program_name(invocation.words[0]) == "busybox":
        words = words[1:]
    found, rest = split_options(words, _SHELL_OPTIONS)
    if not rest or "-c" not in [name for name, _ in found]:
        started = bool(rest) and program_name(rest[0]) == ENTRY
        return _commands(replace(invocation, words=rest), around) if started else _NOTHING
    if around.depth >= _LIMIT:
        message = f"more than {_LIMIT} scripts in scripts"
        return (), (Problem("LNT003", message, "start the engine directly", rest[0].position),)
    script = _with_arguments(rest[0], rest[2:])
    inner = around.run(script, around.given, invocation.env)
    commands: list[Command] = []
    problems = list(inner.problems)
    for one in inner.found:
        conditions = (*invocation.conditions, *one.conditions)
        whole = replace(one, conditions=conditions, image=one.image or invocation.image)
        more, about = _commands(whole, replace(around, depth=around.depth + 1))
        commands += more
        problems += about
    if not commands and not problems:
        return _scattered(invocation, rest, around)
    if commands and "$" not in rest[0].text:
        problems += _left_out(program_name(invocation.words[0]), rest[1:])
    return tuple(commands), tuple(problems)


def _left_out(shell: str, arguments: Words) -> tuple[Problem, ...]:
    """Options after a script that takes no arguments."""
    for word in arguments:
        if word.text.startswith("--") and word.text != "--":
            message = f"{word.text} and what follows never reach the engine: they stand after the "
            message += f"script of {shell} -c"
            remedy = "write them inside the script"
            return (Problem("LNT010", message, remedy, word.position),)
    return ()


def _scattered(invocation: Invocation, rest: Words, around: _Around) -> Result:
    """`bash -c` with the words of a launch one by one: only the first is its script."""
    if len(rest) < 2 or len(rest[0].text.split()) != 1:
        return _NOTHING
    meant = replace(invocation, words=rest)
    commands, problems = _commands(meant, replace(around, depth=around.depth + 1))
    if not commands:
        return _NOTHING
    shell = program_name(invocation.words[0])
    message = (
        f"{shell} -c runs `{rest[0].text}` alone: the words after it are no part of its script"
    )
    remedy = f"give the whole line as one word, or leave {shell} -c out"
    return commands, (Problem("LNT012", message, remedy, rest[0].position), *problems)


def _with_arguments(script: Word, arguments: Words) -> Word:
    """`bash -c TEXT NAME A B` is TEXT after `set -- A B`."""
    if not arguments:
        return script
    parts = [Word.at("set --", script.position)]
    for word in arguments:
        parts += [_text(" '", word), *_quoted(word), _text("'", word)]
    return joined([*parts, _text("\n", script), script])


def _text(text: str, beside: Word) -> Word:
    return Word(text, (Span(0, beside.position),))


def _quoted(word: Word) -> list[Word]:
    places, parts, at = Places(word), [], 0
    for match in re.finditer("'", word.text):
        parts += [places.piece(at, match.start()), _text("'\\''", word)]
        at = match.end()
    return [*parts, places.piece(at, len(word.text))]


def _vllm(word: Word) -> tuple[Problem, ...]:
    return (
        Problem(
            "LNT006",
            "this launches vLLM, not SGLang",
            "replace the program by `sglang serve` and its equivalents are checked",
            word.position,
        ),
    )


def _foreign(word: Word) -> tuple[Problem, ...]:
    return (
        Problem(
            "LNT007",
            "this is a worker of NVIDIA Dynamo, whose options stand among the engine's: not read",
            "give the engine's own as --argv-json, or a manifest of `render --target dynamo`",
            word.position,
        ),
    )


def _launcher(word: Word, name: str) -> Problem:
    return Problem(
        "LNT007",
        f"{name} starts several processes of its own; what each one gets is not read",
        "start the engine itself: `sglang serve` starts its own ranks (--tp, --dp, --nnodes)",
        word.position,
    )
