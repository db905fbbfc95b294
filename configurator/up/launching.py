"""The processes of this host: their words with secrets and addresses filled in, and their start."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from configurator.collector.inputs import CollectError, read_key
from configurator.collector.redaction import find_secrets, redact_json
from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.errors import ConfiguratorError
from configurator.render.bash import script_name
from configurator.render.instrument import joined
from configurator.render.launches import named_secrets
from configurator.schema.profile import SecretRef
from configurator.up import proc
from configurator.up.lock import MARK, Group, RunLock
from configurator.up.logs import Log
from configurator.up.phases import Step

_WAIT_THEN_RUN = 'read -r _ && exec "$@" </dev/null'
"""The child runs only once it is written down: with us gone it reads the end, and ends."""
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Command:
    """One process as it is started here."""

    process: Process
    argv: tuple[str, ...] = field(repr=False)
    """With secrets: never shown, never written."""
    env: dict[str, str] = field(repr=False)
    """The whole environment: ours, and over it what the deployment and the probe set."""
    shown: tuple[str, ...]
    """`argv` as it may be shown."""
    added: dict[str, str]
    """What was set over our environment, without secrets."""
    secrets: frozenset[str] = field(repr=False)

    @property
    def name(self) -> str:
        """`replica0-host0`, as its log is called; the host counts within the replica."""
        return script_name(self.process).removesuffix(".sh")

    @property
    def is_engine(self) -> bool:
        """An engine and not the router."""
        return self.process.role == "engine"

    @property
    def answers(self) -> bool:
        """It listens for requests: rank 0 of a replica, and the router."""
        return self.process.rank == 0

    @property
    def host(self) -> str:
        """The address it listens on, without brackets."""
        return (_value(self.argv, "--host") or "127.0.0.1").strip("[]")

    @property
    def port(self) -> int:
        """The port it listens on."""
        given = _value(self.argv, "--port")
        return int(given) if given and given.isdecimal() else self.process.port

    @property
    def rendezvous(self) -> tuple[str, int] | None:
        """Where the ranks of several hosts meet; None when all are on one."""
        address, _, port = (_value(self.argv, "--dist-init-addr") or "").rpartition(":")
        return (address.strip("[]"), int(port)) if address and port.isdecimal() else None

    @property
    def url(self) -> str:
        """Where this host reaches it."""
        host = _ANY_ADDRESS.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def _value(argv: tuple[str, ...], name: str) -> str | None:
    """The value of an argument; of a repeated one the last, as argparse has it."""
    found = None
    for index, word in enumerate(argv):
        if word == name and index + 1 < len(argv):
            found = argv[index + 1]
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


def commands_of(
    deployment: Deployment,
    host: int,
    addresses: Mapping[tuple[int, int], str],
    python: str | None,
    instrument: Mapping[int, Mapping[str, str]],
) -> tuple[Command, ...]:
    """The processes that run on `host`, engines first.

    Args:
        deployment: what is launched.
        host: which of its hosts this is, counting from 0.
        addresses: (replica, host within it) -> address; all that are needed when there are
            several hosts.
        python: the interpreter instead of `python3`.
        instrument: replica -> variables of the in-engine probe.

    Raises:
        ConfiguratorError: an address is missing, or a secret cannot be read.
    """
    found = []
    for process in deployment.processes:
        if process.host == host:
            extra = instrument.get(process.replica, {}) if process.role == "engine" else {}
            found.append(_command(deployment, process, addresses, python, extra))
    return tuple(found)


def _command(
    deployment: Deployment,
    process: Process,
    addresses: Mapping[tuple[int, int], str],
    python: str | None,
    extra: Mapping[str, str],
) -> Command:
    known = {} if deployment.hosts > 1 else _LOCAL
    pairs = [_word(word, addresses, known) for word in process.argv]
    argv, shown = [real for real, _ in pairs], [safe for _, safe in pairs]
    if python is not None:
        argv[0] = shown[0] = python
    env = {**os.environ, **dict(process.env)}
    changed = _with_probe(extra, env)
    env |= changed
    named = {n: read_secret(ref) for n, ref in named_secrets(deployment, process).items()}
    env |= named
    added = {name: env[name] for name in (*dict(process.env), *changed)}
    secrets = {real for real, safe in pairs if real != safe} | find_secrets(env)
    secrets |= find_secrets(dict(pairwise(argv))) | set(named.values())
    return Command(
        process, tuple(argv), env, tuple(redact_json(shown, secrets)),
        redact_json(added, secrets), frozenset(secrets),
    )  # fmt: skip


_LOCAL = {"all": "127.0.0.1"}


def _with_probe(extra: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """What the in-engine probe changes in an environment."""
    values = {name: joined(name, value, env.get(name)) for name, value in extra.items()}
    return {name: value for name, value in values.items() if value is not None}


def _word(
    word: Word, addresses: Mapping[tuple[int, int], str], known: Mapping[str, str]
) -> tuple[str, str]:
    """A word as it is used, and as it may be shown."""
    if isinstance(word, SecretRef):
        return read_secret(word), f"<secret: {word.file or word.env}>"
    if not isinstance(word, HostPlaceholder):
        return word, word
    address = addresses.get((word.replica, word.host)) or known.get("all")
    if address is None:
        place = f"{word.replica}.{word.host}"
        raise ConfiguratorError.single(
            "RUN002", f"the address of host {word.host} of replica {word.replica} is not known",
            f"give it: --address {place}=ADDRESS",
        )  # fmt: skip
    if ":" in address and not address.startswith("["):
        # A port follows it.
        address = f"[{address}]"
    scheme = f"{word.scheme}://" if word.scheme else ""
    port = f":{word.port}" if word.port else ""
    return (f"{scheme}{address}{port}",) * 2


def read_secret(reference: SecretRef) -> str:
    """The secret that is kept there.

    Raises:
        ConfiguratorError: RUN003, it cannot be read, is empty, or no request could carry it.
    """
    try:
        return read_key(reference.env, reference.file)
    except CollectError as error:
        remedy = "put the key alone there, or change serving.api_key"
        raise ConfiguratorError.single("RUN003", str(error), remedy) from error


@dataclass(slots=True)
class Running:
    """A process that was started."""

    command: Command
    popen: subprocess.Popen[bytes]
    group: Group
    log: Log

    @property
    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.popen.poll()


def start(
    command: Command, log: Path, lock: RunLock, on_step: Callable[[Step], None] = lambda step: None
) -> Running:
    """Start a process in a session of its own, written down before it runs.

    Raises:
        ConfiguratorError: its program does not exist (RUN004).
    """
    program = command.argv[0]
    if shutil.which(program, path=command.env.get("PATH")) is None:
        raise ConfiguratorError.single(
            "RUN004", f"the program {program} does not exist", "give the engine's: --python PATH"
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    pipe = os.fstat(writing).st_ino
    try:
        popen = _spawn(command, writing, lock.run)
        stat = proc.read_stat(popen.pid)
        group = Group(popen.pid, stat.start if stat else 0, command.name, lock.run, pipe)
        _write_down(group, popen, lock)
    except ConfiguratorError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    running = Running(command, popen, group, Log(reading, log, command.secrets, on_step))
    assert popen.stdin is not None
    try:
        popen.stdin.write(b"\n")
        popen.stdin.close()
    except BrokenPipeError:
        pass  # it is dead already, and whoever waits for it will see that
    return running


def _spawn(command: Command, output: int, run: str) -> subprocess.Popen[bytes]:
    """The process, which waits for a word before it begins."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_THEN_RUN, "sh", *command.argv],
            env={**command.env, MARK: run}, stdin=subprocess.PIPE, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfiguratorError.single(
            "RUN004", f"{command.argv[0]} cannot be started: {why}", "see --python"
        ) from error


def _write_down(group: Group, popen: subprocess.Popen[bytes], lock: RunLock) -> None:
    try:
        lock.add(group)
    except ConfiguratorError:
        popen.kill()
        popen.communicate()
        raise
