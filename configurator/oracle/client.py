"""Asking the engine itself: one process of its Python judges many launches.

The process (`child.py`) starts once in some seconds and then takes a fraction of a second a
launch. Secrets never come back: every text it gives is redacted here.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from configurator.collector.redaction import redact_json, redact_text
from configurator.errors import ConfiguratorError
from configurator.launch import Launch, LaunchWord
from configurator.schema.content import Hardware

CHILD = Path(__file__).with_name("child.py")
GRACE_S = 10.0
"""How much longer than a launch's limit we wait for the process that watches it."""

State = Literal["resolved", "refused", "skipped", "crashed"]
Progress = Callable[[str], None]
_STATES = ("resolved", "refused", "skipped", "crashed")


@dataclass(frozen=True, slots=True)
class OracleLaunch:
    """One launch to ask the engine about."""

    id: str
    argv: tuple[str, ...]
    """The engine's arguments, without the program."""
    env: dict[str, str] = field(default_factory=dict)
    gpu: dict[str, Any] | None = None
    """`arch`, `memory_gb`, `gpus_per_host`, `product`, `sms`; None takes the machine as it is,
    without GPUs."""
    config: dict[str, Any] | None = None
    """config.json of the model, when `--model-path` is not on this machine."""
    draft_config: dict[str, Any] | None = None
    """config.json of the draft, when its path is not on this machine."""
    notes: tuple[str, ...] = ()
    """What was left out of the arguments, and why."""


@dataclass(frozen=True, slots=True)
class OracleResult:
    """What the engine makes of a launch."""

    id: str
    state: State
    version: str
    """The engine's version."""
    error: str = ""
    """Why it is refused, skipped or crashed."""
    where: str = ""
    """Where the engine refuses, as `sglang/srt/...:line`."""
    resolved: dict[str, object] = field(default_factory=dict)
    """Every argument as the engine will use it, by the engine's names."""
    warnings: tuple[str, ...] = ()
    """What the engine logs meanwhile."""
    asked: dict[str, object] = field(default_factory=dict)
    """The arguments that were given, by the engine's names."""
    spellings: dict[str, list[str]] = field(default_factory=dict)
    """The options that set each argument that was given."""
    decided_by: dict[str, str] = field(default_factory=dict)
    """The engine's own name for what decided over an argument that was given."""
    notes: tuple[str, ...] = ()
    """What the judgement had to assume."""


class Oracle:
    """A Python that can import the engine, asked about launches."""

    def __init__(
        self, python: Path, timeout_s: float = 120, progress: Progress | None = None
    ) -> None:
        """Nothing is started yet.

        Args:
            python: the interpreter of an environment with the engine.
            timeout_s: limit for the start, and for each launch, in seconds.
            progress: told in a few words what happens.
        """
        self.python = python
        self.timeout_s = timeout_s
        self.progress = progress or (lambda _text: None)
        self.version = ""
        """The engine's version, once it has started."""

    def check(self, launches: Iterable[OracleLaunch]) -> Iterator[OracleResult]:
        """One result for each launch, in order.

        Raises:
            ConfiguratorError: ORC002 the Python cannot be run, ORC003 the engine cannot be
                imported, ORC004 the process ended or did not answer.
        """
        with tempfile.TemporaryFile() as log:
            process, results = self._start(log)
            try:
                self._wait_until_ready(process, results, log)
                for launch in launches:
                    self.progress(launch.id)
                    _send(process, launch)
                    limit = self.timeout_s + GRACE_S
                    answer = results.line(limit)
                    if answer is None:
                        raise self._silent(process, log, f"on {launch.id}", limit)
                    yield _result(launch, answer)
            finally:
                results.close()
                _stop(process)

    def _start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], _Lines]:
        read, write = os.pipe()
        command = [str(self.python), str(CHILD), str(write), f"{self.timeout_s:g}"]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(write,),
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            os.close(read)
            message = f"{self.python} cannot be run: {error.strerror or error}"
            remedy = "name the Python of an environment with the engine, as /opt/venv/bin/python"
            raise ConfiguratorError.single("ORC002", message, remedy) from error
        finally:
            os.close(write)
        return process, _Lines(read)

    def _wait_until_ready(
        self, process: subprocess.Popen[bytes], results: _Lines, log: IO[bytes]
    ) -> None:
        self.progress(f"importing the engine with {self.python}")
        first = results.line(self.timeout_s)
        if first is None:
            raise self._silent(process, log, "while it imports the engine", self.timeout_s)
        if "ready" not in first:
            why = redact_text(str(first.get("failed", "it says nothing of why")))
            place = f" ({first['where']})" if first.get("where") else ""
            message = f"{self.python} cannot import the engine: {why}{place}"
            remedy = "install sglang there, with what it imports, or name another Python"
            raise ConfiguratorError.single("ORC003", message, remedy)
        self.version = str(first["ready"])
        self.progress(f"SGLang {self.version} is ready after {first.get('seconds')} s")

    def _silent(
        self, process: subprocess.Popen[bytes], log: IO[bytes], when: str, limit: float
    ) -> ConfiguratorError:
        code = _ended(process)
        how = f"ended with status {code}" if code is not None else f"said nothing for {limit:g} s"
        message = f"the engine's process {how} {when}{_last_line(log)}"
        remedy = "run its Python with `import sglang.srt.server_args` and see what it says"
        return ConfiguratorError.single("ORC004", message, remedy)


