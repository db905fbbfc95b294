"""A launch command as a profile that renders back to the same arguments and environment.

Everything of which the profile has a key of its own goes there; mechanisms are recognized by
their kernel entries; the rest stays as it is under `extra`. Every step is kept only if the
profile still gives the same words, so that an import never changes a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configurator.collector.redaction import redact_text
from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError, Position, Problem
from configurator.import_sorting import KEYS, Draft, Wanted, words_back
from configurator.launch import Launch
from configurator.recognize import recognized
from configurator.resolve import resolve
from configurator.schema.base import parse
from configurator.schema.profile import Profile
from configurator.source import dump, parse_source
from configurator.words import Command


@dataclass(frozen=True, slots=True)
class Imported:
    """A profile made of a command."""

    text: str
    """YAML, with comments on what could not be kept."""
    exact: bool
    """It renders back to the same arguments and environment."""
    problems: tuple[Problem, ...]
    """What is left out or changed, each with its place in the command's file."""
    deployment: Deployment
    mechanisms: tuple[str, ...] = ()
    """Mechanisms that were recognized."""


def import_command(
    command: Command, launch: Launch, library: Library, name: str, hardware: str | None = None
) -> Imported:
    """The profile of a launch.

    Args:
        command: the launch as its file has it.
        launch: the same as it is judged, with the engine it is for.
        library: content to look machines, models and kernels up in.
        name: what to call the deployment.
        hardware: a machine of the library; None: `unspecified`.

    Raises:
        ConfiguratorError: the machine does not exist, or no profile can hold the launch.
    """
    draft = Draft(command, launch)
    data, deployment = _first(draft, name, hardware, library)
    wanted = draft.wanted()
    exact = wanted.gives(deployment)
    mechanisms: tuple[str, ...] = ()
    if exact:
        data, deployment, mechanisms = _enriched(data, deployment, library, wanted, command)
    else:
        draft.problem(
            "IMP004", _difference(wanted, deployment), "compare before you rely on it", None
        )
    header = _header(command, launch, exact, list(dict.fromkeys(draft.problems)))
    text = f"{header}{dump(data)}"
    problems = tuple(dict.fromkeys(draft.problems))
    return Imported(text, exact, problems, deployment, mechanisms)


def _first(
    draft: Draft, name: str, hardware: str | None, library: Library
) -> tuple[dict[str, Any], Deployment]:
    """The profile without any mechanism; a value that its key refuses stays an argument."""
    while True:
        data = draft.profile(name, hardware)
        try:
            return data, _resolved(data, library, draft.command)
        except ConfiguratorError as error:
            said = {problem.message.partition(" is ")[0] for problem in error.problems}
            refused = {own for own, key in KEYS.items() if ".".join(key[:2]) in said}
            if refused <= draft.refused:
                raise
            draft.refuse(refused - draft.refused, error)


def _resolved(data: dict[str, Any], library: Library, command: Command) -> Deployment:
    source = parse_source(dump(data), command.position.file)
    layers = library.extend(source)

    def at(_: object) -> Position:
        return command.position

    return resolve(parse(Profile, layers.data, at), layers, library)


def _enriched(
    data: dict[str, Any],
    deployment: Deployment,
    library: Library,
    wanted: Wanted,
    command: Command,
) -> tuple[dict[str, Any], Deployment, tuple[str, ...]]:
    """The profile with every mechanism and model entry that gives back the same words."""
    mechanisms: list[str] = []

    def tried(change: Callable[[dict[str, Any]], None]) -> bool:
        nonlocal data, deployment
        changed = deepcopy(data)
        change(changed)
        try:
            found = _resolved(changed, library, command)
        except ConfiguratorError:
            return False
        if not wanted.gives(found):
            return False
        data, deployment = changed, found
        return True

    for name in library.models_named(data["model"].get("path", "")):
        if tried(lambda profile, name=name: profile["model"].update(name=name)):  # type: ignore[misc]  # bound at once
            break
    for kernel in map(library.kernel, library.names("kernel")):
        change = recognized(kernel, data)
        if change is not None and tried(change):
            mechanisms.append(kernel.name)
    return data, deployment, tuple(mechanisms)


def _difference(wanted: Wanted, deployment: Deployment) -> str:
    process = wanted.process(deployment)
    if process is None:
        return f"the profile has no process of rank {wanted.rank}"
    got, env = words_back(process), dict(process.env)
    more = [word for word in got if word not in wanted.argv]
    less = [word for word in wanted.argv if word not in got]
    names = sorted(name for name in {*env, *wanted.env} if env.get(name) != wanted.env.get(name))
    parts = [
        f"{what} {', '.join(words)}"
        for what, words in (("added:", more), ("missing:", less), ("variables:", names))
        if words
    ]
    return f"the profile does not give back the same launch ({'; '.join(parts) or 'the order'})"


def _header(command: Command, launch: Launch, exact: bool, problems: list[Problem]) -> str:
    at = command.position
    lines = [
        f"Imported from {Path(at.file).name}, line {at.line}, for sglang {launch.engine.version}.",
        "Renders back to the same arguments and environment."
        if exact and not problems
        else "Renders back to the same arguments and environment, but for this:"
        if exact
        else "Does NOT render back to the same launch:",
        *(f"- line {p.position.line if p.position else at.line}: {p.message}" for p in problems),
    ]
    if command.entry == "serve":
        lines.append("`sglang serve` becomes python3 -m sglang.launch_server, --model-path named.")
    if command.image:
        lines.append(
            f"The image was {command.image}; its mounts, ports and other options of the container "
            "are not in here, and model.path is the path inside it."
        )
    safe = ("".join(c if c.isprintable() else " " for c in line) for line in lines)
    return "".join(f"# {redact_text(line)}\n" for line in safe)
