"""The sabotage matrix as data: what is started, how it is looked at, and what must be said.

A twin is a healthy server, of which every answer must be the right one. A case is the same
server with one thing changed; the change must be named by the verdicts that it spoils, and by no
others. Cases that need the same server share its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from configurator.errors import ConfiguratorError, did_you_mean

CASES = Path(__file__).with_name("cases.yaml")


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(_Frozen):
    """What is started."""

    model: str
    """Folder of the model below the folder of models."""
    flags: tuple[str, ...] = ()
    """Arguments beside those that every server gets; `MODELS/` stands for the folder of models."""
    env: tuple[tuple[str, str], ...] = ()
    sabotage: str = ""
    rank: str = ""
    """The rank that is spoilt, `tp1` or `dp1`; empty: every rank."""
    probe: bool = True
    """Whether the bundle with our probe is on the engine's path."""
    plugin: str = ""
    """The kernel entry whose plugin lies beside the probe; empty: none does."""
    megakernel: str = ""
    """What the megakernel plugin without a kernel covers, and on a pretended GPU; empty: there is
    no such plugin."""
    nodes: int = 1
    """How many processes the ranks of the server are spread over, as over hosts (`--nnodes`)."""
    port: Literal["free", "taken"] = "free"
    until: str = ""
    """Words of the log after which to look, although the server is not ready."""
    limit_s: float = 180
    """How long the start may take, in seconds."""


class View(_Frozen):
    """How a running server is looked at."""

    level: int = 1
    concurrency: int = 1
    log: Literal["whole", "rotated", "missing"] = "whole"
    passive: bool = False


class Expected(_Frozen):
    """What must be said of one mechanism or invariant."""

    answer: Literal["PROVEN", "REFUTED", "INCONCLUSIVE", "NOT_APPLICABLE"]
    rung: str = ""
    """The rung it must reach at least; empty: any."""
    says: str = ""
    """Words that its summary must hold."""
    lacks: tuple[str, ...] = ()
    """Words that its summary must not hold."""


class Trial(_Frozen):
    """One row of the table: a healthy twin, or a sabotaged case."""

    name: str
    about: str
    twin: str = ""
    """Name of the healthy twin; empty: this is one."""
    label: str = ""
    """What a row is that is no run of everything it names, said with it; a case has its twin's."""
    start: Start
    view: View = View()
    ask: tuple[str, ...]
    """Expectations as `--expect` takes them."""
    expect: dict[str, Expected] = Field(default_factory=dict)
    """By mechanism or invariant; a REFUTED that is not named here is wrong."""
    server: Literal["ready", "starting", "failed", "unreachable"] = "ready"
    reason: str = ""
    """Words that the reason for the server's state must hold."""

    @property
    def healthy(self) -> bool:
        """Whether nothing may be refuted."""
        return not self.twin


class Matrix(_Frozen):
    """Every test, twins first."""

    tests: tuple[Trial, ...]

    @cached_property
    def by_name(self) -> dict[str, Trial]:
        """The tests by their names."""
        return {test.name: test for test in self.tests}

    def only(self, names: Iterable[str]) -> Matrix:
        """The named tests, and the healthy twins of the cases among them.

        Raises:
            ConfiguratorError: REF001, no test has the name.
        """
        wanted = set(names)
        for name in sorted(wanted - set(self.by_name)):
            raise ConfiguratorError.single(
                "REF001", f"--only: no case is named {name!r}", did_you_mean(name, self.by_name)
            )
        wanted |= {self.by_name[name].twin for name in wanted}
        return Matrix(tests=tuple(test for test in self.tests if test.name in wanted))

    def starts(self) -> dict[Start, list[Trial]]:
        """The servers to start, each with the tests that it serves, in order."""
        groups: dict[Start, list[Trial]] = {}
        for test in self.tests:
            groups.setdefault(test.start, []).append(test)
        return groups


def load_matrix(path: Path = CASES) -> Matrix:
    """The matrix of a file.

    A case takes the start, the view and the questions of its twin; its own `start` and `view`
    replace fields of them, where `flags` and `env` are added and `only_flags` is not, and `ask`
    replaces the questions.

    Raises:
        pydantic.ValidationError, KeyError: the file is wrong, which is our own fault.
    """
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    twins = {
        name: Trial.model_validate(_fields(name, twin)) for name, twin in data["twins"].items()
    }
    cases = [_case(name, case, twins) for name, case in data["cases"].items()]
    return Matrix(tests=(*twins.values(), *cases))


def _fields(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a test, with the short forms of the file written out."""
    fields = {**data, "name": name}
    fields["start"] = _start(fields["start"])
    fields["expect"] = {key: _expected(value) for key, value in data.get("expect", {}).items()}
    return fields


def _start(data: Mapping[str, Any]) -> dict[str, Any]:
    start = dict(data)
    flags = start.get("flags", ())
    start["flags"] = tuple(flags.split() if isinstance(flags, str) else flags)
    start["env"] = tuple((str(k), str(v)) for k, v in dict(start.get("env", {})).items())
    return start


def _expected(value: Any) -> dict[str, Any]:
    """`REFUTED`, `PROVEN built`, or the fields themselves."""
    if not isinstance(value, str):
        return dict(value)
    answer, _, rung = value.partition(" ")
    return {"answer": answer, "rung": rung}


def _case(name: str, data: Mapping[str, Any], twins: Mapping[str, Trial]) -> Trial:
    twin = twins[data["twin"]]
    own = dict(data.get("start", {}))
    kept = () if "only_flags" in own else twin.start.flags
    change = _start({**own, "flags": own.pop("only_flags", own.get("flags", ()))})
    change.pop("only_flags", None)
    start = {
        **twin.start.model_dump(),
        **change,
        "flags": kept + change["flags"],
        "env": twin.start.env + change["env"],
    }
    view = twin.view.model_dump() | data.get("view", {})
    fields = {
        "ask": twin.ask,
        "label": twin.label,
        **data,
        "start": start,
        "view": view,
        "name": name,
    }
    fields["expect"] = {key: _expected(value) for key, value in data.get("expect", {}).items()}
    return Trial.model_validate(fields)
