"""The engine's line with its arguments: what of them tells one start from another."""

from __future__ import annotations

import re

from configurator.collector.logline import START

_IDENTITY = ("model_path", "port", "random_seed", "tp_size", "dp_size", "pp_size")
_TOKEN = re.compile(
    # A text that does not end takes the rest: each character is looked at once.
    r"(?P<text>'(?:[^'\\]|\\.)*(?:'|\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\Z))"
    r"|(?P<word>[\w.+-]+)|(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])|(?P<equals>[=:])|(?P<other>.)",
    re.DOTALL,
)
_MOST_ARGUMENTS = 65536


def identity_in(message: str) -> dict[str, str]:
    """What tells one start from another, from the engine's line with its arguments.

    `ServerArgs(port=1, ...)` and `{'port': 1, ...}` are read alike, at the first level only: names
    inside of texts and of nested values are no arguments. Nothing else of the line is kept.
    """
    found: dict[str, str] = {}
    depth, name, value_of = 0, "", ""
    for token in _TOKEN.finditer(message, len(START), _MOST_ARGUMENTS):
        kind, word = token.lastgroup, token[0].strip("'\"")
        if kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
            name = value_of = ""
        elif depth == 1 and kind == "equals":
            value_of, name = name, ""
        elif depth == 1 and kind in ("text", "word"):
            if value_of in _IDENTITY and word != "None":
                found.setdefault(value_of, word)
            name, value_of = ("", "") if value_of else (word, "")
        elif kind == "other" and token[0] == ",":
            name = value_of = ""
    return found
