"""What every form of output starts from: the findings of one file, chosen and counted."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from configurator.errors import ConfiguratorError, did_you_mean
from configurator.linted import Linted
from configurator.pages import INPUT_CODES
from configurator.validate import CRASH, Diagnostic, FailOn, Validation, counts, exit_code

_CODE = re.compile(r"([A-Z]+)\d*")


@dataclass(frozen=True, slots=True)
class FileFindings:
    """What is to be said of one file, or of one named deployment."""

    file: str
    """As the person named it."""
    findings: tuple[Diagnostic, ...]
    """In the order of the file; those silenced by a comment are among them."""
    exit_code: int = 0
    name: str | None = None
    """The deployment's name; None where there is none."""
    status: str | None = None
    """`unverified` and the like; None where nothing is known."""
    usable: bool = True
    """False: it cannot be read or resolved, so no rule has judged it."""
    ignored: int = 0
    """Findings left out on request."""
    note: str = ""
    """What else to say beside the counts."""
    secrets: tuple[str, ...] = ()
    """What stands in the file and must not be shown."""

    def is_unusable(self, finding: Diagnostic) -> bool:
        """The finding is a reason why no rule has judged the file."""
        return not self.usable and finding.severity == "error"

    def place(self, finding: Diagnostic) -> str | None:
        """The file that `finding` is about; None when only a deployment's name is known."""
        if finding.position is not None:
            return finding.position.file
        return self.file if os.path.isfile(self.file) else None

    def place_from(self, base: Path, finding: Diagnostic) -> str | None:
        """The same as seen from the folder `base`, where it lies below that."""
        place = self.place(finding)
        return None if place is None else relative(place, base) or place


@dataclass(frozen=True, slots=True)
class Policy:
    """Which findings are said, and which of them make the exit code 1.

    A code that is both selected and ignored is ignored. What makes a file unusable, and a rule
    that crashed, is always said.
    """

    fail_on: FailOn = "error"
    select: tuple[str, ...] = ()
    """Codes, or prefixes of codes as `ENV` and `ENV1`; empty: all."""
    ignore: tuple[str, ...] = ()

    def keeps(self, code: str) -> bool:
        """Findings with this code are wanted."""
        chosen = not self.select or any(matches(entry, code) for entry in self.select)
        return chosen and not any(matches(entry, code) for entry in self.ignore)

    def counts(self, finding: Diagnostic) -> bool:
        """The finding makes the exit code 1."""
        return counts(finding, self.fail_on)

    def over(
        self,
        file: str,
        findings: Iterable[Diagnostic],
        *,
        name: str | None = None,
        status: str | None = None,
        usable: bool = True,
        note: str = "",
        secrets: tuple[str, ...] = (),
    ) -> FileFindings:
        """The findings of one file under this policy.

        Exit code: 3 a rule crashed, 2 unusable, 1 a finding that counts, else 0.
        """
        everything = tuple(findings)
        kept = tuple(
            finding
            for finding in everything
            if finding.code == CRASH
            or (not usable and finding.severity == "error")
            or self.keeps(finding.code)
        )
        code = exit_code(kept, self.fail_on, usable=usable)
        left_out = len(everything) - len(kept)
        return FileFindings(file, kept, code, name, status, usable, left_out, note, secrets)

    def of_lint(self, result: Linted) -> FileFindings:
        """The findings of a file with launches under this policy."""
        judged = [
            f"line {c.command.position.line} for sglang {c.launch.engine.version} "
            f"({c.engine_because})"
            for c in result.commands
        ]
        return self.over(
            result.file,
            result.findings,
            usable=not result.unusable,
            note=f"launches: {', '.join(judged)}" if judged else "no launch",
            secrets=result.secrets,
        )

    def of_validation(self, result: Validation) -> FileFindings:
        """The findings of a profile under this policy."""
        deployment = result.deployment
        return self.over(
            result.argument,
            result.findings,
            name=deployment.name if deployment else None,
            status=deployment.profile.status if deployment else None,
            usable=not result.unusable,
        )


def matches(entry: str, code: str) -> bool:
    """`entry` is the code, or its letters with none or some of its digits.

    Letters are never cut: `S` is not both `SEC` and `SPEC`.
    """
    found = _CODE.fullmatch(entry)
    return found is not None and code.startswith(entry) and code[len(found[1])].isdigit()


def check_codes(option: str, entries: Iterable[str], rules: Collection[str]) -> None:
    """Refuse entries of `--ignore` and `--select` that match no code.

    Args:
        option: the option's name, for the message.
        entries: what was written, one code or prefix each.
        rules: the codes of the loaded rules; those of unusable input are known besides.

    Raises:
        ConfiguratorError: REF005, with the nearest codes.
    """
    known = {*rules, *INPUT_CODES}
    for entry in entries:
        if not any(matches(entry, code) for code in known):
            prefixes = {found[1] for code in known if (found := _CODE.match(code))}
            letters = re.fullmatch(r"[A-Za-z]*", entry)
            raise ConfiguratorError.single(
                "REF005", f"{option} {entry!r} is no code and no prefix of one",
                did_you_mean(entry.upper(), prefixes if letters else known),
            )  # fmt: skip


def root() -> Path:
    """The folder that CI services count paths from: the repository around the working directory,
    or the working directory itself."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def relative(file: str, base: Path) -> str | None:
    """`file` seen from `base`, with `/`; None when it lies elsewhere."""
    path = Path(os.path.abspath(file))
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else None


def printable(text: str) -> str:
    """The text with a space for every control character but tabs and ends of lines."""
    return "".join(c if c.isprintable() or c in "\t\r\n" else " " for c in text)
