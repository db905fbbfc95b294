"""A `triton` that can be imported and decorates kernels, and that never launches one.

The engine imports Triton in hundreds of modules and, on a CPU, launches nothing of it. The few
functions that it really calls (`cdiv`, `next_power_of_2`) are real; a launch raises, so that a
path that needs a GPU is seen and not silently skipped.
"""

# ruff: noqa: INP001
from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

VERSION = "3.6.0"


class Thing:
    """Whatever else Triton is asked for: it is called, looked into and never computes."""

    def __init__(self, *_args: Any, **_options: Any) -> None: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not options else Thing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing()

    def __getitem__(self, _grid: Any) -> Any:
        raise RuntimeError("a Triton kernel was launched on a machine without a GPU")

    def __mro_entries__(self, _bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()


class JITFunction(Thing):
    """A decorated kernel."""

    def __init__(self, function: Any = None, *_args: Any, **_options: Any) -> None:
        self.fn = function
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = getattr(function, "__doc__", None)
        self.arg_names: list[str] = []


def jit(function: Any = None, **_options: Any) -> Any:
    """`@jit` and `@jit(...)`."""
    return JITFunction if function is None else JITFunction(function)


def decorate(*_args: Any, **_options: Any) -> Callable[[Any], Any]:
    """`@autotune(...)` and `@heuristics(...)`: the kernel as it is."""
    return lambda kernel: kernel


def cdiv(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return (number + divisor - 1) // divisor


def next_power_of_2(number: int) -> int:
    """The smallest power of 2 that is not less."""
    return 1 << max(0, int(number) - 1).bit_length()


class Driver:
    """Asked for the GPU; the error makes the engine choose the CPU."""

    @property
    def active(self) -> Any:
        """There is none."""
        raise RuntimeError("0 active drivers: there is no GPU")


_REAL: dict[str, Any] = {
    "jit": jit,
    "autotune": decorate,
    "heuristics": decorate,
    "cdiv": cdiv,
    "next_power_of_2": next_power_of_2,
    "JITFunction": JITFunction,
    "driver": Driver(),
    "runtime": types.SimpleNamespace(
        driver=Driver(),
        JITFunction=JITFunction,
        jit=types.SimpleNamespace(JITFunction=JITFunction),
    ),
    "__version__": VERSION,
}


_MODULES = ("language", "compiler", "testing", "tools", "backends")
"""Looked into without being imported by name."""


class Package(types.ModuleType):
    """`triton` and every module below it."""

    __path__: list[str] = []  # noqa: RUF012
    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        if name in _REAL:
            return _REAL[name]
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _MODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        is_type = name[:1].isupper() or name in ("constexpr", "dtype", "tensor")
        thing: Any = type(name, (Thing,), {"__module__": self.__name__}) if is_type else Thing
        setattr(self, name, thing)
        return thing


class Finder:
    """Finds `triton` here, before an installed one."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of `triton` and of what lies below it."""
        if name.split(".")[0] != "triton":
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty package that makes up what it is asked for."""
        return Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def install() -> None:
    """Find `triton` here from now on."""
    finder: Any = Finder()
    sys.meta_path.insert(0, finder)