class _Lines:
    """Lines of JSON from a file descriptor, waited for no longer than allowed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.rest = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(descriptor, selectors.EVENT_READ)

    def line(self, limit: float) -> dict[str, Any] | None:
        """The next line; None at the end, or when none comes within `limit` seconds."""
        ends = time.monotonic() + limit
        while b"\n" not in self.rest:
            if not self.selector.select(max(0.0, ends - time.monotonic())):
                return None
            part = os.read(self.descriptor, 1 << 16)
            if not part:
                return None
            self.rest += part
        line, self.rest = self.rest.split(b"\n", 1)
        try:
            data = json.loads(line)
        except ValueError:
            return None
        return data if isinstance(data, dict) else None

    def close(self) -> None:
        self.selector.close()
        os.close(self.descriptor)


def _environment() -> dict[str, str]:
    """Ours, without what would change the engine's mind."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "SGL_"))}
    return kept | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def _send(process: subprocess.Popen[bytes], launch: OracleLaunch) -> None:
    data = {
        "id": launch.id,
        "argv": list(launch.argv),
        "env": launch.env,
        "gpu": launch.gpu,
        "config": launch.config,
        "draft_config": launch.draft_config,
    }
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(data).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        return  # It has ended; the reader will say so.


def _result(launch: OracleLaunch, answer: dict[str, Any]) -> OracleResult:
    state = answer.get("state")
    found: dict[str, Any] = redact_json(answer)
    return OracleResult(
        launch.id,
        state if state in _STATES else "crashed",
        str(found.get("version", "")),
        redact_text(str(found.get("error") or "")),
        str(found.get("where") or ""),
        dict(found.get("resolved") or {}),
        tuple(redact_text(str(text)) for text in found.get("warnings") or ()),
        dict(found.get("asked") or {}),
        dict(answer.get("spellings") or {}),
        dict(answer.get("decided_by") or {}),
        (*launch.notes, *map(str, found.get("notes") or ())),
    )


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return f"; its last line: {redact_text(lines[-1].strip())}" if lines else ""


def gpu_facts(hardware: Hardware) -> dict[str, Any]:
    """What the engine may ask a GPU of this machine."""
    memory = hardware.memory_gb
    if hardware.usable_gib is not None and memory is not None:
        memory = min(memory, hardware.usable_gib * 1.024**3)
    return {
        "arch": hardware.arch,
        "memory_gb": memory,
        "gpus_per_host": hardware.gpus_per_host,
        "product": hardware.product,
        "sms": hardware.sms,
    }


def oracle_launch(
    launch: Launch,
    identity: str,
    config: dict[str, Any] | None = None,
    draft_config: dict[str, Any] | None = None,
) -> OracleLaunch:
    """A launch as a question; arguments that nobody knows before the start are left out."""
    argv, left_out = _known(launch.words)
    if launch.parsed.positionals:
        argv = ("--model-path", *argv)
    return OracleLaunch(
        identity,
        argv,
        {name: e.value for name, e in launch.env.items() if e.value is not None},
        gpu_facts(launch.hardware) if launch.hardware else None,
        config,
        draft_config,
        tuple(
            f"{option} is left out: its value is known only where it runs" for option in left_out
        ),
    )


def _known(words: Sequence[LaunchWord]) -> tuple[tuple[str, ...], list[str]]:
    argv: list[str] = []
    left_out: list[str] = []
    for word in words:
        if not word.unknown:
            argv.append(word.text)
            continue
        named = word.text.split("=")[0] if word.text.startswith("--") else None
        while named is None and argv:
            last = argv.pop()
            named = last if last.startswith("--") else None
        left_out.append(named or word.text)
    return tuple(argv), left_out
