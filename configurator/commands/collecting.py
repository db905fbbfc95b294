"""From the options of `check` to evidence of running servers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from configurator.collector.collecting import collect
from configurator.collector.inputs import CollectError, read_key
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.evidence.model import Evidence
from configurator.evidence.read import greedy_requests, read_evidence
from configurator.report.findings import printable

T = TypeVar("T")
_NUMBERED = re.compile(r"(\d{1,4})=(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Targets:
    """The running servers to look at, by replica."""

    urls: dict[int, str]
    logs: dict[int, str]
    reports: dict[int, str]
    pids: dict[int, int]
    traces: dict[int, list[str]] = field(default_factory=dict)
    trace_dir: str | None = None

    @classmethod
    def parse(
        cls,
        urls: tuple[str, ...],
        logs: tuple[str, ...],
        reports: tuple[str, ...],
        pids: tuple[str, ...],
        traces: tuple[str, ...] = (),
        trace_dir: str | None = None,
    ) -> Targets:
        """The targets that `[REPLICA=]VALUE` options name; without a number, in their order."""
        targets = cls(
            _numbered("--url", urls, str),
            _numbered("--log", logs, str),
            _numbered("--reports", reports, str),
            _numbered("--pid", pids, int),
            _several(traces),
            trace_dir,
        )
        for option, given in (
            ("--log", targets.logs), ("--reports", targets.reports), ("--pid", targets.pids),
            ("--trace", targets.traces),
        ):  # fmt: skip
            for replica in given:
                if replica not in targets.urls:
                    known = ", ".join(map(str, targets.urls))
                    raise click.UsageError(
                        f"{option} is for replica {replica}, but --url names only {known}"
                    )
        return targets


def _numbered(option: str, values: tuple[str, ...], convert: Callable[[str], T]) -> dict[int, T]:
    found: dict[int, T] = {}
    for position, value in enumerate(values):
        match = _NUMBERED.match(value)
        replica, text = (int(match[1]), match[2]) if match else (position, value)
        if replica in found:
            raise click.UsageError(f"{option} names replica {replica} twice; number each")
        try:
            found[replica] = convert(text)
        except ValueError:
            raise click.UsageError(f"{option} is {text!r}; give a whole number") from None
    return found


def _several(values: tuple[str, ...]) -> dict[int, list[str]]:
    """`[REPLICA=]FILE`, any number for each replica; without a number of the first."""
    found: dict[int, list[str]] = {}
    for value in values:
        match = _NUMBERED.match(value)
        replica, file = (int(match[1]), match[2]) if match else (0, value)
        found.setdefault(replica, []).append(file)
    return found


def collect_evidence(
    targets: Targets,
    deployment: Deployment | None,
    level: int | None,
    passive: bool,
    wait_s: int,
    api_key_env: str | None,
    out: Path | None,
    reference: Evidence | None = None,
) -> Evidence:
    """Collect from every target, then read back what was written.

    The greedy requests of a `reference` run are sent again, to be compared.

    Raises:
        ConfiguratorError: a target, file or key that cannot be used.
    """
    arguments = _from_profile(deployment, api_key_env)
    if level is not None:
        arguments["level"] = level
    if reference is not None:
        arguments["references"] = greedy_requests(reference)
    with tempfile.TemporaryDirectory(prefix="configurator-") as scratch:
        folder = out or Path(scratch) / "evidence"
        try:
            collect(
                targets.urls,
                folder,
                passive=passive,
                wait_s=wait_s,
                logs=targets.logs,
                reports=targets.reports,
                pids=targets.pids,
                traces=targets.traces,
                trace_dir=targets.trace_dir,
                on_progress=lambda text: click.echo(printable(text), err=True),
                **arguments,
            )
        except CollectError as error:
            raise ConfiguratorError.single("COL001", str(error)) from error
        return read_evidence(folder)


def _from_profile(deployment: Deployment | None, key_env: str | None) -> dict[str, Any]:
    """What the profile says of level and workload, and the key: a given one instead of its own.

    The profile's own is not looked for then: in a container it has another name, and the given one
    may be a variable that no profile may name, as that of the rendered checks.
    """
    given = {"api_key": _secret(key_env, None)} if key_env else {}
    if deployment is None:
        return given
    profile = deployment.profile
    sampling = profile.workload.sampling
    arguments: dict[str, Any] = {
        "kept": tuple(profile.extra.secrets),
        "level": profile.evidence.level,
        "concurrency": profile.workload.concurrency,
        "prompts": profile.workload.prompts,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
        },
    }
    own = profile.serving.api_key
    if own is not None and not given:
        given = {"api_key": _secret(own.env, own.file)}
    return {**arguments, **given}


def _secret(variable: str | None, file: str | None) -> str:
    try:
        return read_key(variable, file)
    except CollectError as error:
        remedy = "put the key alone there, or name another variable by --api-key-env"
        raise ConfiguratorError.single("COL002", str(error), remedy) from error
