"""What stands in a file for a value that someone fills in first: `{{ .Values.tp }}`, `<PORT>`.

Helm, Jinja and people write them. Nobody knows what comes there, so a word with one is unknown;
nothing here renders a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from configurator.errors import Problem
from configurator.words import Command

_TEMPLATE = r"\{\{[^{}\n]{0,300}\}\}|\{%[^%\n]{0,300}%\}"
TEMPLATE = re.compile(_TEMPLATE)
"""Those that are no shell syntax; `<PORT>` would be a redirection."""
_RENDER = "render the file first (`helm template`, ansible) and read what comes out"
_ANY = re.compile(_TEMPLATE + r"|<[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)*>")


def is_placeholder(text: str) -> bool:
    """Whether a part of the text is one."""
    return _ANY.search(text) is not None


def placeholders(text: str) -> dict[int, int]:
    """Where each one begins and ends."""
    return {match.start(): match.end() for match in _ANY.finditer(text)}


def unrendered(commands: Iterable[Command]) -> tuple[Problem, ...]:
    """What is said of the first placeholder in launches; once, whatever their number."""
    for command in commands:
        for word in command.argv:
            found = _ANY.search(word.text)
            if word.unknown and found:
                message = f"{found[0]} is a placeholder: what comes there is not judged"
                remedy = f"write the value in place of {found[0]}"
                if found[0].startswith("{"):
                    remedy = _RENDER
                return (Problem("LNT014", message, remedy, word.position_at(found.start())),)
    return ()
