"""From the options of `check` to evidence of running servers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
from configurator.schema.profile import SecretRef

T = TypeVar("T")
_NUMBERED = re.compile(r"(\d{1,4})=(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Targets:
    """The running servers to look at, by replica."""

    urls: dict[int, str]
    logs: dict[int, str]
    reports: dict[int, str]
    pids: dict[int, int]

    @classmethod
    def parse(
        cls,
        urls: tuple[str, ...],
        logs: tuple[str, ...],
        reports: tuple[str, ...],
        pids: tuple[str, ...],
    ) -> Targets:
        """The targets that `[REPLICA=]VALUE` options name; without a number, in their order."""
        targets = cls(
            _numbered("--url", urls, str),
            _numbered("--log", logs, str),
            _numbered("--reports", reports, str),
            _numbered("--pid", pids, int),
        )
        for option, given in (
            ("--log", targets.logs), ("--reports", targets.reports), ("--pid", targets.pids),
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
    arguments = _from_profile(deployment, _reference(api_key_env) if api_key_env else None)
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
                on_progress=lambda text: click.echo(printable(text), err=True),
                **arguments,
            )
        except CollectError as error:
            raise ConfiguratorError.single("COL001", str(error)) from error
        return read_evidence(folder)


def _reference(name: str) -> SecretRef:
    """A variable as a profile would name it.

    Raises:
        ConfiguratorError: COL002, a profile could not name this one.
    """
    try:
        return SecretRef(env=name)
    except ValueError as error:
        raise ConfiguratorError.single(
            "COL002", f"variable {name} cannot hold the API key: a profile cannot name it either",
            "put the key into a variable of its own, in capitals, for instance API_KEY",
        ) from error  # fmt: skip


def _from_profile(deployment: Deployment | None, key: SecretRef | None) -> dict[str, Any]:
    """What the profile says of level and workload, and the key: a given one instead of its own.

    The profile's own is not looked for then: in a container it has another name.
    """
    if deployment is None:
        return {} if key is None else {"api_key": _secret(key)}
    profile = deployment.profile
    sampling = profile.workload.sampling
    arguments: dict[str, Any] = {
        "level": profile.evidence.level,
        "concurrency": profile.workload.concurrency,
        "prompts": profile.workload.prompts,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
        },
    }
    reference = key or profile.serving.api_key
    if reference is not None:
        arguments["api_key"] = _secret(reference)
    return arguments


def _secret(reference: SecretRef) -> str:
    try:
        return read_key(reference.env, reference.file)
    except CollectError as error:
        remedy = "put the key alone there, or name another variable by --api-key-env"
        raise ConfiguratorError.single("COL002", str(error), remedy) from error
