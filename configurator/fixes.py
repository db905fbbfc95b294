"""Making the changes that findings offer, and nothing else: comments and layout stay."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from configurator.errors import Position
from configurator.linted import LintedCommand
from configurator.rules import Fix
from configurator.validate import Diagnostic


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text after its fixes."""

    text: str
    made: tuple[Diagnostic, ...]
    """The findings that are mended."""
    left: tuple[Diagnostic, ...]
    """The findings whose words do not stand where they should: generated or assembled text."""


def fix_text(text: str, name: str, findings: Iterable[Diagnostic]) -> Fixed:
    """Make every fix whose word stands in the file `name`, with this `text`.

    A suppressed finding is left alone, and of two fixes of one place the first is made.
    """
    lines = text.split("\n")
    made: list[Diagnostic] = []
    left: list[Diagnostic] = []
    edits: dict[tuple[int, int], tuple[Fix, Diagnostic]] = {}
    for finding in findings:
        at, fix = finding.position, finding.fix
        if at is None or fix is None or finding.suppressed is not None or at.file != name:
            continue
        start = _place(lines, at, fix)
        if start is None:
            left.append(finding)
        elif edits.setdefault(start, (fix, finding))[0] == fix:
            made.append(finding)
        else:
            left.append(finding)
    for (line, column), (fix, _) in sorted(edits.items(), reverse=True):
        whole = lines[line]
        lines[line] = whole[:column] + fix.new + whole[column + len(fix.old) :]
    return Fixed("\n".join(lines), tuple(made), tuple(left))


def safely_fixed(
    commands: Sequence[LintedCommand], text: str, *, shell: bool
) -> Iterator[LintedCommand]:
    """The launches of a file, with those fixes left out that could change another meaning.

    A word may be shared: by several launches, which must then want the same fix, or through a
    variable of a `shell`, which something else may use or compare. And a new name must not stand
    there yet.
    """
    for linted in commands:
        script = text if shell else None
        found = tuple(
            f if f.fix is None or _is_safe(f, linted, commands, script) else replace(f, fix=None)
            for f in linted.findings
        )
        yield replace(linted, findings=found)


def _is_safe(
    finding: Diagnostic,
    linted: LintedCommand,
    commands: Sequence[LintedCommand],
    script: str | None,
) -> bool:
    at, fix = finding.position, finding.fix
    if at is None or fix is None:
        return False
    options = [o for o in linted.launch.options() if linted.command.argv[o.index].position != at]
    if any(fix.new in option.names for option in options):
        return False
    sharing = [c for c in commands if at in _places(c)]
    same = all(any(f.position == at and f.fix == fix for f in c.findings) for c in sharing)
    news = [f.fix.new for f in linted.findings if f.fix and f.fix.old != fix.old]
    own = script is None or _is_own(at, linted, script)
    return same and fix.new not in news and own


def _places(linted: LintedCommand) -> set[Position]:
    words = {word.position for word in linted.command.argv}
    return words | {setting.position for setting in linted.command.env.values()}


def _is_own(at: Position, linted: LintedCommand, text: str) -> bool:
    """The word stands in the command itself, or in an array or an export used nowhere else."""
    start = linted.command.position
    if (at.line, at.column) >= (start.line, start.column):
        return True
    lines = text.split("\n")[: at.line]
    if not lines:
        return False
    if any(setting.position == at for setting in linted.command.env.values()):
        return True
    before = "\n".join([*lines[:-1], lines[-1][: at.column - 1]])
    opened = list(re.finditer(r"(\w+)\+?=\(", before))
    if not opened or ")" in re.sub(r"#.*", "", before[opened[-1].end() :]):
        return False
    return len(re.findall(rf"\$\{{?{opened[-1][1]}\b", text)) == 1


def fix_file(path: Path, findings: Iterable[Diagnostic]) -> int:
    """Make the fixes of a file in place; how many were made.

    A byte-order mark and line ends stay as they are. Nothing is written when nothing is mended.
    """
    wanted = [finding for finding in findings if finding.fix is not None]
    if not wanted or not path.is_file():
        return 0
    raw = path.read_bytes()
    mark = BOM_UTF8 if raw.startswith(BOM_UTF8) else b""
    fixed = fix_text(raw.removeprefix(mark).decode(), str(path), wanted)
    if fixed.made:
        path.write_bytes(mark + fixed.text.encode())
    return len(fixed.made)


def _place(lines: list[str], at: Position, fix: Fix) -> tuple[int, int] | None:
    """Line and column, from 0, of the name to change; None when it does not stand there."""
    if not 0 < at.line <= len(lines):
        return None
    line = lines[at.line - 1]
    start = at.column - 1
    while start < len(line) and line[start] in "-'\"":
        start += 1
    end = start + len(fix.old)
    whole = line[start:end] == fix.old and not _in_name(line[end : end + 1])
    return (at.line - 1, start) if whole and fix.old else None


def _in_name(character: str) -> bool:
    return character.isalnum() or character in ("-", "_") if character else False
