"""What a person gives a script that is started by hand; for START.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from configurator.deployment import Deployment, Process
from configurator.render.launches import address_variable, addresses_of, secrets_of


@dataclass(frozen=True, slots=True)
class Started:
    """A script and what a person must give it."""

    script: str
    process: Process
    addresses: tuple[tuple[str, int], ...]
    """Variables with the address of a host, and the number of that host."""
    keys: tuple[str, ...]
    """Variables with keys."""

    @property
    def example(self) -> str:
        """The line with every address, as an example has it."""
        told = "".join(f"{name}={example_address(host)} " for name, host in self.addresses)
        return f"{told}./{self.script}"


def started(deployment: Deployment, script: str, process: Process) -> Started:
    """A process as it is started by hand."""
    keys = [key.reference.env for key in secrets_of(deployment, process) if key.reference.env]
    return Started(script, process, tuple(told_hosts(deployment, process)), tuple(keys))


def told_hosts(deployment: Deployment, process: Process) -> Iterator[tuple[str, int]]:
    """Every variable with an address that must be given, and the host that it means."""
    if deployment.hosts == 1:
        return
    places = {(p.replica, p.rank): p.host for p in deployment.processes if p.role == "engine"}
    for word in addresses_of(process):
        yield address_variable(word), places[word.replica, word.host]


def example_address(host: int) -> str:
    """An address for documents."""
    return f"192.0.2.{10 + host}"
