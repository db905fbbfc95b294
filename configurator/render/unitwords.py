"""Words for systemd's units: every value becomes exactly one word, whatever is in it.

systemd takes a value apart three times: quotes and backslashes, then `%` specifiers, and in command
lines variables of `$`. What it cannot carry is refused.
"""

from __future__ import annotations

import re

from configurator.errors import ConfiguratorError

LONGEST_LINE = 1024 * 1024
"""systemd reads no longer line (LONG_LINE_MAX)."""
_PLAIN = re.compile(r"[A-Za-z0-9_@+:,./=-]+\Z")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "%": "%%"}


def command_word(value: str) -> str:
    """`value` as one word of `ExecStart=`.

    Raises:
        ConfiguratorError: RND006, systemd cannot carry it.
    """
    return _word(value, {**_NAMED, "$": "$$"})


def setting_word(value: str) -> str:
    """`value` as one word of a setting in which variables are not replaced, as `Environment=`.

    Raises:
        ConfiguratorError: RND006, systemd cannot carry it.
    """
    return _word(value, _NAMED)


def setting_path(value: str) -> str:
    """A path that ends its line and is taken as it is there, but for specifiers.

    Raises:
        ConfiguratorError: RND006, systemd cannot carry it.
    """
    if not value.isprintable() or value != value.strip() or value.endswith("\\"):
        raise ConfiguratorError.single(
            "RND006", f"{value!r} cannot stand in a unit: systemd takes paths as they are",
            "take a path without control characters, spaces at its ends and a backslash at its end",
        )  # fmt: skip
    return value.replace("%", "%%")


def _word(value: str, named: dict[str, str]) -> str:
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfiguratorError.single(
            "RND006", f"{value!r} holds a NUL or half a character, and a unit is text in UTF-8",
            "remove it, or render another target",
        )  # fmt: skip
    if _PLAIN.match(value):
        return value
    return '"' + "".join(_escaped(character, named) for character in value) + '"'


def _escaped(character: str, named: dict[str, str]) -> str:
    if character in named:
        return named[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
