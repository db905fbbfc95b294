"""The engine's environment variables: its registry, and what is read beside it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from configurator.engine.expressions import Scope
from configurator.engine.records import Retired, Variable
from configurator.engine.sources import PACKAGE, Module, SourceTree
from configurator.engine.statements import Interpreter, base_name
from configurator.engine.values import plain

_MODULE = "sglang.srt.environ"
_REGISTRY, _RETIRED = "Envs", "_DEPRECATED_ENVS"
_WARNERS = ("_print_deprecated_env", "_warn_deprecated_env_to_cli_flag")
_SOURCES = (".py", ".cu", ".cuh", ".h", ".cpp", ".cc", ".hpp", ".rs")
_ELSEWHERE = (f"{PACKAGE}/test/", f"{PACKAGE}/srt/environ.py")

# A quoted name alone is nearly always read, be it through a constant or a helper; a name in a
# comment or a help text stands without quotes of its own.
_OWN = re.compile(r"""["']((?:SGLANG|SGL)_[A-Z0-9_]*[A-Z0-9])["']""")
# The beginning of a name whose end is filled in: f"SGLANG_CACHE_DIT_{suffix}".
_FAMILY = re.compile(r"""\bf["']((?:SGLANG|SGL)_[A-Z0-9_]+_)\{""")
# Compiled extensions ship without their sources; texts in them follow each other without a gap.
_COMPILED = re.compile(
    rb"(?<![A-Z0-9_])((?:(?:SGLANG|SGL)_(?:(?!SGLANG_|SGL_)[A-Z0-9_])*[A-Z0-9])+)(?![A-Z0-9_])"
)
_ANY = re.compile(r"\b(?:SGLANG|SGL)_[A-Z0-9_]+\b")
_READ = re.compile(
    r"""(?:environ(?:\.get|\.pop|\.setdefault)?\s*[(\[]|getenv\(|get_\w*env\w*\(|env_\w+\()\s*"""
    r"""["']([A-Z][A-Z0-9_]{3,})["']"""
)


def extract_variables(tree: SourceTree) -> list[Variable]:
    """Variables of the registry; none before the engine had one."""
    module = tree.module(_MODULE)
    owner = module.first(_REGISTRY, "class") if module else None
    if module is None or owner is None:
        return []
    fold = Interpreter(tree)
    found: dict[str, Variable] = {}
    for name, call in _declarations(owner.body):
        kind = base_name(call.func).removeprefix("Env").replace("WithAlias", "").lower()
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "default")]
        default = plain(fold.evaluate(given[0], Scope(module))) if given else None
        found[name] = Variable(name, kind, default)
    own = {name for name in found if _ANY.fullmatch(name)}
    unread = _not_compiled(own - _mentioned(tree), tree)
    return [replace(v, unread=True) if v.name in unread else v for v in found.values()]


def _mentioned(tree: SourceTree) -> set[str]:
    """Names that stand anywhere but in the one place where the registry declares them."""
    registry = f"{_MODULE.replace('.', '/')}.py"
    here = Counter(_ANY.findall(tree.text(registry)))
    found = {name for name, count in here.items() if count > 1}
    for name in tree.names:
        if name.startswith(f"{PACKAGE}/") and name.endswith(_SOURCES) and name != registry:
            found.update(_ANY.findall(tree.text(name)))
    return found


def _not_compiled(names: set[str], tree: SourceTree) -> set[str]:
    """Those that no compiled extension holds either."""
    for name in tree.names:
        if names and name.startswith(f"{PACKAGE}/") and name.endswith(".so"):
            data = tree.data(name)
            names = {wanted for wanted in names if wanted.encode() not in data}
    return names


def extract_retired(tree: SourceTree) -> list[Retired]:
    """Variables that the engine has renamed or given up, and still warns of."""
    module = tree.module(_MODULE)
    if module is None:
        return []
    fold = Interpreter(tree)
    found: dict[str, Retired] = {}
    for retired in (
        *_warned(module, fold),
        *_mapped(module, fold),
        *_registered(module, fold),
        *_aliased(module, fold),
    ):
        found[retired.name] = retired
    return list(found.values())


