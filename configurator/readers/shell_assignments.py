"""Assignments: `name=value`, arrays, and `export`, `declare`, `local` and `readonly`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tree_sitter import Node

from configurator.errors import Position
from configurator.readers.shell_state import Value, Variable, is_known, text_of
from configurator.readers.shell_tokens import split_words
from configurator.readers.shell_words import Words, missing
from configurator.words import Word

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DECLARED = re.compile(r"([A-Za-z_]\w*)(\+?=)?", re.ASCII)
_KEY = re.compile(r"\[([^\]\n]*)\](\+?)=")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What `declare -x` and its kin say of the names that follow."""

    local: bool = False
    exported: bool | None = None
    keyed: bool = False
    indexed: bool = False
    reference: bool = False
    attribute: str | None = None

    @classmethod
    def of(cls, command: str, options: list[str], in_function: bool) -> Declaration:
        """From the command's name and its options."""
        given = "".join(option[1:] for option in options if option.startswith("-"))
        taken = "".join(option[1:] for option in options if option.startswith("+"))
        exported = None
        if command == "export":
            exported = "n" not in given
        elif "x" in given or "x" in taken:
            exported = "x" in given
        reference = command != "export" and "n" in given
        local = command in ("local", "declare", "typeset") and "g" not in given and in_function
        attribute = next((letter for letter in "ilu" if letter in given), None)
        if attribute is None and set("ilu") & set(taken):
            attribute = ""
        return cls(local, exported, "A" in given, "a" in given, reference, attribute)


def expanded_value(words: Words, node: Node) -> Value:
    """What stands after the `=` of a variable_assignment node; () for an array's list."""
    source, value_node = words.shell.source, node.child_by_field_name("value")
    if value_node is None or value_node.type == "array":
        return ()
    start = source.start(value_node)
    return words.value(start, max(source.end(node), start))


def assign(
    words: Words,
    node: Node,
    declaration: Declaration | None = None,
    value: Value | None = None,
) -> None:
    """What a variable_assignment node sets; `value` is what it came to, if that was read before."""
    source = words.shell.source
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return
    text = source.written(name_node)
    name = _NAME.match(text)
    if not name:
        return
    adds = any(child.type == "+=" for child in node.children)
    position = source.position(source.start(node))
    is_array = value_node is not None and value_node.type == "array"
    # Read before the name is declared: `local x="$x"` means the outer one.
    value = expanded_value(words, node) if value is None else value
    if declaration:
        declare(words, name[0], declaration, position)
    if value_node is not None and is_array:
        _assign_array(words, name[0], value_node, adds, position)
    elif name_node.type == "subscript":
        offset = source.start(name_node) + len(name[0]) + 1
        _assign_element(words, name[0], (offset, source.end(name_node) - 1), value, adds)
    elif declaration and declaration.reference:
        reference = text_of(value) if is_known(value) else ""
        words.shell.declare(name[0], Variable(reference=reference, position=position))
    else:
        written = "" if value or adds or value_node is None else source.written(value_node)
        _set(words, name[0], value, adds, position, missing(words.shell, written))
        if declaration:
            declare(words, name[0], replace(declaration, local=False), position)


def _set(
    words: Words, name: str, value: Value, adds: bool, position: Position, default_of: str
) -> None:
    set_value(words, name, value, adds, position)
    known = words.shell.find(name)
    if default_of and known:
        words.shell.put(name, replace(known, default_of=default_of))


def set_value(words: Words, name: str, value: Value, adds: bool, position: Position | None) -> None:
    """`name=value`, or `name+=value`."""
    known = words.shell.find(name)
    if known is not None and known.attribute and known.array is None:
        words.shell.assign(name, _attributed(words, known, value, adds, position), position)
    elif not adds or known is None or known.removed:
        words.shell.assign(name, value, position)
    elif known.value is None:
        words.shell.assign(name, None, position)
    else:
        before = known.value if known.array is None else known.element(0) or ()
        words.shell.budget.text(len(text_of(before)) + len(text_of(value)))
        words.shell.assign(name, words.together(before, value, position), position)


