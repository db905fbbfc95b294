"""The `Bad:` and `Good:` profiles in a rule's docstring: its page and its test in one text."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

_TITLES = {"Bad:": "bad", "Good:": "good"}
_HEADER = (("apiVersion", "configurator/v1"), ("kind", "Deployment"), ("name", "example"))


@dataclass(frozen=True, slots=True)
class Example:
    """One block of a docstring."""

    kind: Literal["bad", "good"]
    text: str
    """YAML without its indentation, as written."""

    @property
    def profile(self) -> str:
        """The text as a whole profile: a missing apiVersion, kind or name is added."""
        missing = [
            f"{key}: {value}\n"
            for key, value in _HEADER
            if not re.search(rf"^{key}:", self.text, re.MULTILINE)
        ]
        return "".join(missing) + self.text


def examples(doc: str) -> tuple[Example, ...]:
    """Every `Bad:` and `Good:` block of a docstring, in order.

    A block is the indented lines below its title, up to the next line that is not indented.
    """
    first, _, rest = doc.partition("\n")
    found: list[Example] = []
    kind: str | None = None
    block: list[str] = []
    for line in [*f"{first.strip()}\n{textwrap.dedent(rest)}".splitlines(), "end"]:
        if not line or line.startswith(" "):
            block.append(line)
            continue
        if kind and (text := textwrap.dedent("\n".join(block)).strip("\n")):
            found.append(Example("bad" if kind == "bad" else "good", f"{text}\n"))
        kind, block = _TITLES.get(line.rstrip()), []
    return tuple(found)
