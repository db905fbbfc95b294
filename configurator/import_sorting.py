"""Sorting the options of a launch into the keys of a profile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from configurator.assemble import LAUNCH
from configurator.deployment import Deployment, HostPlaceholder, Process, Word
from configurator.engine.argv import Option
from configurator.errors import ConfiguratorError, Problem
from configurator.launch import Launch
from configurator.schema.profile import SecretRef
from configurator.secrets import is_secret_value, secret_options
from configurator.words import Command

UNSPECIFIED = "unspecified"
"""Name of the entries of which nothing is said."""

_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_SECRETS = ("api-key", "admin-api-key")
_SPELLING = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_ENV = re.compile(r"[A-Za-z_]\w*")
KEYS: dict[str, tuple[str, str, type]] = {
    "model-path": ("model", "path", str),
    "revision": ("model", "revision", str),
    "tp-size": ("topology", "tensor", int),
    "pp-size": ("topology", "pipeline", int),
    "dp-size": ("topology", "data", int),
    "ep-size": ("topology", "expert", int),
    "host": ("serving", "host", str),
    "port": ("serving", "port", int),
    "served-model-name": ("serving", "served_model_name", str),
    "context-length": ("workload", "context", int),
    "mem-fraction-static": ("memory", "mem_fraction_static", float),
}
"""Arguments that have a key of their own, by the name that a profile renders."""
_HOSTS = ("nnodes", "node-rank")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words and variables that the profile must give back."""

    argv: tuple[str, ...]
    env: dict[str, str]
    rank: int

    def gives(self, deployment: Deployment) -> bool:
        process = self.process(deployment)
        return (
            process is not None
            and words_back(process) == self.argv
            and dict(process.env) == self.env
        )

    def process(self, deployment: Deployment) -> Process | None:
        engines = (p for p in deployment.processes if p.role == "engine" and p.rank == self.rank)
        return next(engines, None)


def words_back(process: Process) -> tuple[str, ...]:
    """The arguments of a process as a command would have them, without the program."""
    return tuple(_text(word) for word in process.argv[len(LAUNCH) :])


def _text(word: Word) -> str:
    if isinstance(word, SecretRef):
        return f"${{{word.env}}}" if word.env else f"$(cat {word.file})"
    if isinstance(word, HostPlaceholder):
        return f"<host {word.host} of replica {word.replica}>"
    return word


