"""One way out for findings, whatever the form: `validate` and `lint` both end here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import click

from configurator.report.findings import FileFindings, Policy
from configurator.rules import Rule


def write_findings(
    results: Iterable[FileFindings],
    form: str,
    rules: Mapping[str, Rule],
    policy: Policy,
    *,
    quiet: bool = False,
    target: Path | None = None,
    subject: str = "profile",
) -> int:
    """Write the findings of files in one form; the highest exit code.

    Args:
        results: what `Policy.over` and `Policy.of_validation` give; the terminal shows each as
            it comes.
        form: `terminal`, `json`, `github`, `sarif` or `junit`.
        rules: the loaded rules by code.
        policy: what the results were chosen by.
        quiet: leave out findings of severity info; exit codes are those with them.
        target: the file to write instead of the standard output.
        subject: what JSON calls a file: `profile`, or `file`.

    Raises:
        click.FileError: `target` cannot be written.
    """
    if form == "terminal":
        from configurator.report.terminal import print_findings

        if target is None:
            return print_findings(results, quiet=quiet)
        with redirect_stdout(StringIO()) as said:
            code = print_findings(results, quiet=quiet)
        write(said.getvalue(), target)
        return code
    files = list(_without_info(results) if quiet else results)
    write(_text(files, form, rules, policy, subject), target)
    return max((file.exit_code for file in files), default=0)


def _text(
    files: list[FileFindings], form: str, rules: Mapping[str, Rule], policy: Policy, subject: str
) -> str:
    # Each form is imported only when it is asked for.
    if form == "json":
        from configurator.report.json_report import findings

        return f"{findings(files, subject)}\n"
    if form == "github":
        from configurator.report.github import commands

        return "".join(f"{line}\n" for line in commands(files))
    if form == "sarif":
        from configurator.report import sarif

        return f"{sarif.document(files, rules)}\n"
    from configurator.report import junit

    return f"{junit.document(files, policy)}\n"


def _without_info(results: Iterable[FileFindings]) -> Iterator[FileFindings]:
    for result in results:
        loud = tuple(finding for finding in result.findings if finding.severity != "info")
        yield replace(result, findings=loud)


def write(text: str, target: Path | None) -> None:
    """Write to a file, or to the standard output.

    Raises:
        click.FileError: `target` cannot be written.
    """
    # Names of files may hold bytes that are no UTF-8: shown as "?", never a crash.
    data = text.encode("utf-8", "replace")
    if target is None:
        click.echo(data.decode(), nl=False)
        return
    write_bytes(data, target)


def write_bytes(data: bytes, target: Path) -> None:
    """Write a file.

    Raises:
        click.FileError: `target` cannot be written.
    """
    try:
        target.write_bytes(data)
    except OSError as error:
        raise click.FileError(os.fspath(target), error.strerror or str(error)) from error
