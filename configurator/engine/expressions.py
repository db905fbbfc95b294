"""Folding expressions of the engine's sources to data, without running the engine.

Only what its argument and environment definitions use is understood; everything else becomes
`Unknown`, which callers must be ready for.
"""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from configurator.engine.sources import PACKAGE, Definition, Module, SourceTree
from configurator.engine.values import (
    MISSING,
    ClassRef,
    EnumMember,
    External,
    FunctionRef,
    ModuleRef,
    Unknown,
    plain,
)

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.LShift: operator.lshift,
    ast.Pow: operator.pow, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.eq, ast.IsNot: operator.ne,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_BUILTINS = ("str", "int", "float", "bool", "list", "dict", "set", "tuple")
_ENUMS = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")


@dataclass(slots=True)
class Scope:
    """Where an expression stands: its module and the names bound locally."""

    module: Module
    local: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    """How many calls deep; folding stops at a few."""


class Expressions(ABC):
    """Values of names and expressions over one source tree."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._values: dict[tuple[str, str], Any] = {}

    @abstractmethod
    def call(self, node: ast.Call, scope: Scope) -> Any:
        """The value of a call."""

    def evaluate(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression; `Unknown` when it is not data."""
        try:
            return self._evaluate(node, scope)
        except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
            # An operand was not what the code takes it for, most often an `Unknown`.
            return Unknown(ast.unparse(node))

    def _evaluate(self, node: ast.expr, scope: Scope) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._name(name, scope)
            case ast.Attribute(value=base, attr=name):
                return self.attribute(self.evaluate(base, scope), name)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._sequence(node, scope)
            case ast.Dict():
                return self._dictionary(node, scope)
            case ast.JoinedStr(values=parts):
                return "".join(self._part(part, scope) for part in parts)
            case ast.BinOp(left=left, op=op, right=right):
                return self.add(self.evaluate(left, scope), op, self.evaluate(right, scope))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.evaluate(operand, scope)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.evaluate(operand, scope)
                return not value if isinstance(value, bool) else Unknown(ast.unparse(node))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(node, self.evaluate(left, scope), op, right, scope)
            case ast.Subscript(value=base, slice=index):
                return self.evaluate(base, scope)[self.evaluate(index, scope)]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = self.evaluate(test, scope)
                if isinstance(chosen, bool):
                    return self.evaluate(body if chosen else orelse, scope)
            case ast.Call():
                return self.call(node, scope)
        return Unknown(ast.unparse(node))

    def add(self, left: Any, op: ast.operator, right: Any) -> Any:
        """A binary operation; lists and tuples mix, as the engine's `+=` allows."""
        if isinstance(left, list | tuple) and isinstance(right, list | tuple):
            return [*left, *right]
        return _OPERATORS[type(op)](left, right)

    def items(self, value: Any) -> list[Any]:
        """What iterating over `value` gives."""
        if isinstance(value, ClassRef):
            return list(self.members(value))
        if isinstance(value, list | tuple | set | dict | str):
            return list(value)
        raise TypeError("not a sequence that can be known")

    def _name(self, name: str, scope: Scope) -> Any:
        if name in scope.local:
            return scope.local[name]
        value = self.value(scope.module, name)
        if value is not MISSING:
            return value
        return External(name) if name in _BUILTINS else Unknown(name)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Any:
        found: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                found += self.items(self.evaluate(element.value, scope))
            else:
                found.append(self.evaluate(element, scope))
        if isinstance(node, ast.Tuple):
            return tuple(found)
        return set(found) if isinstance(node, ast.Set) else found

    def _dictionary(self, node: ast.Dict, scope: Scope) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found.update(self.evaluate(value, scope))
            else:
                found[self.evaluate(key, scope)] = self.evaluate(value, scope)
        return found

    def _part(self, part: ast.expr, scope: Scope) -> str:
        if not isinstance(part, ast.FormattedValue):
            return str(self.evaluate(part, scope))
        value = self.evaluate(part.value, scope)
        return f"{{{value.source}}}" if isinstance(value, Unknown) else str(plain(value))

    def _compare(
        self, node: ast.Compare, left: Any, op: ast.cmpop, right: ast.expr, scope: Scope
    ) -> Any:
        other = self.evaluate(right, scope)
        if isinstance(left, Unknown) or isinstance(other, Unknown):
            return Unknown(ast.unparse(node))
        return _COMPARISONS[type(op)](left, other)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope
    ) -> Any:
        (generator,) = node.generators
        if not isinstance(generator.target, ast.Name):
            return Unknown(ast.unparse(node))
        found: list[Any] = []
        for item in self.items(self.evaluate(generator.iter, scope)):
            local = {**scope.local, generator.target.id: item}
            inner = Scope(scope.module, local, scope.depth)
            tests = [self.evaluate(test, inner) for test in generator.ifs]
            if any(isinstance(test, Unknown) for test in tests):
                return Unknown(ast.unparse(node))
            if all(tests):
                found.append(self.evaluate(node.elt, inner))
        return set(found) if isinstance(node, ast.SetComp) else found

    def value(self, module: Module, name: str) -> Any:
        """The value of a module-level name; `MISSING` when the module does not have it."""
        key = (module.name, name)
        if key not in self._values:
            self._values[key] = Unknown(name)  # what a definition in a circle sees
            self._values[key] = self._defined(module, name)
        return self._values[key]

    def _defined(self, module: Module, name: str) -> Any:
        value: Any = MISSING
        scope = Scope(module)
        for definition in module.definitions.get(name, ()):
            kind, node = definition.kind, definition.node
            known = value is not MISSING and not isinstance(value, Unknown)
            if definition.conditional and known and kind not in ("extend", "mutate"):
                continue  # what holds without a condition is kept
            if kind in ("extend", "mutate") and self._excluded(definition, scope):
                continue
            if kind == "import":
                value = self.imported(*node)
            elif kind == "assign":
                value = self.evaluate(node, scope)
            elif kind == "class":
                value = ClassRef(module, node)
            elif kind == "function":
                value = FunctionRef(module, node)
            elif kind == "extend":
                value = self.add(value, ast.Add(), self.evaluate(node, scope))
            else:
                method, arguments = node
                value = mutated(value, method, [self.evaluate(a, scope) for a in arguments])
        if value is MISSING:
            return self._starred(module, name)
        return value

    def _excluded(self, definition: Definition, scope: Scope) -> bool:
        return any(self.evaluate(test, scope) is False for test in definition.conditions)

    def _starred(self, module: Module, name: str) -> Any:
        for dotted in module.stars:
            source = self.tree.module(dotted)
            if source is not None and source is not module:
                value = self.value(source, name)
                if value is not MISSING:
                    return value
        return MISSING

    def imported(self, base: str, attribute: str | None) -> Any:
        """What an import binds: `attribute` of the module `base`, or the module."""
        ours = base.split(".")[0] == PACKAGE
        if attribute is None:
            return ModuleRef(base) if ours else External(base)
        return (
            self.attribute(ModuleRef(base), attribute) if ours else External(f"{base}.{attribute}")
        )

    def attribute(self, base: Any, name: str) -> Any:
        """Attribute `name` of a module, a class, an enumeration's member, or an outsider."""
        found: Any = MISSING
        match base:
            case External(dotted="sys") if name == "maxsize":
                return 2**63 - 1
            case External(dotted=dotted):
                return External(f"{dotted}.{name}")
            case ModuleRef(name=dotted):
                module = self.tree.module(dotted)
                found = self.value(module, name) if module else MISSING
                if found is MISSING and self.tree.module(f"{dotted}.{name}"):
                    return ModuleRef(f"{dotted}.{name}")
            case ClassRef():
                members = (m for m in self.members(base) if m.name == name)
                found = next(members, None) or self._class_attribute(base, name)
            case EnumMember() if name in ("name", "value"):
                return getattr(base, name)
        return Unknown(name) if found is MISSING else found

    def bases(self, owner: ClassRef) -> list[Any]:
        """What a class derives from; `Generic[T]` counts as `Generic`."""
        nodes = (b.value if isinstance(b, ast.Subscript) else b for b in owner.node.bases)
        return [self.evaluate(node, Scope(owner.module)) for node in nodes]

    def members(self, owner: ClassRef) -> tuple[EnumMember, ...]:
        """Members of an enumeration; none when the class is not one."""
        if not self._is_enum(owner):
            return ()
        found: list[EnumMember] = []
        for statement in owner.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=node) if name[0] != "_":
                    automatic = isinstance(node, ast.Call)
                    value = len(found) + 1 if automatic else self._class_value(owner, node)
                    found.append(EnumMember(owner.node.name, name, value))
        return tuple(found)

    def _class_value(self, owner: ClassRef, node: ast.expr) -> Any:
        return self.evaluate(node, Scope(owner.module))

    def _is_enum(self, owner: ClassRef) -> bool:
        return any(
            base.dotted.split(".")[-1] in _ENUMS
            if isinstance(base, External)
            else isinstance(base, ClassRef) and self._is_enum(base)
            for base in self.bases(owner)
        )

    def _class_attribute(self, owner: ClassRef, name: str) -> Any:
        scope = Scope(owner.module)
        for statement in owner.node.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=target)], value=node)
                    | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as node)
                ):
                    # Earlier attributes may be used by later ones.
                    scope.local[target] = self.evaluate(node, scope)
                    if target == name:
                        return scope.local[target]
        for base in self.bases(owner):
            if isinstance(base, ClassRef):
                found = self._class_attribute(base, name)
                if found is not MISSING:
                    return found
        return MISSING


def mutated(value: Any, method: str, arguments: list[Any]) -> Any:
    """What `value` is after one of its methods changed it; unchanged when that cannot be known."""
    given = arguments[0] if len(arguments) == 1 else None
    several = list(given) if isinstance(given, list | tuple | set) else None
    match method, value:
        case "append", list():
            return [*value, given]
        case "extend", list() if several is not None:
            return [*value, *several]
        case "remove", list():
            return [item for item in value if item != given]
        case "add", set():
            return {*value, given}
        case "update", set() if several is not None:
            return {*value, *several}
        case "update", dict() if isinstance(given, dict):
            return {**value, **given}
    return value
