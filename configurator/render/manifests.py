"""YAML for Kubernetes: built from data, so that no value can change the shape of a manifest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import yaml

from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError

LONGEST = 30
"""Letters of a stem. What is made of it (pods, labels, services of any target) stays below 63, and
what Dynamo's operator makes of it below its own limit of 45."""

# Readers of YAML 1.1 and 1.2 agree on these; `y`, `on`, `1e3` or `0o7` they read differently.
_AGREED = re.compile(r"(?:--)?[A-Za-z/][A-Za-z0-9_./-]*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


class _Dumper(yaml.CSafeDumper):
    """Strings as every reader of YAML takes them, texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Every part of a manifest is written out where it is used."""
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = _AGREED.match(text) and text.lower() not in _WORDS
    style = None if plain else "|" if text.count("\n") > 1 else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def documents(head: Iterable[str], objects: Iterable[dict[str, Any]]) -> str:
    """A file of manifests, under lines of comment.

    Raises:
        ConfiguratorError: RND001, for what is no Unicode text and so cannot be passed.
    """
    comments = "".join(f"# {line}".rstrip() + "\n" for line in head)
    return comments + "".join(f"---\n{_dumped(one)}" for one in objects)


def _dumped(one: dict[str, Any]) -> str:
    _refuse_halves(one)
    text: str = yaml.dump(
        one, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )  # fmt: skip
    return text


def _refuse_halves(found: Any) -> None:
    """Half a character (a lone surrogate) is an escape that no reader of Kubernetes' takes."""
    if isinstance(found, dict | list):
        for value in found.values() if isinstance(found, dict) else found:
            _refuse_halves(value)
    elif isinstance(found, str) and re.search("[\ud800-\udfff]", found):
        raise ConfiguratorError.single(
            "RND001", f"{found[:80]!r} is no Unicode text", "remove what is no character from it"
        )


def literal(text: str) -> str:
    """`text` so that Kubernetes passes on exactly this.

    In words, values and the commands of probes it reads `$(NAME)` as a reference and `$$` as a
    dollar sign, from left to right; so every dollar sign is doubled.

    Raises:
        ConfiguratorError: RND001, a NUL cannot be passed to any program.
    """
    if "\0" in text:
        raise ConfiguratorError.single(
            "RND001", f"{text!r} contains a NUL character", "remove it: no program can receive it"
        )
    return text.replace("$", "$$")


def stem_of(deployment: Deployment) -> str:
    """What the names of all objects begin with: a label as of RFC 1035, one for each deployment."""
    name = deployment.name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"d-{plain}".strip("-")
    if plain == name and len(plain) <= LONGEST:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{plain[: LONGEST - 7].rstrip('-')}-{digest}"
