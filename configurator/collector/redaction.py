"""No secret leaves: by the name it is kept under, by its place, by its shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .nesting import MOST_NESTED, as_text

REDACTED = "<redacted>"

_STRONG = (
    r"api[-_ ]?keys?|(?:access|private|admin|secret|signing|watermark)[-_]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization"
    r"|(?:hf|hub|auth|access|api|bearer|refresh)[-_]?token"
)
_NAME = rf"[\w.-]*?(?:{_STRONG}|(?<![A-Za-z])token|[a-z]Token)"
# Each character has one way to match, or a run of backslashes takes exponential time.
_QUOTED = r"(?P<q>\\*[\"'])(?:(?!(?P=q))(?:\\.|[^\\\n])){0,4096}?(?P=q)"
_SECRET_NAME = re.compile(rf"(?:{_NAME})", re.I)
_ALWAYS_SECRET = re.compile(rf"[\w.-]*?(?:(?i:{_STRONG})|[A-Z]_TOKEN)")
_SPECIAL_TOKEN = re.compile(
    r"(?:\w+_)?(?:bos|eos|pad|unk|cls|sep|mask|image|audio|video|stop)_token"
)
_FLAG = re.compile(
    rf"(?<![\w-])(?P<name>--(?:{_NAME}|(?:admin|api)[\w-]*))"
    rf"(?P<sep>\\*[\"']?(?:=|[\s\\,]+))(?!--)(?P<value>{_QUOTED}|\S+)",
    re.I,
)
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<name>{_NAME})(?P<sep>\\*[\"']?\s*[:=]\s*(?:b(?=[\"']))?)"
    rf"(?P<value>{_QUOTED}|(?:(?:Bearer|Basic)\s+)?[^\s,;&)}}\]]+)",
    re.I,
)
_BEARER = re.compile(r"(?i)(\bBearer\s+)[\w.~+/=-]+")
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_KNOWN_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})"
)
_EMPTY = ("", "None", "null", "True", "False", "true", "false", REDACTED)


def is_secret(name: str, value: object) -> bool:
    """Whether `value`, kept under `name`, must not be shown."""
    if value is None or isinstance(value, bool) or value in _EMPTY:
        return False
    if not _SECRET_NAME.fullmatch(name):
        return False
    if _ALWAYS_SECRET.fullmatch(name):
        return True
    # `#new-token: 4` counts and `eos_token: '</s>'` is part of a tokenizer.
    numeric = re.fullmatch(r"[-+]?[\d.]+(?:e[-+]?\d+)?%?", str(value))
    return not numeric and not _SPECIAL_TOKEN.fullmatch(name)


def _mask(match: re.Match[str]) -> str:
    quote = match["q"] or ""
    value = match["value"]
    bare = value[len(quote) : len(value) - len(quote)] if quote else value
    name = match["name"].lstrip("-")
    secret = is_secret(name, bare) or (match["name"].startswith("--a") and bare not in _EMPTY)
    return f"{match['name']}{match['sep']}{quote}{REDACTED}{quote}" if secret else match[0]


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without keys, tokens and passwords, and without the given `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        # A shorter one ("sglang", "test") is also an ordinary word; its places are known below.
        if len(secret) >= 8:
            text = text.replace(secret, REDACTED)
    text = _ASSIGNED.sub(_mask, _FLAG.sub(_mask, text))
    text = _BEARER.sub(rf"\g<1>{REDACTED}", text)
    return _KNOWN_SHAPE.sub(REDACTED, _USERINFO.sub(REDACTED, text))


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """The same JSON value without secrets: by the name of a key, and inside every string.

    What is nested deeper than `MOST_NESTED` becomes its JSON as text.
    """
    return _redacted(value, tuple(secrets), 0)


def _redacted(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if depth == MOST_NESTED and isinstance(value, (Mapping, list, tuple)):
        return redact_text(as_text(value), secrets)
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if is_secret(str(key), item) else _redacted(item, secrets, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        done = [_redacted(item, secrets, depth + 1) for item in value]
        for index, item in enumerate(value[:-1]):
            # An argument vector: the value stands after its flag.
            flag = isinstance(item, str) and item.startswith("--") and "=" not in item
            if flag and redact_text(f"{item} {value[index + 1]}") != f"{item} {value[index + 1]}":
                done[index + 1] = REDACTED
        return done
    return redact_text(value, secrets) if isinstance(value, str) else value


def find_secrets(value: Any) -> set[str]:
    """Every string kept under the name of a secret, to be found again elsewhere."""
    found: set[str] = set()
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            found |= {
                str(v) for k, v in item.items() if isinstance(v, str) and is_secret(str(k), v)
            }
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
    return found
