"""One engine of the self-test: is it usable, and how are its servers started."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from configurator.content import Library
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import DIRECTORY, GROUP, write_bundle
from configurator.selftest.matrix import Start
from configurator.selftest.ports import Ports, nodes_of
from configurator.selftest.server import MARK, Running, Server

RIG = Path(__file__).with_name("rig")
ENGINE_VERSION = "0.5.23"
"""The release whose ops the stand-ins are written for."""
PLUGIN = "configurator_sabotage"
MEGAKERNEL = "configurator_megakernel"
"""The megakernel plugin without a kernel; the contract wants its entry point by another name."""

FLAGS = (
    "--device", "cpu", "--host", "127.0.0.1", "--max-total-tokens", "4096",
    "--context-length", "1024", "--max-running-requests", "8", "--grammar-backend", "none",
    "--enable-metrics", "--decode-log-interval", "10", "--random-seed", "42",
    "--skip-server-warmup",
    # The phases' own flags: without AMX the engine resets --attention-backend to one that has
    # no drafts, and leaves these two.
    "--prefill-attention-backend", "intel_amx", "--decode-attention-backend", "intel_amx",
)  # fmt: skip
ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
    # A compiled helper would cost 17 s and a C++ compiler on the first request.
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
}
_LIST = "made.json"
"""What the folder of models holds, with the size of each file; written last."""
_HOW = "make one: `python -m configurator.selftest.install DIR`, then --engine DIR/bin/python"


@dataclass(frozen=True, slots=True)
class Engine:
    """A Python that can run the engine on this machine's CPU."""

    python: Path
    version: str


def open_engine(python: Path, limit_s: float = 120) -> Engine:
    """Check that the engine and torch can be found at an interpreter, without importing them.

    Raises:
        ConfiguratorError: SLF001 (no interpreter), SLF002 (no engine there), SLF003 (another
            version than the stand-ins are written for).
    """
    code = (
        "import json; from importlib.metadata import version as v; "
        "print(json.dumps([v('sglang'), v('torch'), v('transformers')]))"
    )
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code],
            capture_output=True, text=True, timeout=limit_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfiguratorError.single("SLF001", f"{python} cannot be run: {error}", _HOW) from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ConfiguratorError.single("SLF002", f"{python} has no engine: {last[0]}", _HOW)
    try:
        version = str(json.loads(done.stdout)[0])
    except (ValueError, LookupError, TypeError):
        said = " ".join(done.stdout.split())[:80] or "nothing"
        raise ConfiguratorError.single(
            "SLF001", f"{python} is no Python: asked for its versions, it says {said!r}", _HOW
        ) from None
    if version != ENGINE_VERSION:
        raise ConfiguratorError.single(
            "SLF003",
            f"{python} has SGLang {version}; the stand-ins for a GPU follow {ENGINE_VERSION}",
            _HOW,
        )
    return Engine(python, version)


def cache_folder() -> Path:
    """Where the tiny models are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    recipe = hashlib.sha256((RIG / "make_models.py").read_bytes()).hexdigest()[:12]
    return Path(base) / "configurator" / f"selftest-models-{recipe}"


def make_models(engine: Engine, folder: Path, limit_s: float = 300) -> Path:
    """The folder with the tiny models, made by the engine's Python if it is not there as a whole.

    Raises:
        ConfiguratorError: SLF004, they cannot be made.
    """
    if _is_whole(folder):
        return folder
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(RIG / "site")}
    try:
        fresh.mkdir(parents=True)
        done = subprocess.run(
            [str(engine.python), str(RIG / "make_models.py"), str(fresh)],
            capture_output=True, text=True, timeout=limit_s, check=False, env=environment,
        )  # fmt: skip
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise ConfiguratorError.single("SLF004", f"the models cannot be made: {last[0]}", _HOW)
        (fresh / _LIST).write_text(json.dumps(_sizes(fresh)), encoding="utf-8")
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another run was faster
            fresh.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfiguratorError.single(
            "SLF004", f"the models cannot be made in {folder}: {error}",
            "set XDG_CACHE_HOME to a folder that you may write to",
        ) from None  # fmt: skip
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file below a folder; folders have none."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size if path.is_file() else 0
        for path in folder.rglob("*")
        if path.name != _LIST
    }


def _is_whole(folder: Path) -> bool:
    """Whether a folder of models still has what was made."""
    try:
        made = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        found = _sizes(folder)
    except (OSError, ValueError):
        return False
    return isinstance(made, dict) and bool(made) and made.items() <= found.items()


def write_plugins(folder: Path) -> tuple[Path, Path, Path]:
    """Folders for the engine's path: the plugin that spoils, the megakernel's, our probe's."""
    sabotage, megakernel, bundle = (folder / name for name in ("sabotage", "megakernel", "bundle"))
    _write_plugin(sabotage, PLUGIN, f"{PLUGIN} = {PLUGIN}:register")
    _write_plugin(megakernel, MEGAKERNEL, f"nvidia_megakernel = {MEGAKERNEL}:register_specs")
    write_bundle(bundle)
    return sabotage, megakernel, bundle


