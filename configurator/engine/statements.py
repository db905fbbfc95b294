"""Folding calls and function bodies: the small pure functions that build lists of choices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from configurator.engine.expressions import Expressions, Scope, mutated
from configurator.engine.values import (
    MISSING,
    ClassRef,
    External,
    FunctionRef,
    Unknown,
    plain,
)

_MAX_DEPTH = 6
_CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": set, "sorted": sorted, "dict": dict,
}  # fmt: skip
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "keys": list, "values": lambda d: list(d.values()), "items": lambda d: list(d.items()),
    "copy": dict,
}  # fmt: skip
_FIELDS = ("msgspec.field", "dataclasses.field")

OnCall = Callable[[ast.Call, Scope], bool]
"""Told of every call that is a statement; true when it has dealt with it."""


class _Returned(Exception):  # noqa: N818  (control flow, not an error)
    def __init__(self, value: Any) -> None:
        self.value = value


class Interpreter(Expressions):
    """Expressions, and the calls in them."""

    def call(self, node: ast.Call, scope: Scope) -> Any:
        """The value of a call; `Unknown` for what is not a known pure function."""
        found: Any = MISSING
        match node.func:
            case ast.Attribute(value=base, attr=method):
                found = self._method(self.evaluate(base, scope), method, node, scope)
            case ast.Name(id=name) if name in _CONTAINERS or name in ("len", "str"):
                found = self._builtin(name, node, scope)
        if found is not MISSING:
            return found
        function = self.evaluate(node.func, scope)
        if isinstance(function, FunctionRef) and scope.depth < _MAX_DEPTH:
            return self._invoke(function, node, scope, {})
        if isinstance(function, External):
            if function.dotted in _FIELDS:
                return self._field_default(node, scope)
            if function.dotted == "typing.get_args" and node.args:
                values = self.literal(node.args[0], scope)
                if values is not None:
                    return values
        return Unknown(ast.unparse(node))

    def method_of(self, owner: ClassRef, name: str) -> FunctionRef | None:
        """A method of a class or of what it derives from."""
        for statement in owner.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return FunctionRef(owner.module, statement)
        for base in self.bases(owner):
            found = self.method_of(base, name) if isinstance(base, ClassRef) else None
            if found:
                return found
        return None

    def literal(self, node: ast.expr, scope: Scope) -> list[Any] | None:
        """Values of `Literal[...]`, or of a name bound to one; None when it is something else."""
        match node:
            case ast.Name(id=name):
                for definition in scope.module.definitions.get(name, ())[:1]:
                    if definition.kind == "assign":
                        return self.literal(definition.node, scope)
                    if definition.kind == "import":
                        base, attribute = definition.node
                        module = self.tree.module(base) if attribute else None
                        if module:
                            return self.literal(ast.Name(attribute), Scope(module))
            case ast.Subscript(value=base, slice=inner) if base_name(base) == "Literal":
                elements = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return [self.evaluate(element, scope) for element in elements]
        return None

    def run(self, body: Sequence[ast.stmt], scope: Scope, on_call: OnCall | None = None) -> Any:
        """What a function body returns; statements that are not understood are passed over."""
        try:
            self._run(body, scope, on_call)
        except _Returned as returned:
            return returned.value
        return None

    def _method(self, base: Any, method: str, node: ast.Call, scope: Scope) -> Any:
        match base:
            case dict() if method in _VIEWS:
                return _VIEWS[method](base)
            case list() | set() if method == "copy":
                return type(base)(base)
            case str() if method in ("lower", "upper", "strip"):
                return getattr(base, method)()
            case str() if method == "join":
                items = self.items(self.evaluate(node.args[0], scope))
                return base.join(str(plain(item)) for item in items)
            case ClassRef() if method == "values" and self.members(base):
                return [member.value for member in self.members(base)]
            case ClassRef() if scope.depth < _MAX_DEPTH:
                function = self.method_of(base, method)
                if function:
                    return self._invoke(function, node, scope, {"cls": base, "self": base})
        return MISSING

    def _builtin(self, name: str, node: ast.Call, scope: Scope) -> Any:
        if name in scope.local or self.value(scope.module, name) is not MISSING:
            return MISSING
        if not node.args:
            return _CONTAINERS[name](()) if name in _CONTAINERS else MISSING
        value = self.evaluate(node.args[0], scope)
        if name == "str":
            return str(value) if isinstance(value, str | int | float) else MISSING
        if name == "dict":
            return dict(value)
        items = self.items(value)
        return len(items) if name == "len" else _CONTAINERS[name](items)

    def _field_default(self, node: ast.Call, scope: Scope) -> Any:
        for keyword in node.keywords:
            if keyword.arg == "default":
                return self.evaluate(keyword.value, scope)
            if keyword.arg == "default_factory":
                if isinstance(keyword.value, ast.Lambda):
                    return self.evaluate(keyword.value.body, scope)
                factory = self.evaluate(keyword.value, scope)
                if isinstance(factory, External) and factory.dotted in _CONTAINERS:
                    return _CONTAINERS[factory.dotted](())
                return Unknown(ast.unparse(node))
        return MISSING

    def _invoke(
        self, function: FunctionRef, node: ast.Call, scope: Scope, bound: dict[str, Any]
    ) -> Any:
        names = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
        if bound and names and names[0] in bound:
            names = names[1:]
        local = dict(bound)
        local.update(
            (name, self.evaluate(argument, scope))
            for name, argument in zip(names, node.args, strict=False)
        )
        local.update((k.arg, self.evaluate(k.value, scope)) for k in node.keywords if k.arg)
        return self.run(function.node.body, Scope(function.module, local, scope.depth + 1))

    def _run(self, body: Sequence[ast.stmt], scope: Scope, on_call: OnCall | None) -> None:
        for statement in body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    scope.local[name] = self.evaluate(value, scope)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    scope.local[name] = self.evaluate(ast.BinOp(ast.Name(name), op, value), scope)
                case ast.Import() | ast.ImportFrom():
                    for name, origin in scope.module.imports(statement).items():
                        scope.local[name] = self.imported(*origin)
                case ast.Return(value=value):
                    raise _Returned(self.evaluate(value, scope) if value else None)
                case ast.If():
                    self._run_if(statement, scope, on_call)
                case ast.Try() | ast.With():
                    self._run(statement.body, scope, on_call)
                case ast.For(target=ast.Name(id=name)):
                    for item in self._iterated(statement.iter, scope):
                        scope.local[name] = item
                        self._run(statement.body, scope, on_call)
                case ast.Expr(value=ast.Call() as call):
                    if on_call is None or not on_call(call, scope):
                        self._mutate(call, scope)

    def _run_if(self, statement: ast.If, scope: Scope, on_call: OnCall | None) -> None:
        test = self.evaluate(statement.test, scope)
        if isinstance(test, bool):
            self._run(statement.body if test else statement.orelse, scope, on_call)
        elif on_call is not None:
            # While arguments are collected, what holds only sometimes counts as well.
            self._run(statement.body, scope, on_call)
            self._run(statement.orelse, scope, on_call)
        else:
            self._run(statement.orelse, scope, on_call)

    def _iterated(self, node: ast.expr, scope: Scope) -> list[Any]:
        try:
            return self.items(self.evaluate(node, scope))
        except TypeError:
            return []

    def _mutate(self, call: ast.Call, scope: Scope) -> None:
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name in scope.local:
                arguments = [self.evaluate(argument, scope) for argument in call.args]
                scope.local[name] = mutated(scope.local[name], method, arguments)


def base_name(node: ast.expr) -> str:
    """The last part of a dotted name, as `Literal` of `typing.Literal`."""
    return ast.unparse(node).rsplit(".", 1)[-1]
