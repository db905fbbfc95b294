"""Words for bash: every value becomes exactly one word, whatever is in it."""

from __future__ import annotations

import re

from configurator.errors import ConfiguratorError

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./=-]+\Z")
_NEEDS_ESCAPES = re.compile(r"[^\x20-\x7d]|['$`\\]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


def quote(value: str) -> str:
    """`value` as one word of bash.

    Single quotes where they do; ANSI-C quoting where the value has quotes, dollars, backslashes,
    control or other than ASCII characters, written byte by byte so that no locale changes them.

    Raises:
        ConfiguratorError: RND001, a NUL cannot be passed to any program.
    """
    if "\0" in value:
        raise ConfiguratorError.single(
            "RND001", f"{value!r} contains a NUL character", "remove it: no program can receive it"
        )
    if _PLAIN.match(value) and not value.startswith("="):
        return value
    if not _NEEDS_ESCAPES.search(value):
        return f"'{value}'"
    return "$'" + "".join(_escaped(character) for character in value) + "'"


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def yaml_string(value: str) -> str:
    """`value` as a scalar of YAML in double quotes, which every reader takes for the same text.

    Raises:
        ConfiguratorError: RND001, a NUL, or half of a surrogate pair, which is no text.
    """
    if re.search("[\0\ud800-\udfff]", value):
        raise ConfiguratorError.single(
            "RND001", f"{value!r} contains a character that cannot be passed", "remove it"
        )
    return '"' + "".join(_yaml_escaped(character) for character in value) + '"'


def _yaml_escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    point = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def comment(text: str) -> str:
    """`text` safe behind a `#`: one line, no control characters."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
