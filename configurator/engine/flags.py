"""The engine's command-line options, from the three ways its sources have defined them.

Up to 0.5.12 every option is a call of `parser.add_argument`; up to 0.5.19 most are annotated
fields of the dataclass `ServerArgs`; since 0.5.20 they are fields of several namespace classes.
Calls of `add_argument` remain in all three.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from configurator.engine.expressions import Scope
from configurator.engine.records import Flag
from configurator.engine.sources import Module, SourceTree
from configurator.engine.statements import Interpreter, base_name
from configurator.engine.values import (
    MISSING,
    ClassRef,
    External,
    FunctionRef,
    ModuleRef,
    Unknown,
    last_name,
    plain,
)
from configurator.engine.variables import extract_variables
from configurator.errors import ConfiguratorError

_MODULE, _CLASS = "sglang.srt.server_args", "ServerArgs"
_TYPES = {
    "int": "int", "float": "float", "str": "str", "bool": "bool", "loads": "json",
    "json_list_type": "json", "human_readable_int": "size",
    "parse_cuda_graph_config_arg": "json_object",
}  # fmt: skip
_SWITCHES = ("store_true", "store_false", "store_const", "BooleanOptionalAction")
_DEPRECATED_SWITCHES = (
    "DeprecatedAction", "DeprecatedStoreTrueAction", "DeprecatedStoreConstAction",
)  # fmt: skip
_DEPRECATED_HELP = re.compile(
    r"^\W{0,2}deprecated\b|\bis deprecated\b|\bno longer (supported|used)\b", re.IGNORECASE
)
_INSTEAD = re.compile(r"\b(?:use|alias for) (--[\w{},=-]*\w}?)", re.IGNORECASE)


@dataclass(slots=True)
class Field:
    """A field of a class of arguments, and the module it stands in."""

    module: Module
    node: ast.AnnAssign

    @property
    def name(self) -> str:
        """The name of the field."""
        return ast.unparse(self.node.target)


@dataclass(slots=True)
class Options:
    """Keyword arguments of `add_argument`, folded."""

    names: list[str]
    given: dict[str, Any] = field(default_factory=dict)

    def flag(self) -> Flag:
        """The option as a catalogue holds it."""
        names = [name.lstrip("-") for name in self.names if name.startswith("--")]
        refusal = self._refusal()
        action = last_name(self.given["action"]) if self.given.get("action") else ""
        if action == "BooleanOptionalAction":
            names += [f"no-{name}" for name in names]
        return Flag(
            name=names[0] if names else self.names[0].lstrip("-"),
            aliases=tuple(names[1:]),
            type=self._type(action),
            default=self._default(action),
            choices=self._choices(),
            nargs=_word(self.given.get("nargs")),
            deprecated=self._deprecated(action) if refusal is None else refusal,
            required=self.given.get("required") is True,
            refused=refusal is not None,
        )

    def _type(self, action: str) -> str | None:
        if action in _SWITCHES:
            return None
        # A deprecated switch takes a value after all where it says `nargs=None`.
        if action in _DEPRECATED_SWITCHES and self.given.get("nargs", 0) is not None:
            return None
        kind = self.given.get("type")
        # A parser of the engine's own may accept anything.
        return "str" if kind is None else _TYPES.get(last_name(kind), "str")

    def _default(self, action: str) -> Any:
        absent = False if action == "store_true" else _own_default(self.given.get("action"))
        default = self.given.get("default", absent)
        return None if isinstance(default, External) else plain(default)

    def _choices(self) -> tuple[str, ...]:
        choices = plain(self.given.get("choices"))
        return tuple(str(choice) for choice in choices) if isinstance(choices, list) else ()

    def _refusal(self) -> str | None:
        """Why the option is never accepted; None when it is.

        Up to 0.5.7 the action of retired options raises their help text; from 0.5.18 on it ends
        the parser with the message that the option was given, if any. In between it only warns.
        """
        action = self.given.get("action")
        for statement in action.node.body if isinstance(action, ClassRef) else ():
            if isinstance(statement, ast.FunctionDef) and statement.name == "__call__":
                for attribute in _raised(statement):
                    reason = self.given.get(attribute)
                    if isinstance(reason, str):
                        return " ".join(reason.split())
        return None

    def _deprecated(self, action: str) -> str | None:
        for key in ("new_flag", "error_message"):
            if isinstance(self.given.get(key), str):
                return str(self.given[key])
        text = self.given.get("help")
        text = " ".join(text.split()) if isinstance(text, str) else ""
        if "Deprecated" in action or _DEPRECATED_HELP.search(text[:160]):
            found = _INSTEAD.search(text)
            return found[1] if found else ""
        return None


def _own_default(action: object) -> object:
    """The default that an action of the engine's own has where none is given."""
    for statement in action.node.body if isinstance(action, ClassRef) else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            names = [argument.arg for argument in statement.args.args]
            values = dict(zip(reversed(names), reversed(statement.args.defaults), strict=False))
            match values.get("default"):
                case ast.Constant(value=value):
                    return value
    return None


