"""`configurator plan PROFILE [PROFILE_B]`"""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import (
    content_option,
    format_option,
    open_library,
    open_validators,
)

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.deployment import Deployment
    from configurator.evidence.model import Evidence
    from configurator.plan.diff import Diff
    from configurator.plan.efficiency import Plain
    from configurator.plan.figures import Figure
    from configurator.plan.model import Plan
    from configurator.plan.step import Asked
    from configurator.report.plan_sheet import Sheet


@click.command("plan")
@click.argument("profile", metavar="PROFILE")
@click.argument("other", metavar="[PROFILE_B]", required=False)
@click.option(
    "--running",
    metavar="URL|DIR",
    help="Compare with a running server, or with the evidence that `check --out` kept of one.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 65_536),
    metavar="N",
    help="Requests decoded together. Default: the workload's concurrency.",
)
@click.option(
    "--context",
    type=click.IntRange(1, 100_000_000),
    metavar="N",
    help="Tokens of each in the caches while decoding. Default: the workload's, else 1024.",
)
@click.option(
    "--accepted",
    type=click.FloatRange(1),
    metavar="X",
    help="Measured tokens a step with speculation, the bonus token included.",
)
@click.option(
    "--experts",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Measured distinct routed experts a layer in one pass. Default: uniform routing.",
)
@click.option(
    "--host",
    metavar="NAME",
    help="Calibrate with the plain steps that `configurator predictions --add` kept of this host. "
    "Default: this machine, by its GPUs and memory.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also draw the plan, as .svg or .png (which needs the extra `plot`).",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page with the picture and every figure.",
)
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Also ask aisimulate (the extra `predict`), as a program and offline.",
)
@click.option(
    "--api-key-env",
    metavar="NAME",
    help="Variable that holds the running server's API key. Default: the profile's reference.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show the formula of every part and read.")
@format_option
@content_option
def command(
    profile: str,
    other: str | None,
    running: str | None,
    batch: int | None,
    context: int | None,
    accepted: float | None,
    experts: float | None,
    host: str | None,
    plot: Path | None,
    html: Path | None,
    second_opinion: bool,
    api_key_env: str | None,
    verbose: bool,
    output: str,
    content: tuple[Path, ...],
) -> int:
    """Say whether a profile fits, what bounds it, and which published figures apply.

    Memory of a GPU, tokens and requests it holds, a range for the time of a token, when
    speculation pays; every figure with its formula and source. With PROFILE_B or --running only
    what differs. Exit code 1: it does not fit. The network is used for the --running URL alone.
    """
    from configurator.plan.step import Asked

    if other is not None and running is not None:
        raise click.UsageError("give one of PROFILE_B and --running")
    if (other is not None or running is not None) and (plot or html or second_opinion):
        raise click.UsageError("--plot, --html and --second-opinion are for one profile")
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise click.UsageError(f"--plot {plot}: give a name that ends in .svg or .png")
    gc.set_threshold(100_000)
    library = open_library(content)
    asked = Asked(batch, context, experts, accepted)
    deployment, refused = _judged(profile, library)
    own = _own_steps(host) if host is not None else _steps_of_this_host(deployment)
    reads = _reads_of_this_host(deployment) if host is None else None
    if running is not None:
        return _held(deployment, library, asked, own, running, api_key_env, output)
    plan = _planned(deployment, library, asked, own, reads)
    if other is not None:
        second = _deployment(other, library)
        return _differences(deployment, plan, second, _planned(second, library, asked, own), output)
    sheet = _sheet(profile, deployment, plan, refused, library, second_opinion)
    if plot is not None:
        _draw(sheet, plot)
    if html is not None:
        from configurator.report.formats import write
        from configurator.report.plan_html import plan_page

        write(plan_page(sheet), html)
    if output == "json":
        from configurator.report.plan_json import plan_json

        click.echo(plan_json(sheet))
    else:
        from configurator.report.plan_text import print_plan

        print_plan(sheet, verbose=verbose)
    return sheet.exit_code


def _judged(profile: str, library: Library) -> tuple[Deployment, tuple[str, ...]]:
    """The deployment, and the codes of what validation holds for an error."""
    from configurator.validate import counts, judge

    deployment = _deployment(profile, library)
    findings = judge(deployment, open_validators(library, "rules"))
    codes = (finding.code for finding in findings if counts(finding, "error"))
    return deployment, tuple(dict.fromkeys(codes))


def _deployment(profile: str, library: Library) -> Deployment:
    from configurator.resolve import resolve

    return resolve(*library.profile(profile), library)


def _own_steps(host: str) -> tuple[Plain, ...]:
    """Plain steps of a host, from the store.

    Raises:
        ConfiguratorError: PLN004, the store cannot be read; PLN007, it has none of this host.
    """
    from configurator.plan.prediction_store import read_store
    from configurator.plan.predictions import own_steps
    from configurator.plan.store_path import default_store

    records = read_store(default_store()).records
    found = own_steps(records, host)
    if not found:
        from configurator.errors import ConfiguratorError, did_you_mean

        raise ConfiguratorError.single(
            "PLN007", f"no plain step of host {host!r} is kept",
            did_you_mean(host, sorted({record.host for record in records}))
            if records
            else "record one: configurator predictions --add PROFILE EVIDENCE_DIR --host NAME",
        )  # fmt: skip
    return found


