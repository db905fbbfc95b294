"""No secret leaves: by the name it is kept under, by its place, by its shape."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from .nesting import MOST_NESTED, as_text

REDACTED = "<redacted>"

_STRONG = (
    r"api[-_ ]?keys?|(?:access|private|admin|secret|signing|watermark)[-_]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization"
    r"|(?:hf|hub|auth|access|api|bearer|refresh)[-_]?token|(?<![A-Za-z])(?:cookies?|creds|jwt)"
)
SECRET_NAME = (
    r"(?!(?:\w+_)?(?:bos|eos|pad|unk|cls|sep|mask|image|audio|video|stop)_token(?![\w.-]))[\w.-]*?(?:"
    r"(?i:(?:api|access|private|admin|secret|signing|watermark)[-_ ]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization|(?<![a-z])(?:cookies?|creds|jwt)"
    r"|(?<!per[-_])(?<!first[-_])token|(?<=[a-z0-9][-_.])(?:auth|pwd|pat))|[a-z]Cookie"
    r"|[A-Z0-9]_(?:(?<!GRAPH_)(?<!CACHE_)KEY|(?<!PER_)(?<!FIRST_)TOKEN|PAT|PWD|AUTH)(?:_?\d+)?"
    r"|(?:SECRET|PASSWO?R?D|PASSPHRASE|CREDENTIALS?|API_?KEY|AUTH|COOKIE)(?:_[A-Z0-9]{1,32}){1,4})"
)
"""Under these names lies a secret; the in-engine probe, alone in its file, has the same."""
# Each character has one way to match, or a run of backslashes takes exponential time.
_QUOTED = r"(?P<q>\\*[\"'])(?:(?!(?P=q))(?:\\.|[^\\\n])){0,4096}?(?P=q)"
# A shell joins what stands side by side: 'it'"'"'s', 'it'\''s', 'it'"s", 'it's. What ends a string
# of JSON or Python looks alike, but a comma, colon or bracket follows it.
_JOINED = (
    r"(?:(?:\\*[\"']){0,3}(?P=q)(?:(?!(?P=q))(?:\\.|[^\\\n])){0,4096}?(?P=q)"
    r"|\\*[\"'][^\s\"',:;\\]+\\*[\"']|[^\s\"'\\,;:&|()<>{}\[\]]+){0,64}"
)
_DONE = rf"{REDACTED}(?![^\s\"'\\,;&)}}\]])"
_SECRET_NAME = re.compile(SECRET_NAME)
_ALWAYS_SECRET = re.compile(rf"[\w.-]*?(?:(?i:{_STRONG})|[A-Z0-9]_(?:KEY|TOKEN|PAT|PWD)(?:_?\d+)?)")
_FLAG = re.compile(
    rf"(?<![\w-])(?P<name>--(?:{SECRET_NAME}|(?i:admin|api)[\w-]*))"
    # As a whole: what it gave back would be taken for the value.
    r"(?=(?P<sep>\\*[\"']?(?:=|(?:[\s,]|\\+(?![\\\"']))+)))(?P=sep)"
    rf"(?!--|{_DONE})(?P<value>{_QUOTED}{_JOINED}|\S+)"
)
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<name>{SECRET_NAME})(?P<sep>\\*[\"']?\s*[:=]\s*(?:b(?=[\"']))?)"
    rf"(?!{_DONE})(?P<value>{_QUOTED}{_JOINED}|(?i:(?:Bearer|Basic)\s+)?[^\s,;&)}}\]]+)"
)
# One word of a shell, the name within the quotes: '--api-key=a b', 'Authorization: Bearer a'.
_INSIDE = re.compile(
    rf"(?<!\\)(?P<q>\\*[\"'])(?:(?P<name>(?:--)?{SECRET_NAME})(?P<sep>=)|"
    r"(?P<header>(?i:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key):\s*))"
    rf"(?P<value>(?:(?!(?P=q))(?:\\.|[^\\\n])){{1,4096}}?)(?P=q){_JOINED}"
)
_COOKIE = re.compile(r"(?i)(?<![\w-])((?:set-)?cookie:[ \t]*)[^\s'\"][^\n\r'\"]*")
_BEARER = re.compile(r"(?i)(\bBearer\s+)[\w.~+/=-]+")
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_KNOWN_SHAPE = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})"
)
_BASE64 = re.compile(r"[\w+/]+")
_FOR_URLS = str.maketrans("+/", "-_")
_EMPTY = ("", "None", "null", "True", "False", "true", "false", REDACTED)


def is_secret(name: str, value: object) -> bool:
    """Whether `value`, kept under `name`, must not be shown."""
    if value is None or isinstance(value, bool) or value in _EMPTY:
        return False
    if not _SECRET_NAME.fullmatch(name):
        return False
    if _ALWAYS_SECRET.fullmatch(name):
        return True
    # `#new-token: 4` counts.
    return not re.fullmatch(r"[-+]?[\d.]+(?:e[-+]?\d+)?%?", str(value))


def _mask(match: re.Match[str]) -> str:
    quote = match["q"] or ""
    value = match["value"]
    bare = value[len(quote) : len(value) - len(quote)] if quote else value
    name = match["name"].lstrip("-")
    secret = is_secret(name, bare) or (match["name"].startswith("--a") and bare not in _EMPTY)
    return f"{match['name']}{match['sep']}{quote}{REDACTED}{quote}" if secret else match[0]


def _mask_inside(match: re.Match[str]) -> str:
    before = match["header"] or f"{match['name']}{match['sep']}"
    secret = match["header"] or is_secret(match["name"].lstrip("-"), match["value"])
    return f"{match['q']}{before}{REDACTED}{match['q']}" if secret else match[0]


@lru_cache(maxsize=1024)
def _forms(secret: str) -> tuple[str, ...]:
    """A secret as programs print, quote and encode it, the longest first."""
    found = {secret, shlex.quote(secret)[1:-1], html.escape(secret), html.escape(secret, False)}
    for _ in range(2):
        # A command in JSON, and that in a line of JSON; Python's way likewise.
        found |= {escape(form)[1:-1] for form in found for escape in (repr, json.dumps)}
    found |= {quote(secret), quote(secret, ""), quote_plus(secret), secret}
    raw = secret.encode("utf-8", "surrogateescape")
    for before in range(3):
        # As by Basic authentication: what stands before it moves it within its groups of three.
        text = base64.b64encode(b"\0" * before + raw).decode("ascii")
        found.add(text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])
    found |= {form.translate(_FOR_URLS) for form in found if _BASE64.fullmatch(form)}
    return tuple(sorted((form for form in found if len(form) >= 8), key=len, reverse=True))


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without keys, tokens and passwords, and without the given `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        # A shorter one ("sglang", "test") is also an ordinary word; its places are known below.
        if len(secret) >= 8:
            for form in _forms(secret):
                text = text.replace(form, REDACTED)
    text = _ASSIGNED.sub(_mask, _FLAG.sub(_mask, _INSIDE.sub(_mask_inside, text)))
    text = _COOKIE.sub(rf"\g<1>{REDACTED}", text)
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


def find_secrets(value: Any, names: Collection[str] = ()) -> set[str]:
    """Every string kept under the name of a secret, or one of `names`, to be found elsewhere."""
    found: set[str] = set()
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            found |= {
                v
                for k, v in item.items()
                if isinstance(v, str)
                and (is_secret(str(k), v) or (str(k) in names and v not in _EMPTY))
            }
            left += item.values()
        elif isinstance(item, (list, tuple)):
            left += item
    return found
