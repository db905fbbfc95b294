"""Every value is one word of bash, byte for byte."""

from __future__ import annotations

import subprocess

import pytest

from configurator.errors import ConfiguratorError
from configurator.render.quoting import comment, quote


def test_bash_reads_back_the_same_bytes(hostile: list[str]) -> None:
    script = f"printf '%s\\0' {' '.join(map(quote, hostile))}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert done.stdout == b"".join(value.encode() + b"\0" for value in hostile)


def test_plain_words_stay_plain() -> None:
    assert quote("/models/ling-3.0:latest,a=b") == "/models/ling-3.0:latest,a=b"
    assert quote("two words") == "'two words'"


def test_a_nul_is_refused() -> None:
    with pytest.raises(ConfiguratorError, match="RND001"):
        quote("a\0b")


def test_comments_are_one_line() -> None:
    assert comment("a\nrm -rf /\r\x1b[0m b") == "a rm -rf /  [0m b"
