"""Resolve launch arguments with the engine's own code, on any machine, for any GPU.

Runs under the engine's Python, not ours: `python child.py FD TIMEOUT`. Reads one launch a line on
stdin, writes one result a line to the file descriptor FD, for the engine prints to stdout. Only the
standard library is imported here; the engine is, when the process starts.

The process warms up once, as a CPU machine, and forks for every launch: the engine keeps platform
facts and variables for as long as a process lives, so no launch may see what another one left.
In the fork torch says which GPU it is. Nothing is downloaded, and no program is started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import importlib.machinery
import importlib.util
import io
import json
import logging
import os
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_OWN_CODE = "its own code is not run"
_UNKNOWN_MODEL = re.compile(r"(?i)model.type|unrecognized model|trust_remote_code")
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
}
_WARM_UP = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
_LATE = (
    "sglang.srt.layers.quantization",
    "sglang.srt.configs.model_config",
    "sglang.srt.arg_groups.pipeline",
    "sglang.srt.speculative.spec_info",
    "sglang.srt.sampling.watermarking.core",
)
"""What resolution imports late; importing it once saves every fork from it."""


def _beside(name: str) -> Any:
    """A module of this folder, which no import of the engine's may ever find."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_oracle_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


machine = _beside("machine")


class Engine:
    """The imported engine, as it stands before any launch."""

    def __init__(self) -> None:
        self.stood_in: list[str] = machine.stand_in()
        self.arguments: Any = importlib.import_module("sglang.srt.server_args")
        self.torch: Any = importlib.import_module("torch")
        self.version = str(importlib.import_module("importlib.metadata").version("sglang"))
        for name in _LATE:
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    def warm_up(self) -> None:
        """Import what resolving imports, while the machine is still a CPU: import-time branches
        for GPUs would load kernels."""
        before = dict(os.environ)
        with model_directory(_WARM_UP) as model:
            self.resolve(["--model-path", model, "--device", "cpu"])
        # The engine sets variables of its own, and would take them for a person's in a launch.
        os.environ.clear()
        os.environ.update(before)
        # Collected pages would be copied into every fork.
        gc.collect()
        gc.freeze()

    def resolve(self, argv: Sequence[str]) -> Any:
        """The engine's arguments, resolved and checked as its launcher does."""
        args = self.arguments.prepare_server_args(list(argv))
        if hasattr(args, "resolve_once"):
            args.resolve_once()
        args.check_server_args()
        return args

    def asked(self, argv: Sequence[str]) -> tuple[dict[str, Any], dict[str, list[str]]]:
        """What the arguments set: values by destination, and the spellings of each."""
        import argparse

        parser = argparse.ArgumentParser(prog="sglang serve")
        self.arguments.ServerArgs.add_cli_args(parser)
        spellings: dict[str, list[str]] = {}
        for action in parser._actions:
            # Without defaults only what was asked for is left.
            action.default = argparse.SUPPRESS
            named = str(getattr(action, "new_flag", None) or "").lstrip("-").replace("-", "_")
            for destination in {action.dest, named} - {"", argparse.SUPPRESS}:
                spellings.setdefault(destination, []).extend(action.option_strings)
        values = vars(parser.parse_args(list(argv)))
        return values, {name: spellings.get(name, []) for name in values}