def _steps_of_this_host(deployment: Deployment) -> tuple[Plain, ...]:
    """Plain steps that the store has of this machine, if it is what the profile is for.

    Raises:
        ConfiguratorError: PLN004, the store cannot be read.
    """
    from configurator.plan.store_path import default_store

    store = default_store()
    if not os.path.exists(store):
        return ()
    from configurator.plan.prediction_store import calibrating

    return calibrating(store, deployment.hardware.name)


def _reads_of_this_host(deployment: Deployment) -> Figure | None:
    """GB/s that a self-test reads here, on the GPU that the profile is for; None: not measured.

    Raises:
        ConfiguratorError: KRN002, what self-tests kept cannot be read.
    """
    from configurator.plan.store_path import default_figures

    path, product = default_figures(), deployment.hardware.product
    if not os.path.exists(path):
        return None
    from configurator.kerneltests.store import read_figures
    from configurator.plan.figures import between

    kept = read_figures(path)
    found = kept.reads(product) if kept is not None and product is not None else None
    if found is None:
        return None
    name, rate = found
    return between(
        rate.low, rate.value, rate.high, "GB/s", "read", f"self-test {name} of this host"
    )


def _planned(
    deployment: Deployment, library: Library, asked: Asked, own: tuple[Plain, ...],
    reads: Figure | None = None,
) -> Plan:  # fmt: skip
    from configurator.plan.planning import plan_of

    return plan_of(deployment, library, asked, own, reads)


def _sheet(
    profile: str, deployment: Deployment, plan: Plan, refused: tuple[str, ...], library: Library,
    second_opinion: bool,
) -> Sheet:  # fmt: skip
    from configurator.plan.claims import match
    from configurator.report.plan_sheet import Sheet, place_of

    opinion = None
    if second_opinion:
        from configurator.plan.opinion import opinion_of
        from configurator.plan.step import Asked, load_of_profile

        load = plan.step or load_of_profile(deployment, plan.geometry, Asked())
        opinion = opinion_of(deployment, load.batch, int(load.context))
    return Sheet(
        plan, profile, place_of(deployment), deployment.profile.status, refused,
        match(deployment, library.claims().values()), opinion,
    )  # fmt: skip


def _draw(sheet: Sheet, target: Path) -> None:
    """The picture as a file.

    Raises:
        ConfiguratorError: a PNG cannot be drawn here.
        click.FileError: the file cannot be written.
    """
    from configurator.report.formats import write
    from configurator.report.plan_svg import plan_svg

    svg = plan_svg(sheet.plan, sheet.place)
    if target.suffix == ".svg":
        write(svg, target)
        return
    from configurator.report.formats import write_bytes
    from configurator.report.plan_png import png

    write_bytes(png(svg), target)


def _differences(
    deployment: Deployment, plan: Plan, other: Deployment, second: Plan, output: str
) -> int:
    from configurator.plan.diff import Planned, diff

    found = diff(Planned(deployment, plan), Planned(other, second))
    _say_misfits(plan, second)
    return _show(found, max(_exit_code(plan), _exit_code(second)), output)


def _held(
    deployment: Deployment, library: Library, asked: Asked, own: tuple[Plain, ...], running: str,
    api_key_env: str | None, output: str,
) -> int:  # fmt: skip
    """Against a server: planned for the batch, context and acceptance that it was seen at."""
    from configurator.errors import ConfiguratorError
    from configurator.plan.diff import Planned
    from configurator.plan.observed import observe
    from configurator.plan.running import held_against, seen_at

    evidence = _evidence(running, deployment, api_key_env)
    at = seen_at(asked, observe(evidence))
    try:
        plan = _planned(deployment, library, at, own)
    except ConfiguratorError:
        if at.accepted == asked.accepted:
            raise
        # A server of another width may accept what this profile never can.
        plan = _planned(deployment, library, replace(at, accepted=None), own)
    _say_misfits(plan)
    return _show(
        held_against(Planned(deployment, plan), evidence, running), _exit_code(plan), output
    )


def _say_misfits(*plans: Plan) -> None:
    """Why the exit code is 1, which differences alone do not show."""
    for plan in plans:
        if _exit_code(plan):
            click.echo(f"{plan.name} does not fit; its own plan says by how much", err=True)


def _exit_code(plan: Plan) -> int:
    return int(plan.memory is not None and plan.memory.fits is False)


def _show(found: Diff, code: int, output: str) -> int:
    from configurator.report.plan_text_diff import diff_json, print_diff

    if output == "json":
        click.echo(diff_json(found, code))
    else:
        print_diff(found)
    return code


def _evidence(running: str, deployment: Deployment, api_key_env: str | None) -> Evidence:
    """Of a directory as it is; of a URL collected now, without any request for text.

    Raises:
        ConfiguratorError: there is no evidence, the key cannot be read, or PLN006, the server does
            not answer.
    """
    if "://" not in running:
        from configurator.evidence.read import read_evidence

        return read_evidence(Path(running))
    from configurator.commands.collecting import Targets, collect_evidence

    targets = Targets.parse((running,), (), (), ())
    evidence = collect_evidence(targets, deployment, None, True, 0, api_key_env, None)
    (replica,) = evidence.replicas
    if replica.server_info is None and replica.server_info_startup is None:
        from configurator.collector.redaction import redact_text
        from configurator.errors import ConfiguratorError

        raise ConfiguratorError.single(
            "PLN006", f"{redact_text(running)} says nothing of itself: "
            f"{replica.state.reason or replica.state.state}",
            "give the URL of a server that answers /server_info, or kept evidence",
        )  # fmt: skip
    return evidence
