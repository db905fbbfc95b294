"""YAML whose scalars are words: every character of a value knows its line and column.

Values stay text, as they are written: what `1` or `true` means is the reader's business. Merge
keys hold as docker compose has them, of equal keys the last wins, aliases share their nodes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import TypeGuard

import yaml

from configurator.errors import ConfiguratorError, Position
from configurator.readers.pieces import Budget
from configurator.readers.placeholders import is_placeholder
from configurator.source import Composer
from configurator.words import Span, Word

Mapping = dict[str, tuple[yaml.Node, yaml.Node]]
"""Key and value nodes by the key's text."""
MAX_NODES = 200_000
"""More values than any file a person wrote; a document that goes on is not read to its end."""
_MAX_MERGES = 20
_WORD = 64
"""What a word weighs beside its characters."""

_BREAK = re.compile("\n|\r(?!\n)|[\x85\u2028\u2029]")
_SKIPPED = (" ", "\n", "\u2028", "\u2029")
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""Anchor and tag, which a node begins with."""
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{.{0,60}?\}\}|\{[{%].{0,60}")
_NEAR = 400
"""How far back quotes are counted."""
_NAMED = dict(zip("0abt\tnvfre \"/\\N_LP", "\0\a\b\t\t\n\v\f\r\x1b \"/\\\x85\xa0\u2028\u2029", strict=True))  # fmt: skip  # noqa: E501
_NULLS = ("", "~", "null", "Null", "NULL")


class Documents:
    """The documents of one file, as nodes with words.

    Raises:
        ConfiguratorError: LNT003, not usable as YAML.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.budget = Budget()
        self._mappings: dict[int, Mapping] = {}
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.roots: tuple[yaml.Node, ...] = tuple(self._compose())

    def _compose(self) -> Iterator[yaml.Node]:
        try:
            composer = Composer(self.text)
            while composer.check_node():
                node = composer.get_node()
                if node is not None:
                    yield node
        except yaml.MarkedYAMLError as error:
            raise self._broken(error) from None
        except (yaml.reader.ReaderError, UnicodeError) as error:
            raise ConfiguratorError.single(
                "LNT003",
                f"{self.name} holds a character that YAML does not allow",
                "remove it, or write it as an escape in double quotes",
                self.place(getattr(error, "position", 0)),
            ) from None
        except RecursionError:
            raise self._deep(Position(self.name, 1, 1)) from None

    def _broken(self, error: yaml.MarkedYAMLError) -> ConfiguratorError:
        mark = error.problem_mark or error.context_mark
        place = self.place(mark.index) if mark else Position(self.name, 1, 1)
        fact = error.problem or "not readable as YAML"
        if "maximum nesting" in fact:
            return self._deep(place)
        template = self._unrendered(mark.index if mark else len(self.text))
        if template:
            fact = f"a template and no YAML before it is rendered: `{template[0]}`"
            remedy = "render it first (`helm template`, ansible) and read what comes out"
            return ConfiguratorError.single("LNT003", fact, remedy, self.place(template.start()))
        remedy = "check quotes, colons and indentation here"
        if "undefined alias" in fact:
            remedy = "define the anchor with & before it is used, or quote the value"
        if error.context:
            fact = f"{error.context}, {fact}"
        return ConfiguratorError.single("LNT003", f"YAML: {fact}", remedy, place)

    def _unrendered(self, end: int) -> re.Match[str] | None:
        """The last template outside of quotes before `end`."""
        found = None
        for match in _TEMPLATE.finditer(self.text, 0, min(end + 2, len(self.text))):
            near = max(match.start() - _NEAR, 0)
            before = self.text[near : match.start()].rpartition("\n")[2]
            if not (before.count('"') % 2 or before.count("'") % 2):
                found = match
        return found and _TEMPLATE.match(self.text, found.start())

    def _deep(self, place: Position) -> ConfiguratorError:
        return ConfiguratorError.single(
            "LNT003", "YAML nested too deeply to be read", "write it flatter", place
        )

    def place(self, index: int) -> Position:
        """Where the character at `index` of the text stands."""
        line = bisect_right(self._lines, index)
        return Position(self.name, line, index - self._lines[line - 1] + 1)

    def position(self, node: yaml.Node) -> Position:
        """Where a node begins."""
        return self.place(node.start_mark.index)

    def word(self, node: yaml.Node | None) -> Word | None:
        """A scalar as a word, or `{{ ... }}` as an unknown one; None for anything else."""
        if self.is_template(node):
            return Word.at(self._written(node), self.position(node), unknown=True)
        if not isinstance(node, yaml.ScalarNode):
            return None
        self.budget.spend(len(node.value) + _WORD, self.position(node))
        spans = _spans(self, node) or (Span(0, self.position(node)),)
        return Word(node.value, spans, is_placeholder(node.value))

    def is_template(self, node: yaml.Node | None) -> TypeGuard[yaml.MappingNode]:
        """`{{ ... }}` without quotes, which YAML takes for a mapping in a mapping."""
        return isinstance(node, yaml.MappingNode) and self._written(node).startswith("{{")

    def _written(self, node: yaml.Node) -> str:
        return self.text[node.start_mark.index : node.end_mark.index]

    def words(self, node: yaml.Node | None) -> tuple[Word, ...]:
        """The scalars of a list; of `{{ ... }}` in place of one, that."""
        if self.is_template(node):
            return (Word.at(self._written(node), self.position(node), unknown=True),)
        if not isinstance(node, yaml.SequenceNode):
            return ()
        return tuple(word for word in map(self.word, node.value) if word is not None)

    def mapping(self, node: yaml.Node | None, depth: int = 0) -> Mapping:
        """Key and value nodes by the key's text, merge keys resolved; empty for anything else."""
        if not isinstance(node, yaml.MappingNode) or depth > _MAX_MERGES:
            return {}
        known = self._mappings.get(id(node))
        if known is None:
            self._mappings[id(node)] = {}  # a mapping that merges itself adds nothing
            known = self._mappings[id(node)] = self._merged(node, depth)
        return known

    def _merged(self, node: yaml.MappingNode, depth: int) -> Mapping:
        own: Mapping = {}
        merged: Mapping = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value != "<<" or key.style:
                own[key.value] = (key, value)
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in sources:
                added = self.mapping(source, depth + 1)
                self.budget.spend(_WORD * len(added), self.position(value))
                merged = {**added, **merged}
        return {**merged, **own}

    def get(self, node: yaml.Node | None, *keys: str) -> yaml.Node | None:
        """The value under keys; None where one is missing."""
        for key in keys:
            pair = self.mapping(node).get(key)
            if pair is None:
                return None
            node = pair[1]
        return node

    def text_of(self, node: yaml.Node | None, *keys: str) -> str:
        """The scalar under keys as text, or nothing."""
        found = self.get(node, *keys)
        return found.value if isinstance(found, yaml.ScalarNode) else ""

    def walk(self, root: yaml.Node) -> Iterator[yaml.MappingNode]:
        """Every mapping once, outer ones first, in the order of the file."""
        seen: set[int] = set()
        stack = [root]
        while stack and len(seen) < MAX_NODES:
            node = stack.pop()
            if id(node) in seen or isinstance(node, yaml.ScalarNode):
                continue
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                yield node
                stack += [value for _, value in reversed(node.value)]
            else:
                stack += reversed(node.value)


