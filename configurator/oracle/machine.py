"""Another machine than this one, for code that asks which it is on, and what is said there.

Part of `child.py` and, like it, for the engine's Python: only the standard library is imported.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import logging
import re
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

_NETWORK = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo")
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
_REMEMBERING = type(functools.lru_cache(lambda: None))

STOOD_IN = ("triton", "torchvision", "sgl_kernel", "flashinfer", "deep_gemm", "pynvml")
"""Packages of GPU machines that reading arguments imports and never calls."""


class NoNetworkError(OSError):
    """Reading arguments tried to reach another machine."""


class StandInError(RuntimeError):
    """Something of a package that is not here was really used."""


class _Thing:
    """Whatever a stand-in package is asked for: decorates, is called, is looked into."""

    def __init__(self, *_args: Any, **_options: Any) -> None: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not options else _Thing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "active":
            raise StandInError("the driver of a GPU, and there is none")
        return _Thing()

    def __getitem__(self, key: Any) -> Any:
        return _Thing()

    def __index__(self) -> int:
        raise StandInError("a number of a package that is not installed here")


class _Package(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        thing: Any = _Thing()
        if name[:1].isupper():
            thing = type(name, (_Thing,), {"__module__": self.__name__})
        setattr(self, name, thing)
        return thing


class _Finder:
    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        loader: Any = self
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, loader, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def stand_in() -> list[str]:
    """Give packages that cannot be imported here an empty body; their names."""
    with contextlib.suppress(Exception):
        known: Any = importlib.import_module("transformers.utils.import_utils")
        # It must see what is really installed, and keeps what it saw.
        for name in ("is_torchvision_available", "is_torchvision_v2_available"):
            getattr(known, name, lambda: None)()
        # Classes for images, which want packages that are not here, are registered and never used.
        known.DummyObject.__getattribute__ = _of_unusable
    names = [name for name in STOOD_IN if not _importable(name)]
    sys.meta_path.insert(0, _Finder(names))
    return names


def _of_unusable(kind: Any, name: str) -> Any:
    try:
        return type.__getattribute__(kind, name)
    except AttributeError:
        if name.startswith("_"):
            raise
        return _constant(None)


def _importable(name: str) -> bool:
    """It is there, and its libraries are too: kernels of a GPU often are not."""
    if importlib.util.find_spec(name) is None:
        return False
    before = set(sys.modules)
    try:
        importlib.import_module(name)
    except Exception:
        for new in set(sys.modules) - before:
            if new.split(".")[0] == name:
                del sys.modules[new]
        return False
    return True


def pretend(gpu: dict[str, Any]) -> None:
    """Make this process believe in a GPU: torch says so, and every fact is asked for anew."""
    torch: Any = importlib.import_module("torch")
    from_arch = str(gpu["arch"]).removeprefix("sm_").rstrip("abcdef")
    capability = (int(from_arch[:-1]), int(from_arch[-1]))
    memory = int(float(gpu["memory_gb"]) * 1e9)
    properties = types.SimpleNamespace(
        name=gpu.get("product") or "NVIDIA",
        major=capability[0],
        minor=capability[1],
        total_memory=memory,
        multi_processor_count=int(gpu.get("sms") or 132),
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": int(gpu.get("gpus_per_host") or 1),
        "current_device": 0,
        "get_device_name": properties.name,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "mem_get_info": (memory, memory),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _constant(answer))
    torch.version.cuda = "13.0"
    _forget(memory, str(properties.name))


def _forget(memory: int, product: str) -> None:
    """Drop what the engine's modules remember of the machine they were imported on."""
    common: Any = importlib.import_module("sglang.srt.utils.common")
    instead = {
        # MiB; the engine asks a program of the driver.
        getattr(common, "get_nvgpu_memory_capacity", None): _constant(memory // 10**6),
        getattr(common, "is_mnnvl_fabric_device", None): _constant(
            any(word in product for word in ("GB200", "GB300"))
        ),
    }
    instead.pop(None, None)
    modules = [m for n, m in list(sys.modules.items()) if n.split(".")[0] == "sglang"]
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType | _REMEMBERING) and value in instead:
                setattr(module, name, instead[value])
            elif isinstance(value, _REMEMBERING):
                value.cache_clear()
    for module in modules:
        _reset_constants(module, common)


def _reset_constants(module: Any, common: Any) -> None:
    for name, value in list(vars(module).items()):
        probe = getattr(common, name[1:], None) if name.startswith("_is_") else None
        if isinstance(value, bool) and callable(probe):
            with contextlib.suppress(TypeError):
                # One that takes arguments is no fact of the machine.
                setattr(module, name, bool(probe()))
        elif name == "_current_platform":
            setattr(module, name, None)


def _constant(answer: Any) -> Any:
    return lambda *_args, **_options: answer


def no_network(event: str, _args: tuple[Any, ...]) -> None:
    """Audit hook: no other machine is reached."""
    if event in _NETWORK:
        raise NoNetworkError(f"no network while arguments are read ({event})")


def no_programs(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: programs look as if they were not installed."""
    if event in _PROGRAMS:
        raise FileNotFoundError(2, "no program is started while arguments are read", str(args[0]))


class Log(list[str]):
    """Warnings of the engine, whatever handlers its logging has."""

    def listen(self) -> None:
        """Hear every record from now on."""
        make = logging.getLogRecordFactory()

        def hear(*args: Any, **options: Any) -> logging.LogRecord:
            record = make(*args, **options)
            if record.levelno >= logging.WARNING and record.name.split(".")[0] == "sglang":
                self.append(_uncoloured(record.getMessage()))
            return record

        logging.setLogRecordFactory(hear)
        warnings.showwarning = self._show  # type: ignore[assignment]

    def _show(self, message: Any, _category: Any, filename: str, *_rest: Any) -> None:
        if "/sglang/" in filename:
            self.append(_uncoloured(str(message)))


def _uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
