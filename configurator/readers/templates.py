"""Scripts with placeholders, which a shell would take apart: `--tp {{ .Values.tp }}`.

For the reading each is covered by as many characters that mean nothing to any format, so that
every place stays right; what comes out has the placeholders again, in words that are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from configurator.errors import Problem
from configurator.readers.placeholders import TEMPLATE
from configurator.readers.processes import Result, ScriptRunner
from configurator.readers.reading import Invocations
from configurator.words import Command, Invocation, Setting, Word

_PRIVATE = range(0xE000, 0xF900)
"""Characters that no standard gives a meaning."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A text whose placeholders are covered."""

    text: str
    originals: Mapping[str, str]
    """For each covering character what it covers."""

    def uncovered(self, text: str) -> str:
        """A piece of the text, or a message about it, with the placeholders again."""
        if not self.originals:
            return text
        runs = f"([{''.join(self.originals)}])\\1*"
        return re.sub(runs, lambda match: self.originals[match[1]], text)

    def result(self, result: Result) -> Result:
        """The launches and problems of the text with the placeholders again."""
        if not self.originals:
            return result
        commands, problems = result
        return tuple(self._command(one) for one in commands), self._problems(problems)

    def invocations(self, found: Invocations) -> Invocations:
        """The processes of the text with the placeholders again."""
        if not self.originals:
            return found
        processes = tuple(self._invocation(one) for one in found.found)
        return Invocations(processes, self._problems(found.problems))

    def _command(self, command: Command) -> Command:
        return replace(
            command,
            argv=tuple(self._word(word) for word in command.argv),
            env=self._env(command.env),
            image=command.image and self.uncovered(command.image),
            conditions=tuple(self.uncovered(one) for one in command.conditions),
        )

    def _invocation(self, invocation: Invocation) -> Invocation:
        return replace(
            invocation,
            words=tuple(self._word(word) for word in invocation.words),
            env=self._env(invocation.env),
            image=invocation.image and self.uncovered(invocation.image),
            conditions=tuple(self.uncovered(one) for one in invocation.conditions),
        )

    def _word(self, word: Word) -> Word:
        text = self.uncovered(word.text)
        return word if text == word.text else replace(word, text=text, unknown=True)

    def _env(self, env: Mapping[str, Setting]) -> dict[str, Setting]:
        return {
            name: replace(one, value=None) if self.uncovered(one.value or "") != (one.value or "")
            else one
            for name, one in env.items()
        }  # fmt: skip

    def _problems(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(
            replace(p, message=self.uncovered(p.message), remedy=self.uncovered(p.remedy))
            for p in problems
        )


def covered(text: str) -> Covered:
    """The text with its placeholders covered, as long as before."""
    originals: dict[str, str] = {}
    if "{{" not in text and "{%" not in text:
        return Covered(text, originals)
    taken = set(text)
    free = iter([char for char in map(chr, _PRIVATE) if char not in taken])

    def cover(match: re.Match[str]) -> str:
        char = next(free, None)
        if char is None:
            return match[0]
        originals[char] = match[0]
        return char * len(match[0])

    return Covered(TEMPLATE.sub(cover, text), originals)


def templated(run: ScriptRunner) -> ScriptRunner:
    """The same runner for scripts with placeholders."""

    def covering(script: Word, given: Mapping[str, str], env: Mapping[str, Setting]) -> Invocations:
        cover = covered(script.text)
        return cover.invocations(run(replace(script, text=cover.text), given, env))

    return covering
