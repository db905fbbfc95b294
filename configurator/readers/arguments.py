"""Launches given as a list of words: an argument vector, from a program or in JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from configurator.errors import ConfiguratorError, Position, Problem
from configurator.readers.jsonwords import JsonWords
from configurator.readers.processes import ScriptRunner, commands_of
from configurator.words import Command, Invocation, Setting, Word

_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*\}|\$\([A-Za-z_]\w*\)")
"""A template that nobody has filled in yet."""
_REMEDY = 'write {"argv": ["--model-path", "..."], "env": {"NAME": "value"}}'


def argv_command(
    words: tuple[Word, ...], env: dict[str, Setting], position: Position, run: ScriptRunner
) -> tuple[tuple[Command, ...], tuple[Problem, ...]]:
    """The launches of an argument vector that begins with the program, or with the options."""
    if not words or words[0].text.startswith("-"):
        return (Command(words, env, position),), ()
    return commands_of(Invocation(words, env), run)


def words_of(argv: Sequence[str], name: str) -> tuple[Word, ...]:
    """Words that stand beside each other on one line."""
    words: list[Word] = []
    column = 1
    for text in argv:
        words.append(Word.at(text, Position(name, 1, column)))
        column += len(text) + 1
    return tuple(words)


def json_commands(
    text: str, name: str, run: ScriptRunner
) -> tuple[tuple[Command, ...], tuple[Problem, ...]]:
    """The launches of JSON: one object, a list of objects, or one object a line.

    Raises:
        ConfiguratorError: LNT003, not JSON, or not of that shape.
    """
    commands: list[Command] = []
    problems: list[Problem] = []
    source = Word.at(text, Position(name, 1, 1))
    for value, place in JsonWords(source).values():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise _shape("an object with `argv` is missing here", place)
            argv = _argv(item, place)
            env = _env(item.get("env"), place)
            found, about = argv_command(argv, env, argv[0].position if argv else place, run)
            commands += found
            problems += about
    return tuple(commands), tuple(problems)


def _argv(item: Mapping[str, Any], place: Position) -> tuple[Word, ...]:
    argv = item.get("argv")
    if not isinstance(argv, list):
        raise _shape("`argv` is not a list of strings", place)
    for word in argv:
        if not isinstance(word, Word):
            raise _shape(f"argv holds {word!r:.40}, which is not a string", place)
    return tuple(replace(w, unknown=w.unknown or bool(_PLACEHOLDER.search(w.text))) for w in argv)


def _env(value: Any, place: Position) -> dict[str, Setting]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _shape("`env` is not an object", place)
    env: dict[str, Setting] = {}
    for name, one in value.items():
        if isinstance(one, Word):
            env[name] = Setting(name, one.text, one.position)
        elif one is None:
            env[name] = Setting(name, None, place)
        else:
            raise _shape(f"the value of {name} in `env` is not a string", place)
    return env


def _shape(message: str, place: Position) -> ConfiguratorError:
    return ConfiguratorError.single("LNT003", message, _REMEDY, place)
