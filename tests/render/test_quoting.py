"""Every value is one word of bash, byte for byte."""

from __future__ import annotations

import subprocess

import pytest

from configurator.errors import ConfiguratorError
from configurator.render.quoting import comment, quote

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


@pytest.mark.parametrize("value", HOSTILE)
def test_bash_reads_back_the_same_bytes(value: str) -> None:
    script = f"printf '%s\\0' {quote(value)}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert done.stdout == value.encode() + b"\0"


def test_plain_words_stay_plain() -> None:
    assert quote("/models/ling-3.0:latest,a=b") == "/models/ling-3.0:latest,a=b"
    assert quote("two words") == "'two words'"


def test_a_nul_is_refused() -> None:
    with pytest.raises(ConfiguratorError, match="RND001"):
        quote("a\0b")


def test_comments_are_one_line() -> None:
    assert comment("a\nrm -rf /\r\x1b[0m b") == "a rm -rf /  [0m b"
