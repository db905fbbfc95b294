"""The source files of one engine version: a wheel or an unpacked tree, read and never executed."""

from __future__ import annotations

import ast
import re
import tomllib
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from configurator.engine.checkout import tagged_version
from configurator.errors import ConfiguratorError
from configurator.regular import NotRegularError, check_regular, read_regular, why_unread

PACKAGE = "sglang"
_VERSION = re.compile(r"""^__version__\s*(?::.*)?=.*?["']([\w.+!-]+)["']""", re.MULTILINE)
_MAX_FILE = 32 << 20
"""More than any file of the engine that is read."""
_MUTATORS = ("append", "extend", "update", "add", "remove")

Kind = Literal["import", "assign", "class", "function", "extend", "mutate"]


@dataclass(frozen=True, slots=True)
class Definition:
    """One statement at module level that gives a name its value."""

    kind: Kind
    node: Any
    """A syntax node; of an import (module, name or None); of a mutation (method, arguments)."""
    conditional: bool
    """It stands under an `if` or in an exception handler."""
    conditions: tuple[ast.expr, ...] = ()
    """Conditions that it stands under; it does not hold where one is false."""


class Module:
    """Module-level definitions by name, in the order of the file."""

    def __init__(self, name: str, *, is_package: bool, text: str) -> None:
        self.name = name
        self.is_package = is_package
        self.tree = ast.parse(text)
        self.stars: list[str] = []
        """Modules whose names are all imported."""
        self.definitions: dict[str, list[Definition]] = {}
        self._conditions: tuple[ast.expr, ...] = ()
        self._walk(self.tree.body, conditional=False)

    def first(self, name: str, kind: Kind) -> Any:
        """The node of the first definition of a kind; None when there is none."""
        found = (d.node for d in self.definitions.get(name, ()) if d.kind == kind)
        return next(found, None)

    def imports(self, statement: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
        """The names that an import binds, each with its module and the name there."""
        if isinstance(statement, ast.Import):
            return {
                alias.asname or alias.name.split(".")[0]: (
                    alias.name if alias.asname else alias.name.split(".")[0],
                    None,
                )
                for alias in statement.names
            }
        base = statement.module or ""
        if statement.level:
            above = self.name.split(".")
            above = above[: len(above) - statement.level + self.is_package]
            base = ".".join([*above, *([base] if base else [])])
        return {alias.asname or alias.name: (base, alias.name) for alias in statement.names}

    def _walk(self, body: Iterable[ast.stmt], *, conditional: bool) -> None:
        for statement in body:
            match statement:
                case ast.If():
                    self._conditions += (statement.test,)
                    self._walk(statement.body, conditional=True)
                    self._conditions = self._conditions[:-1]
                    self._walk(statement.orelse, conditional=True)
                case ast.Try():
                    self._walk(statement.body, conditional=conditional)
                    for handler in statement.handlers:
                        self._walk(handler.body, conditional=True)
                case ast.With():
                    self._walk(statement.body, conditional=conditional)
                case _:
                    self._define(statement, conditional)

    def _define(self, statement: ast.stmt, conditional: bool) -> None:
        def add(name: str, kind: Kind, node: object) -> None:
            found = Definition(kind, node, conditional, self._conditions)
            self.definitions.setdefault(name, []).append(found)

        match statement:
            case ast.Import() | ast.ImportFrom():
                for name, (base, attribute) in self.imports(statement).items():
                    if name == "*":
                        self.stars.append(base)
                    else:
                        add(name, "import", (base, attribute))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                add(name, "assign", value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                add(name, "assign", value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                add(name, "extend", value)
            case ast.ClassDef(name=name):
                add(name, "class", statement)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                add(name, "function", statement)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args)
            ) if method in _MUTATORS:
                add(name, "mutate", (method, args))


class SourceTree:
    """The files of one version, and its modules, parsed when first asked for."""

    def __init__(self, path: Path) -> None:
        """Open a wheel, or a directory that holds the package.

        Raises:
            ConfiguratorError: CAT001 when it is neither, CAT002 when the engine is not inside.
        """
        self.path = path
        self._modules: dict[str, Module | None] = {}
        self._texts: dict[str, str] = {}
        self._zip: zipfile.ZipFile | None = None
        self._root = path
        if path.is_dir():
            self._root = _package_root(path)
            files = (p.relative_to(self._root) for p in self._root.glob(f"{PACKAGE}*/**/*"))
            self.names = frozenset(str(name) for name in files)
        else:
            self._zip = _open_wheel(path)
            self.names = frozenset(self._zip.namelist())
        if f"{PACKAGE}/srt/server_args.py" not in self.names:
            raise ConfiguratorError.single(
                "CAT002",
                f"{path} has no {PACKAGE}/srt/server_args.py",
                f"give a wheel of {PACKAGE}, or a directory with the package {PACKAGE} inside",
            )

    def text(self, name: str) -> str:
        """Contents of a file; some releases ship modules with a byte-order mark."""
        # Kept: several parts of a catalogue look through the same files.
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.data(name).decode("utf-8-sig", "replace")
        return text

    def data(self, name: str) -> bytes:
        """Contents of a file, as they are."""
        return self._unzip(self._zip, name) if self._zip else self._read(self._root / name)

    def _read(self, path: Path) -> bytes:
        try:
            return read_regular(path, _MAX_FILE)
        except OSError as error:
            raise ConfiguratorError.single(
                "CAT001", why_unread(str(path), error), "give a tree that can be read"
            ) from error

    def _unzip(self, wheel: zipfile.ZipFile, name: str) -> bytes:
        try:
            with wheel.open(name) as file:
                found = file.read(_MAX_FILE + 1)
        except (OSError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            # RuntimeError: a password is asked for, or the compression is not known.
            raise _unusable(f"{name} in {self.path} cannot be read: {error}") from error
        if len(found) > _MAX_FILE:
            raise _unusable(f"{name} in {self.path} is larger than {_MAX_FILE >> 20} MiB")
        return found

    def module(self, dotted: str) -> Module | None:
        """A module of the engine; None when there is none or it does not parse."""
        if dotted not in self._modules:
            self._modules[dotted] = self._parse(dotted)
        return self._modules[dotted]

    def _parse(self, dotted: str) -> Module | None:
        base = dotted.replace(".", "/")
        for name in (f"{base}.py", f"{base}/__init__.py"):
            if name in self.names:
                is_package = name.endswith("/__init__.py")
                try:
                    return Module(dotted, is_package=is_package, text=self.text(name))
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
        return None

    @cached_property
    def metadata(self) -> dict[str, list[str]]:
        """Fields of the package's metadata; empty in a tree without any."""
        found: dict[str, list[str]] = {}
        for line in self._described("METADATA").partition("\n\n")[0].splitlines():
            name, colon, value = line.partition(": ")
            if colon and not name[:1].isspace():
                found.setdefault(name, []).append(value)
        return found

    @property
    def entry_points(self) -> str:
        """The file of entry points; empty in a tree without any."""
        return self._described("entry_points.txt")

    @cached_property
    def project(self) -> dict[str, Any]:
        """The table `project` of a checkout's pyproject.toml; empty elsewhere."""
        path = self._root / "pyproject.toml"
        if self._zip or not path.is_file():
            return {}
        try:
            found = tomllib.loads(self._read(path).decode("utf-8", "replace")).get("project")
        except tomllib.TOMLDecodeError:
            return {}
        return found if isinstance(found, dict) and found.get("name") == PACKAGE else {}

    @property
    def version(self) -> str | None:
        """What the metadata, the package itself, its project or the tag checked out says."""
        stated: list[Any] = [
            *self.metadata.get("Version", ()),
            self._assigned(),
            self.project.get("version"),
        ]
        return next((v for v in stated if isinstance(v, str)), None) or self.tagged[0]

    @property
    def tagged(self) -> tuple[str | None, str | None]:
        """The release whose tag is checked out, and the newest release with a tag."""
        # The package of a checkout lies in `python`; any other folder may be in a repository of
        # something else.
        root = self._root.resolve()
        inside = self._zip is None and root.name == "python"
        return tagged_version(root.parent) if inside else (None, None)

    def _assigned(self) -> str | None:
        """`__version__ = "..."`, which builds write into the package."""
        for name in (f"{PACKAGE}/_version.py", f"{PACKAGE}/version.py"):
            found = _VERSION.search(self.text(name)) if name in self.names else None
            if found and not found[1].startswith("0.0.0"):
                return found[1]
        return None

    def _described(self, name: str) -> str:
        for path in sorted(self.names):
            folder, _, rest = path.partition("/")
            if rest == name and re.fullmatch(rf"{PACKAGE}-[^/]*\.dist-info", folder):
                return self.text(path)
        return ""


def _package_root(path: Path) -> Path:
    """The directory above the package, for a checkout, an unpacked wheel, a virtual environment,
    its `site-packages`, or the package itself."""
    if path.name == PACKAGE and (path / "srt").is_dir():
        return path.parent
    inside = [path / "python", *sorted(path.glob("lib/python3*/site-packages"))]
    return next((folder for folder in inside if (folder / PACKAGE).is_dir()), path)


def _open_wheel(path: Path) -> zipfile.ZipFile:
    try:
        check_regular(path)
        return zipfile.ZipFile(path)
    except NotRegularError as error:
        raise _unusable(f"{path} {error.strerror}") from error
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise _unusable(f"{path} is no wheel: {error}") from error


def _unusable(message: str) -> ConfiguratorError:
    return ConfiguratorError.single(
        "CAT001", message, "give a .whl file or a directory with the unpacked package"
    )
