"""Launch commands that people already have, judged by the rules about launches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from configurator.collector.redaction import redact_text
from configurator.content import Library
from configurator.engine.catalogue import available_versions
from configurator.errors import ConfiguratorError, Position, Problem, did_you_mean
from configurator.fixes import safely_fixed
from configurator.launch import Launch, LaunchEnv, LaunchWord, checkpoint_at
from configurator.linted import Linted, LintedCommand, Why
from configurator.readers.reading import Reading
from configurator.rules import Rule, Severity
from configurator.schema.content import Engine, Hardware, Model
from configurator.secrets import secrets_of
from configurator.source import DataPath
from configurator.suppress import Suppressions
from configurator.validate import Diagnostic, in_order, run_rule
from configurator.words import Command

_SEVERITIES: dict[str, Severity] = {
    "LNT002": "warning",
    "LNT003": "warning",
    "LNT007": "warning",
    "LNT008": "warning",
    "LNT015": "warning",
    "LNT009": "warning",
    "LNT010": "error",
    "LNT011": "error",
    "LNT012": "error",
}
"""Of what a reader could not do; everything else is for information."""
_TAG = re.compile(r":v?(\d+\.\d+\.\d+(?:\.post\d+)?)(?![\d.]|rc|\.dev)")


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside the commands themselves."""

    engine: Engine | None = None
    """None: by the tag of the container image, else the newest release."""
    hardware: Hardware | None = None
    checkpoint: str | None = None
    """A directory that stands for every target's checkpoint."""
    draft: str | None = None
    """A directory that stands for every draft's checkpoint."""


def lint(reading: Reading, text: str, around: Around, library: Library,
         rules: Iterable[Rule]) -> Linted:  # fmt: skip
    """Judge every launch of a file.

    Args:
        reading: the launches of the file.
        text: the file, for the comments that suppress findings.
        around: engine, machine and checkpoints, as far as they are known.
        library: where engines are looked up by the tag of an image.
        rules: of all rules those about launches are run.
    """
    chosen = tuple(rule for rule in rules if rule.subject == "launch")
    trailing = reading.format not in ("systemd", "dockerfile")
    suppressions = Suppressions.of_text(reading.file, text, trailing=trailing)
    commands = [_command(c, around, library, chosen, suppressions) for c in reading.commands]
    others = [from_problem(problem) for problem in reading.problems]
    known = {rule.code for rule in rules}
    others += [from_problem(p, severity) for severity, p in suppressions.problems(known)]
    secrets = secrets_of(c.launch for c in commands)
    hidden = tuple(
        replace(c, findings=tuple(_hidden(f, secrets) for f in c.findings))
        for c in safely_fixed(commands, text, shell=reading.format == "shell")
    )
    others = [_hidden(finding, secrets) for finding in others]
    return Linted(reading.file, reading.format, hidden, in_order(others), secrets=secrets)


def _hidden(finding: Diagnostic, secrets: tuple[str, ...]) -> Diagnostic:
    """The finding without a secret of the file, whatever repeats it."""
    message, remedy = (redact_text(text, secrets) for text in (finding.message, finding.remedy))
    if (message, remedy) == (finding.message, finding.remedy):
        return finding
    return replace(finding, message=message, remedy=remedy)


def unreadable(file: str, error: ConfiguratorError) -> Linted:
    """The result for a file that cannot be read."""
    problems = tuple(from_problem(problem, "error") for problem in error.problems)
    return Linted(file, "", (), problems, unusable=True)


def from_problem(problem: Problem, severity: Severity | None = None) -> Diagnostic:
    """A problem as a finding of the severity that its code has."""
    chosen = severity or _SEVERITIES.get(problem.code, "info")
    return Diagnostic(
        problem.code, "", chosen, problem.message, problem.remedy, problem.position, "", ""
    )


def _command(
    command: Command,
    around: Around,
    library: Library,
    rules: tuple[Rule, ...],
    suppressions: Suppressions,
) -> LintedCommand:
    engine, why = engine_of(command, around, library)
    launch = launch_of_command(command, engine, around, library)
    found: list[Diagnostic] = []
    for rule in rules:
        found += run_rule(
            rule,
            launch,
            lambda path: locate(command, path),
            suppressions,
            lambda path: subject(launch, path),
        )
    return LintedCommand(command, launch, why, in_order(found))


def engine_of(command: Command, around: Around, library: Library) -> tuple[Engine, Why]:
    """The engine that a command is judged for, and why that one."""
    if around.engine is not None:
        return around.engine, "asked for"
    tag = _TAG.search(command.image or "")
    if tag is not None and tag[1] in available_versions():
        return library.engine(f"sglang-{tag[1]}"), "image"
    newest = library.engine(f"sglang-{available_versions()[-1]}")
    return newest, "newest release; the image has no catalogue" if tag else "newest release"


def engine_named(name: str, library: Library) -> Engine:
    """The engine of a release or of an entry.

    Raises:
        ConfiguratorError: no release and no entry is named so (REF005).
    """
    entry = name if name in library.names("engine") else f"sglang-{name.removeprefix('v')}"
    try:
        return library.engine(entry)
    except ConfiguratorError as error:
        known = [*available_versions(), *library.names("engine")]
        raise ConfiguratorError.single(
            "REF005", f"no engine is named {name!r}", did_you_mean(name, known)
        ) from error


def launch_of_command(
    command: Command, engine: Engine, around: Around, library: Library | None = None
) -> Launch:
    """A command as rules judge it, with the entry of its model where a library is given."""
    words = tuple(
        LaunchWord(word.text, ("argv", index), "", word.unknown)
        for index, word in enumerate(command.argv)
    )
    env = {s.name: LaunchEnv(s.name, s.value, ("env", s.name)) for s in command.env.values()}
    launch = Launch(engine, words, env, around.hardware, serve=command.entry == "serve")
    target = around.checkpoint or launch.model
    draft = around.draft or launch.text("speculative-draft-model-path")
    return Launch(
        engine,
        words,
        env,
        around.hardware,
        checkpoint_at(target),
        checkpoint_at(draft),
        serve=launch.serve,
        entry=_entry(launch.model, library) if library and launch.model else None,
    )


def _entry(path: str, library: Library) -> Model | None:
    """The entry that a path or repository names."""
    name = next(iter(library.models_named(path)), None)
    return library.model(name) if name else None


def locate(command: Command, path: DataPath) -> Position:
    """Where in the file a rule's path is written."""
    match path:
        case ("argv", int(index)):
            return command.argv[index].position
        case ("env", str(name)):
            return command.env[name].position
    return command.position


def subject(launch: Launch, path: DataPath) -> str:
    """What a finding is about: the option or the variable."""
    match path:
        case ("argv", int(index)):
            return launch.option_at(index) or launch.words[index].text
        case ("env", str(name)):
            return name
        case ("missing", str(name)):
            return f"--{name}"
    return ""
