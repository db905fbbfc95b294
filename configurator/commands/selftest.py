"""`configurator selftest [--engine PYTHON]`"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from configurator.commands.options import format_option, open_library, open_validators

if TYPE_CHECKING:
    from configurator.selftest.matrix import Matrix
    from configurator.selftest.runner import Result, Table

_MOST_JOBS = 8


@click.command("selftest")
@click.option(
    "--engine", default=sys.executable, metavar="PYTHON",
    help="A Python that has SGLang 0.5.23. Default: the one that runs this.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="NAME", help="Run this case and its healthy twin; repeatable."
)
@click.option("--list", "listing", is_flag=True, help="List the cases and run none.")
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR",
    help="Keep logs, reports and evidence there: a new or empty directory.",
)  # fmt: skip
@click.option(
    "--jobs", "-j", type=click.IntRange(1, 16), metavar="N",
    help="How many servers run at a time, each on about one core and in 2 GB. Default: one a core, "
    "at most 8.",
)  # fmt: skip
@format_option
def command(
    engine: str,
    only: tuple[str, ...],
    listing: bool,
    keep: Path | None,
    jobs: int | None,
    output: str,
) -> int:
    """Sabotage real engines and see whether it is noticed.

    Starts SGLang on this machine's CPU with tiny models, healthy and sabotaged in every way of
    the matrix, collects evidence of each server as `check` does, and holds the verdicts against
    what is true. A case is detected when exactly the verdicts that the sabotage spoils say so; a
    false alarm is any wrong verdict on a healthy server.

    Ends with `detected N/N, false alarms 0/M` and exit code 0 only then.
    """
    from configurator.selftest.matrix import load_matrix

    matrix = load_matrix()
    if only:
        matrix = matrix.only(only)
    if listing:
        _list(matrix)
        return 0
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise click.UsageError(f"--keep: {keep} is in use; give a new or empty directory")
    with _ending():
        table = _run(matrix, engine, keep, jobs or min(len(os.sched_getaffinity(0)), _MOST_JOBS))
    if output == "json":
        from configurator.selftest.report import as_json

        click.echo(as_json(table))
    else:
        from configurator.selftest.report import print_table

        print_table(table)
    return table.exit_code


def _list(matrix: Matrix) -> None:
    for test in matrix.tests:
        kind = "healthy" if test.healthy else f"twin {test.twin}"
        label = f"  [{test.label}]" if test.label else ""
        click.echo(f"{test.name}  [{kind}]{label}\n    {test.about}")
    click.echo(f"{len(matrix.tests)} tests on {len(matrix.starts())} servers")


def _run(matrix: Matrix, python: str, keep: Path | None, jobs: int) -> Table:
    from configurator.selftest.engine import Launcher, cache_folder, make_models, open_engine
    from configurator.selftest.leftovers import SCRATCH, end_leftovers, noted
    from configurator.selftest.runner import run_matrix

    for line in end_leftovers():
        click.echo(line, err=True)
    engine = open_engine(Path(shutil.which(python) or python).absolute())
    models = make_models(engine, cache_folder())
    validators = open_validators(open_library(()), "probes")
    with ExitStack() as stack:
        scratch = keep or stack.enter_context(tempfile.TemporaryDirectory(prefix=SCRATCH))
        # Servers run in folders of their own, where a relative path would mean another place.
        folder = Path(scratch).absolute()
        stack.enter_context(noted(folder))
        launcher = Launcher.prepare(engine, models, folder)
        return run_matrix(matrix, launcher, validators, _Progress(len(matrix.tests)), jobs)


@contextmanager
def _ending() -> Iterator[None]:
    """A signal to end unwinds, so that no server is left behind."""

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Progress:
    """One line a test, on the standard error."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0

    def __call__(self, result: Result) -> None:
        self.done += 1
        good = result.outcome in ("clean", "detected")
        word = click.style(result.outcome, fg="green" if good else "red")
        name = f"{result.test.name:<32}"
        click.echo(f"[{self.done:2}/{self.total}] {name} {word} {result.seconds:.0f} s", err=True)
        for fault in result.faults:
            click.echo(f"        {fault}", err=True)
