"""YAML with positions: plain data out, and a file:line:col for every path into it.

Scalars follow the YAML 1.2 core schema (`on`, `no` and `12:30` stay strings). Duplicate keys,
foreign tags, merge keys, tabs and documents that expand without end are refused with their
position. Positions are looked up in the node tree on demand, so an input without findings
pays nothing for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from configurator.errors import ConfiguratorError, Position
from configurator.regular import TooLargeError, read_regular, why_unread

DataPath = tuple[str | int, ...]
"""Keys and list indices from the root of a document to a value in it."""

_MAX_BYTES = 1 << 20
_MAX_VALUES = 50_000
_MAX_DEPTH = 40

_STR_TAGS = ("tag:yaml.org,2002:str", "!")
_INT = re.compile(r"[-+]?[0-9]+\Z|0x[0-9a-fA-F]+\Z|0o[0-7]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
    ".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan"),
}  # fmt: skip

if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class Composer(CParser, yaml.resolver.BaseResolver):
        """Nodes of a text with their places; no value is made of them."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            yaml.resolver.BaseResolver.__init__(self)

else:  # pragma: no cover - wheels of PyYAML carry libyaml on every platform we run on

    class Composer(  # type: ignore[no-redef]
        yaml.reader.Reader,
        yaml.scanner.Scanner,
        yaml.parser.Parser,
        yaml.composer.Composer,
        yaml.resolver.BaseResolver,
    ):
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)
            yaml.resolver.BaseResolver.__init__(self)


@dataclass(frozen=True, slots=True)
class Source:
    """One YAML document: where it came from, its text, its plain data and its node tree."""

    name: str
    text: str
    data: Any
    node: yaml.Node | None

    def locate(self, path: DataPath, *, key: bool = False) -> Position | None:
        """The position of the value at `path` (of its key with `key=True`); None if absent."""
        found = _descend(self.node, path)
        if found is None:
            return None
        key_node, value_node = found
        node = key_node if key and key_node is not None else value_node
        return _position(self.name, node)

    def nearest(self, path: DataPath) -> tuple[int, Position]:
        """How much of `path` this document has, and the position of the key that far down."""
        length, place = 0, None
        node = self.node
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            key, node = found
            length, place = length + 1, key if key is not None else node
        position = Position(self.name, 1, 1) if place is None else _position(self.name, place)
        return length, position


def read_source(path: Path) -> Source:
    """Read and parse one YAML file.

    Raises:
        ConfiguratorError: the file cannot be read, or is not usable YAML.
    """
    name = str(path)
    try:
        raw = read_regular(path, _MAX_BYTES)
    except TooLargeError as error:
        raise ConfiguratorError.single(
            "SCH009",
            why_unread(name, error),
            "a profile is a few kilobytes: check that this is the right file",
        ) from error
    except OSError as error:
        raise ConfiguratorError.single(
            "SCH001", why_unread(name, error), "check the path"
        ) from error
    except ValueError as error:
        raise ConfiguratorError.single(
            "SCH001", f"cannot read {name!r}: {error}", "check the path"
        ) from error
    return parse_source(_decode(raw, name), name)


def parse_source(text: str, name: str) -> Source:
    """Parse one YAML document that is already in memory; see `read_source`."""
    try:
        node = Composer(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, name) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise ConfiguratorError.single(
            "SCH002",
            f"character #x{ord(error.character) if isinstance(error.character, str) else 0:04x} "
            "is not allowed in YAML",
            "remove it, or write it as an escape in double quotes",
            Position(name, line, column),
        ) from None
    except RecursionError:
        raise _too_deep(name, None) from None
    data = _Builder(name).build(node, 0) if node is not None else None
    return Source(name, text, data, node)


class _Dumper(yaml.SafeDumper):
    """Writes strings so that the core schema reads strings: PyYAML itself knows YAML 1.1."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(_plain(text), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump(data: Any) -> str:
    """Plain data as YAML that `parse_source` reads back to the same data."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfiguratorError.single(
            "SCH002",
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            "save the file as UTF-8",
            Position(name, line, column),
        ) from None


