"""Every value is one word of bash, byte for byte."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from configurator.errors import ConfiguratorError
from configurator.render.quoting import comment, quote, yaml_string


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


def test_yaml_reads_back_the_same(hostile: list[str]) -> None:
    values = [*hostile, "\x85\u2028\ufeff\xa0", "\U0001f600\U000e0001", "\x7f", "\r\n"]
    assert yaml.safe_load("\n".join(f"- {yaml_string(value)}" for value in values)) == values


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_what_is_no_text_is_refused(value: str) -> None:
    with pytest.raises(ConfiguratorError, match="RND001"):
        yaml_string(value)


def test_comments_are_one_line() -> None:
    assert comment("a\nrm -rf /\r\x1b[0m b") == "a rm -rf /  [0m b"