def extract_env_read(tree: SourceTree, declared: Collection[str] = ()) -> frozenset[str]:
    """Names of variables that are read and not `declared`; found by their spelling, so not proven
    complete. One that ends in an underscore stands for all that begin with it.
    """
    found: set[str] = set()
    compiled: set[str] = set()
    for name in tree.names:
        if not name.startswith(f"{PACKAGE}/") or name.startswith(_ELSEWHERE):
            continue
        if name.endswith(_SOURCES):
            text = tree.text(name)
            for names in (_OWN, _FAMILY):
                found.update(names.findall(text))
            if "env" in text:
                found.update(_READ.findall(text))
        elif name.endswith(".so"):
            compiled.update(_compiled(tree.data(name)))
    known = {*found, *declared, *compiled}
    return frozenset(found | {n for n in compiled if not _runs_on(n, known)}) - set(declared)


def _compiled(data: bytes) -> Iterator[str]:
    for run in _COMPILED.findall(data):
        # One text may end where the next begins, so a run is cut before every prefix.
        yield from re.findall(r"(?:SGLANG|SGL)_.*?(?=SGLANG_|SGL_|$)", run.decode("ascii"))


def _runs_on(name: str, known: Collection[str]) -> bool:
    """A known name with the beginning of the next text: `SGLANG_TIMEOUTT` of `SGLANG_TIMEOUT`."""
    return any(name[:end] in known and name[end] != "_" for end in range(len("SGL_X"), len(name)))


def _declarations(body: list[ast.stmt]) -> Iterator[tuple[str, ast.Call]]:
    """`NAME = EnvBool(...)`, also under a condition."""
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=orelse):
                yield from _declarations([*inner, *orelse])
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call)
            ) if base_name(call.func).startswith("Env"):
                yield name, call


def _aliased(module: Module, fold: Interpreter) -> Iterator[Retired]:
    """`NEW = EnvBoolWithAlias(default, deprecated_name="OLD")`."""
    owner = module.first(_REGISTRY, "class")
    for name, call in _declarations(owner.body if owner else []):
        if "WithAlias" not in base_name(call.func):
            continue
        given = [k.value for k in call.keywords if k.arg == "deprecated_name"] or call.args[1:2]
        old = fold.evaluate(given[0], Scope(module)) if given else None
        if isinstance(old, str):
            yield Retired(old, name)


def _registered(module: Module, fold: Interpreter) -> Iterator[Retired]:
    """`_DEPRECATED_ENVS = {"OLD": _DeprecatedEnv(replacement=..., note=...)}`, since 0.5.21."""
    registry = module.first(_RETIRED, "assign")
    if not isinstance(registry, ast.Dict):
        return
    for key, value in zip(registry.keys, registry.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
            words = dict(zip(("replacement", "transform", "note"), value.args, strict=False))
            words |= {k.arg: k.value for k in value.keywords if k.arg}
            yield _retired(str(key.value), words, module, fold)


def _warned(module: Module, fold: Interpreter) -> Iterator[Retired]:
    """Calls of the older warning functions. The order of their parameters has changed between
    releases, so the names are taken from their definitions."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _WARNERS:
                function = module.first(name, "function")
                names = [a.arg for a in function.args.args] if function else []
                words = dict(zip(names, args, strict=False))
                words |= {k.arg: k.value for k in keywords if k.arg}
                old = words.get("old_name") or words.get("env_name")
                text = fold.evaluate(old, Scope(module)) if old else None
                if isinstance(text, str):
                    yield _retired(text, words, module, fold)


def _mapped(module: Module, fold: Interpreter) -> Iterator[Retired]:
    """`_deprecated_x = {"OLD": "NEW"}` inside the older warning code."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value) if (
                name.startswith("_deprecated")
            ):
                for old, new in fold.evaluate(value, Scope(module)).items():
                    yield Retired(old, new if isinstance(new, str) else None)


def _retired(name: str, words: dict[str, ast.expr], module: Module, fold: Interpreter) -> Retired:
    def text(*keys: str) -> str | None:
        nodes = [words[key] for key in keys if key in words]
        value = fold.evaluate(nodes[0], Scope(module)) if nodes else None
        return value if isinstance(value, str) else None

    change = words.get("transform")
    return Retired(
        name,
        text("replacement", "new_name"),
        text("note", "suggestion") or "",
        base_name(change).lstrip("_") if isinstance(change, ast.Name) else "",
    )
