"""Names that a version knows beside its flags and variables: backends, algorithms, parsers,
plugin groups, requirements and scripts; and how its entries hand words to the parser."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from configurator.engine.expressions import Scope
from configurator.engine.records import Entry, Flag, Name, NameKind
from configurator.engine.sources import PACKAGE, Module, SourceTree
from configurator.engine.statements import Interpreter, base_name
from configurator.engine.values import ClassRef, plain

_OF_FLAG: dict[NameKind, str] = {
    "moe-runner-backend": "moe-runner-backend",
    "attention-backend": "attention-backend",
    "quantization": "quantization",
    "tool-call-parser": "tool-call-parser",
    "reasoning-parser": "reasoning-parser",
}
_SPECULATION = f"{PACKAGE}.srt.speculative.spec_info"
_ALGORITHM, _NO_ALGORITHM = "SpeculativeAlgorithm", "NONE"
_ALIASING = (
    f"{PACKAGE}.srt.server_args",
    f"{PACKAGE}.srt.arg_groups.speculative_hook",
    _SPECULATION,
)
_SERVE = f"{PACKAGE}.cli.serve"
_SERVE_HELPERS = f"{PACKAGE}.cli.utils"
_MODEL = re.compile(r"--(model(?:-path)?)")
_ATTENTION_FILES = re.compile(rf"{PACKAGE}/srt/layers/attention/attention_registry.*\.py")
_ATTENTION = re.compile(r"""register_attention_backend\(\s*["']([\w-]+)["']""")
_GROUP = re.compile(
    r"""^\s*\w*GROUP\w*\s*(?::\s*\w+)?=\s*["']([\w-]+(?:\.[\w-]+)+)["']"""
    r"""|entry_points\(\s*(?:group\s*=\s*)?["']([\w-]+(?:\.[\w-]+)+)["']""",
    re.MULTILINE,
)
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(.*)")
_EXTRA = re.compile(r"\bextra\s*==")
UNLISTED = "unlisted"


def extract_names(tree: SourceTree, flags: Iterable[Flag]) -> list[Name]:
    """Every name of every kind."""
    choices = {flag.name: flag.choices for flag in flags}
    fold = Interpreter(tree)
    registered: dict[NameKind, Collection[str]] = {
        "moe-runner-backend": _enumeration(tree, fold, "layers.moe.utils", "MoeRunnerBackend"),
        "attention-backend": _registered_attention(tree),
        "quantization": _quantizations(tree, fold),
    }
    found: list[Name] = []
    for kind, flag in _OF_FLAG.items():
        listed = choices.get(flag, ())
        found += [Name(kind, name) for name in listed]
        rest = set(registered.get(kind, ())) - set(listed)
        found += [Name(kind, name, UNLISTED if listed else "") for name in rest]
    found += _algorithms(tree, fold, choices.get("speculative-algorithm", ()))
    found += [Name("plugin-group", name) for name in _plugin_groups(tree)]
    found += _requirements(tree)
    found += _scripts(tree)
    return list(set(found))


def extract_entry(tree: SourceTree) -> Entry:
    """How words reach the parser; see `Entry` for what the fields mean."""
    serve = tree.module(_SERVE)
    server_args = tree.module(f"{PACKAGE}.srt.server_args")
    prepare = server_args.first("prepare_server_args", "function") if server_args else None
    return Entry(
        serve=serve is not None,
        positional_model=serve is not None and any(_puts_model_first(serve)),
        serve_options=tuple(sorted(set(_own_options(serve)))) if serve else (),
        model_options=tuple(sorted(set(_model_options(tree)))) if serve else (),
        merges_config=prepare is not None and any(_asks_for(prepare, "--config")),
        abbreviations=prepare is None or "allow_abbrev=False" not in ast.unparse(prepare),
    )


def _enumeration(tree: SourceTree, fold: Interpreter, module: str, name: str) -> list[str]:
    found = tree.module(f"{PACKAGE}.srt.{module}")
    owner = fold.value(found, name) if found else None
    members = fold.members(owner) if isinstance(owner, ClassRef) else ()
    return [str(plain(member.value)) for member in members]


def _registered_attention(tree: SourceTree) -> list[str]:
    return [
        name
        for file in tree.names
        if _ATTENTION_FILES.fullmatch(file)
        for name in _ATTENTION.findall(tree.text(file))
    ]


def _quantizations(tree: SourceTree, fold: Interpreter) -> list[str]:
    module = tree.module(f"{PACKAGE}.srt.layers.quantization")
    found: Any = fold.value(module, "QUANTIZATION_METHODS") if module else {}
    return [name for name in found if isinstance(name, str)] if isinstance(found, dict) else []


def _algorithms(tree: SourceTree, fold: Interpreter, listed: Iterable[str]) -> Iterator[Name]:
    """Algorithms, and their other names with the algorithm meant."""
    module = tree.module(_SPECULATION)
    known = set(listed)
    if module and module.first(_ALGORITHM, "class"):
        owner = ClassRef(module, module.first(_ALGORITHM, "class"))
        known |= {member.name for member in fold.members(owner)}
        # From 0.5.5 to 0.5.7 the class was no enumeration, and its names were registered.
        known |= {
            str(call.args[0].value)
            for call in ast.walk(module.tree)
            if isinstance(call, ast.Call)
            and base_name(call.func) == "register"
            and call.args
            and isinstance(call.args[0], ast.Constant)
        }
    aliases = {
        alias: meant
        for dotted in _ALIASING
        if (found := tree.module(dotted))
        for alias, meant in _aliases(found, fold)
        if meant in known and alias != meant
    }
    for name in (known | set(aliases)) - {_NO_ALGORITHM}:
        yield Name("speculative-algorithm", name, aliases.get(name, ""))


def _aliases(module: Module, fold: Interpreter) -> Iterator[tuple[str, str]]:
    """`if algorithm == "X": algorithm = "Y"`, or `return "Y"`, or `return cls.Y`."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.If) or "algorithm" not in ast.unparse(node).lower():
            continue
        meant = next((name for s in node.body for name in _settled(s)), None)
        if meant is None:
            continue
        for compare in ast.walk(node.test):
            if isinstance(compare, ast.Compare) and isinstance(compare.ops[0], ast.Eq | ast.In):
                value = fold.evaluate(compare.comparators[0], Scope(module))
                names = [value] if isinstance(value, str) else value
                if isinstance(names, list | tuple | set):
                    yield from ((str(name), meant) for name in sorted(names, key=str))


def _settled(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name) | ast.Attribute(attr=name)],
            value=ast.Constant(value=str() as meant),
        ) if name.endswith("speculative_algorithm"):
            yield meant
        case ast.Return(value=ast.Constant(value=str() as meant)):
            yield meant
        case ast.Return(value=ast.Attribute(value=ast.Name(id="cls"), attr=meant)):
            yield meant


def _plugin_groups(tree: SourceTree) -> set[str]:
    """Groups of entry points that the engine looks for."""
    found: set[str] = set()
    for file in tree.names:
        if file.endswith(".py") and file.startswith(f"{PACKAGE}/"):
            text = tree.text(file)
            if "entry_points" in text:
                found.update(one or other for one, other in _GROUP.findall(text))
    return found


def _requirements(tree: SourceTree) -> Iterator[Name]:
    """What the package needs without any extra, and the Python it needs."""
    metadata, project = tree.metadata, tree.project
    python = metadata.get("Requires-Python", []) or [project.get("requires-python", "")]
    needed = metadata.get("Requires-Dist", []) or project.get("dependencies", [])
    rows: dict[str, list[str]] = {"python": python} if python[0] else {}
    for line in needed:
        found = _REQUIREMENT.match(line)
        if found and not _EXTRA.search(found[2]):
            rows.setdefault(found[1], []).append(found[2].strip())
    for name, details in rows.items():
        yield Name("requirement", name, " or ".join(details))


def _scripts(tree: SourceTree) -> Iterator[Name]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.read_string(tree.entry_points)
    listed = dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}
    for name, target in (listed or tree.project.get("scripts", {})).items():
        yield Name("script", name, target)


def _puts_model_first(serve: Module) -> Iterator[ast.List]:
    """`["--model-path", words[0], ...]`: the first word becomes the value of an option."""
    for node in ast.walk(serve.tree):
        match node:
            case ast.List(
                elts=[
                    ast.Constant(value="--model-path"),
                    ast.Subscript(slice=ast.Constant(value=0)),
                    *_,
                ]
            ):
                yield node


def _own_options(serve: Module) -> Iterator[str]:
    """`if word == "--model-type": ...` in the entry itself."""
    for node in ast.walk(serve.tree):
        match node:
            case ast.Compare(
                left=ast.Name(), ops=[ast.Eq()], comparators=[ast.Constant(value=str() as name)]
            ) if name.startswith("--"):
                yield name.removeprefix("--")


def _model_options(tree: SourceTree) -> Iterator[str]:
    """`word == "--model-path"`, or `word in ("--model-path", "--model")`."""
    helpers = tree.module(_SERVE_HELPERS)
    for node in ast.walk(helpers.tree) if helpers else ():
        if isinstance(node, ast.Compare):
            for each in ast.walk(node.comparators[0]):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    found = _MODEL.fullmatch(each.value)
                    if found:
                        yield found[1]


def _asks_for(function: ast.FunctionDef, word: str) -> Iterator[ast.Compare]:
    """`if "--config" in words`."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=ast.Constant(value=value), ops=[ast.In()]) if value == word:
                yield node