class Draft:
    """Sorts the options of a launch into the keys of a profile."""

    def __init__(self, command: Command, launch: Launch) -> None:
        self.command = command
        self.launch = launch
        self.problems: list[Problem] = []
        self.kept: list[tuple[str, Option]] = []
        """Name as a profile renders it, and the option; of several of one flag the last."""
        self.hidden = frozenset(option.index for option in secret_options(launch))
        self.refused: set[str] = set()
        """Arguments whose values are none that their key may have."""
        self._sort()

    def problem(self, code: str, fact: str, remedy: str, index: int | None) -> None:
        at = self.command.position if index is None else self.command.argv[index].position
        self.problems.append(Problem(code, fact, remedy, at))

    def refuse(self, names: set[str], error: ConfiguratorError) -> None:
        """Leave these to `extra.args`: their keys do not take such values."""
        self.refused |= names
        for own, option in self.kept:
            said = (
                [p.remedy for p in error.problems if ".".join(KEYS[own][:2]) in p.message]
                if (own in names)
                else []
            )
            if said:
                self.problem(
                    "IMP008", f"--{option.name} is none that a profile takes: {said[0]}",
                    "mend the value; until then validate refuses the profile", option.index,
                )  # fmt: skip

    def _sort(self) -> None:
        taken = set(self.launch.parsed.positionals)
        for option in self.launch.options():
            taken.update((option.index, *option.places))
            if self._is_last(option) and self._is_usable(option):
                self.kept.append((self._name(option), option))
        for index, word in enumerate(self.command.argv):
            if index not in taken:
                self.problem(
                    "IMP002", f"{word.text!r} belongs to no option and is left out",
                    "add it to extra.args by hand if it is meant", index,
                )  # fmt: skip

    def _is_last(self, option: Option) -> bool:
        last = self.launch.option(option.canonical)
        if last is None or last is option:
            return True
        self.problem(
            "IMP003", f"--{option.name} comes again later, which alone counts: it is left out",
            "nothing: the engine ignores it as well", option.index,
        )  # fmt: skip
        return False

    def _is_usable(self, option: Option) -> bool:
        unknown = [i for i in option.places if self.command.argv[i].unknown]
        secret = self._name(option) in _SECRETS
        if option.index in self.hidden and not secret:
            self.problem(
                "IMP005", f"--{option.name} holds a secret in clear: it is not copied",
                "give it where the profile's launch runs", option.index,
            )  # fmt: skip
            return False
        if not _SPELLING.fullmatch(option.name):
            fact, remedy = "is no option that a profile can hold: it is left out", "add it by hand"
            self.problem("IMP002", f"{option.name!r} {fact}", remedy, option.index)
            return False
        if not unknown or (secret and _VARIABLE.fullmatch(option.values[0])):
            return True
        self.problem(
            "IMP001",
            f"--{option.name} is {' '.join(option.values)}, known only where it runs: left out",
            f"write extra: {{args: {{{option.name}: VALUE}}}} once it is known", option.index,
        )  # fmt: skip
        return False

    def _name(self, option: Option) -> str:
        flag = option.flag
        names = (flag.name, *flag.aliases) if flag else (option.name,)
        own = next((name for name in names if name in KEYS or name in _HOSTS), None)
        return own or names[0]

    def profile(self, name: str, hardware: str | None) -> dict[str, Any]:
        """The profile as plain data, in the order in which people read it."""
        sections: dict[str, dict[str, Any]] = {
            section: {} for section in ("model", "topology", "workload", "serving", "memory")
        }
        args: dict[str, Any] = {}
        for own, option in self.kept:
            value = _value(option)
            if own in _SECRETS:
                sections["serving"][own.replace("-", "_")] = self._secret(own, option)
            elif own in KEYS and own not in self.refused and _fits(own, value):
                section, key, kind = KEYS[own]
                sections[section][key] = str(option.values[0]) if kind is str else kind(value)
            elif own not in _HOSTS:
                args[own] = value if value is not None else ""
        if self.launch.parsed.positionals:
            sections["model"]["path"] = self.launch.words[self.launch.parsed.positionals[0]].text
        data: dict[str, Any] = {
            "apiVersion": "configurator/v1", "kind": "Deployment", "name": name,
            "engine": _engine(self.launch),
            "hardware": self._hardware(hardware, sections["topology"]),
            "model": {"name": UNSPECIFIED, **sections["model"]},
        }  # fmt: skip
        data |= {key: found for key, found in sections.items() if found and key != "model"}
        data["evidence"] = {"instrument": "none"}
        data["extra"] = {"args": args, "env": self._env(), "order": list(self._order())}
        data["extra"] = {key: value for key, value in data["extra"].items() if value}
        return data

    def _secret(self, name: str, option: Option) -> dict[str, str]:
        variable = _VARIABLE.fullmatch(option.values[0])
        if variable is not None:
            return {"env": variable[1]}
        made = name.replace("-", "_").upper()
        self.problem(
            "IMP005", f"--{name} is written in clear: it is not copied",
            f"export {made} where the profile's launch runs", option.index,
        )  # fmt: skip
        return {"env": made}

    def _hardware(self, name: str | None, topology: dict[str, Any]) -> dict[str, Any]:
        gpus = topology.get("tensor", 1) * topology.get("pipeline", 1)
        found: dict[str, Any] = {"name": name or UNSPECIFIED, "gpus": gpus}
        hosts = self.launch.integer("nnodes") or 1
        if name is None and (hosts > 1 or gpus > 8):
            found["overrides"] = {"gpus_per_host": max(1, math.ceil(gpus / hosts))}
        return found

    def _env(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for setting in self.command.env.values():
            if setting.value is not None and is_secret_value(setting.name, setting.value):
                self.problems.append(Problem(
                    "IMP005", f"{setting.name} holds a secret in clear: it is not copied",
                    f"export {setting.name} where the profile's launch runs", setting.position,
                ))  # fmt: skip
            elif setting.value is None or not _ENV.fullmatch(setting.name):
                self.problems.append(Problem(
                    "IMP001", f"{setting.name} is known only where it runs: left out",
                    "export it where the profile's launch runs"
                    if is_secret_value(setting.name, "unknown")
                    else "set it in extra.env once it is known", setting.position,
                ))  # fmt: skip
            else:
                found[setting.name] = setting.value
        return found

    def _order(self) -> Iterator[str]:
        if self.launch.parsed.positionals:
            yield "model-path"
        for own, option in self.kept:
            spelling = option.name
            exact = len(option.values) == 1 and not _keeps_text(own, option)
            text = option.values[0] if exact and not re.search(r"\s", option.values[0]) else ""
            if option.joined:
                spelling += f"={text}"
            elif text:
                spelling += f" {text}"
            yield spelling

    def wanted(self) -> Wanted:
        """What the profile must give back; what is left out of it is not in here."""
        words: list[str] = []
        if self.launch.parsed.positionals:
            words += ["--model-path", self.launch.words[self.launch.parsed.positionals[0]].text]
        for own, option in self.kept:
            values = list(option.values)
            if own in _SECRETS:
                variable = _VARIABLE.fullmatch(values[0])
                values = [f"${{{variable[1] if variable else own.replace('-', '_').upper()}}}"]
            joined = option.joined and own not in _SECRETS
            name = f"--{option.name}"
            words += [f"{name}={values[0]}"] if joined else [name, *values]
        env = {s.name: s.value for s in self.command.env.values() if s.value is not None}
        usable = {
            name: value
            for name, value in env.items()
            if _ENV.fullmatch(name) and not is_secret_value(name, value)
        }
        return Wanted(tuple(words), usable, self.launch.integer("node-rank") or 0)


def _engine(launch: Launch) -> dict[str, str]:
    engine = launch.engine
    return {"version": engine.version} if engine.released else {"build": engine.name}


def _value(option: Option) -> Any:
    if not option.values and (option.flag is None or option.flag.type is None):
        return True
    values = [_scalar(text) for text in option.values]
    return values[0] if len(values) == 1 else values


def _scalar(text: str) -> Any:
    """The number that is written just so; else the text."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and math.isfinite(number):
            return number
    return text


def _fits(name: str, value: Any) -> bool:
    kind = KEYS[name][2]
    if kind is str:
        return not isinstance(value, list | bool)
    try:
        kind(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _keeps_text(name: str, option: Option) -> bool:
    """The value comes back as it is written, whatever type the profile's key has."""
    if name in _SECRETS:
        return True
    kind = KEYS[name][2] if name in KEYS and _fits(name, _value(option)) else None
    number = kind(option.values[0]) if kind in (int, float) else _value(option)
    return str(number) == option.values[0]
