"""208 real public launch commands with the verdict of SGLang's own parser on three releases."""

from __future__ import annotations

import json
import lzma
import re
from functools import cache
from pathlib import Path
from typing import Any

from configurator.engine.argv import Parsed

FILE = Path(__file__).parent / "fixtures" / "corpus" / "commands.jsonl.xz"
SAMPLED = tuple(
    f"0.5.{release}" for release in (1, 3, 5, 6, 7, 8, 9, "10.post1", 12, 14, *range(16, 24))
)
"""The releases that the digits of `static_accepted` stand for."""


@cache
def commands() -> tuple[dict[str, Any], ...]:
    """Every command: id, source, image, env, argv, and `truth` by release."""
    return tuple(json.loads(line) for line in lzma.decompress(FILE.read_bytes()).splitlines())


def unknown(argv: list[str]) -> frozenset[int]:
    """Indexes of words with a placeholder: filled in before the parser was asked."""
    return frozenset(i for i, word in enumerate(argv) if re.search(r"\$[({]", word))


def offenders(errors: list[str]) -> set[str]:
    """What argparse's messages are about: `kind:option`."""
    found: set[str] = set()
    for error in errors:
        if match := re.match(r"ambiguous option: (\S+) could match", error):
            found.add(f"ambiguous:{match[1].partition('=')[0]}")
        elif match := re.match(r"argument ([^:]+): ", error):
            found.add(f"value:{match[1].partition('/')[0]}")
        elif match := re.match(r"unrecognized arguments: (.*)", error):
            words = match[1].split()
            found |= {f"unknown:{w.partition('=')[0]}" for w in words if w.startswith("--")}
        elif match := re.match(r"the following arguments are required: ([^/\s]+)", error):
            found.add(f"required:{match[1]}")
        else:
            raise AssertionError(error)
    return found


def found_by(parsed: Parsed) -> set[str]:
    """The same of our own reading; strays are left out, as argparse counts them to an option."""
    found: set[str] = set()
    for error in parsed.errors:
        if error.kind in ("value", "choice", "count", "refused"):
            assert error.flag is not None
            found.add(f"value:--{error.flag.name}")
        elif not error.fact.startswith("belongs to no option"):
            found.add(f"{error.kind}:--{error.name}")
    return found
