"""Rules and probes from the `validators` folders: one loader for ours and for a user's.

Every module is loaded from its path under a private name, so files of the same name in two
folders live side by side and no module of an installed package is shadowed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, get_args

from configurator.errors import ConfiguratorError, Position
from configurator.regular import read_regular, why_unread
from configurator.rules import Rule, Severity

if TYPE_CHECKING:
    from configurator.probes import Probe

Wanted = Literal["all", "rules", "probes"]
_MARKS = {"rules": (b"@rule(", b"@launch_rule("), "probes": (b"@probe(",)}

_MAX_BYTES = 1 << 20
"""More than any module of rules."""
_CODE = re.compile(r"[A-Z]+[0-9]{3}")
_OURS = "INT"
"""Codes of crashes, which change the exit code."""


@dataclass(frozen=True, slots=True)
class Validators:
    """All rules by code and all probes by name."""

    rules: dict[str, Rule]
    probes: dict[str, Probe]
    origins: dict[str, Position]
    """Where each code and each probe name is defined."""


def load_validators(roots: Sequence[Path], wanted: Wanted = "all") -> Validators:
    """Load `validators/*.py` below every root.

    Args:
        roots: content directories; codes and names must be unique over all of them.
        wanted: `rules` or `probes` leaves out modules that hold only the other, unread.

    Raises:
        ConfiguratorError: a module or rule does not load (LOAD001), or two define the same code or
            probe name (LOAD002).
    """
    rules: dict[str, Rule] = {}
    probes: dict[str, Probe] = {}
    origins: dict[str, Position] = {}
    for path in _module_files(roots):
        if not _holds(_text(path), wanted):
            continue
        module = _load(path)
        for item in _declared(module):
            key = item.code if isinstance(item, Rule) else item.name
            function = item.check if isinstance(item, Rule) else item.judge
            position = Position(str(path), function.__code__.co_firstlineno, 1)
            if isinstance(item, Rule):
                _check_rule(item, position)
            if key in origins:
                raise ConfiguratorError.single(
                    "LOAD002", f"{key} is defined twice: {origins[key]} and {position}",
                    "rename one; rule codes 900 to 999 are free for users", position,
                )  # fmt: skip
            origins[key] = position
            if isinstance(item, Rule):
                rules[key] = item
            else:
                probes[key] = item
    return Validators(dict(sorted(rules.items())), dict(sorted(probes.items())), origins)


def _module_files(roots: Iterable[Path]) -> Iterator[Path]:
    for root in roots:
        yield from sorted((root / "validators").glob("*.py"))


def _text(path: Path) -> bytes:
    try:
        return read_regular(path, _MAX_BYTES)
    except OSError as error:
        remedy = "mend the file, or leave it out of the content directory"
        raise ConfiguratorError.single("LOAD001", why_unread(str(path), error), remedy) from error


def _check_rule(rule: Rule, position: Position) -> None:
    """Refuse a rule whose findings nothing could count or name."""
    code, severity = rule.code, rule.severity
    if not (isinstance(code, str) and _CODE.fullmatch(code)) or code.startswith(_OURS):
        raise ConfiguratorError.single(
            "LOAD001", f"{code!r} cannot be the code of a rule",
            f"write capital letters and three digits, not {_OURS}...; 900 to 999 are free for "
            "users: 'MEM901'", position,
        )  # fmt: skip
    if severity not in get_args(Severity):
        allowed = ", ".join(get_args(Severity))
        raise ConfiguratorError.single(
            "LOAD001", f"{severity!r} is no severity of rule {code}", f"write one of {allowed}",
            position,
        )  # fmt: skip


def _holds(text: bytes, wanted: Wanted) -> bool:
    """A module is left out only when it plainly has the other kind and not the wanted one."""
    if wanted == "all":
        return True
    return _has(text, wanted) or not any(_has(text, kind) for kind in _MARKS)


def _has(text: bytes, kind: str) -> bool:
    return any(mark in text for mark in _MARKS[kind])


def _declared(module: ModuleType) -> Iterator[Rule | Probe]:
    # Imported only where a module with probes has been loaded: `validate` does without.
    loaded = sys.modules.get("configurator.probes")
    probe_class = loaded.Probe if loaded else ()
    for value in vars(module).values():
        if isinstance(value, Rule):
            owner = value.check.__module__
        elif isinstance(value, probe_class):
            owner = value.judge.__module__
        else:
            continue
        if owner == module.__name__:
            yield value


def _load(path: Path) -> ModuleType:
    digest = hashlib.sha1(str(path.resolve()).encode(), usedforsecurity=False).hexdigest()[:12]
    name = f"_configurator_validators_{digest}_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: dataclasses and pydantic resolve annotations through sys.modules.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        # SystemExit too: a module that ends the program would leave everything unjudged.
        raise _broken(path, error) from error
    return module


def _broken(path: Path, error: BaseException) -> ConfiguratorError:
    line = 1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno or 1
    return ConfiguratorError.single(
        "LOAD001", f"{path.name} does not load: {type(error).__name__}: {error}",
        "mend the module, or leave it out of the content directory", Position(str(path), line, 1),
    )  # fmt: skip
