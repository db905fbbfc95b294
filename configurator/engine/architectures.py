"""The model classes that the engine loads, and what it makes of them when they are the draft."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from configurator.engine.expressions import Scope
from configurator.engine.records import Architecture, SharesHead
from configurator.engine.sources import PACKAGE, Module, SourceTree
from configurator.engine.statements import Interpreter
from configurator.engine.values import ClassRef

_CONFIG = f"{PACKAGE}.srt.configs.model_config"
_FILE = re.compile(rf"{PACKAGE}/srt/models/(\w+)(?:/__init__)?\.py")
_LIST = "EntryClass"
# The first is called by the workers of EAGLE and NEXTN, the second by that of DSPARK; both hand
# the target's module over. Source: speculative/eagle_worker_v2.py, dspark_worker_v2.py.
_WHOLE = ("set_lm_head_from_target", "attach_shared_modules")
_WEIGHT = "set_embed_and_head"


def extract_architectures(tree: SourceTree) -> list[Architecture]:
    """Every class that a model file offers, by name."""
    fold = Interpreter(tree)
    drafts = extract_drafts(tree, fold)
    found: dict[str, Architecture] = {}
    for file in sorted(tree.names):
        named = _FILE.fullmatch(file)
        if named is None or _LIST not in tree.text(file):
            continue
        module = tree.module(f"{PACKAGE}.srt.models.{named[1]}")
        for name, owner in _offered(module, fold) if module else ():
            head = _shares_head(name, owner, fold) if owner else None
            targets = tuple(sorted(drafts.get(name, ())))
            found[name] = Architecture(name, named[1], targets, head)
    return [found[name] for name in sorted(found)]


def extract_drafts(tree: SourceTree, fold: Interpreter) -> dict[str, set[str]]:
    """The classes that the engine puts in place of a draft's own, by that name.

    Read off the conditions on `is_draft_model` and `architectures[0]` in its model configuration.
    """
    module = tree.module(_CONFIG)
    found: dict[str, set[str]] = {}
    for node in ast.walk(module.tree) if module else ():
        if module and isinstance(node, ast.If) and "is_draft_model" in ast.unparse(node.test):
            for target in _compared(node.test, module, fold):
                found.setdefault(target, set()).update(_rewritten(node.body))
    return found


def _offered(module: Module, fold: Interpreter) -> Iterator[tuple[str, ClassRef | None]]:
    """Names in `EntryClass`, each with its class where the sources have it."""
    for definition in module.definitions.get(_LIST, ()):
        nodes = definition.node if isinstance(definition.node, ast.expr) else None
        several = nodes.elts if isinstance(nodes, ast.List | ast.Tuple) else [nodes]
        if definition.kind == "mutate":
            several = definition.node[1]
        for node in several:
            yield from _class(node, module, fold)
        if definition.kind == "import":
            value = fold.value(module, _LIST)
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, ClassRef):
                    yield each.node.name, each


def _class(node: Any, module: Module, fold: Interpreter) -> Iterator[tuple[str, ClassRef | None]]:
    if not isinstance(node, ast.Name):
        return
    value = fold.evaluate(node, Scope(module))
    made = module.first(node.id, "assign")
    match made:
        case ast.Call(func=ast.Name(id="type"), args=[ast.Constant(value=str() as name), *_]):
            yield name, None
        case _ if isinstance(value, ClassRef):
            yield value.node.name, value
        case _:
            yield node.id, None


def _shares_head(name: str, owner: ClassRef, fold: Interpreter) -> SharesHead | None:
    if any(fold.method_of(owner, method) for method in _WHOLE):
        return "module"
    if "eagle3" in name.lower() or fold.method_of(owner, _WEIGHT) is None:
        return None
    return "weight"


def _compared(test: ast.expr, module: Module, fold: Interpreter) -> Iterator[str]:
    """`"X"` of `architectures[0] == "X"`, and all of `in [...]`."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(
                left=ast.Subscript(value=ast.Attribute(attr="architectures")),
                ops=[ast.Eq() | ast.In()],
                comparators=[right],
            ):
                value = fold.evaluate(right, Scope(module))
                names = [value] if isinstance(value, str) else value
                if isinstance(names, list | tuple | set):
                    yield from (name for name in names if isinstance(name, str))


def _rewritten(body: list[ast.stmt]) -> Iterator[str]:
    """`"X"` of `architectures[0] = "X"` and of `architectures = ["X"]`."""
    for statement in body:
        for node in ast.walk(statement):
            match node:
                case (
                    ast.Assign(
                        targets=[ast.Subscript(value=ast.Attribute(attr="architectures"))],
                        value=ast.Constant(value=str() as name),
                    )
                    | ast.Assign(
                        targets=[ast.Attribute(attr="architectures")],
                        value=ast.List(elts=[ast.Constant(value=str() as name)]),
                    )
                ):
                    yield name