def _write_plugin(folder: Path, name: str, entry_point: str) -> None:
    """The modules of a folder of the rig, as a distribution that the engine finds."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    for module in (RIG / folder.name).glob("*.py"):
        shutil.copy(module, folder)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_point}\n")


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts servers of one engine, each in a folder and on a port of its own."""

    engine: Engine
    models: Path
    folder: Path
    """Scratch; every server gets a folder of its own in it."""
    sabotage: Path
    megakernel: Path
    bundle: Path
    ports: Ports = field(default_factory=Ports)
    running: Running = field(default_factory=Running)

    @classmethod
    def prepare(cls, engine: Engine, models: Path, folder: Path) -> Launcher:
        """A launcher with its plugins written."""
        return cls(engine, models, folder, *write_plugins(folder / "plugins"))

    def command(self, start: Start, port: int) -> list[str]:
        """The words of the launch."""
        model = str(self.models / start.model)
        flags = [flag.replace("MODELS/", f"{self.models}/") for flag in start.flags]
        module = [str(self.engine.python), "-m", "sglang.launch_server"]
        return [*module, "--model-path", model, *FLAGS, "--port", str(port), *flags]

    def environment(self, start: Start, reports: Path, mark: str) -> dict[str, str]:
        """The environment of the launch: ours without anything that the engine would read."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SGLANG_", "SGL_", "CONFIGURATOR_", "PYTHON", "CUDA_"))
        }
        plugins = {
            self.sabotage: True,
            self.megakernel: bool(start.megakernel),
            self._bundle(start): start.probe or bool(start.plugin),
        }
        path = [*(folder for folder, wanted in plugins.items() if wanted), RIG / "site"]
        return {
            **inherited,
            **ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            DIRECTORY: str(reports),
            "CONFIGURATOR_SABOTAGE": start.sabotage,
            "CONFIGURATOR_SABOTAGE_RANK": start.rank,
            "CONFIGURATOR_MEGAKERNEL": start.megakernel,
            MARK: mark,
            **dict(start.env),
        }

    def _bundle(self, start: Start) -> Path:
        """The folder with the probe, and beside it the plugin of a kernel entry that is wanted."""
        if not start.plugin:
            return self.bundle
        wanted = Library().kernel(start.plugin).plugin
        assert wanted is not None, f"{start.plugin} has no plugin"
        folder = self.bundle.with_name(f"bundle-{wanted.package}")
        write_bundle(folder, [Library().plugin(wanted.package)])
        return folder

    @contextlib.contextmanager
    def server(self, name: str, start: Start) -> Iterator[Server]:
        """A server in a folder by that name, for as long as the context lasts."""
        folder = self.folder / name
        (folder / "reports").mkdir(parents=True)
        mark = uuid.uuid4().hex
        with self.ports.for_server(start) as port:
            first, *others = nodes_of(start, port)
            with self.running.starting() as servers:
                process = self._process(folder, start, mark, *first)
                server = Server(folder, port, process, start, mark)
                servers.append(server)
            try:
                server.others += [self._process(folder, start, mark, *node) for node in others]
                yield server
            finally:
                self.running.stop(server)

    def _process(
        self, folder: Path, start: Start, mark: str, log: str, port: int, words: Sequence[str]
    ) -> subprocess.Popen[bytes]:
        """One node; all of a server report into one folder."""
        with (folder / log).open("wb") as output:
            return subprocess.Popen(
                [*self.command(start, port), *words],
                env=self.environment(start, folder / "reports", mark),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd=folder, start_new_session=True,
            )  # fmt: skip
