"""Dockerfiles: what the image of the last stage starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from configurator.errors import ConfiguratorError, Position
from configurator.readers.docker import started_in
from configurator.readers.interpolation import interpolate
from configurator.readers.jsonwords import JsonWords
from configurator.readers.pieces import Budget
from configurator.readers.processes import Result, ScriptRunner, commands_of
from configurator.readers.splitting import split_words
from configurator.readers.wrappers import setting
from configurator.words import Invocation, Setting, Span, Word, joined

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+")
_HEREDOC = re.compile(r"<<-?([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
_PAIR = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class _Stage:
    image: Word | None = None
    env: dict[str, Setting] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """Of arguments and variables; variables win."""
    entrypoint: tuple[Word, ...] | None = None
    command: tuple[Word, ...] = ()


def read_dockerfile(
    text: str, name: str, run: ScriptRunner, given: Mapping[str, str], folder: Path | None
) -> Result:
    """The launch of the image that the last stage builds: ENTRYPOINT and CMD, with its ENV.

    `given` are values of build arguments.
    """
    stages: dict[str, _Stage] = {}
    stage, key, known, budget = _Stage(), "", dict(given), Budget()
    for instruction, value in _instructions(text, name):
        if instruction == "FROM":
            key, stage = _begin(value, stages, known)
            budget.spend(100 * len(stage.env) + 100, value.position)
        stage = _take(stage, instruction, value, given, budget)
        if key:
            stages[key] = stage
        else:
            known |= stage.values
    started, problems = started_in(
        stage.image, stage.entrypoint, stage.command, Invocation((), stage.env)
    )
    commands, about = commands_of(started, run, given, folder)
    return commands, (*problems, *about)


def _begin(
    value: Word, stages: Mapping[str, _Stage], known: Mapping[str, str]
) -> tuple[str, _Stage]:
    """The name of a stage, and what it has of the stage or image that it begins with."""
    words = [word for word in split_words(value).words if not word.text.startswith("--")]
    image = interpolate(words[0], known).word if words else value
    name = words[2].text.lower() if len(words) > 2 else str(len(stages))
    base = stages.get(image.text.lower())
    if base is None:
        return name, _Stage(image)
    values = {one.name: one.value for one in base.env.values() if one.value is not None}
    return name, replace(base, env=dict(base.env), values=values)


def _take(
    stage: _Stage, instruction: str, value: Word, given: Mapping[str, str], budget: Budget
) -> _Stage:
    if instruction == "ENV":
        for pair in _pairs(value):
            found = setting(interpolate(pair, stage.values, budget).word)
            if found:
                stage.env[found.name] = found
                if found.value is None:
                    stage.values.pop(found.name, None)
                else:
                    stage.values[found.name] = found.value
    elif instruction == "ARG":
        for word in split_words(value).words:
            one = setting(interpolate(word, stage.values, budget).word)
            name, default = (one.name, one.value) if one else (word.text, None)
            known = given.get(name, default)
            if known is not None and name not in stage.env:
                stage.values[name] = known
    elif instruction == "ENTRYPOINT":
        return replace(stage, entrypoint=_words(value), command=())
    elif instruction == "CMD":
        return replace(stage, command=_words(value))
    return stage


def _pairs(value: Word) -> tuple[Word, ...]:
    """`ENV A=1 B=2`, or the old `ENV NAME value with blanks`."""
    if _PAIR.match(value.text):
        return split_words(value).words
    match = re.match(r"(\S+)\s+", value.text)
    if match is None:
        return ()
    place = Span(0, value.position_at(match.end(1)))
    return (joined([value.part(0, match.end(1)), Word("=", (place,)), value.part(match.end())]),)


def _words(value: Word) -> tuple[Word, ...]:
    """A JSON list, or a line for the shell."""
    if value.text.lstrip().startswith("["):
        try:
            items = [item for item, _ in JsonWords(value).values()]
        except ConfiguratorError:
            items = []  # docker then takes the line for the shell, brackets and all
        if len(items) == 1 and all(isinstance(word, Word) for word in items[0]):
            return tuple(items[0])
    place = value.position
    return (Word.at("/bin/sh", place), Word.at("-c", place), value)


def _instructions(text: str, name: str) -> Iterator[tuple[str, Word]]:
    """Instructions with their values, continued lines as one, heredocs left out."""
    parts: list[Word] = []
    ending = ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if ending:
            ending = "" if line.strip("\t ") == ending else ending
            continue
        if line.lstrip().startswith("#") or (parts and not line.strip()):
            continue
        continued = line.rstrip().endswith("\\")
        body = line.rstrip()[:-1] if continued else line
        parts.append(Word(body, (Span(0, Position(name, number, 1)),)))
        if not continued:
            heredoc = _HEREDOC.search(line)
            ending = heredoc[2] if heredoc else ""
            yield from _instruction(parts)
            parts = []
    yield from _instruction(parts)


def _instruction(parts: list[Word]) -> Iterator[tuple[str, Word]]:
    if not parts:
        return
    whole = joined(parts)
    match = _INSTRUCTION.match(whole.text)
    if match:
        yield match[1].upper(), whole.part(match.end(), len(whole.text.rstrip()))
