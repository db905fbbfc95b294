"""Kubernetes manifests: the containers that launch the engine, in whatever kind of object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml

from configurator.errors import Problem
from configurator.readers.docker import started_in
from configurator.readers.pieces import Budget, Builder
from configurator.readers.placeholders import placeholders
from configurator.readers.processes import Result, ScriptRunner, commands_of
from configurator.readers.scalars import kind_of
from configurator.readers.splitting import split_words
from configurator.readers.yamlwords import Documents, is_null
from configurator.words import Command, Invocation, Setting, Word

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]{0,300})\))")


@dataclass(frozen=True, slots=True)
class _Manifest:
    documents: Documents
    run: ScriptRunner
    given: Mapping[str, str]
    folder: Path | None


def read_kubernetes(
    documents: Documents, run: ScriptRunner, given: Mapping[str, str], folder: Path | None
) -> Result:
    """The launches of every container of every object, in the order of the file.

    `given` are values of variables that only the cluster knows, such as LWS_LEADER_ADDRESS.
    """
    manifest = _Manifest(documents, run, given, folder)
    commands: list[Command] = []
    problems: list[Problem] = []
    for root in documents.roots:
        for container in _containers(documents, root):
            found, about = _container(manifest, container)
            commands += found
            problems += about
    return tuple(commands), tuple(problems)


def _containers(documents: Documents, root: yaml.Node) -> Iterator[yaml.Node]:
    for node in documents.walk(root):
        for key in ("initContainers", "containers"):
            found = documents.get(node, key)
            if isinstance(found, yaml.SequenceNode):
                yield from found.value


def _container(manifest: _Manifest, container: yaml.Node) -> Result:
    documents = manifest.documents
    refused: list[Problem] = []
    command = _words(documents, container, "command", refused)
    arguments = _words(documents, container, "args", refused)
    if not command and not arguments:
        return (), ()
    env, problems = _environment(manifest, container, refused)
    image = documents.word(documents.get(container, "image"))
    started, unclear = started_in(
        image,
        tuple(expand(word, env, manifest.given, documents.budget) for word in command) or None,
        tuple(expand(word, env, manifest.given, documents.budget) for word in arguments),
        Invocation((), env),
    )
    commands, about = commands_of(started, manifest.run, manifest.given, manifest.folder)
    return commands, ((*refused, *problems, *unclear, *about) if commands else (*unclear, *about))


def _words(
    documents: Documents, container: yaml.Node, key: str, refused: list[Problem]
) -> tuple[Word, ...]:
    """The words of `command` or `args`; those that Kubernetes refuses as they are meant."""
    node = documents.get(container, key)
    line = documents.word(node)
    if node is None or is_null(node) or documents.is_template(node) or line is None:
        if not isinstance(node, yaml.SequenceNode):
            return documents.words(node)
        for item in node.value:
            _refuse(documents, item, f"an item of `{key}`", refused)
        return tuple(word for word in map(partial(_item, documents), node.value) if word)
    message = f"`{key}` is a line: Kubernetes takes a list of words and refuses the object"
    remedy = f'write every word as an item: {key}: ["python3", "-m", ...]'
    refused.append(Problem("LNT011", message, remedy, line.position))
    return split_words(line, placeholders(line.text)).words


def _item(documents: Documents, node: yaml.Node) -> Word | None:
    word = documents.word(node)
    # JSON's null becomes an empty string.
    return replace(word, text="") if word and is_null(node) else word


def _refuse(documents: Documents, node: yaml.Node, what: str, refused: list[Problem]) -> None:
    kind = kind_of(documents, node, old=True)
    if kind not in ("", "empty"):
        message = f"{what} is {kind}: Kubernetes takes text and refuses the object"
        refused.append(Problem("LNT011", message, "put it in quotes", documents.position(node)))


def _environment(
    manifest: _Manifest, container: yaml.Node, refused: list[Problem]
) -> tuple[dict[str, Setting], tuple[Problem, ...]]:
    """Variables in the order of declaration: a value may speak of earlier ones."""
    documents = manifest.documents
    env: dict[str, Setting] = {}
    items = documents.get(container, "env")
    for item in items.value if isinstance(items, yaml.SequenceNode) else ():
        name = documents.word(documents.get(item, "name"))
        if name is None:
            continue
        value = documents.get(item, "value")
        text: str | None = ""
        if value is not None and not is_null(value):
            word = documents.word(value)
            _refuse(documents, value, f"the value of {name.text}", refused)
            done = expand(word, env, manifest.given, documents.budget) if word else None
            text = None if done is None or done.unknown else done.text
        elif documents.get(item, "valueFrom") is not None:
            text = manifest.given.get(name.text)
        env[name.text] = Setting(name.text, text, name.position)
    source = documents.get(container, "envFrom")
    if not isinstance(source, yaml.SequenceNode) or not source.value:
        return env, ()
    message = "the variables of envFrom (a ConfigMap or Secret) are not in this container"
    remedy = "name those that matter for the engine under env"
    return env, (Problem("LNT004", message, remedy, documents.position(source)),)


def expand(
    word: Word,
    env: Mapping[str, Setting],
    given: Mapping[str, str],
    budget: Budget | None = None,
) -> Word:
    """Replace `$(NAME)` by the container's variables; `$$` is a dollar sign.

    What names no variable stays as it is written, as Kubernetes leaves it, and makes the word
    unknown: the cluster may add variables of its own.
    """
    if "$" not in word.text:
        return word
    builder, at = Builder(word, budget), 0
    for match in _REFERENCE.finditer(word.text):
        if match.start() > at:
            builder.keep(at, match.start())
        if match[1]:
            builder.put("$", match.start())
        else:
            name = match[2]
            known = env[name].value if name in env else given.get(name)
            builder.put(match[0] if known is None else known, match.start(), unknown=known is None)
        at = match.end()
    if at < len(word.text):
        builder.keep(at, len(word.text))
    done = builder.finish()
    return replace(done, unknown=done.unknown or word.unknown)
