"""Lets SGLang start on a machine without a GPU, without Triton and without torchvision.

Python imports a `sitecustomize` that lies on PYTHONPATH when it starts, in every process of the
engine. Triton becomes importable and raises when a kernel is launched; torchvision becomes
importable and is never called by a model of text.
"""

# ruff: noqa: INP001
# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any


class _Nothing:
    """Whatever torchvision is asked for at import; nothing of it is ever used."""

    def __init__(self, *_args: Any, **_options: Any) -> None: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not options else _Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing()


class _Package(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # What begins with a capital is subclassed or used in isinstance: it must be a class.
        thing: Any = type(name, (), {"__module__": self.__name__}) if name[0].isupper() else None
        thing = thing or _Nothing()
        setattr(self, name, thing)
        return thing


class _Finder:
    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] != "torchvision":
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def _is_engine() -> bool:
    """The engine's launcher, or a process that it spawned."""
    words = [*sys.argv, *sys.orig_argv]
    return any("sglang" in word for word in words) or "multiprocessing" in " ".join(words)


def _prepare() -> None:
    import triton_stand_in

    triton_stand_in.install()
    if importlib.util.find_spec("torchvision") is not None:
        return
    # transformers must come to the conclusion that there is none before one can be imported.
    from importlib import import_module

    try:
        known = import_module("transformers.utils.import_utils")
    except ImportError:
        return
    for name in ("is_torchvision_available", "is_torchvision_v2_available"):
        ask = getattr(known, name, None)
        if callable(ask):
            ask()
    finder: Any = _Finder()
    sys.meta_path.append(finder)


if _is_engine():
    _prepare()
