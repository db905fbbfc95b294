"""Launches given as a list of words: an argument vector, from a program or in JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from configurator.errors import ConfiguratorError, Position, Problem
from configurator.readers.jsonwords import Fields, Items, JsonWords, Other
from configurator.readers.placeholders import is_placeholder
from configurator.readers.processes import ScriptRunner, commands_of
from configurator.words import Command, Invocation, Setting, Word

_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*(?::?[-+?=][^}]*)?\}|\$\([A-Za-z_]\w*\)")
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
    for value, _ in JsonWords(source).values():
        for item in value if isinstance(value, Items) else [value]:
            if not isinstance(item, Fields):
                raise _shape("an object with `argv` is missing here", item.position)
            found, about = _launches(item, run)
            commands += found
            problems += about
    return tuple(commands), tuple(problems)


def _launches(item: Fields, run: ScriptRunner) -> tuple[tuple[Command, ...], tuple[Problem, ...]]:
    argv, env = _argv(item), _env(item)
    place = argv[0].position if argv else item.position
    found, about = argv_command(argv, env, place, run)
    if found or about:
        return found, about
    message = f"this argv starts no engine: its program is {argv[0].text[:40]!r}"
    remedy = "begin it with `python3 -m sglang.launch_server`, `sglang serve` or the options"
    return (), (Problem("LNT005", message, remedy, place),)


def _argv(item: Fields) -> tuple[Word, ...]:
    argv = item.get("argv")
    if argv is None:
        raise _shape("`argv` is missing here", item.position)
    if not isinstance(argv, Items):
        raise _shape("`argv` is not a list of strings", argv.position)
    for word in argv:
        if not isinstance(word, Word):
            raise _shape(f"argv holds {_named(word)}, which is not a string", word.position)
        _check_nul(word)
    return tuple(replace(w, unknown=w.unknown or _is_open(w.text)) for w in argv)


def _is_open(text: str) -> bool:
    return _PLACEHOLDER.search(text) is not None or is_placeholder(text)


def _env(item: Fields) -> dict[str, Setting]:
    fields = item.get("env")
    if fields is None or (isinstance(fields, Other) and fields.value is None):
        return {}
    if not isinstance(fields, Fields):
        raise _shape("`env` is not an object", fields.position)
    env: dict[str, Setting] = {}
    for name, one in fields.items():
        place = fields.keys_at[name]
        if not name or "=" in name or "\0" in name:
            shown = name.partition("=")[0][:40] + ("=..." if "=" in name else "")
            raise _shape(f"{shown!r} is no name of a variable", place)
        if isinstance(one, Word):
            _check_nul(one)
            known = None if is_placeholder(one.text) else one.text
            env[name] = Setting(name, known, one.position)
        elif isinstance(one, Other) and one.value is None:
            env[name] = Setting(name, None, one.position)
        else:
            raise _shape(f"the value of {name} in `env` is not a string", one.position)
    return env


def _named(value: Items | Fields | Other) -> str:
    if isinstance(value, Other):
        return value.text[:40]
    return "a list" if isinstance(value, Items) else "an object"


def _check_nul(word: Word) -> None:
    if "\0" in word.text:
        raise _shape(
            "a string holds a NUL character, which no program can receive",
            word.position_at(word.text.index("\0")),
        )


def _shape(message: str, place: Position) -> ConfiguratorError:
    return ConfiguratorError.single("LNT003", message, _REMEDY, place)
