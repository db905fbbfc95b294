"""`configurator up PROFILE`"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configurator.commands.options import content_option, open_library, open_validators

if TYPE_CHECKING:
    from configurator.content import Library
    from configurator.deployment import Deployment
    from configurator.judge import Judgement
    from configurator.loader import Validators
    from configurator.up.session import SelfCheck
    from configurator.up.targets import Target

_ADDRESS = re.compile(r"(\d{1,4})\.(\d{1,4})=([A-Za-z0-9:][A-Za-z0-9:.%_-]*)")


@click.command("up")
@click.argument("profile", metavar="PROFILE")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="New directory for logs, evidence and verdicts. Default: ./up-NAME-TIME.",
)
@click.option(
    "--host",
    type=click.IntRange(0),
    metavar="N",
    help="Which host of the deployment this is, from 0. Needed when there are several.",
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="REPLICA.HOST=ADDRESS",
    help="Address of a host, counted within its replica; repeatable. With several hosts.",
)
@click.option("--python", metavar="PATH", help="The engine's Python, instead of python3.")
@click.option(
    "--skip",
    multiple=True,
    metavar="CHECK[,CHECK]",
    help="Leave out preflight checks: engine, packages, plugins, gpu, memory, port, model, disk.",
)
@click.option("--once", is_flag=True, help="Stop after the self-check, for instance in CI.")
@click.option("--verbose", "-v", is_flag=True, help="Show the log's last line with the progress.")
@content_option
def command(
    profile: str,
    report: Path | None,
    host: int | None,
    addresses: tuple[str, ...],
    python: str | None,
    skip: tuple[str, ...],
    once: bool,
    verbose: bool,
    content: tuple[Path, ...],
) -> int:
    """Launch a deployment here, and prove that it is what was asked for.

    Validates, checks this host, starts the engine, shows how far it is, and judges it from
    evidence. A refuted mechanism stops it, is warned of, or is left out and launched without, as
    the profile says. Then it serves until it is stopped; nothing that it started remains.
    """
    from configurator.up.console import Console
    from configurator.up.session import Plan, Session

    skipped = _checks(skip)
    library = open_library(content)
    validators = open_validators(library)
    deployment = _validated(profile, validators, content)
    if deployment is None:
        return 1
    plan = Plan(
        deployment,
        library,
        validators,
        report or Path(f"up-{deployment.name}-{time.strftime('%Y%m%dT%H%M%S')}"),
        _host(deployment, host),
        dict(map(_address, addresses)),
        python,
        skipped,
        once,
    )
    return Session(plan, _self_check(validators, library), Console(verbose=verbose)).run()


def _validated(
    profile: str, validators: Validators, content: tuple[Path, ...]
) -> Deployment | None:
    """The deployment; None when it has errors, which are shown then."""
    from configurator.errors import ConfiguratorError, Problem
    from configurator.report.terminal import print_validations
    from configurator.validate import validate

    result = validate(profile, open_library(content), validators)
    if result.deployment is None:
        raise ConfiguratorError(
            Problem(f.code, f.message, f.remedy, f.position) for f in result.findings
        )
    if not result.exit_code("error"):
        return result.deployment
    print_validations([result], quiet=True)
    click.echo(f"nothing started: {profile} has errors", err=True)
    return None


def _checks(skip: Sequence[str]) -> frozenset[str]:
    from configurator.errors import did_you_mean
    from configurator.up.preflight import CHECKS

    names = [part.strip() for text in skip for part in text.split(",")]
    for name in names:
        if name not in CHECKS:
            raise click.UsageError(
                f"--skip: no check is named {name!r}; {did_you_mean(name, CHECKS)}"
            )
    return frozenset(names)


def _host(deployment: Deployment, host: int | None) -> int:
    if host is None and deployment.hosts > 1:
        raise click.UsageError(
            f"{deployment.name} has {deployment.hosts} hosts; say which this is: --host N, from 0"
        )
    if (host or 0) >= deployment.hosts:
        last = deployment.hosts - 1
        raise click.UsageError(f"--host {host}: the hosts of {deployment.name} are 0 to {last}")
    return host or 0


def _address(text: str) -> tuple[tuple[int, int], str]:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise click.UsageError(f"--address {text!r}; write it like 0.1=10.0.0.2")
    return (int(match[1]), int(match[2])), match[3]


def _self_check(validators: Validators, library: Library) -> SelfCheck:
    """What `check` does, of the servers that were started."""
    from configurator.commands.collecting import Targets, collect_evidence
    from configurator.judge import judge

    def check(deployment: Deployment, servers: Sequence[Target], out: Path) -> Judgement:
        targets = Targets(
            {server.replica: server.url for server in servers},
            {server.replica: str(server.log) for server in servers if server.log},
            {server.replica: str(server.reports) for server in servers if server.reports},
            {server.replica: server.pid for server in servers},
        )
        evidence = collect_evidence(targets, deployment, None, False, 0, None, out)
        whole = len(servers) == deployment.profile.topology.replicas
        return judge(
            deployment.expectations, evidence, validators, deployment, whole=whole, library=library
        )

    return check
