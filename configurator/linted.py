"""What judging a file of launches gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from configurator.launch import Launch
from configurator.validate import Diagnostic, FailOn, exit_code, in_order
from configurator.words import Command

Why = Literal["asked for", "image", "newest release", "newest release; the image has no catalogue"]


@dataclass(frozen=True, slots=True)
class LintedCommand:
    """One launch with what was found about it."""

    command: Command
    launch: Launch
    engine_because: Why
    findings: tuple[Diagnostic, ...]

    @property
    def engine_accepts(self) -> bool:
        """The parser of that engine would take the arguments."""
        return self.launch.parsed.accepted


@dataclass(frozen=True, slots=True)
class Linted:
    """One file with its launches."""

    file: str
    format: str
    commands: tuple[LintedCommand, ...] = ()
    others: tuple[Diagnostic, ...] = ()
    """What is said of the file and not of one launch."""
    unusable: bool = False
    """The file cannot be read."""
    secrets: tuple[str, ...] = ()
    """What stands in the file and must not be shown."""

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """Everything that was found, each once though several launches share its place."""
        every = (*self.others, *(f for c in self.commands for f in c.findings))
        return in_order(dict.fromkeys(every))

    def exit_code(self, fail_on: FailOn = "error") -> int:
        """The exit code of this file alone, as `validate.exit_code` says it."""
        return exit_code(self.findings, fail_on, usable=not self.unusable)
