"""What in a launch must not be shown or copied: keys, tokens and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from configurator.collector.redaction import is_secret, redact_text
from configurator.engine.argv import Option
from configurator.launch import Launch

_PLAIN = re.compile(r"(?i)[-+]?[\d.]*|true|false|yes|no|on|off|none|null|auto|empty")
_VARIABLE = re.compile(r"\$\{?\w+\}?|\$\(\w+\)")
_STAND_IN = re.compile(r"(?i).*(placeholder|changeme|example|your[-_ ]).*|<[\w -]+>")
_WORDS = frozenset(
    ("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
     "CREDENTIALS")
)  # fmt: skip
_USERINFO = re.compile(r"(?:[a-z+]+://)?[^/\s:@]+:[^/\s@]+@")


def stands_in(text: str) -> bool:
    """The text plainly stands in for a secret and is none: a variable, `sk-placeholder`."""
    return bool(_VARIABLE.fullmatch(text) or _STAND_IN.fullmatch(text))


def is_secret_value(name: str, value: str) -> bool:
    """The value of this option or variable must not be shown.

    More is hidden here than in an engine's own output: what people name KEY or TOKEN is theirs.
    """
    if _PLAIN.fullmatch(value) or stands_in(value):
        return False
    named = re.split(r"[-_]", name.upper())[-1] in _WORDS
    return named or is_secret(name, value) or holds_secret(value)


def holds_secret(value: str) -> bool:
    """By its shape alone: a token, or a user with a password."""
    return redact_text(value) != value or _USERINFO.match(value) is not None


def secret_options(launch: Launch) -> Iterator[Option]:
    """Options with a secret as their value."""
    for option in launch.options():
        if any(is_secret_value(name, value) for name in option.names for value in option.values):
            yield option


def secrets_of(launches: Iterable[Launch]) -> tuple[str, ...]:
    """Every secret of these launches, line by line where one goes over several."""
    found: set[str] = set()
    for launch in launches:
        for option in secret_options(launch):
            found.update(option.values)
        for env in launch.env.values():
            if env.value is not None and is_secret_value(env.name, env.value):
                found.add(env.value)
    lines = {line for secret in found for line in secret.splitlines()}
    return tuple(sorted(text for text in {*found, *lines} if len(text) > 3))
