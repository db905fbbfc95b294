"""Shell scripts: the processes that they start, found by reading. Nothing is executed.

A script is walked as the shell would walk it. Where a condition depends on what only the machine
knows, both ways are walked, and what was found says what had to be assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from configurator.errors import Problem
from configurator.readers.reading import Invocations
from configurator.readers.shell_flow import ExitShell, LeaveLoop
from configurator.readers.shell_parameters import computed
from configurator.readers.shell_source import Source
from configurator.readers.shell_state import (
    MAX_CHARACTERS,
    MAX_RUNS,
    Budget,
    LimitReachedError,
    Run,
    Shell,
    Variable,
)
from configurator.readers.shell_statements import Statements
from configurator.readers.shell_ways import Ways
from configurator.words import Invocation, Setting, Word

_MAX_REQUIRED = 8
_NOTHING: Mapping[str, str] = {}
_NO_SETTINGS: Mapping[str, Setting] = {}


def run_script(
    script: Word, given: Mapping[str, str] = _NOTHING, env: Mapping[str, Setting] = _NO_SETTINGS
) -> Invocations:
    """The processes that a bash or sh script starts, in order.

    Args:
        script: the text with its places; positions of everything found come from them.
        given: variables that the caller exports; they are inherited, and so no part of an
            invocation's environment unless the script exports them itself.
        env: variables that the file around the script sets; they are exported.

    Problems: LNT002 for what is no shell, LNT003 for a limit, LNT004 for what is not followed.
    """
    if len(script.text) > MAX_CHARACTERS:
        fact = f"the script has more than {MAX_CHARACTERS:,} characters"
        return Invocations(problems=(_limit(fact, script),))
    budget = Budget()
    source = Source(script)
    scope = {name: Variable(computed(value)) for name, value in given.items()}
    scope.update({name: _inherited(setting) for name, setting in env.items()})
    return _explored(source, budget, scope)


def _explored(source: Source, budget: Budget, scope: dict[str, Variable]) -> Invocations:
    """Walk every way through the script, as far as the limits allow."""
    runs: list[Run] = []
    problems: dict[Problem, None] = {}
    required: set[str] = set()
    ways = Ways()
    while (decisions := ways.take()) is not None:
        run = Run(decisions, budget)
        runs.append(run)
        limit = _walk(Shell(source, budget, [dict(scope)]), run)
        if run.failed and run.missing and len(required) < _MAX_REQUIRED:
            # It refuses to start without this variable, so whoever runs it sets it.
            required.add(run.missing)
            scope = {**scope, run.missing: Variable(None, exported=True)}
            runs, ways, problems = [], Ways(), {}
            continue
        problems.update(dict.fromkeys(run.problems.values()))
        if limit:
            problems[limit] = None
            break
        ways.walked_as(run)
    else:
        if ways.left:
            fact = f"more than {MAX_RUNS} ways lead through the script; the rest is not read"
            problems[_limit(fact, source.script)] = None
    return Invocations(_merged(runs), tuple(problems))


def _inherited(setting: Setting) -> Variable:
    value = None if setting.value is None else (Word.at(setting.value, setting.position),)
    return Variable(value, exported=True, position=setting.position)


def _walk(shell: Shell, run: Run) -> Problem | None:
    """Walk one way; returns the limit that ended it, if one did."""
    try:
        statements = Statements(shell, run)
        try:
            statements.script(shell.source)
        except ExitShell as ended:
            run.failed = ended.status.value is False
        except LeaveLoop:
            pass
        statements.commands.end()
    except LimitReachedError as reached:
        position = reached.position or shell.source.position(0)
        return Problem("LNT003", str(reached), "write a shorter script for it", position)
    except RecursionError:
        position = run.budget.position or shell.source.position(0)
        return Problem("LNT003", "it nests too deep", "write a flatter script", position)
    return None


def _limit(fact: str, script: Word) -> Problem:
    return Problem("LNT003", fact, "write the launch into a shorter script", script.position)


def _merged(runs: list[Run]) -> tuple[Invocation, ...]:
    """What the ways found, each once; conditions stay where not every way leads there."""
    merged: dict[object, list[Invocation]] = {}
    for run in runs:
        seen: dict[object, int] = {}
        for one in run.found:
            key = (one.words, tuple(sorted(one.env.items(), key=lambda item: item[0])))
            seen[key] = seen.get(key, 0) + 1
            merged.setdefault((key, seen[key]), []).append(one)
    return tuple(_common(same, len(runs)) for same in merged.values())


def _common(same: list[Invocation], runs: int) -> Invocation:
    """One invocation for several ways that lead to it."""
    shared = tuple(c for c in same[0].conditions if all(c in one.conditions for one in same))
    if not shared and len(same) < runs:
        shared = same[0].conditions
    return replace(same[0], conditions=shared)