def _attributed(
    words: Words, known: Variable, value: Value, adds: bool, position: Position | None
) -> Value | None:
    """What a variable that is a number, or of small or capital letters, gets."""
    before = () if not adds or known.removed else known.value
    if before is None or not is_known(before) or not is_known(value):
        return None
    here = position or words.shell.source.position(0)
    text = text_of(before) + text_of(value)
    if known.attribute != "i":
        return (Word.at(text.lower() if known.attribute == "l" else text.upper(), here),)
    if adds:
        text = f"({text_of(before) or 0}) + ({text_of(value) or 0})"
    number = words.number_of((Word.at(text, here),), 0)
    return None if number is None else (Word.at(str(number), here),)


def declare(words: Words, name: str, declaration: Declaration, position: Position) -> None:
    """A name, as `declare` and `export` take it without a value."""
    shell = words.shell
    known = None if declaration.local and name not in shell.scopes[-1] else shell.find(name)
    if declaration.local and known is None:
        shell.declare(name, Variable(position=position, removed=True))
        known = shell.scopes[-1][name]
    if known is None:
        if declaration.exported:
            shell.exported.add(name)
        if not (declaration.keyed or declaration.indexed or declaration.attribute):
            return
        listed = declaration.keyed or declaration.indexed
        known = Variable(position=position, removed=not listed)
    changed = known
    if declaration.exported is not None:
        changed = replace(changed, exported=declaration.exported)
        if known.position is None:  # what the caller gave now counts as the script's
            changed = replace(changed, position=position)
    if declaration.attribute is not None:
        changed = replace(changed, attribute=declaration.attribute)
    if (declaration.keyed or declaration.indexed) and known.array is None:
        changed = replace(changed, array={}, keyed=declaration.keyed, removed=False)
    if changed is not known:
        shell.put(name, changed)


def declare_words(words: Words, found: list[Word], declaration: Declaration) -> None:
    """`export NAME "NAME=value"`, after expansion."""
    for word in found:
        name = _DECLARED.match(word.text)
        if not name:
            continue
        declare(words, name[1], declaration, word.position)
        if name[2]:
            part = word.part(name.end())
            value = (part,) if part.text else ()
            adds = name[2] == "+="
            set_value(words, name[1], value, adds, word.position)
            declare(words, name[1], replace(declaration, local=False), word.position)


def _assign_array(words: Words, name: str, node: Node, adds: bool, position: Position) -> None:
    shell, source = words.shell, words.shell.source
    known = shell.find(name)
    before = known if known is not None and adds and not known.removed else Variable(array={})
    if before.value is None:
        return
    array: dict[int | str, Value] = {0: before.value} if before.value else {}
    array.update(before.array or {})
    keyed = known is not None and known.keyed
    shell.budget.step(len(array) // 100)
    following = 1 + max((k for k in array if isinstance(k, int)), default=-1)
    for start, end in split_words(source.text, source.start(node) + 1, source.end(node) - 1):
        shell.budget.step()
        key = _KEY.match(source.text, start, end)
        if key:
            index = _keyed_element(words, array, key, (start, end), keyed)
            following = index + 1 if isinstance(index, int) else following
            continue
        for word in words.fields(start, end):
            array[following] = (word,) if word.text else ()
            following += 1
        shell.budget.elements(len(array))
    exported = known is not None and known.exported
    shell.put(name, Variable((), array, keyed, exported, position))


def _keyed_element(
    words: Words,
    array: dict[int | str, Value],
    key: re.Match[str],
    span: tuple[int, int],
    keyed: bool,
) -> int | str | None:
    value = words.value(key.end(), span[1])
    index = _key(words, key.span(1), keyed)
    if index is not None:
        array[index] = (array.get(index, ()) if key[2] else ()) + value
    return index


def _key(words: Words, span: tuple[int, int], keyed: bool) -> int | str | None:
    if not keyed:
        return words.number(*span)
    value = words.value(*span)
    return text_of(value) if is_known(value) else None


def _assign_element(
    words: Words, name: str, span: tuple[int, int], value: Value, adds: bool
) -> None:
    known = words.shell.find(name)
    position = words.shell.source.position(span[0] - len(name) - 1)
    key = _key(words, span, known is not None and known.keyed)
    if key is None:
        words.shell.put(name, Variable(None, position=position))
        return
    before = (known.element(key) or ()) if known and adds else ()
    words.shell.assign_element(name, key, before + value, position)