def is_null(node: yaml.Node) -> bool:
    """A value that is none: empty, `~` or `null` without quotes."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in _NULLS


Fragment = tuple[str, int, bool]
"""Text of a value, where it is written, and whether a line break came before it."""


def _spans(documents: Documents, node: yaml.ScalarNode) -> tuple[Span, ...]:
    """Where the characters of a scalar stand, as far as that can be told."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.style or documents.text[start : start + 1] in ("&", "!"):
        start = _PROPERTIES.match(documents.text, start).end()  # type: ignore[union-attr]
    raw = documents.text[start:end]
    if not node.style and raw == node.value:
        return (Span(0, documents.place(start)),)
    if node.style in ("|", ">"):
        fragments = _block(documents.text, start, end, node.value)
    else:
        fragments = _flow(raw, start, node.style or "")
    at, spans = 0, []
    for text, index, broken in fragments:
        while (
            broken and not node.value.startswith(text, at) and node.value[at : at + 1] in _SKIPPED
        ):
            at += 1
        if not node.value.startswith(text, at):
            break
        spans.append(Span(at, documents.place(index)))
        at += len(text)
    if not spans:
        return ()
    return (Span(0, spans[0].position), *(span for span in spans if span.start > 0))


def _block(text: str, start: int, end: int, value: str) -> Iterator[Fragment]:
    """The lines of a literal or folded block without their indentation."""
    indent = None
    at = start
    for number, line in enumerate(_BREAK.split(text[start:end])):
        body = line.removesuffix("\r")
        if number and body.strip(" "):
            if indent is None:
                first = value.lstrip("\n")
                indent = len(body) - len(body.lstrip(" ")) - (len(first) - len(first.lstrip(" ")))
            yield body[indent:], at + indent, True
        at += len(line) + 1


def _flow(raw: str, start: int, style: str) -> Iterator[Fragment]:
    """The lines of a plain or quoted scalar, cut at every escape."""
    if style:
        raw, start = raw[1:-1], start + 1
    lines = _BREAK.split(raw)
    at, joined = start, False
    for number, line in enumerate(lines):
        lead = 0 if number == 0 and style else len(line) - len(line.lstrip(" \t"))
        body = line.removesuffix("\r")[lead:]
        last = number == len(lines) - 1
        continued = style == '"' and not last and _odd_backslashes(body)
        if continued:
            body = body[:-1]
        elif not (last and style):
            body = body.rstrip(" \t")
        broken = number > 0 and not joined
        for text, offset in _unescaped(body, style):
            yield text, at + lead + offset, broken
            broken = False
        joined = continued
        at += len(line) + 1


def _odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(body: str, style: str) -> Iterator[tuple[str, int]]:
    if style == "'":
        pattern: re.Pattern[str] | None = re.compile("''")
    else:
        pattern = _ESCAPE if style == '"' else None
    at = 0
    for match in pattern.finditer(body) if pattern else ():
        if match.start() > at:
            yield body[at : match.start()], at
        yield _meaning(match[0]), match.start()
        at = match.end()
    if at < len(body):
        yield body[at:], at


def _meaning(escape: str) -> str:
    if escape == "''":
        return "'"
    if len(escape) > 2:
        return chr(int(escape[2:], 16) % 0x110000)
    return _NAMED.get(escape[1], escape[1])
