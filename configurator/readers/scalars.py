"""What a plain scalar is to the YAML of Go programs: `8` a number, `on` perhaps a boolean.

Kubernetes and docker compose want text in a command. A number there is refused; in a compose
environment it is printed anew, and `1.0` may become `1`. Source: go-yaml resolve.go; compose-go
types/mapping.go; sigs.k8s.io/yaml, which makes JSON of the file first.
"""

from __future__ import annotations

import re

import yaml

from configurator.readers.yamlwords import Documents, is_null

_NUMBER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[0-9][0-9_]*)"
    r"|[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BOOLEANS = frozenset({"true", "false"})
_OLD_BOOLEANS = frozenset({"yes", "no", "on", "off"})
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.]+(?:Z|[-+][0-9:]+)?)?")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{0,15}[1-9]")


def kind_of(documents: Documents, node: yaml.Node, *, old: bool = False) -> str:
    """What the node is instead of text, for a message; empty when it is text.

    `old`: `yes`, `no`, `on` and `off` are booleans too.
    """
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "" if documents.is_template(node) else "a mapping"
    assert isinstance(node, yaml.ScalarNode)
    if node.style or documents.text[node.start_mark.index : node.start_mark.index + 1] == "!":
        return ""
    if is_null(node):
        return "empty"
    text = str(node.value)
    # `True` and `TRUE`, but not `tRUE`.
    known = text in (text.lower(), text.capitalize(), text.upper())
    if known and text.lower() in (_BOOLEANS | _OLD_BOOLEANS if old else _BOOLEANS):
        return "a boolean"
    return "a number" if _NUMBER.fullmatch(text) else ""


def printed_anew(documents: Documents, node: yaml.Node) -> str:
    """What a plain scalar is, if Go prints that another way than it is written; else empty."""
    kind = kind_of(documents, node)
    text = str(node.value)
    if kind == "a boolean":
        return "" if text in ("true", "false") else kind
    if kind == "a number":
        if _WHOLE.fullmatch(text):
            return ""
        # Go leaves out the exponent down to 0.0001, and prints as few digits as tell a number.
        exact = _FRACTION.fullmatch(text) and repr(float(text)) == text
        return "" if exact else kind
    plain = isinstance(node, yaml.ScalarNode) and not node.style
    return "a date" if plain and not kind and _DATE.fullmatch(text) else ""
