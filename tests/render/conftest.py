"""Values that break careless quoting, and a port."""

from __future__ import annotations

import pytest
import stand_in

HOSTILE = [
    "",
    " ",
    "two words",
    "$(touch pwned)",
    "`touch pwned`",
    "${HOME}",
    "it's",
    'say "hi"',
    "line\nbreak",
    "tab\there",
    "back\\slash\\n",
    "-leading",
    "--flag=value",
    "*.yaml ?[a]",
    "~/path",
    "a;b|c&d>e<f",
    "!history",
    "#comment",
    "{a,b}",
    "caf\u00e9 \u4f60\u597d \u201cquotes\u201d",
    "\x1b[31mred",
    "=equals",
    "%s %d",
    '{"a": {"b": [1, 2]}}',
    "trailing\n",
]


@pytest.fixture
def hostile() -> list[str]:
    """Words that must arrive byte for byte."""
    return HOSTILE


@pytest.fixture
def free_port() -> int:
    """A port nobody listens on."""
    return stand_in.free_port()
