"""`configurator check PROFILE --url URL` and `configurator check --expect NAME --replay DIR`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import (
    content_option,
    open_library,
    open_validators,
)

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.deployment import Deployment
    from configurator.report.plan_html import PlanView


@click.command("check")
@click.argument("profile", metavar="[PROFILE]", required=False)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Judge this instead of a profile's mechanisms; repeatable. `configurator list probes`.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="[REPLICA=]URL",
    help="A running server; repeatable, one for each replica.",
)
@click.option(
    "--log", "logs", multiple=True, metavar="[REPLICA=]FILE", help="Log of a server; repeatable."
)
@click.option(
    "--reports",
    multiple=True,
    metavar="[REPLICA=]DIR",
    help="Folder with the in-engine reports of a server; repeatable.",
)
@click.option(
    "--pid",
    "pids",
    multiple=True,
    metavar="[REPLICA=]PID",
    help="Process that listens at a --url, or started what does: its environment; repeatable.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Judge recorded evidence instead of a running server.",
)
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Evidence of a run without the mechanism; its greedy requests are sent again, and "
    "greedy-equality compares the tokens.",
)
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    help="1: at most 3 short requests; 2: enough for an interval. Default: the profile's, else 1.",
)
@click.option("--passive", is_flag=True, help="Send no requests; only look.")
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(0, 86_400),
    default=0,
    show_default=True,
    help="Seconds to wait for the server to become ready.",
)
@click.option(
    "--api-key-env",
    metavar="NAME",
    help="Variable that holds the server's API key. Default: the profile's reference.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the evidence there.",
)
@click.option(
    "-o",
    "short",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="With --format html: the file to write the page to. Otherwise the same as --out.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["terminal", "json", "html"]),
    default="terminal",
    show_default=True,
    help="For people, for programs, or as one page for a browser.",
)
@content_option
def command(
    profile: str | None,
    expected: tuple[str, ...],
    urls: tuple[str, ...],
    logs: tuple[str, ...],
    reports: tuple[str, ...],
    pids: tuple[str, ...],
    replay: Path | None,
    reference: Path | None,
    level: int | None,
    passive: bool,
    wait_s: int,
    api_key_env: str | None,
    out: Path | None,
    short: Path | None,
    output: str,
    content: tuple[Path, ...],
) -> int:
    """Prove from evidence what took effect.

    Exactly one of PROFILE and --expect says what to judge; --url says which running servers to
    look at, or --replay which recorded evidence. An echo of a request is never a proof.
    """
    from configurator.judge import expectation_from, judge

    target, out = _targets(output, short, out)
    if (profile is None) == (not expected):
        raise click.UsageError("give exactly one of PROFILE and --expect")
    if (replay is None) == (not urls):
        raise click.UsageError("give exactly one of --url and --replay")
    if replay is not None and (logs or reports or pids or passive or wait_s or out or level):
        raise click.UsageError(
            "--replay reads what was recorded: leave out --log, --reports, --pid, --level, "
            "--passive, --wait and --out"
        )
    _refuse_itself(reference, replay or out)
    library = open_library(content)
    validators = open_validators(library, "probes")
    deployment = _deployment(profile, library) if profile else None
    expectations = (
        deployment.expectations
        if deployment
        else tuple(expectation_from(text, validators.probes) for text in expected)
    )
    from configurator.evidence.read import read_evidence, with_reference

    baseline = read_evidence(reference) if reference is not None else None
    if replay is not None:
        evidence = read_evidence(replay)
    else:
        from configurator.commands.collecting import Targets, collect_evidence

        targets = Targets.parse(urls, logs, reports, pids)
        evidence = collect_evidence(
            targets, deployment, level, passive, wait_s, api_key_env, out, baseline
        )
    evidence = with_reference(evidence, baseline) if baseline is not None else evidence
    # A launch script checks the one replica that it started; whoever gives more means all of them.
    whole = replay is not None or len(urls) > 1
    judgement = judge(expectations, evidence, validators, deployment, whole=whole)
    name = deployment.name if deployment else None
    status = deployment.profile.status if deployment else None
    if output == "json":
        from configurator.report.json_report import judgement as as_json

        click.echo(as_json(judgement, name, status))
    elif output == "html":
        from configurator.report.formats import write
        from configurator.report.html import Asked, page

        again = _again(profile, expected, urls, replay or out, reference)
        plan = _plan(profile, deployment, library)
        asked = Asked(expectations, validators.probes, deployment, again, plan)
        write(page(judgement, evidence, asked), target)
    else:
        from configurator.report.terminal import print_judgement

        print_judgement(judgement, name or "expected", status)
    return judgement.exit_code


def _refuse_itself(reference: Path | None, judged: Path | None) -> None:
    """The reference and the evidence that is judged are two directories, however spelled."""
    if reference is not None and judged is not None and reference.resolve() == judged.resolve():
        raise click.UsageError(
            f"--reference {reference} is the evidence that is judged: a run agrees with itself; "
            "give the evidence of another run, without the mechanism"
        )


def _targets(
    output: str, short: Path | None, out: Path | None
) -> tuple[Path | None, Path | None]:  # fmt: skip
    """The file of the page and the folder of the evidence."""
    if short is None:
        return None, out
    if output == "html":
        if short.is_dir():
            raise click.UsageError(
                f"-o {short} is a directory: give the page's file, for instance "
                f"{short / 'check.html'}; --out is where evidence is kept"
            )
        return short, out
    if out is not None:
        raise click.UsageError("-o is --out here: give one of them")
    return None, short


def _again(
    profile: str | None, expected: tuple[str, ...], urls: tuple[str, ...], kept: Path | None,
    reference: Path | None,
) -> str:  # fmt: skip
    """The command that judges the same again, from the kept evidence where there is some."""
    import shlex

    words = ["configurator", "check", *([profile] if profile else [])]
    for text in expected:
        words += ["--expect", text]
    for url in () if kept else urls:
        words += ["--url", url]
    words += ["--replay", str(kept)] if kept else []
    words += ["--reference", str(reference)] if reference else []
    return shlex.join([*words, "--format", "html", "-o", "check.html"])


def _plan(
    profile: str | None, deployment: Deployment | None, library: Library
) -> PlanView | None:  # fmt: skip
    from configurator.report.plan_html import planned_view

    if profile is None or deployment is None:
        return None
    return planned_view(deployment, library, profile)


def _deployment(profile: str, library: Library) -> Deployment:
    from configurator.render.demands import refuse_edited
    from configurator.resolve import resolve

    deployment = resolve(*library.profile(profile), library)
    refuse_edited(deployment)
    return deployment
