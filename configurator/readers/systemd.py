"""systemd units: `ExecStart=` with the quoting, variables and specifiers of systemd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from configurator.errors import Position, Problem
from configurator.readers.envfiles import read_env_file
from configurator.readers.pieces import Budget, Builder
from configurator.readers.processes import Result, ScriptRunner, commands_of
from configurator.readers.unitwords import specifiers, unquoted
from configurator.words import Command, Invocation, Setting, Span, Word, joined

_KEY = re.compile(r"\s*([A-Za-z]+)\s*=[ \t]*")
_PREFIXES = "-@:+!|"
_BRACED = re.compile(r"\$(?:\{([^}]{0,300})\}|(\$))")
_SHORTEST = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(slots=True)
class _Service:
    starts: list[Word] = field(default_factory=list)
    env: dict[str, Setting] = field(default_factory=dict)
    files: list[Word] = field(default_factory=list)
    passed: dict[str, Setting] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)


def read_systemd(
    text: str, name: str, run: ScriptRunner, given: Mapping[str, str], folder: Path | None
) -> Result:
    """The launches of every `ExecStart=` that is in force, in the order of the file.

    `given` are values of variables that the unit does not set itself.
    """
    service = _Service()
    for key, value in _assignments(text, name):
        _take(service, key, value)
    env = {**service.passed, **service.env}
    for path in service.files:
        optional = path.text.startswith("-")
        found, about = read_env_file(path.part(1) if optional else path, folder, quotes=True)
        env |= found
        service.problems += about
    for variable in service.unset:
        env.pop(variable, None)
    for variable, one in env.items():
        if one.value is None and variable in given:
            env[variable] = replace(one, value=given[variable])
    return _launches(service, env, run, given, folder)


def _launches(
    service: _Service,
    env: dict[str, Setting],
    run: ScriptRunner,
    given: Mapping[str, str],
    folder: Path | None,
) -> Result:
    commands: list[Command] = []
    problems: list[Problem] = []
    for start in service.starts:
        for words in _commands_in(start, env, given, service):
            service.budget.spend(100 * len(env), start.position)
            found, about = commands_of(Invocation(words, dict(env)), run, given, folder)
            commands += found
            problems += about
    return tuple(commands), (*(service.problems if commands else ()), *problems)


def _assignments(text: str, name: str) -> Iterator[tuple[str, Word]]:
    """Keys and values of the section [Service], continued lines as one."""
    section = ""
    parts: list[Word] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        if not parts and stripped.startswith("["):
            section = stripped
            continue
        continued = line.endswith("\\")
        body = f"{line[:-1]} " if continued else line
        parts.append(Word(body, (Span(0, Position(name, number, 1)),)))
        if not continued:
            yield from _assignment(parts, section)
            parts = []
    yield from _assignment(parts, section)


def _assignment(parts: list[Word], section: str) -> Iterator[tuple[str, Word]]:
    if parts and section == "[Service]":
        whole = joined(parts)
        match = _KEY.match(whole.text)
        if match:
            yield match[1], whole.part(match.end())


def _take(service: _Service, key: str, value: Word) -> None:
    empty = not value.text.strip()
    if key == "ExecStart":
        service.starts = [] if empty else [*service.starts, value]
    elif key == "Environment":
        if empty:
            service.env.clear()
        for word in unquoted(value).words:
            name, equals, text = specifiers(word).text.partition("=")
            if equals and _SHORTEST.match(name):
                known = None if specifiers(word).unknown else text
                service.env[name] = Setting(name, known, word.position)
    elif key == "EnvironmentFile":
        service.files = [] if empty else [*service.files, value.part(0, len(value.text.rstrip()))]
    elif key == "PassEnvironment":
        for word in unquoted(value).words:
            service.passed[word.text] = Setting(word.text, None, word.position)
    elif key == "UnsetEnvironment":
        service.unset |= {word.text.partition("=")[0] for word in unquoted(value).words}


def _commands_in(
    start: Word, env: Mapping[str, Setting], given: Mapping[str, str], service: _Service
) -> Iterator[tuple[Word, ...]]:
    """The command lines of one ExecStart=, which a `;` of its own divides."""
    parsed = unquoted(start)
    if parsed.wrong:
        remedy = "systemd ignores such a line: correct the quotes and backslashes"
        service.problems.append(Problem("LNT003", parsed.wrong[0], remedy, parsed.wrong[1]))
    line: list[Word] = []
    for index, word in enumerate(parsed.words):
        if index not in parsed.dividers:
            line.append(word)
        elif line:
            yield _expanded(line, env, given, service.budget)
            line = []
    if line:
        yield _expanded(line, env, given, service.budget)


def _expanded(
    line: list[Word], env: Mapping[str, Setting], given: Mapping[str, str], budget: Budget
) -> tuple[Word, ...]:
    first = line[0]
    prefixes = first.text[: len(first.text) - len(first.text.lstrip(_PREFIXES))]
    program = specifiers(first.part(len(prefixes)))
    # With @ the second word is only the name under which the program runs.
    rest = [specifiers(word) for word in line[2 if "@" in prefixes else 1 :]]
    if ":" in prefixes:
        return (program, *rest)
    words: list[Word] = [program]
    for word in rest:
        words += _variables(word, env, given, budget)
    return tuple(words)


def _variables(
    word: Word, env: Mapping[str, Setting], given: Mapping[str, str], budget: Budget
) -> tuple[Word, ...]:
    """`$NAME` as a whole word becomes words, `${NAME}` stays in its word."""
    if word.text.startswith("$") and _SHORTEST.match(word.text, 1):
        value = _value(word.text[1:], env, given)
        if value is None:
            return (replace(word, unknown=True),)
        budget.spend(64 * len(value), word.position)
        return unquoted(Word(value, tuple(Span(0, s.position) for s in word.spans[:1]))).words
    builder, at = Builder(word, budget), 0
    for match in _BRACED.finditer(word.text):
        if match.start() > at:
            builder.keep(at, match.start())
        known = "$" if match[2] else _value(match[1], env, given)
        text = match[0] if known is None else known
        builder.put(text, match.start(), unknown=known is None)
        at = match.end()
    if not at:
        return (word,)
    if at < len(word.text):
        builder.keep(at, len(word.text))
    done = builder.finish()
    return (replace(done, unknown=done.unknown or word.unknown),)


def _value(name: str, env: Mapping[str, Setting], given: Mapping[str, str]) -> str | None:
    """What the variable holds; None when only the running system knows."""
    return env[name].value if name in env else given.get(name)