def _syntax_error(error: yaml.MarkedYAMLError, text: str, name: str) -> ConfiguratorError:
    mark = error.problem_mark or error.context_mark
    line = text.splitlines()[mark.line] if mark and mark.line < text.count("\n") else ""
    position = Position(name, mark.line + 1, mark.column + 1) if mark else None
    fact = error.problem or "not readable as YAML"
    if "maximum nesting" in fact:
        return _too_deep(name, None, position)
    if error.context:
        fact = f"{fact} ({error.context})"
    remedy = (
        "indent with spaces, not tabs" if "\t" in line[: len(line) - len(line.lstrip())] else ""
    )
    if "undefined alias" in fact:
        remedy = "define the anchor with & before it is used, or quote the value"
    elif "expected a single document" in fact:
        remedy = "one file holds one profile: remove the second '---'"
    return ConfiguratorError.single(
        "SCH002", fact, remedy or "check quotes, colons and indentation here", position
    )


def _too_deep(
    name: str, node: yaml.Node | None, position: Position | None = None
) -> ConfiguratorError:
    place = _position(name, node) if node is not None else Position(name, 1, 1)
    return ConfiguratorError.single(
        "SCH009",
        f"nested deeper than {_MAX_DEPTH} levels",
        "no profile needs that: check the brackets and aliases",
        position or place,
    )


class _Builder:
    """Turns nodes into plain data, refusing what a profile must not contain."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def build(self, node: yaml.Node, depth: int) -> Any:
        self.count += 1
        if self.count > _MAX_VALUES:
            raise ConfiguratorError.single(
                "SCH009",
                f"expands to more than {_MAX_VALUES:,} values",
                "remove the nested aliases",
                _position(self.name, node),
            )
        if depth > _MAX_DEPTH:
            raise _too_deep(self.name, node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if not node.tag.startswith(("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")):
            raise self._foreign_tag(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, depth + 1) for child in node.value]
        return self._mapping(node, depth)

    def _mapping(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key in data:
                first = next(k for k, _ in node.value if k.value == key_node.value)
                raise ConfiguratorError.single(
                    "SCH003",
                    f"key {key!r} is written twice; the first is on line "
                    f"{first.start_mark.line + 1}",
                    "remove one: most YAML readers would silently keep only the last",
                    _position(self.name, key_node),
                )
            data[key] = self.build(value_node, depth + 1)
        return data

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise ConfiguratorError.single(
                "SCH004", "a key must be plain text", "write it as a word or in quotes",
                _position(self.name, node),
            )  # fmt: skip
        if node.value == "<<" and not node.style:
            raise ConfiguratorError.single(
                "SCH004", "merge keys (<<) are not supported",
                "use 'extends' to build on another profile",
                _position(self.name, node),
            )  # fmt: skip
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag not in _STR_TAGS:
            raise self._foreign_tag(node)
        text: str = node.value
        if "\0" in text:
            raise ConfiguratorError.single(
                "SCH002", "a value contains a NUL character",
                "remove it: no program can receive it", _position(self.name, node),
            )  # fmt: skip
        return text if node.style or node.tag == "!" else _plain(text)

    def _foreign_tag(self, node: yaml.Node) -> ConfiguratorError:
        return ConfiguratorError.single(
            "SCH004", f"tag {node.tag!r} is not supported", "remove the tag",
            _position(self.name, node),
        )  # fmt: skip


def _plain(text: str) -> Any:
    """What an unquoted scalar means in the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        if _INT.match(text):
            return _integer(text)
        if _FLOAT.match(text):
            return float(text)
    return text


def _integer(text: str) -> int | str:
    if text.startswith("0x"):
        return int(text, 16)
    if text.startswith("0o"):
        return int(text, 8)
    # int() refuses thousands of digits to avoid quadratic work; such a value is no number here.
    return int(text) if len(text) < 40 else text


def _position(name: str, node: yaml.Node) -> Position:
    return Position(name, node.start_mark.line + 1, node.start_mark.column + 1)


def _descend(node: yaml.Node | None, path: DataPath) -> tuple[yaml.Node | None, yaml.Node] | None:
    key: yaml.Node | None = None
    for step in path:
        found = _step(node, step)
        if found is None:
            return None
        key, node = found
    return (key, node) if node is not None else None


def _step(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    """The key node (None in a list) and the value node one step below `node`."""
    if isinstance(node, yaml.MappingNode):
        wanted = str(step)
        for pair in node.value:
            if pair[0].value == wanted:
                return pair  # type: ignore[no-any-return]
        return None
    if not (isinstance(node, yaml.SequenceNode) and isinstance(step, int)):
        return None
    return (None, node.value[step]) if 0 <= step < len(node.value) else None