def _raised(function: ast.FunctionDef) -> Iterator[str]:
    """Attributes of `self` that an action ends the parser with: raised, or a parser's error."""
    for node in ast.walk(function):
        match node:
            case (
                ast.Raise(exc=ast.Call(args=[ast.Attribute(attr=name)]))
                | ast.Call(func=ast.Attribute(attr="error"), args=[ast.Attribute(attr=name)])
            ):
                yield name


def _word(value: object) -> str | None:
    return None if value is None or isinstance(value, Unknown) else str(value)


def extract_flags(tree: SourceTree) -> list[Flag]:
    """Every option of the server's command line.

    Raises:
        ConfiguratorError: CAT002 when the class of arguments is not where it has always been.
    """
    module = tree.module(_MODULE)
    node = module.first(_CLASS, "class") if module else None
    if module is None or node is None:
        raise ConfiguratorError.single(
            "CAT002", f"{tree.path}: {_MODULE} has no class {_CLASS}", "give a release of sglang"
        )
    return _Reader(tree, ClassRef(module, node)).read()


class _Reader(Interpreter):
    """Follows `ServerArgs.add_cli_args` and keeps what it adds to the parser."""

    def __init__(self, tree: SourceTree, server_args: ClassRef) -> None:
        super().__init__(tree)
        self._class = server_args
        namespaces = self.value(server_args.module, "_INPUT_NAMESPACES")
        owners = namespaces if isinstance(namespaces, list | tuple) else []
        self._fields = {
            found.name: found
            for owner in [*owners, server_args]
            if isinstance(owner, ClassRef)
            for found in self._fields_of(owner)
        }
        self._variables = {variable.name: variable.default for variable in extract_variables(tree)}
        self._flags: dict[str, Flag] = {}

    def read(self) -> list[Flag]:
        method = self.method_of(self._class, "add_cli_args")
        if method is not None:
            self._follow(method)
        return list(self._flags.values())

    def attribute(self, base: Any, name: str) -> Any:
        """Defaults of fields may stand in another class than the one they are asked from."""
        if isinstance(base, ClassRef) and base.node is self._class.node and name in self._fields:
            return self._field_value(name)
        return super().attribute(base, name)

    def call(self, node: ast.Call, scope: Scope) -> Any:
        match node:
            case ast.Call(
                func=ast.Name(id="_declared_default"), args=[ast.Constant(value=str() as name)]
            ):
                return self._field_value(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=owner, attr=name), attr="get")
            ) if base_name(owner) == "envs" and name in self._variables:
                # The parser as it is when no variable is set.
                return self._variables[name]
        return super().call(node, scope)

    def _fields_of(self, owner: ClassRef) -> Iterator[Field]:
        for base in self.bases(owner):
            if isinstance(base, ClassRef):
                yield from self._fields_of(base)
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield Field(owner.module, statement)

    def _field_value(self, name: str) -> Any:
        found = self._fields.get(name)
        if found is None or found.node.value is None:
            return MISSING
        return self.evaluate(found.node.value, Scope(found.module))

    def _follow(self, function: FunctionRef) -> None:
        scope = Scope(function.module, {"cls": self._class})
        self.run(function.node.body, scope, self._statement)

    def _statement(self, call: ast.Call, scope: Scope) -> bool:
        """A call in `add_cli_args`, or in a helper that it hands the parser to."""
        if base_name(call.func) == "add_cli_args_from_dataclass":
            for found in self._fields.values():
                self._keep(self._options_of(found))
            return True
        if base_name(call.func) == "add_argument":
            names = [self.evaluate(argument, scope) for argument in call.args]
            given = {k.arg: self.evaluate(k.value, scope) for k in call.keywords if k.arg}
            self._keep(Options([name for name in names if isinstance(name, str)], given))
            return True
        if any(isinstance(a, ast.Name) and a.id == "parser" for a in call.args):
            helper = self._helper(call.func, scope)
            if helper is not None:
                self._follow(helper)
            return True
        return False

    def _helper(self, node: ast.expr, scope: Scope) -> FunctionRef | None:
        if isinstance(node, ast.Attribute):
            owner = self.evaluate(node.value, scope)
            if isinstance(owner, ClassRef):
                return self.method_of(owner, node.attr)
            found = self.attribute(owner, node.attr) if isinstance(owner, ModuleRef) else None
        else:
            found = self.evaluate(node, scope)
        return found if isinstance(found, FunctionRef) else None

    def _keep(self, options: Options | None) -> None:
        if options is not None and options.names:
            flag = options.flag()
            self._flags[flag.name] = flag

    def _options_of(self, found: Field) -> Options | None:
        """A field `name: A[T, Arg(...)]` or `A[T, "help"]`; None when it has no option."""
        annotation = found.node.annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        match annotation:
            case ast.Subscript(value=base, slice=ast.Tuple(elts=[kind, *extras])) if base_name(
                base
            ) in ("A", "Annotated"):
                described = self._description(extras, Scope(found.module))
            case _:
                return None
        if described is None or described.get("no_cli") is True:
            return None
        main = described.get("cli_name") or "--" + found.name.replace("_", "-")
        default = self._field_value(found.name)
        if described.get("required") is None:
            described["required"] = default is MISSING
        given = self._given(kind, described, Scope(found.module))
        if default is not MISSING and "default" not in given:
            given["default"] = default
        return Options(
            [main, *(described.get("aliases") or ())], {"help": described.get("help")} | given
        )

    def _description(self, extras: list[ast.expr], scope: Scope) -> dict[str, Any] | None:
        for extra in extras:
            if isinstance(extra, ast.Call):
                if base_name(extra.func) == "Arg":
                    words = {k.arg: k.value for k in extra.keywords if k.arg}
                    words |= {"help": extra.args[0]} if extra.args else {}
                    return {name: self.evaluate(node, scope) for name, node in words.items()}
            elif isinstance(text := self.evaluate(extra, scope), str):
                return {"help": text}
        return None

    def _given(self, kind: ast.expr, described: dict[str, Any], scope: Scope) -> dict[str, Any]:
        """What the engine derives for `add_argument` from a field's type and description."""
        given = {
            key: described[key]
            for key in ("choices", "nargs", "const", "action")
            if described.get(key) is not None
        }
        if "action" in given:
            extra = described.get("action_kwargs")
            return given | (extra if isinstance(extra, dict) else {})
        inner = _without_none(kind)
        literal = self.literal(inner, scope)
        own = described.get("type_parser")
        if literal is not None:
            sample = type(literal[0]).__name__ if literal else "str"
            return {"choices": literal, "type": own or _basic(sample)} | given
        name = base_name(inner.value if isinstance(inner, ast.Subscript) else inner)
        # The engine asks only for single values.
        required = {"required": described["required"] is True}
        if own is not None:
            return {"type": own} | required | given
        if name in ("List", "list"):
            element = ast.unparse(inner.slice) if isinstance(inner, ast.Subscript) else "str"
            return {"nargs": "+", "type": _basic(element)} | given
        if name == "bool":
            return {"action": "store_true"} | given
        return {"type": _basic(name)} | required | given


def _basic(name: str) -> External:
    return External(name if name in ("int", "float") else "str")


def _without_none(node: ast.expr) -> ast.expr:
    """`T` of `Optional[T]`, of `Union[T, None]` and of `T | None`."""
    match node:
        case ast.Constant(value=str() as text):
            return _without_none(ast.parse(text, mode="eval").body)
        case ast.Subscript(value=base, slice=inner) if base_name(base) == "Optional":
            return inner
        case ast.Subscript(value=base, slice=ast.Tuple(elts=parts)) if base_name(base) == "Union":
            left = [part for part in parts if not _is_none(part)]
            return left[0] if len(left) == 1 else node
        case ast.BinOp(left=left_part, op=ast.BitOr(), right=right) if _is_none(right):
            return left_part
        case ast.BinOp(left=left_part, op=ast.BitOr(), right=right) if _is_none(left_part):
            return right
    return node


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