@contextlib.contextmanager
def model_directory(config: dict[str, Any], rest: Path | None = None) -> Iterator[str]:
    """A directory with this config.json and, of `rest`, all files but code."""
    with tempfile.TemporaryDirectory(prefix="oracle-model-") as directory:
        for path in rest.iterdir() if rest else ():
            if path.suffix != ".py" and path.name != "config.json":
                (Path(directory) / path.name).symlink_to(path.resolve())
        (Path(directory) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        yield directory


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.loads(json.dumps(value, default=_text))


def _text(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return getattr(value, "value", None) or str(value)


class Reading:
    """One launch, judged in a process of its own."""

    def __init__(self, engine: Engine, launch: dict[str, Any]) -> None:
        self.engine = engine
        self.launch = launch
        self.log = machine.Log()
        self.notes: list[str] = []
        self.replaced: dict[str, str] = {}

    def result(self) -> dict[str, Any]:
        """What becomes of the launch."""
        sys.addaudithook(machine.no_programs)
        os.environ.update({k: v for k, v in self.launch["env"].items() if v is not None} | _QUIET)
        self.log.listen()
        with contextlib.ExitStack() as stack:
            found = self._judge(stack)
        found = {
            "warnings": list(dict.fromkeys(self.log)),
            "notes": list(dict.fromkeys(self.notes)),
            **found,
        }
        text = json.dumps(found)
        for directory, path in self.replaced.items():
            text = text.replace(directory, path.replace("\\", "\\\\").replace('"', '\\"'))
        return {**json.loads(text), "id": self.launch["id"], "version": self.engine.version}

    def _judge(self, stack: contextlib.ExitStack) -> dict[str, Any]:
        errors = io.StringIO()
        stack.enter_context(contextlib.redirect_stderr(errors))
        argv = list(self.launch["argv"])
        try:
            environ = sys.modules.get("sglang.srt.environ")
            getattr(environ, "_handle_deprecated_envs", lambda: None)()
            values, spellings = self.engine.asked(argv)
        except SystemExit as end:
            return self._stopped(end, errors.getvalue())
        except Exception as error:
            return self._refused(error)
        unknown = self._without_machine(values)
        if unknown:
            return {"state": "skipped", "error": unknown}
        missing = self._models(values, stack, argv)
        if missing:
            return {"state": "skipped", "error": missing}
        try:
            self._machine()
            args = self.engine.resolve(argv)
        except SystemExit as end:
            return self._stopped(end, errors.getvalue())
        except Exception as error:
            return self._refused(error)
        return {"state": "resolved", **self._resolved(args, values), "spellings": spellings}

    def _machine(self) -> None:
        gpu = self.launch.get("gpu")
        if gpu and gpu.get("arch") != "cpu":
            machine.pretend(gpu)

    def _without_machine(self, values: dict[str, Any]) -> str | None:
        """Why nothing can be said for want of a machine, else None."""
        on_cpu = values.get("device") == "cpu" or os.environ.get("SGLANG_USE_CPU_ENGINE") == "1"
        if self.launch.get("gpu") or on_cpu:
            return None
        return "which GPU it is for is not said"

    def _models(
        self, values: dict[str, Any], stack: contextlib.ExitStack, argv: list[str]
    ) -> str | None:
        """Put model directories in place; why that cannot be, else None."""
        target = values.get("model_path")
        for name, key in (
            ("model_path", "config"),
            ("speculative_draft_model_path", "draft_config"),
        ):
            path = values.get(name)
            if path is None or path.lower() in ("none", "dummy"):
                continue
            option = f"--{name.replace('_', '-')}"
            # A draft inside the target's checkpoint has the target's config.
            config = self._config(path, self.launch.get("config" if path == target else key))
            if isinstance(config, str):
                return f"{option} {path} {config}"
            if config is not None:
                rest = Path(path) if Path(path).is_dir() else None
                directory = stack.enter_context(model_directory(config, rest))
                self.replaced[directory] = path
                argv += [option, directory]
        return None

    def _config(self, path: str, given: dict[str, Any] | None) -> dict[str, Any] | str | None:
        """What config.json must hold in place of the one at `path`; None when that one is good as
        it is, and a text when there is none."""
        file = Path(path) / "config.json"
        if not file.is_file():
            if given is None:
                return "is no directory with a config.json on this machine"
            self.notes.append(f"{path}: only its config was given, not its files")
            return {name: value for name, value in given.items() if name != "auto_map"}
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            return "has a config.json that is not JSON"
        if not isinstance(config, dict) or "auto_map" not in config:
            return None
        self.notes.append(f"{path}: {_OWN_CODE}")
        return {name: value for name, value in config.items() if name != "auto_map"}

    def _resolved(self, args: Any, values: dict[str, Any]) -> dict[str, Any]:
        whole = args.resolved_dict() if hasattr(args, "resolved_dict") else vars(args)
        whole = {name: plain(value) for name, value in whole.items()}
        decided: dict[str, str] = {}
        for source, fields in getattr(args, "_resolved_overrides", None) or ():
            decided.update(dict.fromkeys(fields, str(source)))
        return {
            "resolved": whole,
            "asked": {name: plain(value) for name, value in values.items()},
            "decided_by": {name: by for name, by in decided.items() if name in values},
        }

    def _stopped(self, end: SystemExit, said: str) -> dict[str, Any]:
        lines = [line for line in said.splitlines() if line.strip()]
        if end.code in (0, None):
            return {"state": "skipped", "error": "these arguments print something and end"}
        message = lines[-1] if lines else f"ends with {end.code}"
        return {
            "state": "refused",
            "error": message.split(": error: ")[-1],
            "where": "the engine's argument parser",
        }

    def _refused(self, error: Exception) -> dict[str, Any]:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "/sglang/" in f.filename]
        at = ours[-1] if ours else frames[-1]
        file = at.filename.split("/sglang/")[-1]
        place = f"sglang/{file}:{at.lineno}" if ours else f"{Path(file).name}:{at.lineno}"
        message = f"{type(error).__name__}: {error}".strip().removesuffix(":")
        unread = any(_OWN_CODE in note for note in self.notes) and _UNKNOWN_MODEL.search(message)
        if unread or _of_this_machine(error, frames[-1].filename):
            message = f"it cannot be told on this machine: {message}"
            return {"state": "skipped", "error": message, "where": place}
        return {"state": "refused", "error": message, "where": place}


def _of_this_machine(error: BaseException | None, file: str) -> bool:
    """The error comes from where we run, not from what was asked for."""
    while error is not None:
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & {"ImportError", "PackageNotFoundError", "NoNetworkError", "StandInError"}:
            return True
        if names & {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "RepositoryNotFoundError"}:
            return True
        error = error.__cause__ or error.__context__
    return "/torch/cuda/" in file


def apart(reading: Reading, timeout: float) -> dict[str, Any]:
    """The result of a launch from a fork, within `timeout` seconds."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        with contextlib.suppress(BaseException):
            os.close(read)
            try:
                found = reading.result()
            except BaseException:
                last = traceback.format_exc()
                found = {"state": "crashed", "error": last.strip().splitlines()[-1]}
            with os.fdopen(write, "w", encoding="utf-8") as out:
                json.dump(found, out)
        os._exit(0)
    os.close(write)
    text = _all_of(read, process, timeout)
    status = os.waitpid(process, 0)[1]
    basis = {"id": reading.launch["id"], "version": reading.engine.version, "warnings": []}
    if text is None:
        return {**basis, "state": "crashed", "error": f"no answer within {timeout:g} s"}
    try:
        return {**basis, **json.loads(text)}
    except ValueError:
        by = f"signal {status & 127}" if status & 127 else f"exit status {status >> 8}"
        return {**basis, "state": "crashed", "error": f"the engine's process died by {by}"}


def _all_of(read: int, process: int, timeout: float) -> str | None:
    """What the fork writes; None, and the fork is killed, when it takes too long."""
    ends = time.monotonic() + timeout
    parts: list[bytes] = []
    try:
        while select.select([read], [], [], max(0.0, ends - time.monotonic()))[0]:
            part = os.read(read, 65536)
            if not part:
                return b"".join(parts).decode(errors="replace")
            parts.append(part)
        os.kill(process, signal.SIGKILL)
        return None
    finally:
        os.close(read)


def main(out: Any, timeout: float) -> int:
    """Start, say so, and judge every launch of stdin."""

    def say(found: dict[str, Any]) -> None:
        out.write(json.dumps(found) + "\n")
        out.flush()

    started = time.monotonic()
    os.environ.update(_QUIET)
    sys.addaudithook(machine.no_network)
    logging.disable(logging.INFO)
    try:
        engine = Engine()
        engine.warm_up()
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = f"{frames[-1].filename}:{frames[-1].lineno}"
        say({"failed": f"{type(error).__name__}: {error}", "where": at})
        return 1
    seconds = round(time.monotonic() - started, 2)
    say({"ready": engine.version, "seconds": seconds, "stood_in": engine.stood_in})
    for line in sys.stdin:
        say(apart(Reading(engine, json.loads(line)), timeout))
    return 0


if __name__ == "__main__":
    # The folder of this file is no place to import the engine's modules from.
    sys.path = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).parent.resolve()]
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as results:
        sys.exit(main(results, float(sys.argv[2])))
