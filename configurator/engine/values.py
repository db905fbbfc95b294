"""What folding an expression may yield besides plain data."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from configurator.engine.sources import Module


class Missing:
    """No such name, or a field without a default."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that only running the engine could tell."""

    source: str


@dataclass(frozen=True, slots=True)
class External:
    """A name from outside the engine, as `json.loads` or `argparse.SUPPRESS`."""

    dotted: str


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A module of the engine."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class ClassRef:
    """A class of the engine."""

    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False, slots=True)
class FunctionRef:
    """A function of the engine."""

    module: Module
    node: ast.FunctionDef


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an enumeration of the engine."""

    owner: str
    name: str
    value: object


def plain(value: object) -> object:
    """`value` as JSON data; None for what is not data."""
    match value:
        case EnumMember():
            return plain(value.value)
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case float() if value in (float("inf"), float("-inf")):
            return str(value)
        case str() | int() | float() | bool():
            return value
        case _:
            return None


def last_name(value: object) -> str:
    """The last part of a callable's name, as `loads` of `json.loads`."""
    match value:
        case External(dotted=dotted):
            return dotted.rsplit(".", 1)[-1]
        case ClassRef() | FunctionRef():
            return value.node.name
        case Unknown(source=source):
            return source
        case _:
            return str(value)
