"""`configurator probe-bundle -o DIR`"""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command("probe-bundle")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR",
    help="Directory of the bundle: new, empty, or one that this verb wrote before.",
)  # fmt: skip
def command(output: Path) -> int:
    """Write the plugin that reports from inside the engine.

    The engine loads it when DIR is on its PYTHONPATH; nothing is installed. Every rank then
    writes one report to the directory that CONFIGURATOR_PROBE_DIR names, and /server_info has it
    under `configurator_probe`. With CONFIGURATOR_PROBE_REQUIRED=1 the engine stops if no report
    can be made. Where SGLANG_PLUGINS is set it must list configurator_probe.

    The collector lies beside it, for containers without configurator: with DIR on PYTHONPATH,
    `python -m configurator_collector --url URL --out EVIDENCE` (Python 3.9 or newer) records
    evidence, and `configurator check --replay EVIDENCE` judges it elsewhere.
    """
    from configurator.inengine.bundle import COLLECTOR, DIRECTORY, MODULE, write_bundle

    for path in write_bundle(output):
        click.echo(str(path))
    if os.pathsep in str(output.resolve()):
        click.echo(
            f"\nwarning: {output.resolve()} has a {os.pathsep!r}, where PYTHONPATH ends a "
            "directory: mount it under a path without one, or write the bundle to another",
            err=True,
        )
    click.echo(
        f"\nmount {output} into the engine's container and set there:\n"
        f"  PYTHONPATH={output.resolve()}\n"
        f"  {DIRECTORY}=/reports    (a directory that you can read afterwards)\n"
        f"  SGLANG_PLUGINS          (only if it is set: add {MODULE})\n"
        "to record evidence there without configurator:\n"
        f"  python -m {COLLECTOR} --url http://127.0.0.1:30000 --out evidence",
        err=True,
    )
    return 0
