"""docker compose files: the services that launch the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from configurator.errors import Problem
from configurator.readers.docker import started_in
from configurator.readers.envfiles import parse_env, read_env_file
from configurator.readers.interpolation import interpolate
from configurator.readers.placeholders import placeholders
from configurator.readers.processes import Result, ScriptRunner, commands_of
from configurator.readers.scalars import kind_of, printed_anew
from configurator.readers.splitting import split_words
from configurator.readers.wrappers import setting
from configurator.readers.yamlwords import Documents, is_null
from configurator.regular import read_regular
from configurator.words import Command, Invocation, Setting, Word

_MAX_EXTENDS = 10
_MAX_ENV_FILE = 256 << 10


@dataclass(frozen=True, slots=True)
class _File:
    documents: Documents
    services: Mapping[str, tuple[yaml.Node, yaml.Node]]
    run: ScriptRunner
    values: Mapping[str, str]
    folder: Path | None


def read_compose(
    documents: Documents, run: ScriptRunner, given: Mapping[str, str], folder: Path | None
) -> Result:
    """The launches of every service, in the order of the file.

    `given` are the variables of whoever calls compose; a file `.env` in `folder` fills the rest.
    """
    values = {**_defaults(folder), **given}
    commands: list[Command] = []
    problems: list[Problem] = []
    for root in documents.roots:
        services = documents.mapping(documents.get(root, "services"))
        file = _File(documents, services, run, values, folder)
        for _, service in services.values():
            found, about = _service(file, service)
            commands += found
            problems += about
    return tuple(commands), tuple(problems)


def _defaults(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {}
    try:
        path = folder / ".env"
        text = read_regular(path, _MAX_ENV_FILE).decode("utf-8-sig")
        settings = parse_env(text, str(path), quotes=True)
    except (OSError, UnicodeDecodeError):
        return {}
    return {name: one.value for name, one in settings.items() if one.value is not None}


def _service(file: _File, service: yaml.Node) -> Result:
    problems: list[Problem] = []
    keys = dict(_inherited(file, service, problems))
    command = _words(file, keys.get("command"), problems)
    entrypoint = _words(file, keys.get("entrypoint"), problems)
    image = _image(file, keys)
    env = _environment(file, keys, problems)
    if not command and not entrypoint:
        return (), ()
    started, unclear = started_in(image, entrypoint, command or (), Invocation((), env))
    commands, about = commands_of(started, file.run, file.values, file.folder)
    # What a service that does not launch the engine leaves open is of no interest.
    own = problems if commands else []
    return commands, (*own, *unclear, *about)


def _inherited(
    file: _File, service: yaml.Node, problems: list[Problem], depth: int = 0
) -> Iterator[tuple[str, list[yaml.Node]]]:
    """Keys with their values, those of `extends` first."""
    documents = file.documents
    merged: dict[str, list[yaml.Node]] = {}
    extends = documents.get(service, "extends")
    if extends is not None and depth < _MAX_EXTENDS:
        name = documents.text_of(service, "extends", "service") or documents.text_of(
            service, "extends"
        )
        base = file.services.get(name)
        if documents.get(extends, "file") is not None or base is None:
            problems.append(
                Problem(
                    "LNT004",
                    f"the service that `extends` names ({name or 'nothing'}) is not in this file",
                    "read the output of `docker compose config` instead",
                    documents.position(extends),
                )
            )
        else:
            merged = dict(_inherited(file, base[1], problems, depth + 1))
    for key, (_, value) in documents.mapping(service).items():
        merged[key] = [*merged.get(key, []), value]
    yield from merged.items()


def _image(file: _File, keys: Mapping[str, list[yaml.Node]]) -> Word | None:
    nodes = keys.get("image") or []
    word = file.documents.word(nodes[-1]) if nodes else None
    return interpolate(word, file.values, file.documents.budget).word if word else None


def _words(
    file: _File, nodes: list[yaml.Node] | None, problems: list[Problem]
) -> tuple[Word, ...] | None:
    """A command as a list, or as a string that compose splits; None when there is none."""
    if not nodes or is_null(nodes[-1]):
        return None
    node = nodes[-1]
    line = file.documents.word(node)
    if line is None or file.documents.is_template(node):
        words = file.documents.words(node)
        for item in node.value if isinstance(node, yaml.SequenceNode) else ():
            _refuse(file, item, problems)
        return tuple(_interpolated(file, word, problems) for word in words)
    done = interpolate(line, file.values, file.documents.budget)
    _complain(file, line, done.invalid, problems)
    split = split_words(done.word, {**placeholders(done.word.text), **done.unknown})
    if split.unclosed:
        message = "a quote in this command is never closed: compose refuses the file"
        problems.append(Problem("LNT003", message, "close the quote", split.unclosed))
    if split.dropped:
        problems.append(_operator(split.dropped))
    if split.stray:
        message = "compose runs no shell: this backslash makes an argument of the blank after it"
        problems.append(Problem("LNT009", message, "remove the backslash", split.stray[0]))
    return split.words


def _refuse(file: _File, node: yaml.Node, problems: list[Problem]) -> None:
    kind = kind_of(file.documents, node)
    if kind:
        message = f"an item of a command is {kind}: compose takes text and refuses the file"
        place = file.documents.position(node)
        problems.append(Problem("LNT011", message, "put it in quotes", place))


def _operator(dropped: Word) -> Problem:
    sign = dropped.text[:2] if dropped.text[:2] in ("&&", "||", ">>") else dropped.text[0]
    return Problem(
        "LNT009",
        f"compose runs no shell: everything from `{sign}` on is dropped",
        'write command: ["bash", "-c", "..."]',
        dropped.position,
    )


def _interpolated(file: _File, word: Word, problems: list[Problem]) -> Word:
    done = interpolate(word, file.values, file.documents.budget)
    _complain(file, word, done.invalid, problems)
    return done.word


def _complain(file: _File, word: Word, invalid: int | None, problems: list[Problem]) -> None:
    if invalid is not None:
        message = "compose refuses this `$`: it begins no variable"
        remedy = "write $$ for a dollar sign of the command itself"
        problems.append(Problem("LNT003", message, remedy, word.position_at(invalid)))


def _environment(
    file: _File, keys: Mapping[str, list[yaml.Node]], problems: list[Problem]
) -> dict[str, Setting]:
    env: dict[str, Setting] = {}
    for node in keys.get("env_file") or []:
        for path in _paths(file, node):
            found, about = read_env_file(path, file.folder, quotes=True)
            file.documents.budget.spend(100 * len(found), path.position)
            env |= found
            problems += about
    for node in keys.get("environment") or []:
        env |= _settings(file, node, problems)
    return env


def _paths(file: _File, node: yaml.Node) -> Iterator[Word]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for one in nodes:
        word = file.documents.word(file.documents.get(one, "path") or one)
        if word is not None:
            yield interpolate(word, file.values, file.documents.budget).word


def _settings(file: _File, node: yaml.Node, problems: list[Problem]) -> dict[str, Setting]:
    documents = file.documents
    env: dict[str, Setting] = {}
    if isinstance(node, yaml.SequenceNode):
        for word in documents.words(node):
            done = interpolate(word, file.values, documents.budget).word
            one = setting(done) or Setting(done.text, file.values.get(done.text), done.position)
            env[one.name] = one
        return env
    for name, (key, value) in documents.mapping(node).items():
        text = None if is_null(value) else documents.word(value)
        if text is None:
            found = file.values.get(name)
        else:
            done = interpolate(text, file.values, documents.budget).word
            known = not done.unknown and not _printed_anew(file, name, value, problems)
            found = done.text if known else None
        env[name] = Setting(name, found, documents.position(key))
    return env


def _printed_anew(file: _File, name: str, value: yaml.Node, problems: list[Problem]) -> bool:
    """Releases of compose differ in what they make of such a value."""
    kind = printed_anew(file.documents, value)
    if kind:
        message = f"{name} is {kind} to YAML: compose may pass on another text than this one"
        place = file.documents.position(value)
        problems.append(Problem("LNT013", message, "put it in quotes", place))
    return bool(kind)
