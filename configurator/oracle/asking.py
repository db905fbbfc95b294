"""The engine's own word beside the rules': findings of the oracle for profiles and launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from configurator.errors import Position
from configurator.launch import Launch, launch_of
from configurator.lint import locate, subject
from configurator.linted import Linted, LintedCommand
from configurator.oracle.client import Oracle, oracle_launch
from configurator.oracle.findings import findings
from configurator.schema.base import dotted
from configurator.source import DataPath
from configurator.validate import Diagnostic, Validation, in_order


@dataclass(frozen=True, slots=True)
class _Question:
    """One launch to ask about, and how its findings are placed."""

    launch: Launch
    ours: tuple[Diagnostic, ...]
    locate: Callable[[DataPath], Position | None]
    name: Callable[[DataPath], str]


def ask_about_profiles(results: Sequence[Validation], oracle: Oracle) -> list[Validation]:
    """Every validation with what the engine says about its launch.

    Raises:
        ConfiguratorError: the oracle cannot be asked.
    """
    questions = [
        _Question(launch_of(r.deployment), r.findings, r.deployment.locate, dotted)
        for r in results
        if r.deployment is not None
    ]
    answers = iter(_answers(questions, oracle))
    return [
        replace(r, findings=in_order((*r.findings, *next(answers)))) if r.deployment else r
        for r in results
    ]


def ask_about_files(results: Sequence[Linted], oracle: Oracle) -> list[Linted]:
    """Every file with what the engine says about its launches.

    Raises:
        ConfiguratorError: the oracle cannot be asked.
    """
    answers = iter(_answers([_question(c) for r in results for c in r.commands], oracle))
    return [
        replace(r, commands=tuple(_told(c, next(answers)) for c in r.commands)) for r in results
    ]


def _told(linted: LintedCommand, found: tuple[Diagnostic, ...]) -> LintedCommand:
    return replace(linted, findings=in_order((*linted.findings, *found)))


def _question(linted: LintedCommand) -> _Question:
    return _Question(
        linted.launch,
        linted.findings,
        lambda path: locate(linted.command, path),
        lambda path: subject(linted.launch, path),
    )


def _answers(questions: Sequence[_Question], oracle: Oracle) -> list[tuple[Diagnostic, ...]]:
    launches = (
        oracle_launch(
            q.launch,
            f"{number} of {len(questions)}",
            q.launch.checkpoint.config if q.launch.checkpoint else None,
            q.launch.draft.config if q.launch.draft else None,
        )
        for number, q in enumerate(questions, 1)
    )
    if not questions:
        return []
    return [
        tuple(
            Diagnostic(
                f.code, f.name, f.severity, f.message, f.remedy, q.locate(f.path), q.name(f.path),
                f.source,
            )
            for f in findings(q.launch, result, q.ours)
        )
        for q, result in zip(questions, oracle.check(launches), strict=True)
    ]  # fmt: skip
