"""`configurator predictions`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import content_option, format_option, open_library

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.plan.predictions import Record


@click.command("predictions")
@click.option(
    "--add",
    "added",
    nargs=2,
    metavar="PROFILE EVIDENCE_DIR",
    help="Predict what a run of PROFILE should have done, hold what EVIDENCE_DIR shows against "
    "it, and keep both.",
)
@click.option(
    "--host",
    metavar="NAME",
    help="What the host of that run is called. Default: its GPUs and memory, as the evidence has "
    "them, which machines alike share.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where runs are kept. Default: configurator/predictions.jsonl below $XDG_STATE_HOME.",
)
@format_option
@content_option
def command(
    added: tuple[str, str] | None,
    host: str | None,
    store: Path | None,
    output: str,
    content: tuple[Path, ...],
) -> int:
    """Say how wrong predictions of the decode step are.

    Every stored measurement of the content is predicted from the others, and every run that was
    added is held against what was predicted of it. The acceptance length of a run is an input. A
    run without speculation calibrates later plans on its host.
    """
    from configurator.plan.geometry import geometry_of
    from configurator.plan.prediction_errors import held_out, uncounted
    from configurator.plan.prediction_store import append, read_store
    from configurator.plan.store_path import default_store
    from configurator.report.predictions import as_data, as_text

    if host is not None and added is None:
        raise click.UsageError("--host goes with --add: it names the host of the run")
    library = open_library(content)
    path = store or default_store()
    note = ""
    if added is not None:
        record = _record(*added, host, library, path)
        note = "added" if append(path, record) else "the store already has this run"
    held = held_out(library, geometry_of)
    unseen = held_out(library, geometry_of, whole_model=True)
    stored = read_store(path)
    if output == "json":
        click.echo(json.dumps(as_data(held, unseen, stored, str(path)), indent=2))
    else:
        click.echo(as_text(held, unseen, stored, str(path)))
    for text in (*uncounted(library, geometry_of), *([note] if note else [])):
        click.echo(text, err=True)
    return 0


def _record(profile: str, directory: str, host: str | None, library: Library, path: Path) -> Record:
    from configurator.evidence.read import read_evidence
    from configurator.plan.geometry import geometry_of
    from configurator.plan.memory import memory_of
    from configurator.plan.observed import observe
    from configurator.plan.prediction_store import read_store
    from configurator.plan.predictions import launch_digest, own_steps, record_of
    from configurator.resolve import resolve

    deployment = resolve(*library.profile(profile), library)
    evidence = read_evidence(Path(directory))
    name = host or observe(evidence).host
    records = read_store(path).records
    own = own_steps(records, name, without=launch_digest(deployment))
    memory = memory_of(deployment, geometry_of(deployment, library))
    return record_of(deployment, library, evidence, geometry_of, memory=memory, own=own, host=host)
