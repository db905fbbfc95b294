"""`configurator kernels list | test`"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import content_option, format_option, open_library

if TYPE_CHECKING:
    from configurator.kerneltests.model import Chosen, Result
    from configurator.signals import Stop


@click.group("kernels")
def command() -> None:
    """Try on this machine what kernels promise.

    Self-tests are programs beside the kernel entries. They run in the engine's Python, which needs
    nothing of configurator; docs/kernels.md says what they measure and how to write one.
    """


@command.command("list")
@format_option
@content_option
def list_selftests(output: str, content: tuple[Path, ...]) -> int:
    """List the self-tests, and which kernels name them."""
    from configurator.kerneltests.choosing import promises, summary

    library = open_library(content)
    kernels = [library.kernel(name) for name in library.names("kernel")]
    rows = []
    for name, path in library.selftests().items():
        naming = [k.name for k in kernels if any(test.name == name for test in k.selftests)]
        promised = [asdict(promise) for promise in promises(name, kernels)]
        rows.append({
            "name": name, "summary": summary(path), "path": str(path), "kernels": naming,
            "promises": promised,
        })  # fmt: skip
        if output == "terminal":
            click.echo(f"{click.style(name, bold=True)}\n    {summary(path)}")
            told = {p["kernel"]: f" ({p['figure']} at least {p['least']:g})" for p in promised}
            if naming:
                click.echo(f"    of {', '.join(each + told.get(each, '') for each in naming)}")
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    return 0


@command.command("test")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--python", default=sys.executable, metavar="ENGINE_PYTHON",
    help="The Python of the engine's environment. Default: the one that runs this.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), default=300, show_default=True,
    metavar="SECONDS", help="Longest time for one self-test; then it is wrong.",
)  # fmt: skip
@click.option(
    "--store", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Where this host's figures are kept for plans. Default: "
    "$XDG_STATE_HOME/configurator/hosts/HOST.json.",
)  # fmt: skip
@format_option
@content_option
def test(
    names: tuple[str, ...], python: str, timeout_s: float, store: Path | None, output: str,
    content: tuple[Path, ...],
) -> int:  # fmt: skip
    """Run self-tests in the engine's environment.

    NAME is a self-test, or a kernel: then all self-tests that it names, and the packages that it
    needs must be there. Without a NAME all self-tests are run. Verdicts are ok, slow (below what
    is promised), wrong (numbers, crashes, no answer) and not_run with the reason, as on a machine
    without a GPU.

    Exit code 1 when one is slow or wrong; not_run is no failure, and no proof.
    """
    from configurator.kerneltests.choosing import choose
    from configurator.report import kernels as report
    from configurator.signals import Stop

    chosen = choose(open_library(content), names)
    found = shutil.which(python) or python
    with Stop() as stop:
        _check_runs(found, stop)
        results = _run(chosen, found, timeout_s, stop)
    if stop.signal is not None:
        click.echo("stopped; nothing is kept", err=True)
        return 128 + int(stop.signal)
    stored = _keep(store, results)
    if output == "json":
        click.echo(report.as_json(results, found, stored))
    else:
        for line in report.lines(results):
            click.echo(line)
        if stored:
            click.echo(f"figures of this host are kept in {stored}")
    return int(any(result.failed for result in results))


def _check_runs(python: str, stop: Stop) -> None:
    """Refuse an interpreter that cannot be run.

    Raises:
        ConfiguratorError: KRN001.
    """
    from configurator.errors import ConfiguratorError
    from configurator.up.engine_python import ask_python

    asked = ask_python(python, os.environ, stop)
    if asked.error and not stop.asked:
        raise ConfiguratorError.single(
            "KRN001", f"{python} cannot be run: {asked.error}",
            "name the engine's Python, as --python /opt/venv/bin/python",
        )  # fmt: skip


def _run(chosen: list[Chosen], python: str, timeout_s: float, stop: Stop) -> list[Result]:
    from configurator.kerneltests.running import run_selftest

    results = []
    for each in chosen:
        if sys.stderr.isatty():
            click.echo(f"running {each.name}", err=True)
        results.append(run_selftest(each, python, stop, timeout_s))
        if stop.asked:
            break
    return results


def _keep(store: Path | None, results: list[Result]) -> Path | None:
    """Keep what was measured; a place that nobody asked for and that cannot be had is only said."""
    from configurator.errors import ConfiguratorError
    from configurator.kerneltests.store import keep
    from configurator.plan.store_path import default_figures

    path = store or default_figures()
    try:
        return path if keep(path, results) else None
    except ConfiguratorError as error:
        if store is not None:
            raise
        click.echo(f"figures are not kept: {error}", err=True)
        return None
